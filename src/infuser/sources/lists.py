"""List files as sources: names, phrases, pairs of words, triples. Tabs between the cells (.csv: commas; .json: a list).

    entities      name, or name and label          New York      city
    phrases       phrase                           near me
    correlation   word, word, score                buy           shop     2.0
    graph         head, relation, tail (, weight)  glipizide     is a     medicine
    aliases       entity id, alias                 medicine      drug

A line that only repeats these column names is a heading and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from infuser.errors import InputError, SourceError
from infuser.registry import SOURCES
from infuser.tables.rows import Row, read_rows
from infuser.types import Source
from infuser.words import counted


class _Kind(NamedTuple):
    """How the list file of one kind of source is read."""

    field: str
    """The setting that takes the rows."""
    headings: tuple[str, ...]
    n_needed: int
    make: Callable[[list[list[Any]]], Any]
    """Rows to the value of the setting."""
    hint: str = ""
    """What to do about a line with more cells than that."""


def _labelled(rows: list[list[Any]]) -> Any:
    if all(len(row) == 1 for row in rows):
        return [row[0] for row in rows]
    labels: dict[str, str] = {}
    for name, *label in rows:
        labels.setdefault(name, label[0] if label else "entity")
    return labels


def _grouped(rows: list[list[Any]]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for entity, alias in rows:
        names.setdefault(entity, []).append(alias)
    return names


LISTED = {
    "entities": _Kind(
        *("names", ("name", "label"), 1, _labelled),
        hint=" Ids need a built gazetteer: infuser gazetteer build {path} --out DIR, then --source DIR.",
    ),
    "phrases": _Kind("phrases", ("phrase",), 1, lambda rows: [row[0] for row in rows]),
    "correlation": _Kind("scores", ("word", "word", "score"), 3, lambda rows: [tuple(row) for row in rows]),
    "graph": _Kind("triples", ("head", "relation", "tail", "weight"), 3, lambda rows: [tuple(row) for row in rows]),
}
"""The kinds of sources that a list file can hold."""
_ALIASES = _Kind("aliases", ("id", "alias"), 2, _grouped)
_NUMBERS = ("score", "weight")


def read_aliases(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return the names of entities, from one or several files."""
    return _grouped([row for path in paths for _, row in _rows(path, _ALIASES)])


def read_list(kind: str, path: Path, settings: Mapping[str, Any]) -> Source:
    """Return the source of one list file; a line that the source refuses is named."""
    how, cls = LISTED[kind], SOURCES[kind]
    rows = _rows(path, how)
    if not rows:
        raise InputError(f"{path} is empty. A line holds {', '.join(how.headings[: how.n_needed])}.")
    if kind == "graph" and settings.get("aliases"):  # names of entities that this graph does not have tie nothing
        inside = {entity for _, (head, _, tail, *_) in rows for entity in (head, tail)}
        settings = {**settings, "aliases": {key: names for key, names in settings["aliases"].items() if key in inside}}
    try:
        source: Source = cls(**{**settings, how.field: how.make([row for _, row in rows])})
    except SourceError as error:
        for where, row in rows:  # only now: a table may have millions of rows
            try:
                cls(**{how.field: how.make([row])})
            except SourceError as reason:
                raise InputError(f"{where}: {reason}") from error
        raise InputError(f"{path}: {error}") from error
    except TypeError as error:
        raise InputError(f"{path}: {error}") from error
    return source


def _rows(path: Path, how: _Kind) -> list[Row]:
    """Return the rows of a list file, checked and with numbers as numbers."""
    rows: list[Row] = []
    for where, cells in read_rows(path):
        row = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        while len(row) > how.n_needed and row[-1] == "":
            row.pop()
        if (
            not rows
            and len(row) >= how.n_needed
            and [str(cell).lower() for cell in row] == list(how.headings[: len(row)])
        ):
            continue
        if not how.n_needed <= len(row) <= len(how.headings) or any(cell in ("", None) for cell in row):
            optional = how.headings[how.n_needed :]
            wanted = ", ".join(how.headings[: how.n_needed]) + "".join(f" (, {name})" for name in optional)
            hint = how.hint.format(path=path) if len(row) > len(how.headings) else ""
            raise InputError(
                f"{where} has {counted(len(row), 'cell')}: {str(cells)[:80]}. A line holds {wanted}, none of it "
                f"empty.{hint}"
            )
        rows.append((where, [_typed(cell, name, where) for cell, name in zip(row, how.headings, strict=False)]))
    return rows


def _typed(cell: Any, name: str, where: str) -> Any:
    if name not in _NUMBERS:
        if not isinstance(cell, str):
            raise InputError(f"{where}: the {name} is {str(cell)[:40]!r} ({type(cell).__name__}), not a text.")
        return cell
    try:
        return float(cell)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: the {name} is {str(cell)[:40]!r}, not a number.") from error
