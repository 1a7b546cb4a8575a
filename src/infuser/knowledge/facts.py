"""The form in which every reader hands over knowledge: Arrow batches of triples or of entities.

A reader is a generator of record batches. Each batch has one of the two schemas below; a reader may mix them, in any
order. Rows that cannot be read are told to a `Skipped`, which counts them and keeps the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from infuser.errors import InputError

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

Facts = Iterator[pa.RecordBatch]

BATCH = 65_536
"""Rows per batch, about; small enough to hold a few, large enough to be quick."""

_SHOWN = 5


@dataclass
class Skipped:
    """Rows that could not be read: how many, and the first of them; with `strict` the first one is an error."""

    strict: bool = False
    n: int = 0
    first: list[str] = field(default_factory=list)
    """The first few, each with its place, what is wrong with it and what it says."""

    def add(self, path: str | Path, number: int, why: str, row: object, *, unit: str = "line") -> None:
        """Note a row that cannot be read."""
        shown = row if isinstance(row, str) else repr(row)
        said = f"{path}, {unit} {number}: {why}: {shown[:80]!r}"
        if self.strict:
            raise InputError(f"{said}. Mend it, or leave out --strict to skip such rows.")
        self.n += 1
        if len(self.first) < _SHOWN:
            self.first.append(said)
