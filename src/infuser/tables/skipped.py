"""Rows that could not be read: counted, with the first few kept for the message."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from infuser.errors import InputError

BATCH = 65_536
"""Rows per Arrow batch: few enough to hold several batches, enough to be fast."""
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
