"""Tables with named columns as people have them (CSV, TSV, JSON, JSON Lines, Parquet, plain lines), read row by row.

None of them is ever held in memory as a whole. A row that cannot be read is an error, or counted where the caller
gives a count.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infuser.errors import InputError
from infuser.tables.files import STDIN, BadRow, Place, Row, csv_rows, kind_of_file, opened, read_lines, tab_rows
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.tables.skipped import Skipped

Record = tuple[Place, dict[str, Any]]
"""Where a row stands, and its cells by the names of their columns."""

HEADED = (".csv", ".tsv", ".parquet")
"""Kinds of tables whose columns are named once, for all rows."""
_CHUNK = 1 << 20


def read_records(
    path: Path, skipped: Skipped | None = None, *, columns: Sequence[str] | None = None
) -> Iterator[Record]:
    """Yield the rows of a table with named columns; one that is broken is an error with its line number, or skipped.

    In plain lines (.txt and standard input) the columns are "text" and, after a tab, "pair"; lines that begin with
    "{" are JSON. All but .parquet may be packed: .csv.gz and so on. Of a .parquet file only `columns` are read, if
    it has the first of them.
    """
    for item in _items(path, columns):
        if isinstance(item, BadRow):
            item.settle(skipped)
        else:
            yield item


def json_lines(path: Path) -> Iterator[Record]:
    """Yield the objects of a file with one on each line, whatever its name; a line that is none is an error."""
    for item in _json_lines(path, read_lines(path)):
        if isinstance(item, BadRow):
            raise item
        yield item


def json_object(place: Place, text: str | bytes) -> dict[str, Any]:
    """Return the object that a text in JSON is; one that is none is an error."""
    found = _parsed(place, text)
    if isinstance(found, BadRow):
        raise found
    return found[1]


def _items(path: Path, columns: Sequence[str] | None) -> Iterator[Record | BadRow]:
    suffix = kind_of_file(path)
    if path == STDIN or suffix == ".txt":
        return _plain_lines(path)
    if suffix in (".csv", ".tsv"):
        return _named(path, csv_rows(path) if suffix == ".csv" else tab_rows(path))
    if suffix in (".jsonl", ".ndjson"):
        return _json_lines(path, read_lines(path))
    if suffix == ".json":
        return _json_records(path)
    if path.suffix.lower() == ".parquet":
        return _parquet_rows(path, columns)
    raise InputError(
        f"Cannot tell what kind of table {str(path)!r} is. Name it .csv, .tsv, .jsonl, .json (a list of objects), "
        ".parquet or .txt (one text per line)."
    )


def _named(path: Path, rows: Iterator[Row | BadRow]) -> Iterator[Record | BadRow]:
    header = next(rows, None)
    if isinstance(header, BadRow):
        raise header
    names = [name.strip() for name in header[1]] if header else []
    if not names:
        raise InputError(f"{path} is empty. Its first line names the columns, e.g. text and label.")
    if len(set(names)) < len(names):
        raise InputError(f"Two columns of {path} have the same name: {', '.join(names)}. Rename one of them.")
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        place, cells = row
        if len(cells) == len(names):
            yield place, dict(zip(names, cells, strict=True))
            continue
        why = f"has {counted(len(cells), 'cell')} for {counted(len(names), 'column')}: {', '.join(names)}"
        yield BadRow(place, why, str(cells), advice="A separator inside a cell is often the cause.")


def _plain_lines(path: Path) -> Iterator[Record | BadRow]:
    lines: Iterator[tuple[int, str | BadRow]]
    lines = ((number, line) for number, line in read_lines(path) if isinstance(line, BadRow) or line.strip())
    first = next(lines, None)
    if first is None:
        return
    lines = chain([first], lines)
    if isinstance(first[1], str) and first[1].lstrip().startswith("{"):
        yield from _json_lines(path, lines)
        return
    for number, line in lines:
        yield line if isinstance(line, BadRow) else _text_and_pair(Place(path, number), line.rstrip("\r\n"))


def _text_and_pair(place: Place, line: str) -> Record | BadRow:
    cells = line.split("\t")
    if len(cells) > 2:
        return BadRow(place, f"has {len(cells) - 1} tabs", line, advice="A line is a text, or a text, a tab, its pair.")
    return place, dict(zip(("text", "pair"), cells, strict=False))


def _json_lines(path: Path, lines: Iterable[tuple[int, str | BadRow]]) -> Iterator[Record | BadRow]:
    for number, line in lines:
        if isinstance(line, BadRow):
            yield line
        elif line.strip():
            yield _parsed(Place(path, number), line.rstrip())


def _json_records(path: Path) -> Iterator[Record | BadRow]:
    for number, entry in enumerate(_json_entries(path), start=1):
        yield _object(Place(path, number, "entry"), entry)


def _json_entries(path: Path) -> Iterator[object]:
    """Yield the entries of a JSON list one by one, so that the file may be larger than memory."""
    decoder = json.JSONDecoder()
    with opened(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig") as file:
        try:
            buffer, at, wanted = file.read(_CHUNK), 0, _CHUNK
            at = _skip(buffer, at)
            if buffer[at : at + 1] != "[":
                raise InputError(f"{path} holds no list; give a list of objects, one per example.")
            at = _skip(buffer, at + 1)
            while buffer[at : at + 1] != "]":
                try:
                    entry, end = decoder.raw_decode(buffer, at)
                    end = _skip(buffer, end)
                except ValueError:
                    end = len(buffer)  # cut off by the end of the buffer, or really broken
                if end >= len(buffer):
                    more = file.read(wanted)
                    if not more:
                        decoder.raw_decode(buffer, at)  # says what is wrong
                        raise ValueError("the list is not closed")
                    buffer, at, wanted = buffer[at:] + more, 0, wanted * 2
                    at = _skip(buffer, at)
                    continue
                if buffer[end] not in ",]":
                    raise ValueError(f"expected a comma behind entry {buffer[at:end][:40]!r}")
                yield entry
                at, wanted = end if buffer[end] == "]" else _skip(buffer, end + 1), _CHUNK
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8 ({error.reason}). Save it as UTF-8 and try again.") from error
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON: {error}.") from error


def _skip(text: str, at: int) -> int:
    """Return the place of the next character that is no white space."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _parsed(place: Place, text: str | bytes) -> Record | BadRow:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        return BadRow(place, f"is not JSON: {error}", text)
    return _object(place, record)


def _object(place: Place, record: object) -> Record | BadRow:
    if not isinstance(record, dict):
        return BadRow(place, "is no object", str(record), advice='Write one per example: {"text": "...", ...}.')
    return place, record


def _parquet_rows(path: Path, columns: Sequence[str] | None) -> Iterator[Record]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    with opened(path) as raw:
        try:
            file = pq.ParquetFile(raw)
            names = file.schema_arrow.names
            wanted = [name for name in columns if name in names] if columns and columns[0] in names else names
            for batch in file.iter_batches(batch_size=1024, columns=wanted):
                for row in batch.to_pylist():
                    number += 1
                    yield Place(path, number, "row"), row
        except (pa.ArrowException, OSError) as error:
            why = str(error).rstrip(".")
            raise InputError(f"{path} cannot be read as Parquet: {why}. Write it again.") from error
