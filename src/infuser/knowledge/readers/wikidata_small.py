"""A small part of Wikidata from the package `sm-datasets`: tables with linked cells and described columns.

Each table comes with links (this cell means Q42) and with graphs that say what its columns hold ("human") and how they
are tied ("position held"). So every row tells facts: a name for an entity, its type, and triples between the entities
of the row. Names of entities are what the cells say; some were misspelt on purpose by those who made the tables, so the
one met most often is the label. Two of the package's collections are read: tables of Wikipedia (250wt) and tables made
from Wikidata (semtab2020_round4).
"""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from infuser.assets.archives import DAMAGE, read_member
from infuser.errors import SourceError
from infuser.files import parse_json
from infuser.knowledge.facts import EntityRow, Facts, TripleRow, pack_entities, pack_mentions, pack_triples

_NAMED = re.compile(r"(?P<name>.*) \((?P<id>[QP]\d+)\)")
_LABEL = "rdfs:label"
_STATEMENT = "wikibase:Statement"

Cells = dict[int, dict[int, list[str]]]
"""Entities by column, then by row."""


def read_wikidata_small(folder: str | Path) -> Facts:
    """Yield the triples and entities of the folder `datasets` of sm-datasets."""
    names: dict[str, Counter[str]] = {}
    types: dict[str, Counter[str]] = {}
    triples: dict[tuple[str, str, str], None] = {}
    readable: dict[str, str] = {}
    for table, graphs in _tables(Path(folder)):
        rows: Cells = {}
        for column, row, mention, entity in _links(table):
            names.setdefault(entity, Counter())[mention] += 1
            rows.setdefault(column, {}).setdefault(row, []).append(entity)
        for graph in graphs:
            for entity, label in graph.constants():
                names.setdefault(entity, Counter())[label] += 0  # named there, but not met in a cell
            for column, type in graph.types():
                for entities in rows.get(column, {}).values():
                    for entity in entities:
                        types.setdefault(entity, Counter())[type] += 1
            triples.update(dict.fromkeys(graph.triples(rows)))
            for id, name in graph.names():
                readable.setdefault(id, name)
    yield from pack_entities(_entity(id, met, types.get(id), readable) for id, met in names.items())
    yield from pack_triples(TripleRow(head, readable.get(id, id), tail) for head, id, tail in triples)


def read_wikidata_small_mentions(folder: str | Path) -> Facts:
    """Yield how often each name was linked to each entity, in batches of MENTIONS."""
    met = Counter((mention, entity) for table, _ in _tables(Path(folder)) for _, _, mention, entity in _links(table))
    return pack_mentions((mention, entity, n) for (mention, entity), n in met.items())


def _entity(id: str, met: Counter[str], types: Counter[str] | None, readable: Mapping[str, str]) -> EntityRow:
    label, *others = (name for name, _ in met.most_common() if name)
    kinds = [readable.get(type, type) for type, _ in types.most_common()] if types else None
    return EntityRow(id, label, others or None, types=kinds, met=met.total())


def _tables(folder: Path) -> Iterator[tuple[Any, list[_ColumnGraph]]]:
    """Yield every table with the graphs that describe it."""
    found = False
    for path in sorted((folder / "250wt" / "tables").glob("*.json")):
        about = folder / "250wt" / "descriptions" / path.stem
        graphs = [graph for version in sorted(about.glob("*.json")) for graph in _parse(version.read_bytes(), version)]
        yield _parse(path.read_bytes(), path), [_ColumnGraph(graph) for graph in graphs]
        found = True
    for path in sorted((folder / "semtab2020_round4" / "tables").glob("*.zip")):
        beside = folder / "semtab2020_round4" / "descriptions" / path.name
        try:
            with zipfile.ZipFile(path) as tables, zipfile.ZipFile(beside) as descriptions:
                for name in tables.namelist():
                    graphs = _parse(read_member(descriptions, name), beside)
                    yield _parse(read_member(tables, name), path), [_ColumnGraph(graph) for graph in graphs]
        except SourceError:
            raise
        except (*DAMAGE, OSError) as error:
            raise _damaged(path, str(error)) from error
        found = True
    if not found:
        raise _damaged(folder, "it holds no tables")


def _parse(data: bytes, path: Path) -> Any:
    try:
        return parse_json(data)
    except ValueError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> SourceError:
    return SourceError(
        f"{path} cannot be read ({why}). Fetch it again: `infuser assets remove wikidata-small` and `infuser assets "
        "fetch wikidata-small`."
    )


def _links(table: Any) -> Iterator[tuple[int, int, str, str]]:
    """Yield column, row, the words that are linked and the entity they mean."""
    columns = [column["values"] for column in table["table"]["columns"]]
    links = table["links"]
    for row, cells in enumerate(links) if isinstance(links, list) else ((int(key), links[key]) for key in links):
        for column, linked in (
            enumerate(cells) if isinstance(cells, list) else ((int(key), cells[key]) for key in cells)
        ):
            for link in linked:
                entity = link.get("entity_id")
                mention = str(columns[column][row])[link["start"] : link["end"]].strip()
                if entity and mention:
                    yield column, row, mention, _id_and_name(entity)[0]


def _id_and_name(iri: str, readable: str | None = None) -> tuple[str, str]:
    """Return the id at the end of an address and its name from "position held (P39)"; the id where there is none."""
    id = iri.rpartition("/")[2].rpartition(":")[2]
    found = _NAMED.fullmatch(readable or "")
    return id, found["name"] if found and found["id"] == id else id


class _ColumnGraph:
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
            yield column, _id_and_name(self._nodes[id]["rel_uri"])[0]

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield id and name of the classes and properties that this graph names; not every graph does."""
        for node in (*self._nodes.values(), *self._edges):
            if "rel_uri" in node:
                id, name = _id_and_name(node["rel_uri"], node["readable_label"])
                if name != id:
                    yield id, name

    def constants(self) -> Iterator[tuple[str, str]]:
        """Yield id and name of the entities that stand in the graph itself, for every row."""
        for node in self._nodes.values():
            if node.get("datatype") == "entity-id":
                yield _id_and_name(node["value"], node["readable_label"])

    def triples(self, cells: Cells) -> Iterator[tuple[str, str, str]]:
        """Yield the facts in the rows: entity, property, entity, by their ids.

        A statement node stands for the value of the property that leads to it; its qualifiers are left out.
        """
        into_statement = {e["target"]: e for e in self._edges if self._nodes[e["target"]].get("rel_uri") == _STATEMENT}
        for edge in self._edges:
            source, target = edge["source"], edge["target"]
            if source in into_statement:
                if _id_and_name(edge["abs_uri"])[0] != _id_and_name(into_statement[source]["abs_uri"])[0]:
                    continue
                source = into_statement[source]["source"]
            property = _id_and_name(edge["abs_uri"])[0]
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
            return {-1: [_id_and_name(node["value"])[0]]}
        return cells.get(self._column_of[id], {}) if id in self._column_of else None
