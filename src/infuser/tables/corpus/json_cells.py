"""Blocks of JSON Lines as columns of texts, by Arrow; where it cannot, line by line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from infuser.tables.corpus.cells import SHOWN, Bad, BadRow, Cells, as_texts, in_parts
from infuser.tables.corpus.cutting import MARK, line_ends
from infuser.tables.corpus.files import RawBlock

_DECODER = json.JSONDecoder(parse_int=float)  # as an int, a number of 5,000 digits would be an error
_INFINITE = re.compile(rb"Inf(?=[\s,\]}])")
"""With "-NaN" the only numbers that Arrow reads and Python does not."""
_TYPES = {bool: "true or false", float: "a number", list: "a list", dict: "an object"}


def json_cells(block: RawBlock, columns: Sequence[str]) -> Cells:
    """Return the wanted columns of a block with one JSON object per line, the last one with its end.

    A row that has null for a text has nothing there; one without the column, or with something else, is bad.
    """

    def at_once(data: bytes, first: int) -> Cells | None:
        arrays = _parse(data, columns)
        return None if arrays is None else _without_missing(arrays, data, columns, first)

    def one(line: bytes) -> list[str | None] | None:
        return _row(line, columns)

    whole = at_once(block.data, block.first)
    return in_parts(block, line_ends(block.data), at_once, one, len(columns)) if whole is None else whole


def _parse(data: bytes, columns: Sequence[str]) -> tuple[Any, ...] | None:
    """Return the columns of lines read by Arrow, or None when a line needs a closer look."""
    n_lines = data.count(b"\n")
    n_begin = data.count(b"\n{") + data.startswith(b"{")
    n_end = data.count(b"}\n") + data.count(b"}\r\n")
    if not n_begin == n_end == n_lines or _INFINITE.search(data) or b"-NaN" in data:
        return None  # Arrow does not mind two objects on a line, or one on two
    schema = pa.schema([(name, pa.large_string()) for name in columns])
    parsing = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=len(data))
    try:
        as_texts(pa.array([data], pa.large_binary()))  # Arrow's JSON reader lets broken UTF-8 pass
        table = pyarrow.json.read_json(pa.BufferReader(data), reading, parsing)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != n_lines:
        return None
    return tuple(table.column(name).combine_chunks() for name in columns)


def _without_missing(arrays: tuple[Any, ...], data: bytes, columns: Sequence[str], first: int) -> Cells:
    """Return the rows that have all columns: Arrow gives null for a missing one as well, which is not the same."""
    numbers = np.arange(first, first + len(arrays[0]))
    if not any(array.null_count for array in arrays):
        return Cells(arrays, numbers, [])
    lines = data.split(b"\n")
    keep = np.ones(len(numbers), bool)
    bad: list[Bad] = []
    empty = np.logical_or.reduce([pc.is_null(array).to_numpy(zero_copy_only=False) for array in arrays])
    for row in np.flatnonzero(empty).tolist():
        try:
            _row(lines[row], columns)
        except BadRow as error:
            keep[row] = False
            bad.append((first + row, str(error), lines[row][:SHOWN]))
    return Cells(tuple(array.filter(pa.array(keep)) for array in arrays), numbers[keep], bad)


def _row(line: bytes, columns: Sequence[str]) -> list[str | None] | None:
    line = line.removeprefix(MARK)  # files that were joined have marks in the middle
    try:
        text = line.decode()
        if not text.strip():
            return None
        told = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        raise BadRow("not UTF-8") from error
    except ValueError as error:
        raise BadRow(f"not JSON ({error})") from error
    except RecursionError:  # deeper than Python goes; Arrow has no such limit
        arrays = _parse(line + b"\n", columns)
        if arrays is None:
            raise BadRow("not JSON, or nested too deeply") from None
        told = {name: array[0].as_py() for name, array in zip(columns, arrays, strict=True)}
    if not isinstance(told, dict):
        raise BadRow("not an object")
    return [_text(told, name) for name in columns]


def _text(told: dict[str, Any], name: str) -> str | None:
    if name not in told:
        raise BadRow(f"no column {name!r}")
    value = told[name]
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadRow(f"{name!r} is {_TYPES[type(value)]}, not a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadRow(f"half of a character (a lone surrogate) in {name!r}") from error
    return value
