"""Tables as people have them (CSV, TSV, JSON, JSON Lines, plain lines), read row by row; files written whole.

Every row comes with its place, so that an error can say where to look.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import IO, Any

from infuser.errors import InputError

STDIN = Path("-")
"""Stands for the standard input."""

Row = tuple[str, list[Any]]
"""Where a row stands ("cities.tsv, line 3") and its cells."""
Record = tuple[str, dict[str, Any]]
"""Where a row stands and its cells by the names of their columns."""

_LONGEST_CELL = 2**31 - 1  # the csv module stops at 128 kB otherwise, less than a long document


def read_records(path: Path) -> Iterator[Record]:
    """Yield the rows of a table with named columns; one that is broken is an error with its line number.

    In plain lines (.txt and standard input) the columns are "text" and, after a tab, "pair"; lines that begin with
    "{" are JSON.
    """
    suffix = path.suffix.lower()
    if path == STDIN or suffix == ".txt":
        return _plain_lines(path)
    if suffix in (".csv", ".tsv"):
        return _named(path, _csv_rows(path) if suffix == ".csv" else _tab_rows(path))
    if suffix in (".jsonl", ".ndjson"):
        return _json_lines(path, _lines(path))
    if suffix == ".json":
        return _json_records(path)
    raise InputError(
        f"Cannot tell what kind of table {str(path)!r} is. Name it .csv, .tsv, .jsonl, .json (a list of objects) or "
        ".txt (one text per line)."
    )


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a list without named columns: .csv, .json, or lines with tabs between the cells."""
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return _csv_rows(path)
    return _json_rows(path) if suffix == ".json" else _tab_rows(path)


def read_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    try:
        return json.loads("".join(line for _, line in _lines(path)))
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}.") from error


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """Open a file for writing under a temporary name; it gets its own when all went well, else nothing is left."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = unfinished.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"Cannot write {str(path)!r}: {error}. Choose a file in a folder you may write to.") from error
    try:
        with file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file or of the standard input with their numbers."""
    try:
        with nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                try:
                    yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"{_at(path, number)} is not UTF-8 ({error.reason}). Save the file as UTF-8 and try again."
                    ) from error
    except IsADirectoryError as error:
        raise InputError(f"{str(path)!r} is a folder. Give a file.") from error
    except FileNotFoundError as error:
        raise InputError(f"There is no file {str(path)!r}. Check the path; it starts from {Path.cwd()}.") from error
    except PermissionError as error:
        raise InputError(f"{str(path)!r} may not be read: {error}.") from error


def _at(path: Path, number: int, unit: str = "line") -> str:
    return f"{'standard input' if path == STDIN else path}, {unit} {number}"


def _csv_rows(path: Path) -> Iterator[Row]:
    csv.field_size_limit(_LONGEST_CELL)
    lines = (line for _, line in _lines(path))
    first = next(lines, "")
    # what spreadsheets write where the comma is the decimal sign
    delimiter = ";" if ";" in first and "," not in first else ","
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield _at(path, reader.line_num), row
    except csv.Error as error:
        raise InputError(
            f"{_at(path, reader.line_num)} is not CSV: {error}. Look for a quote that is not closed."
        ) from error


def _tab_rows(path: Path) -> Iterator[Row]:
    for number, line in _lines(path):
        if line.strip():
            yield _at(path, number), [_unquoted(cell) for cell in line.rstrip("\r\n").split("\t")]


def _unquoted(cell: str) -> str:
    """Take off the quotes that spreadsheets put around a cell; a text with quotes of its own keeps them."""
    inside = cell[1:-1]
    if len(cell) >= 2 and cell[0] == cell[-1] == '"' and '"' not in inside.replace('""', ""):
        return inside.replace('""', '"')
    return cell


def _named(path: Path, rows: Iterator[Row]) -> Iterator[Record]:
    _, header = next(rows, ("", []))
    names = [name.strip() for name in header]
    if not names:
        raise InputError(f"{path} is empty. Its first line names the columns, e.g. text and label.")
    if len(set(names)) < len(names):
        raise InputError(f"Two columns of {path} have the same name: {', '.join(names)}. Rename one of them.")
    for where, row in rows:
        if len(row) != len(names):
            raise InputError(
                f"{where} has {len(row)} cells, but there are {len(names)} columns: {', '.join(names)}. A separator "
                "inside a cell is often the cause."
            )
        yield where, dict(zip(names, row, strict=True))


def _plain_lines(path: Path) -> Iterator[Record]:
    lines: Iterator[tuple[int, str]] = ((number, line) for number, line in _lines(path) if line.strip())
    first = next(lines, None)
    if first is None:
        return
    lines = chain([first], lines)
    if first[1].lstrip().startswith("{"):
        yield from _json_lines(path, lines)
        return
    for number, line in lines:
        yield _at(path, number), _text_and_pair(path, number, line.rstrip("\r\n"))


def _text_and_pair(path: Path, number: int, line: str) -> dict[str, Any]:
    cells = line.split("\t")
    if len(cells) > 2:
        raise InputError(
            f"{_at(path, number)} has {len(cells) - 1} tabs. A line is a text, or a text, a tab, its pair."
        )
    return dict(zip(("text", "pair"), cells, strict=False))


def _json_lines(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[Record]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{_at(path, number)} is not JSON: {error}.") from error
        yield _at(path, number), _object(record, _at(path, number))


def _json_records(path: Path) -> Iterator[Record]:
    entries = read_json(path)
    if not isinstance(entries, list):
        raise InputError(f"{path} holds a {type(entries).__name__}; give a list of objects, one per example.")
    for number, entry in enumerate(entries, start=1):
        yield _at(path, number, "entry"), _object(entry, _at(path, number, "entry"))


def _object(record: object, where: str) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise InputError(f'{where} is no object. Write one per example: {{"text": "...", "label": "..."}}.')
    return record


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
        yield _at(path, number, "entry"), entry if isinstance(entry, list) else [entry]
