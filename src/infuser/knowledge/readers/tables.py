"""Triples and entities from tables: .tsv, .txt, .csv, .jsonl, .json, .parquet; the text ones also as .gz or .zst.

Columns are known by the names in a header (`head, relation, tail, weight` or `id, label, aliases, description, types,
count`, and the usual other names for these) or by their place. In tab-separated files a quote is a character like any
other; a comma-separated file may quote its cells. A row with the wrong number of cells, an empty id, a weight outside
(0, 1] or text that is not UTF-8 is told to `Skipped` with its line number; blank lines are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from infuser.errors import InputError
from infuser.knowledge.facts import ENTITIES, Facts
from infuser.knowledge.readers.columns import Kind
from infuser.knowledge.readers.delimited import read_delimited
from infuser.knowledge.readers.json_tables import read_json_lines, read_json_object
from infuser.knowledge.readers.parquet_tables import read_parquet
from infuser.tables.blocks import unpacked_name
from infuser.tables.skipped import Skipped

SUFFIXES = (".tsv", ".txt", ".csv", ".jsonl", ".ndjson", ".json", ".parquet")


def _without_gloss(batch: pa.RecordBatch, mark: str) -> pa.RecordBatch:
    """Return entities whose labels end before a mark; what follows it describes those that have no description."""
    if batch.schema != ENTITIES:
        return batch
    parts = pc.split_pattern(batch["label"], mark, max_splits=1)
    gloss = pc.list_element(pc.list_slice(parts, 1, 2, return_fixed_size_list=True), 0)
    batch = batch.set_column(1, ENTITIES.field("label"), pc.list_element(parts, 0))
    return batch.set_column(3, ENTITIES.field("description"), pc.coalesce(batch["description"], gloss))


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
    name = unpacked_name(path)
    if name.endswith(".parquet"):
        return read_parquet(path, skipped, kind=kind)
    if name.endswith((".jsonl", ".ndjson")):
        return read_json_lines(path, skipped, kind=kind)
    if name.endswith(".json"):
        return read_json_object(path, skipped, column=columns[1] if len(columns) == 2 else "label")
    if name.endswith((".tsv", ".txt", ".csv")):
        delimiter = "," if name.endswith(".csv") else "\t"
        return read_delimited(path, skipped, delimiter, kind=kind, order=order, columns=columns, header=header)
    raise InputError(
        f"{path} does not end in one of {', '.join(SUFFIXES)} (or these with .gz, .zst). Rename or convert it."
    )
