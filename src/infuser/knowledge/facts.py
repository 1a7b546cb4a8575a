"""The form in which every reader hands over knowledge: Arrow batches of triples, of entities or of mentions.

A reader is a generator of record batches. Each batch has one of the schemas below; a reader may mix triples, entities
and their further ids, in any order. Rows that cannot be read are counted by a `tables.skipped.Skipped`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from infuser.tables.skipped import BATCH

TRIPLES = pa.schema(
    [
        pa.field("head", pa.string(), nullable=False),
        pa.field("relation", pa.string(), nullable=False),
        pa.field("tail", pa.string(), nullable=False),
        pa.field("weight", pa.float32(), nullable=False),  # above 0 and up to 1
    ]
)
ENTITIES = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("label", pa.string()),  # the name shown to people
        pa.field("aliases", pa.list_(pa.string())),  # further names
        pa.field("description", pa.string()),
        pa.field("types", pa.list_(pa.string())),
        pa.field("count", pa.int64()),  # how often it was met somewhere, a prior
    ]
)
"""All but the id may be null. The rows of one entity are merged: the first label and the first description win."""
MENTIONS = pa.schema(
    [
        pa.field("mention", pa.string(), nullable=False),  # a name as it is written in texts
        pa.field("entity", pa.string(), nullable=False),
        pa.field("count", pa.float64(), nullable=False),  # how often the one meant the other; above 0
    ]
)
"""The rows of one mention and entity are summed."""

OTHER_IDS = pa.schema(
    [
        pa.field("other_id", pa.string(), nullable=False),  # by which it is found, too
        pa.field("id", pa.string(), nullable=False),
    ]
)
"""Further ids of entities, such as those that other vocabularies give them."""

Facts = Iterator[pa.RecordBatch]


class EntityRow(NamedTuple):
    """One row of ENTITIES, for formats that Arrow cannot read at once; what is not known is None."""

    id: str
    label: str | None = None
    aliases: Sequence[str] | None = None
    description: str | None = None
    types: Sequence[str] | None = None
    met: int | None = None
    """How often, for the column "count"."""


class TripleRow(NamedTuple):
    """One row of TRIPLES."""

    head: str
    relation: str
    tail: str
    weight: float = 1.0


MentionRow = tuple[str, str, float]
"""One row of MENTIONS."""


def other_names(label: str, names: Iterable[str]) -> list[str] | None:
    """Return the names beside the label, each once, for the column "aliases"."""
    return [name for name in dict.fromkeys(names) if name and name != label] or None


def pack_entities(entities: Iterable[EntityRow]) -> Facts:
    """Yield entities in batches."""
    return _pack(entities, ENTITIES)


def pack_triples(triples: Iterable[TripleRow]) -> Facts:
    """Yield triples in batches."""
    return _pack(triples, TRIPLES)


def pack_other_ids(rows: Iterable[tuple[str, str]]) -> Facts:
    """Yield rows (other id, id) in batches."""
    return _pack(rows, OTHER_IDS)


def pack_mentions(mentions: Iterable[MentionRow]) -> Facts:
    """Yield rows (mention, entity, count) in batches."""
    return _pack(mentions, MENTIONS)


def _pack(rows: Iterable[tuple[object, ...]], schema: pa.Schema) -> Facts:
    todo = iter(rows)
    while some := list(islice(todo, BATCH)):
        columns = zip(*some, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def in_batches(batch: pa.RecordBatch) -> Facts:
    """Yield a batch in slices of at most BATCH rows."""
    for start in range(0, batch.num_rows, BATCH):
        yield batch.slice(start, BATCH)
