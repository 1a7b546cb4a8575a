"""Blocks with one JSON object per line as Arrow columns that remember their lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from infuser.errors import InputError
from infuser.tables.blocks import MARK, Block
from infuser.tables.parse import SHOWN, Bad, Batch, as_texts, parse_block

_INFINITE = re.compile(rb"Inf(?=[\s,\]}])")
"""With "-NaN" the only numbers that Arrow reads and Python does not."""
_LONGEST_INT = 4000  # Python refuses to read longer ones


def parse_objects(
    block: Block, schema: pa.Schema, read_object: Callable[[dict[str, Any]], Sequence[Any]], needed: Iterable[str]
) -> Batch:
    """Return the columns of a block with one JSON object per line.

    A line that Arrow cannot read, or that gives null for a column in `needed`, is read by `read_object`, which returns
    its cells or raises InputError: Arrow gives null for a missing column as well, which is not the same.
    """
    places = [schema.get_field_index(name) for name in needed]

    def read_one(line: bytes) -> Sequence[Any] | None:
        found = json_line(line, schema)
        return None if found is None else read_object(found)

    def at_once(data: bytes, first: int) -> Batch | None:
        arrays = json_at_once(data, schema)
        if arrays is None:
            return None
        numbers = np.arange(first, first + len(arrays[0]))
        nulls = [
            pc.is_null(arrays[place]).to_numpy(zero_copy_only=False) for place in places if arrays[place].null_count
        ]
        if not nulls:
            return Batch(arrays, numbers, [])
        keep, bad, lines = np.ones(len(numbers), bool), list[Bad](), data.split(b"\n")
        for row in np.flatnonzero(np.logical_or.reduce(nulls)).tolist():
            try:
                read_one(lines[row])
            except InputError as error:
                keep[row] = False
                bad.append((first + row, str(error), lines[row][:SHOWN]))
        return Batch(tuple(array.filter(pa.array(keep)) for array in arrays), numbers[keep], bad)

    return parse_block(block, schema.types, at_once, read_one)


def json_at_once(data: bytes, schema: pa.Schema) -> tuple[Any, ...] | None:
    """Return the columns of lines read by Arrow, or None when a line needs a closer look."""
    n_lines = data.count(b"\n")
    n_begin = data.count(b"\n{") + data.startswith(b"{")
    n_end = data.count(b"}\n") + data.count(b"}\r\n")
    if not n_begin == n_end == n_lines or _INFINITE.search(data) or b"-NaN" in data:
        return None  # Arrow does not mind two objects on a line, or one on two
    parsing = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=len(data))
    try:
        as_texts(pa.array([data], pa.large_binary()))  # Arrow's JSON reader lets broken UTF-8 pass
        table = pyarrow.json.read_json(pa.BufferReader(data), reading, parsing)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != n_lines:
        return None
    return tuple(table.column(name).combine_chunks() for name in schema.names)


def json_line(line: bytes, schema: pa.Schema) -> dict[str, Any] | None:
    """Return the object on a line, None if the line is blank; InputError says what is wrong."""
    line = line.removeprefix(MARK)  # files that were joined have marks in the middle
    try:
        text = line.decode()
        if not text.strip():
            return None
        found = json.loads(text, parse_int=_integer)
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8") from error
    except ValueError as error:
        raise InputError(f"is not JSON: {error}") from error
    except RecursionError:  # deeper than Python goes; Arrow has no such limit
        arrays = json_at_once(line + b"\n", schema)
        if arrays is None:
            raise InputError("is not JSON, or nested too deeply") from None
        found = {name: array[0].as_py() for name, array in zip(schema.names, arrays, strict=True)}
    if not isinstance(found, dict):
        raise InputError("is not an object")
    return found


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < _LONGEST_INT else float(digits)
