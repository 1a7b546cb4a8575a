"""Which words were seen together, and how often: pairs as sorted numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuser.counting.merging import add_pairs
from infuser.counting.settings import Counting
from infuser.counting.shapes import Encoded, Pairs
from infuser.counting.words import Vocabulary

Keys = NDArray[np.int64]
_LEAST_ROOM = 1 << 10
_AT_ONCE = 1 << 20


def count_pairs(sides: Sequence[Encoded], vocabulary: Vocabulary, settings: Counting, room: int = 1 << 24) -> Pairs:
    """Return how often two words of the vocabulary are seen together in these units; `room` pairs are held at once."""
    return add_pairs(list(count_runs([sides], vocabulary, settings, Room(room, room))))


class Room(NamedTuple):
    """How much may be held at once."""

    pairs: int
    """Pairs that are not counted yet."""
    rows: int
    """Counted pairs."""


def count_runs(
    blocks: Iterable[Sequence[Encoded]], vocabulary: Vocabulary, settings: Counting, room: Room
) -> Iterator[Pairs]:
    """Yield how often two words are seen together in these blocks, in as few runs as there is room for."""
    keys = chain.from_iterable(_keys(sides, vocabulary, settings, room.pairs) for sides in blocks)
    held: list[Pairs] = []
    for some in _gathered(keys, room.pairs):
        held.append(_count(some))
        if sum(len(run.keys) for run in held) > room.rows:
            held = [add_pairs(held)]
            if len(held[0].keys) > room.rows // 2:
                yield held.pop()
    if held:
        yield add_pairs(held)


def _keys(sides: Sequence[Encoded], vocabulary: Vocabulary, settings: Counting, room: int) -> Iterator[Keys]:
    """Return the keys of all pairs, as often as they are seen."""
    numbers = [vocabulary.numbers_of(side.words) for side in sides]
    n_words = len(vocabulary.words)
    if settings.unit == "window":
        return _in_windows(sides[0], numbers[0], n_words, settings.window, room)
    if settings.unit == "pair":
        return _across(_sets(sides[0], numbers[0], n_words), _sets(sides[1], numbers[1], n_words), n_words, room)
    return _within(_sets(sides[0], numbers[0], n_words), n_words, room)


def _count(keys: Keys) -> Pairs:
    """Return each key once, with its number; a piece at a time, because fresh memory is slow."""
    keys.sort()
    new = np.ones(len(keys) + 1, bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:-1])
    places = np.concatenate(
        [np.flatnonzero(new[at : at + _AT_ONCE]) + at for at in range(0, len(new), _AT_ONCE)], dtype=np.int64
    )
    return Pairs(keys[places[:-1]], np.diff(places))


def _gathered(arrays: Iterator[Keys], room: int) -> Iterator[Keys]:
    """Yield the same keys in few large arrays, each good until the next: sorting small ones leaves pairs many times."""
    held, n_held = np.empty(max(room, _LEAST_ROOM), np.int64), 0
    for keys in arrays:
        at = 0
        while at < len(keys):
            n = min(len(keys) - at, len(held) - n_held)
            held[n_held : n_held + n] = keys[at : at + n]
            at, n_held = at + n, n_held + n
            if n_held == len(held):
                yield held
                n_held = 0
    if n_held:
        yield held[:n_held]


def _in_windows(side: Encoded, numbers: Keys, n_words: int, window: int, room: int) -> Iterator[Keys]:
    """Yield keys of words at most window - 1 places apart in a unit; words that are not kept hold their place."""
    n_units = len(side.starts) - 1
    gap = window - 1
    apart = np.full(len(side.ids) + n_units * gap, -1, np.int64)  # with so much nothing between units that none meet
    places = np.arange(len(side.ids)) + np.repeat(np.arange(n_units) * gap, np.diff(side.starts))
    apart[places] = numbers[side.ids]
    for begin in range(0, len(apart), room):
        for shift in range(1, window):
            one, other = apart[begin : begin + room], apart[begin + shift : begin + shift + room]
            one = one[: len(other)]
            lower, upper = np.minimum(one, other), np.maximum(one, other)
            keys = lower * n_words + upper
            yield keys[lower >= 0]


class _Sets:
    """The kept words of each unit, ascending."""

    def __init__(self, members: Keys, starts: Keys) -> None:
        self.members, self.starts, self.sizes = members, starts, np.diff(starts)

    def of_size(self, size: int) -> tuple[Keys, Keys]:
        """Return the units of this size, and their words as a matrix."""
        units = np.flatnonzero(self.sizes == size)
        return units, self.members[self.starts[units][:, None] + np.arange(size)]


def _sets(side: Encoded, numbers: Keys, n_words: int) -> _Sets:
    found = numbers[side.ids]
    units = np.repeat(np.arange(len(side.starts) - 1), np.diff(side.starts))
    kept = found >= 0
    keys = np.sort(units[kept] * n_words + found[kept])
    units, members = np.divmod(keys, n_words)
    return _Sets(members, np.searchsorted(units, np.arange(len(side.starts))))


def _within(sets: _Sets, n_words: int, room: int) -> Iterator[Keys]:
    """Yield keys of every two words of a unit."""
    for size in np.unique(sets.sizes[sets.sizes > 1]).tolist():
        _, matrix = sets.of_size(size)
        for begin in range(0, len(matrix), max(1, room // size)):
            some = matrix[begin : begin + max(1, room // size)]
            for place in range(size - 1):
                yield (some[:, place, None] * n_words + some[:, place + 1 :]).ravel()


def _across(left: _Sets, right: _Sets, n_words: int, room: int) -> Iterator[Keys]:
    """Yield keys of every word of a left side with every word of its right side."""
    unit_of = np.repeat(np.arange(len(left.sizes)), left.sizes)
    for size in np.unique(right.sizes[right.sizes > 0]).tolist():
        units, matrix = right.of_size(size)
        row_of = np.full(len(left.sizes), -1, np.int64)
        row_of[units] = np.arange(len(units))
        rows = row_of[unit_of]
        members, rows = left.members[rows >= 0], rows[rows >= 0]
        for begin in range(0, len(rows), max(1, room // size)):
            some = slice(begin, begin + max(1, room // size))
            yield (members[some, None] * n_words + matrix[rows[some]]).ravel()
