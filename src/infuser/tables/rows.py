"""Tables as people have them (CSV, TSV, JSON, JSON Lines, Parquet, plain lines), read row by row.

None of them is ever held in memory as a whole. Every row comes with its place, so that an error can say where to look.
A row that cannot be read is an error, or counted where the caller gives a `Skipped`.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from infuser.errors import InputError
from infuser.files import parse_json
from infuser.tables.blocks import (
    STDIN,
    Block,
    named_blocks,
    open_stream,
    read_blocks,
    split_record,
    suffix_of,
    wrong_width,
)
from infuser.tables.json_lists import json_entries
from infuser.tables.skipped import BadRow, Place, Skipped
from infuser.words import listed

Row = tuple[Place, list[Any]]
"""Where a row stands, and its cells."""
Record = tuple[Place, dict[str, Any]]
"""Where a row stands, and its cells by the names of their columns."""

HEADED = (".csv", ".tsv", ".parquet")
"""Kinds of tables whose columns are named once, for all rows."""
_CHUNK = 1 << 20

Item = TypeVar("Item")
Line = tuple[int, str]
"""The number of a line, and its text."""


def read_lines(path: str | Path, skipped: Skipped | None = None) -> Iterator[Line]:
    """Yield the lines of a file, without their ends and with their numbers."""
    return _good(_any_lines(Path(path)), skipped)


def filled_lines(path: str | Path, skipped: Skipped | None = None) -> Iterator[Line]:
    """Yield the lines of a file that are not blank."""
    return ((number, line) for number, line in read_lines(path, skipped) if line.strip())


def read_rows(path: Path, skipped: Skipped | None = None) -> Iterator[Row]:
    """Yield the rows of a list without named columns: .csv, .json, or lines with tabs between the cells."""
    suffix = suffix_of(path)
    if suffix == ".json":
        return _json_rows(path)
    blocks = read_blocks(path, format="csv" if suffix == ".csv" else "tsv")
    return _good((row for block in blocks for row in _block_rows(path, block)), skipped)


def read_records(
    path: Path, skipped: Skipped | None = None, *, columns: Sequence[str] | None = None
) -> Iterator[Record]:
    """Yield the rows of a table with named columns.

    In plain lines (.txt and standard input) the columns are "text" and, after a tab, "pair"; lines that begin with
    "{" are JSON. All but .parquet may be packed: .csv.gz, .jsonl.zst and so on. Of a .parquet file only `columns` are
    read, if it has the first of them.
    """
    suffix = suffix_of(path)
    if path == STDIN or suffix == ".txt":
        return _good(_plain_lines(path), skipped)
    if suffix in (".csv", ".tsv"):
        return _good(_named_rows(path, suffix == ".csv"), skipped)
    if suffix in (".jsonl", ".ndjson"):
        return json_lines(path, skipped)
    if suffix == ".json":
        entries = enumerate(json_entries(path), start=1)
        return _good((_object(Place(path, number, "entry"), entry) for number, entry in entries), skipped)
    if path.suffix.lower() == ".parquet":
        return _parquet_rows(path, columns)
    raise InputError(
        f"Cannot tell what kind of table {str(path)!r} is. Name it .csv, .tsv, .jsonl, .json (a list of objects), "
        ".parquet or .txt (one text per line)."
    )


def json_lines(path: str | Path, skipped: Skipped | None = None) -> Iterator[Record]:
    """Yield the objects of a file with one on each line, whatever its name."""
    return _good(_json_objects(Path(path), _any_lines(Path(path))), skipped)


def json_object(place: Place, text: str | bytes) -> dict[str, Any]:
    """Return the object that a text in JSON is; raise BadRow if it is none."""
    found = _parsed(place, text)
    if isinstance(found, BadRow):
        raise found
    return found[1]


def read_json(path: str | Path) -> Any:
    """Return what a JSON file holds, packed or not."""
    with open_stream(path) as stream:
        raw = stream.read()
    return parse_json(raw, str(path))


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return what a TOML file holds; `what` says in errors what it should be."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read the {what} {str(path)!r}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}.") from error


def digest_of_file(path: Path) -> str:
    """Return the sha256 of a file's bytes, unpacked; of a folder, that of the names and digests of its files."""
    digest = hashlib.sha256()
    if path.is_dir():
        for file in sorted(one for one in path.rglob("*") if one.is_file()):
            digest.update(f"{file.relative_to(path).as_posix()} {digest_of_file(file)}\n".encode())
        return digest.hexdigest()
    with open_stream(path) as stream:
        while block := stream.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def _good(items: Iterable[Item | BadRow], skipped: Skipped | None) -> Iterator[Item]:
    for item in items:
        if isinstance(item, BadRow):
            item.settle(skipped)
        else:
            yield item


