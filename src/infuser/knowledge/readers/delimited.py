"""Tables with a tab or a comma between cells, read in blocks by Arrow; a block with a fault is read line by line."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from infuser.errors import InputError
from infuser.knowledge.facts import Facts
from infuser.knowledge.readers.cells import Faults, make_batch
from infuser.knowledge.readers.columns import Kind, Layout, choose_layout
from infuser.tables.blocks import Block, read_blocks
from infuser.tables.skipped import BATCH, Skipped

_SAMPLE = 100
"""So many lines tell how many columns there are."""


class Piece(NamedTuple):
    """Part of a table: its columns, and where each row stood."""

    cells: list[Any]
    """One Arrow array of bytes per column; the last columns may be missing when no row has them."""
    numbers: Any
    """Line of each row."""
    bad: list[tuple[int, str, str]]
    """Rows with the wrong number of cells: line, reason, text."""
    block: Block | None = None
    """Where the rows came from, to show them; None when their cells must do."""


def read_delimited(
    path: str | Path,
    skipped: Skipped,
    delimiter: str,
    *,
    kind: Kind | None = None,
    order: str = "hrt",
    columns: Sequence[str] = (),
    header: bool | None = None,
) -> Facts:
    """Yield the triples or entities of a table; with commas, cells may be quoted. See `tables.read_table`."""
    blocks = read_blocks(path)
    first = next(blocks, None)
    if first is None:
        return
    sample = _sample_cells(first, delimiter)
    if not kind and not columns and max(map(len, sample)) < 2:
        raise InputError(
            f"{path} has one column; triples have three (head, relation, tail), entities two (id, label), with "
            f"{'a comma' if delimiter == ',' else 'a tab'} between them."
        )
    layout = choose_layout(sample, str(path), kind=kind, order=order, columns=columns, header=header)
    if layout.header:
        first = _without_first_line(first)
    width = len(layout.columns)
    for piece in read_pieces(itertools.chain([first], blocks), delimiter, width, n_optional=layout.n_optional):
        yield from _facts(piece, layout, path, skipped)


def read_pieces(blocks: Iterator[Block], delimiter: str, width: int, *, n_optional: int = 0) -> Iterator[Piece]:
    """Yield the cells of a table of `width` columns, as bytes; a row may lack the last `n_optional` of them."""
    for block in blocks:
        if delimiter == "," and b'"' in block.data:  # from here on cells may hold commas and line ends
            yield from _quoted(itertools.chain([block], blocks), width, n_optional)
        elif block.data:
            yield _plain(block, delimiter, width, n_optional)


def _sample_cells(block: Block, delimiter: str) -> list[list[str]]:
    """Return the cells of the first lines that are not blank."""
    lines = [line.rstrip(b"\r").decode("utf-8", "replace") for line in block.data.split(b"\n", _SAMPLE)[:_SAMPLE]]
    filled = [line for line in lines if line]
    if delimiter == ",":
        try:
            return list(csv.reader(filled)) or [[""]]
        except csv.Error:
            pass  # the row is told when it is read
    return [line.split(delimiter) for line in filled] or [[""]]


def _facts(piece: Piece, layout: Layout, path: str | Path, skipped: Skipped) -> Facts:
    """Yield the facts of a piece and tell its bad rows."""
    named = {name: cells for name, cells in zip(layout.columns, piece.cells, strict=False) if name}
    batch, faults = make_batch(named, layout.kind)
    tell_faults(piece, faults, path, skipped)
    for start in range(0, batch.num_rows, BATCH):
        yield batch.slice(start, BATCH)


def tell_faults(piece: Piece, faults: Faults, path: str | Path, skipped: Skipped) -> None:
    """Tell the bad rows of a piece, those among its rows and those left out of it, in the order of their lines."""
    bad = list(piece.bad)
    lines = piece.block.lines() if piece.block and faults else []
    for row, why in faults.items():
        number = int(piece.numbers[row])
        if piece.block:
            text = lines[number - piece.block.first]
            if not text:
                continue  # a blank line
        else:
            text = b",".join(cells[row].as_py() for cells in piece.cells)
        bad.append((number, why, _shown(text)))
    for number, why, row_text in sorted(bad):
        skipped.add(path, number, why, row_text)


def _shown(text: bytes) -> str:
    """Return bytes as text for a message, whatever they are."""
    return text.decode("utf-8", "backslashreplace")


def _without_first_line(block: Block) -> Block:
    end = block.data.find(b"\n") + 1 or len(block.data)
    return Block(block.first + 1, block.data[end:])


def _plain(block: Block, delimiter: str, width: int, n_optional: int) -> Piece:
    """Return the cells of a block without quoting: the whole block at once where all lines have the same cells."""
    n_first = block.data.count(delimiter.encode(), 0, block.data.find(b"\n") % (len(block.data) + 1)) + 1
    table = _parse(block.data, delimiter, min(max(n_first, width - n_optional), width))
    if table is not None and table.num_rows == block.n_lines:
        return Piece(table.columns, np.arange(block.first, block.first + table.num_rows), [], block)
    good: list[bytes] = []
    numbers: list[int] = []
    bad: list[tuple[int, str, str]] = []
    separator = delimiter.encode()
    for number, line in enumerate(block.lines(), block.first):
        n_cells = line.count(separator) + 1
        if not line:
            continue
        if not width - n_optional <= n_cells <= width:
            bad.append((number, _wrong_width(n_cells, width, n_optional), _shown(line)))
        elif b"\r" in line:
            bad.append((number, "a carriage return inside the line", _shown(line)))
        else:
            good.append(line + separator * (width - n_cells))
            numbers.append(number)
    table = _parse(b"\n".join([*good, b""]), delimiter, width)
    assert table is not None and table.num_rows == len(good), "every line was checked"
    return Piece(table.columns, np.array(numbers, dtype=np.int64), bad, block)


def _wrong_width(n_cells: int, width: int, n_optional: int) -> str:
    wanted = " or ".join(str(n) for n in range(width - n_optional, width + 1))
    return f"{n_cells} {'cell' if n_cells == 1 else 'cells'} instead of {wanted}"


def _parse(data: bytes, delimiter: str, width: int) -> Any:
    """Return the columns of lines without quoting as bytes, or None when a line has more or fewer cells."""
    names = [str(place) for place in range(width)]
    if not data:
        return pa.record_batch([pa.array([], pa.binary())] * width, names=names)
    reading = pa.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data))
    parsing = pa.csv.ParseOptions(delimiter=delimiter, quote_char=False, escape_char=False, ignore_empty_lines=False)
    as_bytes = dict.fromkeys(names, pa.binary())
    converting = pa.csv.ConvertOptions(column_types=as_bytes, null_values=[], strings_can_be_null=False)
    try:
        table = pa.csv.read_csv(pa.BufferReader(data), reading, parsing, converting)
    except pa.ArrowInvalid:
        return None
    return table.combine_chunks().to_batches()[0]


def _quoted(blocks: Iterator[Block], width: int, n_optional: int) -> Iterator[Piece]:
    """Yield the cells of comma-separated lines in which cells may be quoted and hold line ends."""
    start = 0

    def lines() -> Iterator[str]:
        nonlocal start
        for block in blocks:
            start = start or block.first
            for line in block.data.removesuffix(b"\n").split(b"\n"):
                yield line.decode("utf-8", "surrogateescape") + "\n"  # broken bytes are found later, by `make_batch`

    reader = csv.reader(lines())
    rows: list[list[str]] = []
    numbers: list[int] = []
    bad: list[tuple[int, str, str]] = []
    while True:
        before = reader.line_num
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            bad.append((start + before, f"not a row ({error})", ""))
            continue
        if width - n_optional <= len(row) <= width:
            rows.append(row + [""] * (width - len(row)))
            numbers.append(start + before)
        elif row:
            text = _shown(",".join(row).encode("utf-8", "surrogateescape"))
            bad.append((start + before, _wrong_width(len(row), width, n_optional), text))
        if len(rows) + len(bad) >= BATCH:
            yield _from_rows(rows, numbers, bad, width)
            rows, numbers, bad = [], [], []
    yield _from_rows(rows, numbers, bad, width)


def _from_rows(rows: list[list[str]], numbers: list[int], bad: list[tuple[int, str, str]], width: int) -> Piece:
    columns = [[row[place].encode("utf-8", "surrogateescape") for row in rows] for place in range(width)]
    return Piece([pa.array(column, pa.binary()) for column in columns], np.array(numbers, dtype=np.int64), bad)
