"""Mentions of abbreviations: where a text defines one for a mention, its short form is a mention too."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from infuser.knowledge.names.abbreviations import Place, find_abbreviations


class Placed(Protocol):
    """A mention as a named tuple, whatever else is in it."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


M = TypeVar("M", bound=Placed)


class WithShortForms(NamedTuple, Generic[M]):
    """The mentions in a text, and which of them are short forms of which."""

    mentions: list[M]
    """In the order of the text; a short form is what its long form is, at another place."""
    long_forms: dict[int, int]
    """Number of each short form among the mentions to that of its long form."""


def add_short_forms(text: str, mentions: list[M]) -> WithShortForms[M]:
    """Return the mentions and the short forms that the text defines for some of them, where defined and behind it.

    A short form takes the place of what else was found there, but not of a longer mention around it.
    """
    if "(" not in text or not mentions:
        return WithShortForms(mentions, {})
    known = {(mention.start, mention.end): mention for mention in mentions}
    defined = [one for one in find_abbreviations(text) if one.long in known]
    if not defined:
        return WithShortForms(mentions, {})
    placed = _Places(known)
    long_of: dict[Place, Place] = {}
    for short, long in defined:
        for start, end in _occurrences(text, text[slice(*short)], short[0]):
            near = placed.near(start, end)
            if any(place[0] < start or end < place[1] for place in near):
                continue
            for place in near:
                long_of.pop(place, None)
                placed.remove(place)
            meant: Any = known[long]
            placed.add((start, end), meant._replace(start=start, end=end))
            long_of[start, end] = long
    ordered = sorted(placed.mentions)
    number = {place: at for at, place in enumerate(ordered)}
    long_forms = {number[short]: number[long] for short, long in long_of.items() if long in number}
    return WithShortForms([placed.mentions[place] for place in ordered], long_forms)


def _occurrences(text: str, short: str, begin: int) -> list[Place]:
    """Return where a short form stands as a whole word, from a place on."""
    return [match.span() for match in re.compile(rf"(?<!\w){re.escape(short)}(?!\w)").finditer(text, begin)]


class _Places(Generic[M]):
    """Mentions by their place, and which of them cover a character."""

    def __init__(self, mentions: dict[Place, M]) -> None:
        self.mentions: dict[Place, M] = {}
        self._covering: dict[int, set[Place]] = defaultdict(set)
        for place, mention in mentions.items():
            self.add(place, mention)

    def add(self, place: Place, mention: M) -> None:
        self.mentions[place] = mention
        for char in range(*place):
            self._covering[char].add(place)

    def remove(self, place: Place) -> None:
        del self.mentions[place]
        for char in range(*place):
            self._covering[char].discard(place)

    def near(self, start: int, end: int) -> set[Place]:
        """Return the places of mentions that have a character in common with this stretch."""
        return {place for char in range(start, end) for place in self._covering.get(char, ())}