def _any_lines(path: Path) -> Iterator[Line | BadRow]:
    """Yield the lines of a file, without their ends; one that is not UTF-8 is a bad row."""
    for block in read_blocks(path):
        for number, line in enumerate(block.lines(), block.first):
            try:
                yield number, line.decode()
            except UnicodeDecodeError as error:
                yield _not_utf8(path, number, line, error)


def _block_rows(path: Path, block: Block) -> Iterator[Row | BadRow]:
    """Yield the rows of a block that are not empty."""
    for number, record in block.records():
        try:
            cells = split_record(record.decode(), block.separator)
        except UnicodeDecodeError as error:
            yield _not_utf8(path, number + record.count(b"\n", 0, error.start), record, error)
            continue
        except InputError as error:
            advice = "Look for a quote that is not closed."
            yield BadRow(Place(path, number), str(error), record, advice=advice)
            continue
        if block.separator == "\t" and b'"' in record:
            cells = [_unquoted(cell) for cell in cells]
        if cells[0].strip() or any(cell.strip() for cell in cells):
            yield Place(path, number), cells


def _named_rows(path: Path, quoted: bool) -> Iterator[Record | BadRow]:
    names: tuple[str, ...] = ()
    for block in named_blocks(path, read_blocks(path, format="csv" if quoted else "tsv")):
        names = block.names
        if len(set(names)) < len(names):
            raise InputError(f"Two columns of {path} have the same name: {listed(names)}. Rename one of them.")
        for row in _block_rows(path, block):
            if isinstance(row, BadRow):
                yield row
            elif len(row[1]) == len(names):
                yield row[0], dict(zip(names, row[1], strict=True))
            else:
                why = f"{wrong_width(len(row[1]), len(names))}: {listed(names)}"
                yield BadRow(row[0], why, str(row[1]), advice="A separator inside a cell is often the cause.")
    if not names:
        raise InputError(f"{path} is empty. Its first line names the columns, e.g. text and label.")


def _plain_lines(path: Path) -> Iterator[Record | BadRow]:
    lines = (line for line in _any_lines(path) if isinstance(line, BadRow) or line[1].strip())
    first = next(lines, None)
    if first is None:
        return
    all_lines = chain([first], lines)
    if not isinstance(first, BadRow) and first[1].lstrip().startswith("{"):
        yield from _json_objects(path, all_lines)
        return
    for line in all_lines:
        yield line if isinstance(line, BadRow) else _text_and_pair(Place(path, line[0]), line[1])


def _text_and_pair(place: Place, line: str) -> Record | BadRow:
    cells = line.split("\t")
    if len(cells) > 2:
        return BadRow(place, f"has {len(cells) - 1} tabs", line, advice="A line is a text, or a text, a tab, its pair.")
    return place, dict(zip(("text", "pair"), cells, strict=False))


def _json_objects(path: Path, lines: Iterable[Line | BadRow]) -> Iterator[Record | BadRow]:
    for line in lines:
        if isinstance(line, BadRow):
            yield line
        elif line[1].strip():
            yield _parsed(Place(path, line[0]), line[1].rstrip())


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


def _parsed(place: Place, text: str | bytes) -> Record | BadRow:
    try:
        record = parse_json(text)
    except ValueError as error:
        return BadRow(place, str(error), text)
    return _object(place, record)


def _object(place: Place, record: object) -> Record | BadRow:
    if not isinstance(record, dict):
        return BadRow(place, "is not an object", str(record), advice='Write one per example: {"text": "...", ...}.')
    return place, record


def _parquet_rows(path: Path, columns: Sequence[str] | None) -> Iterator[Record]:
    from infuser.tables.parse import open_parquet

    number = 0
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        wanted = [name for name in columns if name in names] if columns and columns[0] in names else names
        for batch in file.iter_batches(batch_size=1024, columns=wanted):
            for row in batch.to_pylist():
                number += 1
                yield Place(path, number, "row"), row


def _not_utf8(path: Path, number: int, raw: bytes, error: UnicodeDecodeError) -> BadRow:
    shown = raw.decode("utf-8", "replace")
    advice = "Save the file as UTF-8 and try again."
    return BadRow(Place(path, number), f"is not UTF-8 ({error.reason})", shown, advice=advice)


def _unquoted(cell: str) -> str:
    """Take off the quotes that spreadsheets put around a cell; a text with quotes of its own keeps them."""
    inside = cell[1:-1]
    if len(cell) >= 2 and cell[0] == cell[-1] == '"' and '"' not in inside.replace('""', ""):
        return inside.replace('""', '"')
    return cell
