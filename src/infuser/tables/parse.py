"""Blocks of tables as Arrow columns that remember their lines: by Arrow at once; where it cannot, row by row.

Both ways agree: a block is read row by row as soon as there is anything in it that Arrow and Python's own readers
might see differently; but only the part where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.tables.blocks import MARK, Block, open_stream, split_record, wrong_width
from infuser.tables.quotes import QuotedEnds, line_ends
from infuser.tables.values import is_unicode
from infuser.words import one_line

Bad = tuple[int, str, bytes]
"""A row that cannot be read: its number, why, and how it begins."""

SHOWN = 320
"""Bytes of a bad row that are kept, to show it."""
_PART, _N_PARTS = 100, 32
"""A block with a bad row is read in parts: each of 100 records or more, and 32 of them or so."""


class Batch(NamedTuple):
    """The wanted columns of some rows."""

    columns: tuple[Any, ...]
    """Arrow arrays; texts are valid UTF-8, null where a row has nothing."""
    numbers: NDArray[np.int64]
    """Line or row of each."""
    bad: list[Bad]


AtOnce = Callable[[bytes, int], Batch | None]
"""Reads records, the first of which has that number, by Arrow; None when one needs a closer look."""
ReadOne = Callable[[Any], Sequence[Any] | None]
"""Returns the cells of one row, None if it is blank; raises InputError that says what is wrong with it."""


def parse_table(block: Block, columns: Sequence[str], n_optional: int = 0) -> Batch:
    """Return the wanted columns of a block of CSV or TSV as texts; a row may lack the last `n_optional` columns."""
    places = [block.names.index(name) for name in columns]

    def read_one(record: bytes) -> list[str | None] | None:
        return table_row(record, block, places, n_optional)

    def at_once(data: bytes, first: int) -> Batch | None:
        part = block._replace(first=first, data=data)
        batch = table_at_once(part, places, n_optional)
        return _by_width(part, places, n_optional, read_one) if batch is None else batch

    types = [pa.string()] * len(columns)
    return parse_block(block, types, at_once, read_one)


@contextmanager
def open_parquet(path: str | Path, source: Any = None, **options: Any) -> Iterator[Any]:
    """Open a Parquet file; what is wrong with it is an InputError that names it."""
    import pyarrow.parquet as pq

    if source is None:
        with open_stream(path):  # a file that is not there is an error of its own
            source = str(path)
    try:
        with pq.ParquetFile(source, **options) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        why = one_line(str(error)).rstrip(".")
        raise InputError(f"{path} cannot be read as Parquet: {why}. Write it again.") from error


def as_texts(cells: Any) -> Any:
    """Return an Arrow array of bytes as texts without copying; raise ArrowInvalid if one is not UTF-8."""
    texts = cells.view(pa.large_string() if pa.types.is_large_binary(cells.type) else pa.string())
    texts.validate(full=True)
    return texts


def rows_one_by_one(rows: Iterable[tuple[int, Any]], read_one: ReadOne, types: Sequence[pa.DataType]) -> Batch:
    """Return what `read_one` makes of each numbered row."""
    good: list[Sequence[Any]] = []
    numbers: list[int] = []
    bad: list[Bad] = []
    for number, row in rows:
        try:
            cells = read_one(row)
        except InputError as error:
            bad.append((number, str(error), row[:SHOWN] if isinstance(row, bytes) else repr(row)[:SHOWN].encode()))
            continue
        if cells is not None:
            good.append(cells)
            numbers.append(number)
    columns = zip(*good, strict=True) if good else [()] * len(types)
    arrays = tuple(pa.array(column, type) for column, type in zip(columns, types, strict=True))
    return Batch(arrays, np.array(numbers, np.int64), bad)


def parse_block(block: Block, types: Sequence[pa.DataType], at_once: AtOnce, read_one: ReadOne) -> Batch:
    """Return the cells of a block at once; a bad row costs only the others of its part the quick way."""
    data = block.data if block.data.endswith(b"\n") or not block.data else block.data + b"\n"
    whole = at_once(data, block.first) if data else rows_one_by_one([], read_one, types)
    if whole is not None:
        return whole
    ends = (QuotedEnds(block.separator).find_all(data) if block.may_quote else line_ends(data)).tolist()
    records = [0, *ends] if ends and ends[-1] == len(data) else [0, *ends, len(data)]
    step = max(_PART, len(records) // _N_PARTS)
    first, parts = block.first, list[Batch]()
    for place in range(0, len(records) - 1, step):
        borders = records[place : place + step + 1]
        part = data[borders[0] : borders[-1]]
        batch = at_once(part, first)
        parts.append(rows_one_by_one(_numbered(data, borders, first), read_one, types) if batch is None else batch)
        first += part.count(b"\n")
    return _joined(parts)


def _numbered(data: bytes, borders: Sequence[int], number: int) -> Iterator[tuple[int, bytes]]:
    """Yield the records between borders, without their ends, with the numbers of their first lines."""
    for begin, end in pairwise(borders):
        yield number, data[begin:end].removesuffix(b"\n").removesuffix(b"\r")
        number += data.count(b"\n", begin, end)


def table_at_once(block: Block, places: Sequence[int], n_optional: int = 0) -> Batch | None:
    """Return the columns of rows read by Arrow, or None when one needs a closer look."""
    data, ends = block.data, None
    quoted = block.may_quote and b'"' in data
    if block.has_lone_returns or data.startswith(MARK):
        return None  # Arrow takes a carriage return alone for the end of a row, and leaves out a mark
    if quoted:
        quotes = QuotedEnds(block.separator)
        ends = quotes.find_all(data)
        if quotes.inside or not quotes.tidy:
            return None
    for width in range(len(block.names), len(block.names) - n_optional - 1, -1):
        table = _read_csv(data, block.separator, width, places, quoted=quoted)
        if table is not None:
            break
    else:
        return None
    numbers = np.arange(table.num_rows)
    if quoted or table.num_rows != np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")):
        numbers = _lines_of_rows(data, ends)
        if len(numbers) != table.num_rows:
            return None
    columns = (
        table.column(str(place)).combine_chunks() if place < width else pa.nulls(table.num_rows, pa.string())
        for place in places
    )
    return Batch(tuple(columns), block.first + numbers, [])


def _by_width(block: Block, places: Sequence[int], n_optional: int, read_one: ReadOne) -> Batch | None:
    """Return rows without quotes, some of which have other numbers of cells; None when one needs a closer look."""
    data, width = block.data, len(block.names)
    if (block.may_quote and b'"' in data) or block.has_lone_returns:
        return None
    raw, ends = np.frombuffer(data, np.uint8), line_ends(data)
    lengths = np.diff(ends, prepend=0)
    separators = np.flatnonzero(raw == ord(block.separator))
    n_cells = np.diff(np.searchsorted(separators, ends), prepend=0) + 1
    right = (n_cells <= width) & (n_cells >= width - n_optional)
    if right.all() and n_cells.min() == width:
        return None  # the cells themselves are wrong
    lines = block.lines()
    wrong = np.flatnonzero(~right).tolist()
    numbered = ((block.first + line, lines[line]) for line in wrong)
    parts = [rows_one_by_one(numbered, read_one, [pa.string()] * len(places))]
    for n in np.unique(n_cells[right]).tolist():
        chosen = n_cells == n
        part = block._replace(first=0, data=raw[np.repeat(chosen, lengths)].tobytes(), names=block.names[:n])
        batch = table_at_once(part, places)
        if batch is None:
            return None
        parts.append(batch._replace(numbers=block.first + np.flatnonzero(chosen)[batch.numbers]))
    return _joined(parts, ordered=len(parts) < 3 and not len(parts[0].numbers))


def _joined(parts: Sequence[Batch], *, ordered: bool = True) -> Batch:
    """Return parts as one batch, sorted by the numbers of its rows unless they are in order."""
    columns = [pa.concat_arrays(column) for column in zip(*(part.columns for part in parts), strict=True)]
    numbers = np.concatenate([part.numbers for part in parts])
    if not ordered:
        order = np.argsort(numbers, kind="stable")
        columns, numbers = [column.take(pa.array(order)) for column in columns], numbers[order]
    return Batch(tuple(columns), numbers, [bad for part in parts for bad in part.bad])


def _read_csv(data: bytes, separator: str, width: int, places: Sequence[int], *, quoted: bool) -> Any:
    names = [str(place) for place in range(width)]
    wanted = [str(place) for place in places if place < width]
    reading = pa.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data))
    parsing = pa.csv.ParseOptions(delimiter=separator, quote_char='"' if quoted else False, newlines_in_values=quoted)
    converting = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(wanted, pa.string()),
        include_columns=wanted,
        null_values=[],
        strings_can_be_null=False,
    )
    try:
        return pa.csv.read_csv(pa.BufferReader(data), reading, parsing, converting)
    except pa.ArrowInvalid:
        return None


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


def table_row(record: bytes, block: Block, places: Sequence[int], n_optional: int = 0) -> list[str | None] | None:
    """Return the wanted cells of one row of a table, None if it is blank."""
    text = record.decode("utf-8", "surrogateescape")  # only the wanted cells have to be UTF-8
    if not text.strip() and block.separator not in text:
        return None
    cells, width = split_record(text, block.separator), len(block.names)
    if not width - n_optional <= len(cells) <= width:
        raise InputError(wrong_width(len(cells), width, n_optional))
    for place in places:
        if place < len(cells) and not is_unicode(cells[place]):
            raise InputError(f"is not UTF-8 in column {block.names[place]!r}")
    return [cells[place] if place < len(cells) else None for place in places]
