"""Files as people have them, opened line by line, packed by gzip or not; lists without named columns.

Every row comes with its place, so that an error can say where to look.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import sys
import tomllib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

from infuser.errors import InputError

if TYPE_CHECKING:
    from infuser.tables.skipped import Skipped

STDIN = Path("-")
"""Stands for the standard input."""

_LONGEST_CELL = 2**31 - 1  # the csv module stops at 128 kB otherwise, less than a long document


class Place(str):
    """Where a row stands, "cities.tsv, line 3"."""

    path: Path
    number: int
    unit: str

    def __new__(cls, path: Path, number: int, unit: str = "line") -> Self:
        """Say where a row stands and keep the parts."""
        place = super().__new__(cls, f"{'standard input' if path == STDIN else path}, {unit} {number}")
        place.path, place.number, place.unit = path, number, unit
        return place


Row = tuple[Place, list[Any]]
"""Where a row stands, and its cells."""


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


def kind_of_file(path: Path) -> str:
    """Return the ending that says what a file is, in lower case, whether it is packed or not: ".csv" of "A.CSV.gz"."""
    name = Path(path.stem) if path.suffix.lower() == ".gz" else path
    return name.suffix.lower()


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file, a packed file or the standard input for reading; what goes wrong is said with the file's name."""
    try:
        if path == STDIN:
            yield sys.stdin.buffer
        elif path.suffix.lower() == ".gz":
            with gzip.open(path, "rb") as file:
                yield cast(BinaryIO, file)
        else:
            with path.open("rb") as file:
                yield file
    except IsADirectoryError as error:
        raise InputError(f"{str(path)!r} is a folder. Give a file.") from error
    except FileNotFoundError as error:
        raise InputError(f"There is no file {str(path)!r}. Check the path; it starts from {Path.cwd()}.") from error
    except PermissionError as error:
        raise InputError(f"{str(path)!r} may not be read: {error}.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path} is damaged or no gzip file: {error} Pack it again.") from error


def read_lines(path: Path) -> Iterator[tuple[int, str | BadRow]]:
    """Yield the lines of a file with their numbers; one that is no UTF-8 is a bad row."""
    with opened(path) as file:
        for number, raw in enumerate(file, start=1):
            try:
                yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                why = f"is not UTF-8 ({error.reason})"
                shown = raw.decode("utf-8", "replace")
                yield number, BadRow(Place(path, number), why, shown, advice="Save the file as UTF-8 and try again.")


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a list without named columns: .csv, .json, or lines with tabs between the cells."""
    suffix = kind_of_file(path)
    if suffix == ".json":
        yield from _json_rows(path)
        return
    for row in csv_rows(path) if suffix == ".csv" else tab_rows(path):
        if isinstance(row, BadRow):
            raise row
        yield row


def read_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    try:
        return json.loads("".join(_good_lines(path)))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not JSON: {error}.") from error


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return what a TOML file holds; `what` says in errors what it should be."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read the {what} {str(path)!r}: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}.") from error


def csv_rows(path: Path) -> Iterator[Row | BadRow]:
    """Yield the rows of a CSV file that are not empty."""
    csv.field_size_limit(_LONGEST_CELL)
    bad: list[BadRow] = []  # lines of the row that is being read
    lines = _noting(path, bad)
    first = next(lines, "")
    # what spreadsheets write where the comma is the decimal sign
    delimiter = ";" if ";" in first and "," not in first else ","
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            if "unexpected end" in str(error):  # nobody can tell how many rows an open quote has swallowed
                raise InputError(
                    f"{Place(path, begin)} opens a quote that is not closed before the end of the file, so the rows "
                    "behind it cannot be told apart. Close it, or write the table again with quotes doubled inside "
                    "cells."
                ) from error
            bad.append(_bad_csv(Place(path, reader.line_num), str(error)))
            row = []
        if bad:
            yield bad[0]
            bad.clear()
        elif row is None:
            return
        elif any(cell.strip() for cell in row):
            yield Place(path, reader.line_num), row


def _bad_csv(place: Place, why: str) -> BadRow:
    if "new-line character" in why:
        return BadRow(place, "is not CSV: it has a carriage return inside a cell without quotes")
    return BadRow(place, f"is not CSV: {why}", advice="Look for a quote that is not closed.")


def tab_rows(path: Path) -> Iterator[Row | BadRow]:
    """Yield the rows of a file with tabs between the cells that are not empty."""
    for number, line in read_lines(path):
        if isinstance(line, BadRow):
            yield line
        elif line.strip():
            yield Place(path, number), [_unquoted(cell) for cell in line.rstrip("\r\n").split("\t")]


def _good_lines(path: Path) -> Iterator[str]:
    for _, line in read_lines(path):
        if isinstance(line, BadRow):
            raise line
        yield line


def _noting(path: Path, bad: list[BadRow]) -> Iterator[str]:
    """Yield all lines and note the bad ones; their signs are replaced, but commas and quotes still part the rows."""
    for _, line in read_lines(path):
        if isinstance(line, BadRow):
            bad.append(line)
            yield str(line.row)
        else:
            yield line


def _unquoted(cell: str) -> str:
    """Take off the quotes that spreadsheets put around a cell; a text with quotes of its own keeps them."""
    inside = cell[1:-1]
    if len(cell) >= 2 and cell[0] == cell[-1] == '"' and '"' not in inside.replace('""', ""):
        return inside.replace('""', '"')
    return cell


def _json_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a JSON list, or of a mapping whose values may be lists."""
    entries = read_json(path)
    if isinstance(entries, dict):
        entries = [
            [key, item] for key, value in entries.items() for item in (value if isinstance(value, list) else [value])
        ]
    if not isinstance(entries, list):
        raise InputError(f"{path} holds a {type(entries).__name__}; give a list or an object.")
    for number, entry in enumerate(entries, start=1):
        yield Place(path, number, "entry"), entry if isinstance(entry, list) else [entry]


def digest_of_file(path: Path) -> str:
    """Return the sha256 of a file's bytes, unpacked."""
    digest = hashlib.sha256()
    with opened(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
