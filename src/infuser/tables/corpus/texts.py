"""The texts of a block of a corpus: valid UTF-8, none of them blank.

A text of white space only is no text and is passed over. Of a pair, a row without either side is passed over too; a row
with one side only is told as a bad row, for it should have been a pair. What else cannot be read (not UTF-8, the wrong
number of cells, not JSON, a column missing or no text) is told with its line and left out; nothing else is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infuser.knowledge.counting.shapes import Texts
from infuser.tables.corpus.cells import SHOWN, Bad, Cells, as_texts, parquet_cells, table_cells
from infuser.tables.corpus.cutting import MARK, line_ends
from infuser.tables.corpus.files import RawBlock
from infuser.tables.corpus.json_cells import json_cells
from infuser.tables.skipped import Skipped

_NOTHING, _END = pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string())


def read_texts(block: RawBlock, columns: Sequence[str], skipped: Skipped) -> tuple[Texts, ...]:
    """Return the texts of a block, one `Texts` per column and in each as many; bad rows are told to `skipped`."""
    if block.file.format == "parquet":
        cells = parquet_cells(block, columns)
    else:
        data = block.data.removeprefix(MARK) if block.first == 1 else block.data
        if not data:
            return tuple(Texts.of([]) for _ in columns)
        block = block._replace(data=data if data.endswith(b"\n") else data + b"\n")
        if block.file.format == "text":
            return _lines(block, columns, skipped)
        cells = json_cells(block, columns) if block.file.format == "jsonl" else table_cells(block, columns)
    return _keep(cells._replace(columns=tuple(map(_ended, cells.columns))), block, columns, skipped)


def _lines(block: RawBlock, columns: Sequence[str], skipped: Skipped) -> tuple[Texts, ...]:
    """Return the texts of plain lines, which need no copying: each has its line feed already."""
    data = block.data.replace(b"\r\n", b"\n") if b"\r" in block.data else block.data
    cells = _cut_lines(data, block.first)
    if len(columns) == 2:
        cells = _cut_pairs(cells)
    return _keep(cells, block, columns, skipped)


def _cut_lines(data: bytes, first: int) -> Cells:
    """Return the lines that are UTF-8, each with its line feed."""
    try:
        lines = as_texts(_line_array(data))
        return Cells((lines,), np.arange(first, first + len(lines)), [])
    except pa.ArrowInvalid:
        pass
    good: list[bytes] = []
    numbers: list[int] = []
    bad: list[Bad] = []
    for number, line in enumerate(data.split(b"\n")[:-1], first):
        try:
            line.decode()
        except UnicodeDecodeError:
            bad.append((number, "not UTF-8", line[:SHOWN]))
        else:
            good.append(line)
            numbers.append(number)
    lines = as_texts(_line_array(b"\n".join([*good, b""])))
    return Cells((lines,), np.array(numbers, np.int64), bad)


def _line_array(data: bytes) -> Any:
    """Return lines as an Arrow array of bytes over the very same memory."""
    starts = np.concatenate(([0], line_ends(data)))
    return pa.Array.from_buffers(pa.large_binary(), len(starts) - 1, [None, pa.py_buffer(starts), pa.py_buffer(data)])


def _cut_pairs(cells: Cells) -> Cells:
    """Return both sides of lines with one tab; other lines are bad unless they are blank."""
    filled = pc.invert(pc.utf8_is_space(cells.columns[0]))
    lines, numbers = cells.columns[0].filter(filled), cells.numbers[filled.to_numpy(zero_copy_only=False)]
    sides = pc.split_pattern(lines, "\t")
    n_sides = pc.list_value_length(sides).to_numpy(zero_copy_only=False)
    bad = list(cells.bad)
    for row in np.flatnonzero(n_sides != 2).tolist():
        why = "no tab between a text and its pair" if n_sides[row] < 2 else f"{n_sides[row] - 1} tabs instead of 1"
        bad.append((int(numbers[row]), why, _shown(lines[row])))
    flat = sides.filter(pa.array(n_sides == 2)).flatten()
    places = np.arange(0, len(flat), 2)
    return Cells((_ended(flat.take(places)), flat.take(places + 1)), numbers[n_sides == 2], bad)


def _ended(cells: Any) -> Any:
    """Return texts with a line feed behind each; null is an empty text."""
    return pc.binary_join_element_wise(cells, _NOTHING, _END, null_handling="replace", null_replacement="")


def _keep(cells: Cells, block: RawBlock, columns: Sequence[str], skipped: Skipped) -> tuple[Texts, ...]:
    """Tell the bad rows in their order and return the texts, with their line feeds, that are not blank."""
    sides = cells.columns
    blank = [pc.utf8_is_space(side) for side in sides]  # an empty one is white space too, by its line feed
    bad = list(cells.bad)
    if len(sides) == 2:
        for row in pc.indices_nonzero(pc.xor(*blank)).to_pylist():
            missing = 0 if blank[0][row].as_py() else 1
            bad.append((int(cells.numbers[row]), _missing(block, columns, missing), _shown(sides[1 - missing][row])))
        blank = [pc.or_(*blank)]
    for number, why, row in sorted(bad):
        shown = row.decode("utf-8", "backslashreplace")
        skipped.add(block.file.path, number, why, shown, unit="row" if block.file.format == "parquet" else "line")
    if pc.any(blank[0], min_count=0).as_py():
        filled = pc.invert(blank[0])
        sides = tuple(side.filter(filled) for side in sides)
    return tuple(map(_texts, sides))


def _missing(block: RawBlock, columns: Sequence[str], side: int) -> str:
    if block.file.format == "text":
        return f"nothing {'before' if side == 0 else 'behind'} the tab"
    return f"nothing in column {columns[side]!r}"


def _shown(value: Any) -> bytes:
    return bytes(value.as_buffer()[:SHOWN]).rstrip(b"\n")


def _texts(cells: Any) -> Texts:
    _, offsets, data = cells.buffers()
    if not len(cells):
        return Texts.of([])
    starts = np.frombuffer(offsets, np.int64)[cells.offset : cells.offset + len(cells) + 1]
    return Texts(data.to_pybytes(), starts)
