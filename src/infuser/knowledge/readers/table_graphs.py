"""What the columns of a table hold and how they are tied: the description graphs of sm-datasets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_NAMED = re.compile(r"(?P<name>.*) \((?P<id>[QP]\d+)\)")
_LABEL = "rdfs:label"
_STATEMENT = "wikibase:Statement"

Cells = Mapping[int, Mapping[int, list[str]]]
"""Entities by column, then by row."""


def id_and_name(iri: str, readable: str | None = None) -> tuple[str, str]:
    """Return the id at the end of an address and its name from "position held (P39)"; the id where there is none."""
    id = iri.rpartition("/")[2].rpartition(":")[2]
    found = _NAMED.fullmatch(readable or "")
    return id, found["name"] if found and found["id"] == id else id


class ColumnGraph:
    """One graph over the columns of one table: classes, the columns with their labels, and edges between them."""

    def __init__(self, graph: Any) -> None:
        self._nodes = {node["id"]: node for node in graph["nodes"]}
        self._edges = graph["edges"]
        self._column_of: dict[Any, int] = {}
        """The column that holds the labels of a class's members."""
        for edge in self._edges:
            target = self._nodes[edge["target"]]
            if edge["rel_uri"] == _LABEL and "col_index" in target:
                self._column_of.setdefault(edge["source"], target["col_index"])

    def types(self) -> Iterator[tuple[int, str]]:
        """Yield each column of entities and the id of their class."""
        for id, column in self._column_of.items():
            yield column, id_and_name(self._nodes[id]["rel_uri"])[0]

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield id and name of the classes and properties that this graph names; not every graph does."""
        for node in (*self._nodes.values(), *self._edges):
            if "rel_uri" in node:
                id, name = id_and_name(node["rel_uri"], node["readable_label"])
                if name != id:
                    yield id, name

    def constants(self) -> Iterator[tuple[str, str]]:
        """Yield id and name of the entities that stand in the graph itself, for every row."""
        for node in self._nodes.values():
            if node.get("datatype") == "entity-id":
                yield id_and_name(node["value"], node["readable_label"])

    def triples(self, cells: Cells) -> Iterator[tuple[str, str, str]]:
        """Yield the facts in the rows: entity, property, entity, by their ids.

        A statement node stands for the value of the property that leads to it; its qualifiers are left out.
        """
        into_statement = {e["target"]: e for e in self._edges if self._nodes[e["target"]].get("rel_uri") == _STATEMENT}
        for edge in self._edges:
            source, target = edge["source"], edge["target"]
            if source in into_statement:
                if id_and_name(edge["abs_uri"])[0] != id_and_name(into_statement[source]["abs_uri"])[0]:
                    continue
                source = into_statement[source]["source"]
            property = id_and_name(edge["abs_uri"])[0]
            for heads, tails in self._pairs(source, target, cells):
                yield from ((head, property, tail) for head in heads for tail in tails if head != tail)

    def _pairs(self, source: Any, target: Any, cells: Cells) -> Iterator[tuple[list[str], list[str]]]:
        """Yield the entities at both ends of an edge, row by row."""
        one, other = self._members(source, cells), self._members(target, cells)
        if one is None or other is None:
            return
        for row in one.keys() | other.keys():
            heads, tails = one.get(row) or one.get(-1), other.get(row) or other.get(-1)
            if heads and tails:
                yield heads, tails

    def _members(self, id: Any, cells: Cells) -> Mapping[int, list[str]] | None:
        """Return the entities of a node by row (-1: in every row), or None when it is no entity."""
        node = self._nodes[id]
        if node.get("datatype") == "entity-id":
            return {-1: [id_and_name(node["value"])[0]]}
        return cells.get(self._column_of[id], {}) if id in self._column_of else None
