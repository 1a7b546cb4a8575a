"""Triples and entities from JSON: one object per line, or one object of entities by id."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from infuser.errors import InputError
from infuser.knowledge.facts import Facts
from infuser.knowledge.readers.cells import IDS, KEYS, SCHEMAS, make_batch
from infuser.knowledge.readers.columns import NEEDED, Kind, kind_of, match_keys
from infuser.tables.blocks import Block, open_stream, read_blocks
from infuser.tables.skipped import BATCH, Skipped

_SAMPLE = 1000
"""So many lines tell which key is what."""


def read_json_lines(path: str | Path, skipped: Skipped, *, kind: Kind | None = None) -> Facts:
    """Yield the triples or entities of a file with one JSON object per line; the first ones' keys tell its kind."""
    names: dict[str, str] | None = None
    for block in read_blocks(path):
        names = names or _find_names(block, path, kind)
        found = kind_of(names)
        cells = _parse_block(block, names, found)
        if cells is not None:
            batch, faults = make_batch(cells, found)
            if not faults:
                yield from _sliced(batch)
                continue
        yield from _line_by_line(block, names, found, path, skipped)


def read_json_object(path: str | Path, skipped: Skipped, *, column: str = "label") -> Facts:
    """Yield the entities of one JSON object {id: {"label": ..., ...}}; it is read whole.

    A value that is a text or a list instead of an object is taken for the column `column`.
    """
    with open_stream(path) as stream:
        data = stream.read()
    try:
        whole = json.loads(data)
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}). One object per line is called .jsonl.") from error
    if not isinstance(whole, dict):
        raise InputError(f"{path} holds a {type(whole).__name__}, not one object of entities by id.")
    rows: list[dict[str, Any]] = []
    for number, (id, about) in enumerate(whole.items(), start=1):
        if isinstance(about, dict):
            names = match_keys(["id", *about], "entities") or {}
            row = {ours: about[key] for ours, key in names.items() if ours != "id"}
        else:
            row = {column: about}
        why = _wrong({"id": id, **row}, "entities")
        if why:
            skipped.add(path, number, why, f"{id}: {about}", unit="entry")
            continue
        rows.append({"id": id, **row})
        if len(rows) == BATCH:
            yield _pack(rows, "entities")
            rows = []
    if rows:
        yield _pack(rows, "entities")


def _find_names(block: Block, path: str | Path, kind: Kind | None) -> dict[str, str]:
    """Return {our name: key} from the keys of the first objects; what none of them has is looked for by our name."""
    keys: dict[str, None] = {}
    n_objects = 0
    for line in block.data.split(b"\n", _SAMPLE)[:_SAMPLE]:
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict):
            n_objects += 1
            keys.update(dict.fromkeys(told))
    if not n_objects:
        raise InputError(
            f"{path}: not one of its first lines is a JSON object, so it is damaged or no .jsonl file. Check it; one "
            "object per line is wanted, and packed files end in .gz or .zst."
        )
    names = match_keys(list(keys), kind)
    if names is None:
        raise InputError(
            f"{path}: the first objects have no keys that say which is what. Call them head, relation, tail (and "
            "weight) or id, label, aliases, description, types, count."
        )
    return {ours: names.get(ours, ours) for ours in SCHEMAS[kind_of(names)].names if ours in names or ours not in keys}


def _parse_block(block: Block, names: Mapping[str, str], kind: Kind) -> dict[str, pa.Array] | None:
    """Return the columns of a block read at once, or None when a line of it needs a closer look."""
    if not _one_object_per_line(block):
        return None
    schema = pa.schema([(key, _wide(SCHEMAS[kind].field(ours).type)) for ours, key in names.items()])
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block.data))
    try:
        table = pyarrow.json.read_json(pa.BufferReader(block.data), reading, options)
        if table.num_rows != block.n_lines:
            return None
        cells = {ours: table.column(key).combine_chunks() for ours, key in names.items()}
        for array in cells.values():
            array.validate(full=True)  # Arrow's JSON reader lets broken UTF-8 pass
    except pa.ArrowInvalid:
        return None
    return cells


def _one_object_per_line(block: Block) -> bool:
    """Say whether every line begins and ends in braces, so that as many objects as lines are one on each."""
    data = block.data
    n_begin = data.count(b"\n{") + data.startswith(b"{")
    n_end = data.count(b"}\n") + data.count(b"}\r\n") + data.endswith(b"}")
    return n_begin == n_end == block.n_lines


def _wide(type: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_floating(type) else type


def _line_by_line(block: Block, names: Mapping[str, str], kind: Kind, path: str | Path, skipped: Skipped) -> Facts:
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(block.data.split(b"\n"), start=block.first):
        if not line.strip():
            continue
        try:
            told = json.loads(line)
            why = "" if isinstance(told, dict) else "not an object"
        except UnicodeDecodeError:
            why = "not UTF-8"
        except (ValueError, RecursionError) as error:
            why = f"not JSON ({error})"
        if not why:
            row = {ours: told.get(key) for ours, key in names.items()}
            row = {ours: str(value) if _is_number_id(ours, value) else value for ours, value in row.items()}
            why = _wrong(row, kind)
        if why:
            skipped.add(path, number, why, line.decode("utf-8", "backslashreplace"))
        else:
            rows.append(row)
    if rows:
        yield from _sliced(_pack(rows, kind))


def _is_number_id(name: str, value: object) -> bool:
    return name in ("id", "head", "relation", "tail") and isinstance(value, int) and not isinstance(value, bool)


def _wrong(row: Mapping[str, Any], kind: Kind) -> str:
    """Return what is wrong with a row, or nothing."""
    for name, value in row.items():
        if value is None and name not in NEEDED[kind]:
            continue
        if name == "weight":
            if isinstance(value, bool) or not isinstance(value, int | float):
                return "the weight is not a number"
            if not 0 < value < 2 or not 0 < np.float32(value) <= 1:  # as it will be stored
                return "the weight is not above 0 and up to 1"
        elif name == "count":
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
                return "the count is not a whole number from 0"
        elif name in ("aliases", "types"):
            items = value if isinstance(value, list) else [value]
            if not all(isinstance(item, str) and _is_unicode(item) for item in items):
                return f"the {name} are neither text nor a list of texts"
            if name in KEYS and any("\0" in item for item in items):
                return f"the {name} hold a null character"
        elif name in NEEDED[kind] and (value is None or value == ""):
            return f"the {name} is empty"
        elif not isinstance(value, str) or not _is_unicode(value):
            return f"the {name} is not text"
        elif name in KEYS and "\0" in value:
            return f"the {name} holds a null character"
        elif name in IDS and not value.strip():
            return f"the {name} is blank"
    return next((f"the {name} is empty" for name in NEEDED[kind] if name not in row), "")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell
        return False
    return True


def _pack(rows: list[dict[str, Any]], kind: Kind) -> pa.RecordBatch:
    """Return rows that were found right as one batch."""
    cells: dict[str, pa.Array] = {}
    for field in SCHEMAS[kind]:
        values = [row.get(field.name) for row in rows]
        if pa.types.is_list(field.type):
            values = [value.split("|") if isinstance(value, str) else value for value in values]
        cells[field.name] = pa.array(values, field.type)
    batch, faults = make_batch(cells, kind)
    assert not faults, f"rows were checked before: {faults}"
    return batch


def _sliced(batch: pa.RecordBatch) -> Facts:
    for start in range(0, batch.num_rows, BATCH):
        yield batch.slice(start, BATCH)
