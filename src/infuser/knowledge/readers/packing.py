"""Facts gathered one by one and handed over in batches, for formats that Arrow cannot read at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from infuser.knowledge.facts import ENTITIES, TRIPLES, Facts
from infuser.tables.skipped import BATCH


class Entity(NamedTuple):
    """One row of ENTITIES; what is not known is None."""

    id: str
    label: str | None = None
    aliases: Sequence[str] | None = None
    description: str | None = None
    types: Sequence[str] | None = None
    met: int | None = None
    """How often, for the column "count"."""


class Triple(NamedTuple):
    """One row of TRIPLES."""

    head: str
    relation: str
    tail: str
    weight: float = 1.0


def pack_entities(entities: Iterable[Entity]) -> Facts:
    """Yield entities in batches."""
    return _pack(entities, ENTITIES)


def pack_triples(triples: Iterable[Triple]) -> Facts:
    """Yield triples in batches."""
    return _pack(triples, TRIPLES)


def _pack(rows: Iterable[tuple[object, ...]], schema: pa.Schema) -> Facts:
    todo = iter(rows)
    while some := list(islice(todo, BATCH)):
        columns = zip(*some, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
