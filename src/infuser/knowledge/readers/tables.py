"""Triples and entities from tables: .tsv, .txt, .csv, .jsonl, .json, .parquet; the text ones also as .gz or .zst.

Columns are known by the names in a header (`head, relation, tail, weight` or `id, label, aliases, description, types,
count`, and the usual other names for these) or by their place. In tab-separated files a quote is a character like any
other; a comma-separated file may quote its cells. A row with the wrong number of cells, an empty id, a weight outside
(0, 1] or text that is not UTF-8 is counted by `Skipped` with its line number; blank lines are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infuser.errors import InputError
from infuser.files import parse_json
from infuser.knowledge.facts import ENTITIES, Facts, in_batches
from infuser.knowledge.readers.columns import (
    NEEDED,
    SCHEMAS,
    Faults,
    Kind,
    choose_layout,
    kind_of,
    make_batch,
    match_keys,
    note,
)
from infuser.tables.blocks import Block, block_behind, read_blocks, split_record, suffix_of
from infuser.tables.parse import Batch, open_parquet, parse_table, rows_one_by_one
from infuser.tables.parse_json import parse_objects
from infuser.tables.rows import read_json
from infuser.tables.skipped import BATCH, Skipped
from infuser.tables.values import is_unicode
from infuser.words import listed

SUFFIXES = (".tsv", ".txt", ".csv", ".jsonl", ".ndjson", ".json", ".parquet")
_SAMPLED_ROWS, _SAMPLED_OBJECTS = 100, 1000
"""So many of the first tell how many columns there are, and which key is what."""


def read_table(
    path: str | Path,
    skipped: Skipped,
    *,
    kind: Kind | None = None,
    order: str = "hrt",
    columns: Sequence[str] = (),
    header: bool | None = None,
    label_before: str = "",
) -> Facts:
    """Yield the triples or entities of a table.

    `kind` says which of the two it holds; otherwise its columns tell (a file of two columns holds ids and labels).
    `order` is the order of a triple's columns in a file without a header: h, r, t, w for a weight, - for one that is
    not read ("rht" for relation first). `columns` names all columns instead, as in ("id", "description"). `header` says
    whether the first line holds names; None looks. `label_before` is for labels with a gloss behind them: ", " makes
    the label "saxony" of "saxony, an area in Germany", and the rest its description.
    """
    if label_before:
        facts = read_table(path, skipped, kind=kind, order=order, columns=columns, header=header)
        return (_without_gloss(batch, label_before) for batch in facts)
    suffix = suffix_of(path)
    if suffix == ".parquet":
        return _read_parquet(path, skipped, kind)
    if suffix in (".jsonl", ".ndjson"):
        return read_json_lines(path, skipped, kind=kind)
    if suffix == ".json":
        return _read_json_object(path, skipped, columns[1] if len(columns) == 2 else "label")
    if suffix in SUFFIXES:
        return _read_delimited(path, skipped, kind=kind, order=order, columns=columns, header=header)
    raise InputError(
        f"{path} does not end in one of {', '.join(SUFFIXES)} (or these with .gz, .zst). Rename or convert it."
    )


def read_json_lines(path: str | Path, skipped: Skipped, *, kind: Kind | None = None) -> Facts:
    """Yield the triples or entities of a file with one JSON object per line; the first ones' keys tell its kind."""
    names: dict[str, str] = {}
    for block in read_blocks(path):
        names = names or _find_names(block, path, kind)
        found = kind_of(names)
        schema = pa.schema([(key, _wide(SCHEMAS[found].field(ours).type)) for ours, key in names.items()])
        needed = [names[ours] for ours in NEEDED[found] if ours in names]
        batch = parse_objects(block, schema, partial(_cells, names=names, kind=found), needed)
        yield from _facts(batch, tuple(names), found, path, skipped)


def _read_delimited(
    path: str | Path,
    skipped: Skipped,
    *,
    kind: Kind | None,
    order: str,
    columns: Sequence[str],
    header: bool | None,
) -> Facts:
    quoted = suffix_of(path) == ".csv"
    blocks = read_blocks(path, format="csv" if quoted else "tsv")
    first = next(blocks, None)
    if first is None:
        return
    sample = list(islice(_sampled(first), _SAMPLED_ROWS))
    rows = [cells for _, cells in sample] or [[""]]
    if not kind and not columns and max(map(len, rows)) < 2:
        raise InputError(
            f"{path} has one column; triples have three (head, relation, tail), entities two (id, label), with "
            f"{'a comma' if quoted else 'a tab'} between them."
        )
    layout = choose_layout(rows, str(path), kind=kind, order=order, columns=columns, header=header)
    if layout.header and sample:
        first = block_behind(first, sample[0][0])
    wanted = tuple(name for name in layout.columns if name)
    for block in chain([first], blocks):
        batch = parse_table(block._replace(names=layout.columns), wanted, layout.n_optional)
        faults: Faults = {}
        if not quoted and block.has_lone_returns:
            for name, cells in zip(wanted, batch.columns, strict=True):
                note(faults, pc.match_substring(cells, "\r"), f"the {name} has a carriage return inside")
        yield from _facts(batch, wanted, layout.kind, path, skipped, faults=faults)


