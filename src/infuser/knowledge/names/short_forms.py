"""Mentions of abbreviations: where a text defines one for a mention, its short form is a mention too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
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
    defined_again: dict[str, int] = {}
    followed: list[tuple[Place, Place, int]] = []
    for short, long in reversed(defined):  # the last definition holds, so each is followed up to the next
        followed.append((short, long, defined_again.get(text[slice(*short)], len(text))))
        defined_again[text[slice(*short)]] = short[0]
    for short, long, stop in reversed(followed):
        for start, end in _occurrences(text, text[slice(*short)], short[0], stop):
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


def _occurrences(text: str, short: str, begin: int, stop: int) -> Iterator[Place]:
    """Yield where a short form stands as a whole word, between two places."""
    start = text.find(short, begin, stop)
    while start >= 0:
        end = start + len(short)
        whole = not any(char.isalnum() or char == "_" for char in text[max(start - 1, 0) : start] + text[end : end + 1])
        if whole:
            yield start, end
        start = text.find(short, end if whole else start + 1, stop)


class _Places(Generic[M]):
    """Mentions by their place, and which of them cover a stretch of the text."""

    def __init__(self, mentions: dict[Place, M]) -> None:
        self.mentions: dict[Place, M] = {}
        self._starting: dict[int, set[Place]] = defaultdict(set)
        self._longest = 0
        for place, mention in mentions.items():
            self.add(place, mention)

    def add(self, place: Place, mention: M) -> None:
        self.mentions[place] = mention
        self._starting[place[0]].add(place)
        self._longest = max(self._longest, place[1] - place[0])

    def remove(self, place: Place) -> None:
        del self.mentions[place]
        self._starting[place[0]].discard(place)

    def near(self, start: int, end: int) -> set[Place]:
        """Return the places of mentions that have a character in common with this stretch."""
        begins = range(start - self._longest + 1, end)
        return {place for begin in begins for place in self._starting.get(begin, ()) if place[1] > start}
