"""Rows of a table become examples: which columns hold text, pair and label, and which labels there are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infuser.errors import InputError, did_you_mean
from infuser.tables.blocks import suffix_of
from infuser.tables.rows import HEADED, Record, read_records
from infuser.tables.skipped import BadRow, Place
from infuser.words import listed

if TYPE_CHECKING:
    from infuser.tables.skipped import Skipped


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table are read."""

    text: str = "text"
    pair: str | None = None
    """None takes the column "pair" if there is one."""
    label: str | None = None
    """None reads no labels."""


def read_examples(path: Path, columns: Columns, skipped: Skipped | None = None) -> Iterator[Record]:
    """Yield where each example stands and the example: text, pair (or None) and, if asked for, label as a string.

    A row that cannot be read is an error; with `skipped` it is counted there and left out.
    """
    wanted = [columns.text, columns.pair or "pair", *([] if columns.label is None else [columns.label])]
    for place, record in read_records(path, skipped, columns=wanted):
        try:
            yield place, make_example(place, record, columns)
        except BadRow as bad:
            bad.settle(skipped)


def make_example(place: Place, record: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Return the example of one row: text, pair (or None) and, if asked for, label as a string."""
    example: dict[str, Any] = {"text": _text(place, record, columns.text, "text"), "pair": None}
    pair = columns.pair or "pair"
    if columns.pair or record.get(pair) is not None:
        example["pair"] = _text(place, record, pair, "pair")
    if columns.label is not None:
        example["label"] = read_label(place, record, columns.label)
    return example


def read_all_examples(path: Path, columns: Columns) -> list[Record]:
    """Return all examples of a table, at least one."""
    examples = list(read_examples(path, columns))
    if not examples:
        raise InputError(f"{path} holds no examples. Give at least one row.")
    return examples


def list_labels(examples: Sequence[Record]) -> list[str]:
    """Return the labels that occur, numbers in their order and words in the alphabet's."""
    found = {example["label"] for _, example in examples}
    if len(found) < 2:
        raise InputError(
            f"All {len(examples)} training examples have the label {found.pop()!r}. Give examples of two or more."
        )
    if all(_is_whole(label) for label in found):
        return sorted(found, key=int)
    fraction = next((label for label in sorted(found) if _is_number(label) and not _is_whole(label)), None)
    if fraction is not None and all(_is_number(label) for label in found):
        raise InputError(
            f"The labels are numbers such as {fraction}, but this command trains classifiers. For scores, use "
            "infuser.train in Python with num_labels=1, or a bench task of the kind 'table' with regression = true."
        )
    return sorted(found)


def number_labels(examples: Sequence[Record], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return the examples with the number of their label instead of its name."""
    numbers = {label: number for number, label in enumerate(labels)}
    numbered = []
    for where, example in examples:
        if example["label"] not in numbers:
            raise InputError(
                f"{where} has the label {example['label']!r}, which no training example has. Known: "
                f"{', '.join(labels[:20])}."
            )
        numbered.append({**example, "label": numbers[example["label"]]})
    return numbered


def read_label(place: Place, record: Mapping[str, Any], column: str) -> str:
    """Return what a column that holds one word or number says, as a string."""
    value = _cell(place, record, column, "label")
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float) or not str(value).strip():
        why = f"has the label {str(value)[:40]!r} in {column!r}"
        raise BadRow(place, why, str(record), advice="Give a word or a whole number.")
    return str(value).strip()


def read_score(place: Place, record: Mapping[str, Any], column: str) -> float:
    """Return the number that a column holds."""
    value = read_label(place, record, column)
    value = {"true": "1", "false": "0"}.get(value, value)
    if not _is_number(value) or not math.isfinite(float(value)):
        raise BadRow(place, f"has {value[:40]!r} in {column!r}, not a number", str(record), advice="Mend or drop it.")
    return float(value)


def _text(place: Place, record: Mapping[str, Any], column: str, role: str) -> str:
    value = _cell(place, record, column, role)
    if not isinstance(value, str):
        raise BadRow(place, f"has {str(value)[:40]!r} ({type(value).__name__}) as {column!r}, not a text", str(record))
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadRow(place, f"has half of a character (a lone surrogate) in {column!r}", repr(value)) from error
    return value


def _cell(place: Place, record: Mapping[str, Any], column: str, role: str) -> Any:
    if column in record:
        return record[column]
    chosen = f"Say which one holds the {role}: --{role}-column NAME, or the task's setting."
    advice = f"{did_you_mean(column, map(str, record))} Columns: {listed(record)}. {chosen}".lstrip()
    missing = BadRow(place, f"has no column {column!r}", str(dict(record)), advice=advice)
    if suffix_of(place.path) in HEADED:  # then no row of the file has it
        raise InputError(str(missing))
    raise missing


def _is_whole(label: str) -> bool:
    return label.removeprefix("-").isdecimal()


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True
