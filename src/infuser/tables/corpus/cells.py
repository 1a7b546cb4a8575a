"""Blocks of tables (CSV, TSV, JSON Lines, Parquet) as columns of texts, by Arrow; where it cannot, row by row.

Both ways agree: a block is read row by row as soon as there is anything in it that Arrow and Python's own readers
might see differently; but only the part where it stands.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from infuser.tables.corpus.cutting import MARK, QuotedEnds, line_ends
from infuser.tables.corpus.files import RawBlock
from infuser.tables.corpus.headers import split_csv

Bad = tuple[int, str, bytes]
"""A row that cannot be read: its number, why, and how it begins."""

AtOnce = Callable[[bytes, int], "Cells | None"]
"""Reads records, the first of which has that number, by Arrow; None when one needs a closer look."""
One = Callable[[Any], Sequence[str | None] | None]
"""Reads one row: its cells, None if it is blank; raises BadRow."""

SHOWN = 320
"""Bytes of a bad row that are kept, to show it."""
_PART, _N_PARTS = 100, 32
"""A block with a bad row is read in parts: each of 100 records or more, and 32 of them or so."""


class Cells(NamedTuple):
    """The wanted columns of some rows."""

    columns: tuple[Any, ...]
    """Arrow arrays of type large_string, valid UTF-8; null where a row has nothing."""
    numbers: NDArray[np.int64]
    """Line or row of each."""
    bad: list[Bad]


class BadRow(ValueError):
    """A row that cannot be read, while others of its block may be; says why."""


def table_cells(block: RawBlock, columns: Sequence[str]) -> Cells:
    """Return the wanted columns of a block of CSV or TSV, whose last line has its end."""
    quoted, width = block.file.format == "csv", len(block.header)
    places = [block.header.index(name) for name in columns]

    def at_once(data: bytes, first: int) -> Cells | None:
        return _table_at_once(data, first, places, width, quoted=quoted)

    def one(record: bytes) -> list[str] | None:
        return _row(record, places, width, quoted=quoted)

    whole = at_once(block.data, block.first)
    if whole is not None:
        return whole
    ends = QuotedEnds().find_all(block.data) if quoted else line_ends(block.data)
    return in_parts(block, ends, at_once, one, len(columns))


def parquet_cells(block: RawBlock, columns: Sequence[str]) -> Cells:
    """Return the wanted columns of an Arrow stream of rows."""
    table = pa.ipc.open_stream(block.data).read_all()
    raw = [table.column(name).combine_chunks().cast(pa.large_binary()) for name in columns]
    numbers = np.arange(block.first, block.first + table.num_rows)
    try:
        return Cells(tuple(map(as_texts, raw)), numbers, [])
    except pa.ArrowInvalid:
        rows = zip(numbers.tolist(), zip(*(cells.to_pylist() for cells in raw), strict=True), strict=True)
        return one_by_one(rows, lambda row: [None if cell is None else _decoded(cell) for cell in row], len(columns))


def as_texts(cells: Any) -> Any:
    """Return an Arrow array of bytes as texts; ArrowInvalid if one is not UTF-8."""
    texts = cells.view(pa.large_string())
    texts.validate(full=True)
    return texts


def in_parts(block: RawBlock, ends: NDArray[np.int64], at_once: AtOnce, one: One, n_columns: int) -> Cells:
    """Return the cells of records that end at `ends`: a bad one costs only the others of its part the quick way."""
    records = [0, *ends.tolist()] if len(ends) and ends[-1] == len(block.data) else [0, *ends.tolist(), len(block.data)]
    step = max(_PART, len(records) // _N_PARTS)
    first, parts = block.first, list[Cells]()
    for place in range(0, len(records) - 1, step):
        borders = records[place : place + step + 1]
        part = block.data[borders[0] : borders[-1]]
        cells = at_once(part, first)
        parts.append(one_by_one(_numbered(block.data, borders, first), one, n_columns) if cells is None else cells)
        first += part.count(b"\n")
    columns = (pa.concat_arrays(column) for column in zip(*(part.columns for part in parts), strict=True))
    return Cells(
        tuple(columns), np.concatenate([part.numbers for part in parts]), [bad for part in parts for bad in part.bad]
    )


def one_by_one(rows: Iterable[tuple[int, Any]], read: One, n_columns: int) -> Cells:
    """Return what `read` makes of each numbered row: its cells, None if it is blank, or BadRow."""
    good: list[Sequence[str | None]] = []
    numbers: list[int] = []
    bad: list[Bad] = []
    for number, row in rows:
        try:
            cells = read(row)
        except BadRow as error:
            bad.append((number, str(error), row[:SHOWN] if isinstance(row, bytes) else repr(row)[:SHOWN].encode()))
            continue
        if cells is not None:
            good.append(cells)
            numbers.append(number)
    columns = zip(*good, strict=True) if good else [()] * n_columns
    arrays = tuple(pa.array(column, pa.large_string()) for column in columns)
    return Cells(arrays, np.array(numbers, np.int64), bad)


def _table_at_once(data: bytes, first: int, places: Sequence[int], width: int, *, quoted: bool) -> Cells | None:
    """Return the columns of rows read by Arrow, or None when one needs a closer look."""
    ends = None
    separator = "," if quoted else "\t"
    quoted = quoted and b'"' in data
    if data.count(b"\r") != data.count(b"\r\n") or data.startswith(MARK):
        return None  # Arrow takes a carriage return alone for the end of a row, and leaves out a mark
    if quoted:
        quotes = QuotedEnds()
        ends = quotes.find_all(data)
        if quotes.inside or not quotes.tidy:
            return None
    names = [str(place) for place in range(width)]
    wanted = [names[place] for place in places]
    reading = pa.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data))
    parsing = pa.csv.ParseOptions(delimiter=separator, quote_char='"' if quoted else False, newlines_in_values=quoted)
    converting = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(wanted, pa.large_string()),
        include_columns=wanted,
        null_values=[],
        strings_can_be_null=False,
    )
    try:
        table = pa.csv.read_csv(pa.BufferReader(data), reading, parsing, converting)
    except pa.ArrowInvalid:
        return None
    numbers = first + _lines_of_rows(data, ends)
    if len(numbers) != table.num_rows:
        return None
    return Cells(tuple(table.column(name).combine_chunks() for name in wanted), numbers, [])


def _lines_of_rows(data: bytes, ends: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return on which line, from 0, each row that is not empty begins."""
    raw = np.frombuffer(data, np.uint8)
    feeds = np.flatnonzero(raw == ord("\n"))
    ends = feeds + 1 if ends is None else ends
    starts = np.concatenate(([0], ends[:-1]))
    lengths = ends - starts
    filled = (lengths > 2) | ((lengths == 2) & (raw[starts] != ord("\r")))
    lines: NDArray[np.int64] = np.arange(len(ends)) if len(ends) == len(feeds) else np.searchsorted(feeds, starts)
    filled_lines: NDArray[np.int64] = lines[filled]
    return filled_lines


def _numbered(data: bytes, borders: Sequence[int], number: int) -> Iterator[tuple[int, bytes]]:
    """Yield the records between borders, without their ends, with the numbers of their first lines."""
    for begin, end in pairwise(borders):
        yield number, data[begin:end].removesuffix(b"\n").removesuffix(b"\r")
        number += data.count(b"\n", begin, end)


def _row(record: bytes, places: Sequence[int], width: int, *, quoted: bool) -> list[str] | None:
    text = record.decode("utf-8", "surrogateescape")  # only the wanted cells have to be UTF-8
    if not text.strip():
        return None
    try:
        cells = split_csv(text) if quoted else text.split("\t")
    except csv.Error as error:
        raise BadRow(f"not CSV ({error})") from error
    if len(cells) != width:
        raise BadRow(f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'} instead of {width}")
    return [_decoded(cells[place].encode("utf-8", "surrogateescape")) for place in places]


def _decoded(cell: bytes) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError as error:
        raise BadRow("not UTF-8") from error
