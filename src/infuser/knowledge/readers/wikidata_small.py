"""A small part of Wikidata from the package `sm-datasets`: tables with linked cells and described columns.

Each table comes with links (this cell means Q42) and with graphs that say what its columns hold ("human") and how they
are tied ("position held"). So every row tells facts: a name for an entity, its type, and triples between the entities
of the row. Names of entities are what the cells say; some were misspelt on purpose by those who made the tables, so the
one met most often is the label. Two of the package's collections are read: tables of Wikipedia (250wt) and tables made
from Wikidata (semtab2020_round4).
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from infuser.errors import SourceError
from infuser.knowledge.facts import EntityRow, Facts, TripleRow, pack_entities, pack_triples
from infuser.knowledge.readers.table_graphs import ColumnGraph, id_and_name
from infuser.tables.skipped import BATCH

MENTIONS = pa.schema(
    [
        pa.field("mention", pa.string(), nullable=False),
        pa.field("entity", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)
"""How often a name was linked to an entity."""

Rows = dict[int, dict[int, list[str]]]
"""Entities by column, then by row."""


def read_wikidata_small(folder: str | Path) -> Facts:
    """Yield the triples and entities of the folder `datasets` of sm-datasets."""
    names: dict[str, Counter[str]] = {}
    types: dict[str, Counter[str]] = {}
    triples: dict[tuple[str, str, str], None] = {}
    readable: dict[str, str] = {}
    for table, graphs in _tables(Path(folder)):
        rows: Rows = {}
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
    rows = [(mention, entity, n) for (mention, entity), n in met.items()]
    for start in range(0, len(rows), BATCH):
        columns = zip(*rows[start : start + BATCH], strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, MENTIONS, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=MENTIONS)


def _entity(id: str, met: Counter[str], types: Counter[str] | None, readable: Mapping[str, str]) -> EntityRow:
    label, *others = (name for name, _ in met.most_common() if name)
    kinds = [readable.get(type, type) for type, _ in types.most_common()] if types else None
    return EntityRow(id, label, others or None, types=kinds, met=met.total())


def _tables(folder: Path) -> Iterator[tuple[Any, list[ColumnGraph]]]:
    """Yield every table with the graphs that describe it."""
    found = False
    for path in sorted((folder / "250wt" / "tables").glob("*.json")):
        about = folder / "250wt" / "descriptions" / path.stem
        graphs = [graph for version in sorted(about.glob("*.json")) for graph in _parse(version.read_bytes(), version)]
        yield _parse(path.read_bytes(), path), [ColumnGraph(graph) for graph in graphs]
        found = True
    for path in sorted((folder / "semtab2020_round4" / "tables").glob("*.zip")):
        beside = folder / "semtab2020_round4" / "descriptions" / path.name
        try:
            with zipfile.ZipFile(path) as tables, zipfile.ZipFile(beside) as descriptions:
                for name in tables.namelist():
                    graphs = _parse(descriptions.read(name), beside)
                    yield _parse(tables.read(name), path), [ColumnGraph(graph) for graph in graphs]
        except (zipfile.BadZipFile, zlib.error, KeyError, OSError) as error:
            raise _damaged(path, str(error)) from error
        found = True
    if not found:
        raise _damaged(folder, "it holds no tables")


def _parse(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data)
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
                    yield column, row, mention, id_and_name(entity)[0]