def _read_json_object(path: str | Path, skipped: Skipped, column: str) -> Facts:
    """Yield the entities of one JSON object {id: {"label": ..., ...}}; it is read whole.

    A value that is a text or a list instead of an object is taken for the column `column`.
    """
    whole = read_json(path)
    if not isinstance(whole, dict):
        raise InputError(f"{path} holds a {type(whole).__name__}, not one object of entities by id.")

    def read_one(entry: tuple[str, Any]) -> Sequence[Any]:
        id, about = entry
        names = match_keys(["id", *about], "entities") or {} if isinstance(about, dict) else {column: column}
        row = {ours: about[key] if isinstance(about, dict) else about for ours, key in names.items() if ours != "id"}
        return _cells({**row, "id": id}, names={name: name for name in ENTITIES.names}, kind="entities")

    entries = enumerate(whole.items(), start=1)
    while some := list(islice(entries, BATCH)):
        batch = rows_one_by_one(some, read_one, ENTITIES.types)
        yield from _facts(batch, tuple(ENTITIES.names), "entities", path, skipped, unit="entry")


def _read_parquet(path: str | Path, skipped: Skipped, kind: Kind | None) -> Facts:
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        found = match_keys(names, kind)
        if found is None:
            raise InputError(
                f"{path}: the columns {listed(names)} do not say which is what. Call them head, relation, tail "
                "(and weight) or id, label, aliases, description, types, count."
            )
        done = 0
        for rows in file.iter_batches(batch_size=BATCH, columns=list(found.values())):
            columns = tuple(_plain(rows.column(theirs)) for theirs in found.values())
            batch = Batch(columns, np.arange(done + 1, done + 1 + rows.num_rows), [])
            yield from _facts(batch, tuple(found), kind_of(found), path, skipped, unit="row")
            done += rows.num_rows


def _facts(
    batch: Batch,
    names: Sequence[str],
    kind: Kind,
    path: str | Path,
    skipped: Skipped,
    *,
    faults: Faults | None = None,
    unit: str = "line",
) -> Facts:
    """Yield the facts of parsed columns, and count the bad rows."""
    facts, faults = make_batch(dict(zip(names, batch.columns, strict=True)), kind, faults)
    count_bad_rows(batch, faults, path, skipped, unit)
    yield from in_batches(facts)


def count_bad_rows(batch: Batch, faults: Faults, path: str | Path, skipped: Skipped, unit: str = "line") -> None:
    """Count the rows that could not be parsed and those with faults, in the order of their numbers."""
    bad: list[tuple[int, str, object]] = list(batch.bad)
    for row, why in faults.items():
        cells = (column[row].as_py() for column in batch.columns)
        shown = "\t".join("" if cell is None else str(cell) for cell in cells)
        bad.append((int(batch.numbers[row]), why, shown))
    for number, why, shown_row in sorted(bad, key=lambda one: one[0]):
        skipped.add(path, number, why, shown_row, unit=unit)


def _sampled(block: Block) -> Iterator[tuple[bytes, list[str]]]:
    """Yield the first records that are not blank, with their cells."""
    for _, record in block.records():
        text = record.decode("utf-8", "replace")
        if not text:
            continue
        try:
            yield record, split_record(text, block.separator)
        except InputError:  # counted when it is read
            yield record, text.split(block.separator)


def _find_names(block: Block, path: str | Path, kind: Kind | None) -> dict[str, str]:
    """Return {our name: key} from the keys of the first objects; what none of them has is looked for by our name."""
    keys: dict[str, None] = {}
    n_objects = 0
    for line in block.data.split(b"\n", _SAMPLED_OBJECTS)[:_SAMPLED_OBJECTS]:
        try:
            found = parse_json(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            n_objects += 1
            keys.update(dict.fromkeys(found))
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


def _cells(row: Mapping[str, Any], names: Mapping[str, str], kind: Kind) -> list[Any]:
    """Return the values of a JSON object in the types of facts; `make_batch` checks what they say."""
    return [_cell(ours, row.get(key), needed=ours in NEEDED[kind]) for ours, key in names.items()]


def _cell(name: str, value: Any, *, needed: bool) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is None:
        if needed:
            raise InputError(f"the {name} is empty")
    elif name == "weight":
        if not whole and not isinstance(value, float):
            raise InputError("the weight is not a number")
        return float(max(-1, min(value, 2)))  # an int may be too large for a float; beyond 1 all are wrong
    elif name == "count":
        if not whole or not 0 <= value < 2**63:
            raise InputError("the count is not a whole number from 0")
    elif name in ("aliases", "types"):
        value = value.split("|") if isinstance(value, str) else value
        if not isinstance(value, list) or not all(map(is_unicode, value)):
            raise InputError(f"the {name} are neither text nor a list of texts")
    elif whole and name in ("id", "head", "relation", "tail"):
        return str(value)
    elif not is_unicode(value):
        raise InputError(f"the {name} is not text")
    return value


def _wide(type: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_floating(type) else type


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _without_gloss(batch: pa.RecordBatch, mark: str) -> pa.RecordBatch:
    """Return entities whose labels end before a mark; what follows it describes those that have no description."""
    if batch.schema != ENTITIES:
        return batch
    parts = pc.split_pattern(batch["label"], mark, max_splits=1)
    gloss = pc.list_element(pc.list_slice(parts, 1, 2, return_fixed_size_list=True), 0)
    batch = batch.set_column(1, ENTITIES.field("label"), pc.list_element(parts, 0))
    return batch.set_column(3, ENTITIES.field("description"), pc.coalesce(batch["description"], gloss))
