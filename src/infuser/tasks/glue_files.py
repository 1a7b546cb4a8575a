"""Rows of GLUE's official files: tabs between cells, no quoting, columns named in the first line or nowhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.tables.blocks import wrong_width
from infuser.tables.rows import Record, any_lines
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.base import Example

Sides = tuple[str, str | None]
"""Which columns hold the text and its pair."""

_BROKEN = "A line break or a tab inside a text is often the cause; skip_bad = true leaves out such training rows."


def tsv_records(path: Path, header: tuple[str, ...] | None = None) -> Iterator[Record | BadRow]:
    """Yield the rows of an official file by the names in its first line, or by `header` where it has none."""
    names = header
    for number, line in any_lines(path):
        if isinstance(line, BadRow):
            yield line
            continue
        cells = line.split("\t")
        if cells == [""]:
            continue
        if names is None:
            names = tuple(cells)
        elif len(cells) != len(names):
            why = f"{wrong_width(len(cells), len(names))}: {', '.join(names)}"
            yield BadRow(Place(path, number), why, line, advice=_BROKEN)
        else:
            yield Place(path, number), dict(zip(names, cells, strict=True))


def make_example(place: Place, cells: Mapping[str, Any], sides: Sides, label: int | float | None) -> Example:
    """Return the example that a row holds."""
    text, pair = sides
    example = {"text": text_cell(place, cells, text), "pair": None if pair is None else text_cell(place, cells, pair)}
    return example if label is None else {**example, "label": label}


def text_cell(place: Place, cells: Mapping[str, Any], column: str) -> str:
    """Return the text in a column."""
    if column not in cells:
        raise InputError(f"{place} has no column {column!r} but {', '.join(cells)}. Is it another set's file?")
    if not isinstance(cells[column], str):
        raise BadRow(place, f"has {str(cells[column])[:40]!r} as {column!r}, not a text", str(cells))
    return str(cells[column])


def read_similarity(place: Place, said: str) -> float:
    """Return a score of STS-B as a number."""
    try:
        score = float(said)
    except ValueError:
        score = math.nan
    if not 0 <= score <= 5:
        raise BadRow(place, f"has the score {said[:40]!r}, not a number from 0 to 5", said)
    return score
