"""The names of a table's columns: found in its first record, and compared with the wanted ones."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import pairwise

from infuser.errors import InputError, did_you_mean
from infuser.tables.corpus.cutting import QuotedEnds, line_ends

_SHOWN = 20
_LONGEST_CELL = 2**31 - 1  # the csv module stops at 128 kB otherwise, less than a long document
_RETURN = "\udc0d"  # stands for a carriage return; no text in UTF-8 has it, whatever way it is decoded


def cut_header(path: str, data: bytes, *, quoted: bool) -> tuple[tuple[str, ...], int]:
    """Return the names in the first record that is not blank, and where it ends; no names when all are blank."""
    ends = QuotedEnds().find_all(data) if quoted else line_ends(data)
    for begin, end in pairwise([0, *ends.tolist(), len(data)]):
        record = data[begin:end].decode("utf-8", "replace")
        if record.strip():
            return tuple(name.strip() for name in _cells(path, record, quoted=quoted)), end
    return (), len(data)


def check_names(path: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise InputError unless each wanted column is there, once."""
    for name in wanted:
        if names.count(name) == 1:
            continue
        told = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
        if name in names:
            raise InputError(f"{path} has {names.count(name)} columns called {name!r} ({told}). Rename the others.")
        hint = did_you_mean(name, names)
        if len(names) == 1 and path.lower().endswith(".csv") and ";" in names[0]:
            hint = " Its cells have semicolons between them: write it again with commas."
        if any("\r" in one for one in names):
            hint = " Its lines end in carriage returns alone: write it again with line feeds."
        raise InputError(f"{path} has no column {name!r}.{hint} Its columns: {told}.")


def split_csv(record: str) -> list[str]:
    """Return the cells of one record of CSV without its end; csv.Error if its quotes are wrong.

    A carriage return alone is a character like any other, though the csv module itself would not have it: there are
    programs that write it without quotes.
    """
    csv.field_size_limit(_LONGEST_CELL)
    if "\r" not in record:
        return next(csv.reader([record], strict=True))
    return [cell.replace(_RETURN, "\r") for cell in next(csv.reader([record.replace("\r", _RETURN)], strict=True))]


def _cells(path: str, record: str, *, quoted: bool) -> list[str]:
    record = record.removesuffix("\n").removesuffix("\r")
    try:
        return split_csv(record) if quoted else record.split("\t")
    except csv.Error as error:
        raise InputError(f"{path} does not begin with the names of its columns ({error}). Mend its quotes.") from error
