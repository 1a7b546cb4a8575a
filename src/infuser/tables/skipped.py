"""Where a row stands, and rows that could not be read: errors, or counted with the first few kept for the message."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from infuser.errors import InputError

BATCH = 65_536
"""Rows per Arrow batch: few enough to hold several batches, enough to be fast."""
_SHOWN = 5


class Place(str):
    """Where a row stands, "cities.tsv, line 3"."""

    path: Path
    number: int
    unit: str

    def __new__(cls, path: Path, number: int, unit: str = "line") -> Self:
        """Join the parts and keep them."""
        name = str(path)
        place = super().__new__(cls, f"{'standard input' if name == '-' else name}, {unit} {number}")
        place.path, place.number, place.unit = path, number, unit
        return place

    def __getnewargs__(self) -> tuple[Path, int, str]:  # type: ignore[override]
        """Return what a worker process makes the same place of."""
        return self.path, self.number, self.unit


class BadRow(InputError):
    """A row that cannot be read, while others of its file may be."""

    def __init__(self, place: Place, why: str, row: object = "", *, advice: str = "") -> None:
        super().__init__(f"{place} {why}.{f' {advice}' if advice else ''}")
        self.place, self.why, self.row = place, why, row

    def settle(self, skipped: Skipped | None) -> None:
        """Count the row as skipped; without a count it is an error."""
        if skipped is None:
            raise self
        skipped.add(self.place.path, self.place.number, self.why, self.row, unit=self.place.unit)


@dataclass
class Skipped:
    """Rows that could not be read: how many, and the first of them; with `strict` the first one is an error."""

    strict: bool = False
    n: int = 0
    first: list[str] = field(default_factory=list)
    """The first few, each with its place, what is wrong with it and its content."""

    def add(self, path: str | Path, number: int, why: str, row: object, *, unit: str = "line") -> None:
        """Count a row that cannot be read."""
        if isinstance(row, bytes):
            row = row.decode("utf-8", "backslashreplace")
        shown = row if isinstance(row, str) else repr(row)
        message = f"{path}, {unit} {number}: {why}: {shown[:80]!r}"
        if self.strict:
            raise InputError(f"{message}. Mend it, or leave out --strict to skip such rows.")
        self.n += 1
        if len(self.first) < _SHOWN:
            self.first.append(message)
