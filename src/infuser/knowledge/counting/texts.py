"""The texts of a block of a corpus: valid UTF-8, none of them blank.

A text of white space only is no text and is passed over. Of a pair, a row without either side is passed over too; a row
with one side only is a bad row, for it should have been a pair. What else cannot be read (not UTF-8, the wrong number
of cells, not JSON, a column missing or no text) is counted with its line and left out; nothing else is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infuser.errors import InputError
from infuser.knowledge.counting.corpus import CorpusBlock
from infuser.knowledge.counting.shapes import Texts
from infuser.tables.blocks import MARK, Block
from infuser.tables.parse import SHOWN, Bad, Batch, as_texts, parse_table, rows_one_by_one
from infuser.tables.parse_json import parse_objects
from infuser.tables.quotes import line_ends
from infuser.tables.skipped import Skipped
from infuser.tables.values import is_unicode

_TEXT = pa.large_string()
_NOTHING, _END = pa.scalar("", _TEXT), pa.scalar("\n", _TEXT)
_TYPES = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}


def read_texts(found: CorpusBlock, columns: Sequence[str], skipped: Skipped) -> tuple[Texts, ...]:
    """Return the texts of a block, one `Texts` per column and in each as many; bad rows are added to `skipped`."""
    block, format = found.block, found.file.format
    if block.first == 1 and format != "parquet":
        block = block._replace(data=block.data.removeprefix(MARK))
    if not block.data:
        return tuple(Texts.of([]) for _ in columns)
    if format == "text":
        batch = _lines(block, len(columns))
    elif format == "parquet":
        batch = _ended(_parquet_cells(block, columns))
    elif format == "jsonl":
        schema = pa.schema([(name, _TEXT) for name in columns])
        batch = _ended(parse_objects(block, schema, lambda row: [_text(row, name) for name in columns], columns))
    else:
        batch = _ended(parse_table(block, columns))
    return _keep(batch, found, columns, skipped)


def _text(row: dict[str, Any], name: str) -> str | None:
    """Return a text of a JSON object; null is nothing."""
    if name not in row:
        raise InputError(f"has no column {name!r}")
    value = row[name]
    if value is not None and not isinstance(value, str):
        raise InputError(f"has {_TYPES[type(value)]} as {name!r}, not a text")
    if value is not None and not is_unicode(value):
        raise InputError(f"has half of a character (a lone surrogate) in {name!r}")
    return value


def _parquet_cells(block: Block, columns: Sequence[str]) -> Batch:
    """Return the wanted columns of an Arrow stream of rows."""
    table = pa.ipc.open_stream(block.data).read_all()
    raw = [table.column(name).combine_chunks().cast(pa.large_binary()) for name in columns]
    numbers = np.arange(block.first, block.first + table.num_rows)
    try:
        return Batch(tuple(map(as_texts, raw)), numbers, [])
    except pa.ArrowInvalid:
        rows = zip(numbers.tolist(), zip(*(cells.to_pylist() for cells in raw), strict=True), strict=True)
        return rows_one_by_one(
            rows, lambda row: [None if cell is None else _decoded(cell) for cell in row], [_TEXT] * len(columns)
        )


def _decoded(cell: bytes) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8") from error


def _lines(block: Block, n_sides: int) -> Batch:
    """Return the texts of plain lines, which need no copying: each has its line feed already."""
    data = block.data if block.data.endswith(b"\n") else block.data + b"\n"
    data = data.replace(b"\r\n", b"\n") if b"\r" in data else data
    try:
        lines = as_texts(_line_array(data))
        batch = Batch((lines,), np.arange(block.first, block.first + len(lines)), [])
    except pa.ArrowInvalid:
        numbered = enumerate(data.split(b"\n")[:-1], block.first)
        batch = _ended(rows_one_by_one(numbered, lambda line: [_decoded(line)], [_TEXT]))
    return batch if n_sides == 1 else _cut_pairs(batch)


def _line_array(data: bytes) -> Any:
    """Return lines as an Arrow array of bytes over the very same memory."""
    starts = np.concatenate(([0], line_ends(data)))
    return pa.Array.from_buffers(pa.large_binary(), len(starts) - 1, [None, pa.py_buffer(starts), pa.py_buffer(data)])


def _cut_pairs(batch: Batch) -> Batch:
    """Return both sides of lines with one tab; other lines are bad unless they are blank."""
    filled = pc.invert(pc.utf8_is_space(batch.columns[0]))
    lines, numbers = batch.columns[0].filter(filled), batch.numbers[filled.to_numpy(zero_copy_only=False)]
    sides = pc.split_pattern(lines, "\t")
    n_sides = pc.list_value_length(sides).to_numpy(zero_copy_only=False)
    bad = list(batch.bad)
    for row in np.flatnonzero(n_sides != 2).tolist():
        why = "no tab between a text and its pair" if n_sides[row] < 2 else f"{n_sides[row] - 1} tabs instead of 1"
        bad.append((int(numbers[row]), f"has {why}", _shown(lines[row])))
    flat = sides.filter(pa.array(n_sides == 2)).flatten()
    places = np.arange(0, len(flat), 2)
    left = _ended(Batch((flat.take(places),), numbers, [])).columns[0]
    return Batch((left, flat.take(places + 1)), numbers[n_sides == 2], bad)


def _ended(batch: Batch) -> Batch:
    """Return texts with a line feed behind each; null is an empty text."""
    columns = (
        pc.binary_join_element_wise(cells.cast(_TEXT), _NOTHING, _END, null_handling="replace", null_replacement="")
        for cells in batch.columns
    )
    return batch._replace(columns=tuple(columns))


def _keep(batch: Batch, found: CorpusBlock, columns: Sequence[str], skipped: Skipped) -> tuple[Texts, ...]:
    """Count the bad rows in their order and return the texts, with their line feeds, that are not blank."""
    sides = batch.columns
    blank = [pc.utf8_is_space(side) for side in sides]  # an empty one is white space too, by its line feed
    bad: list[Bad] = list(batch.bad)
    if len(sides) == 2:
        for row in pc.indices_nonzero(pc.xor(*blank)).to_pylist():
            missing = 0 if blank[0][row].as_py() else 1
            where = f"in column {columns[missing]!r}"
            if found.file.format == "text":
                where = f"{'before' if missing == 0 else 'behind'} the tab"
            bad.append((int(batch.numbers[row]), f"has nothing {where}", _shown(sides[1 - missing][row])))
        blank = [pc.or_(*blank)]
    for number, why, row in sorted(bad):
        skipped.add(found.file.path, number, why, row, unit="row" if found.file.format == "parquet" else "line")
    if pc.any(blank[0], min_count=0).as_py():
        filled = pc.invert(blank[0])
        sides = tuple(side.filter(filled) for side in sides)
    return tuple(map(_texts, sides))


def _shown(value: Any) -> bytes:
    return bytes(value.as_buffer()[:SHOWN]).rstrip(b"\n")


def _texts(cells: Any) -> Texts:
    _, offsets, data = cells.buffers()
    if not len(cells):
        return Texts.of([])
    starts = np.frombuffer(offsets, np.int64)[cells.offset : cells.offset + len(cells) + 1]
    return Texts(data.to_pybytes(), starts)
