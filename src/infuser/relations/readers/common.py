"""What the readers of relations share: ids and names of relations, tokens joined to a text, the nearest mentions.

Data says which entity is meant, not always which of its mentions: T-REx gives strings, DocRED every mention of an
entity. A relation is most likely said where the mentions stand closest, and two things do not stand on the same words.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, combinations, permutations, product
from pathlib import Path
from typing import Any, TypeVar

from infuser.errors import InputError
from infuser.relations.examples import NO_RELATION
from infuser.tables.rows import read_json
from infuser.tables.skipped import Skipped
from infuser.tables.values import is_text
from infuser.types import Span

Place = tuple[int, int]
"""Start and end, in characters."""

_NONE = ("", "na", NO_RELATION)
_FEW = 8
"""Where nothing but overlapping places is left, so many of each part are tried, from the left."""
_T = TypeVar("_T")


class Unreadable(ValueError):
    """A row that cannot be read; readers add the reason to `Skipped`."""


def read_each(
    values: Iterable[Any],
    read: Callable[[Any], _T],
    skipped: Skipped,
    path: str | Path,
    number: int,
    unit: str = "line",
) -> list[_T]:
    """Read parts of one row; those that are Unreadable are added to `skipped`."""
    found = []
    for value in values:
        try:
            found.append(read(value))
        except Unreadable as error:
            skipped.add(path, number, str(error), value, unit=unit)
    return found


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


def nearest_places(parts: Sequence[Sequence[Place]]) -> tuple[Place, ...]:
    """Return one place of each part, so that none overlap and all lie within the shortest stretch of text.

    Of equals the leftmost are taken. A part's places are ascending and equally long: they are one string's. Where no
    choice is free of overlaps ("Turin" is only said within "University of Turin"), the fewest overlaps are. The work
    grows with the number of places, not with its cube: see `_in_a_row`.
    """
    apart = min(_in_a_row(parts), key=closeness, default=None)
    return apart or min(product(*(places[:_FEW] for places in parts)), key=closeness)


def nearest_pair(pairs: Iterable[tuple[Span, Span]]) -> tuple[Span, Span]:
    """Return the two mentions that lie nearest together; such as do not overlap come first, of equals the leftmost."""
    return min(pairs, key=lambda pair: closeness([(span.start, span.end) for span in pair]))


def closeness(places: Sequence[Place]) -> tuple[int, int, int, list[int]]:
    """Return what orders choices of places, best first: the number of overlaps, the stretch, how far left."""
    ordered = sorted(places)
    n_overlaps = sum(first[1] > second[0] for first, second in combinations(ordered, 2))
    begin, end = ordered[0][0], max(end for _, end in places)
    return n_overlaps, end - begin, begin, [start for start, _ in places]


def _in_a_row(parts: Sequence[Sequence[Place]]) -> Iterator[tuple[Place, ...]]:
    """Yield choices without overlaps, the nearest among them.

    For every order of the parts and every place of the first, each further part stands at its next place behind the one
    before it. To go further right would only stretch the choice, so no other needs to be looked at.
    """
    starts = [[start for start, _ in places] for places in parts]
    for order in permutations(range(len(parts))):
        for first in parts[order[0]]:
            chosen = {order[0]: first}
            end = first[1]
            for part in order[1:]:
                next_one = bisect_left(starts[part], end)
                if next_one == len(starts[part]):
                    break
                chosen[part] = parts[part][next_one]
                end = chosen[part][1]
            else:
                yield tuple(chosen[part] for part in range(len(parts)))
