"""What the readers of relations share: ids and names of relations, tokens joined to a text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.relations.examples import NO_RELATION
from infuser.tables.rows import read_json
from infuser.tables.values import is_text

_NONE = ("", "na", NO_RELATION)


class Unreadable(ValueError):
    """A row that cannot be read; readers add the reason to `Skipped`."""


def relation_id(value: Any) -> str:
    """Return a relation's id; NO_RELATION where nothing, "NA" or "no_relation" is given."""
    if value is None or (isinstance(value, str) and value.strip().lower() in _NONE):
        return NO_RELATION
    if not is_text(value):
        raise Unreadable("the relation is no text")
    return value


def names_beside(path: str | Path, file: str) -> dict[str, str]:
    """Read relations' names, {"P36": "capital"} or {"P36": ["capital", "what it means"]}, from beside a file, if there.

    DocRED calls this file rel_info.json, FewRel pid2name.json.
    """
    beside = Path(path).with_name(file)
    if not beside.is_file():
        return {}
    value = read_json(beside)
    if not isinstance(value, dict):
        raise InputError(f'{beside} does not name relations: it holds no {{"P36": "capital"}}. Mend or remove it.')
    names = {id: name[0] if isinstance(name, list) and name else name for id, name in value.items()}
    return {id: name for id, name in names.items() if isinstance(name, str)}


class Tokens:
    """Tokens joined by single spaces, and where each of them stands."""

    def __init__(self, tokens: Sequence[Any]) -> None:
        if not all(isinstance(token, str) for token in tokens):
            raise Unreadable("a token is no text")
        self.text = " ".join(tokens)
        self.ends = list(accumulate(tokens, lambda end, token: end + 1 + len(token), initial=-1))[1:]
        self.starts = [end - len(token) for end, token in zip(self.ends, tokens, strict=True)]
        if not is_text(self.text):
            raise Unreadable("no text")

    def place(self, first: int, last: int) -> tuple[int, int]:
        """Return where tokens `first` up to and including `last` stand."""
        place = self.starts[first], self.ends[last]
        if not self.text[slice(*place)].strip():
            raise Unreadable("a mention without words")
        return place
