"""Which words were seen together, and how often: pairs as sorted numbers, counted and added up.

Nearly all pairs are of two frequent words, whose numbers are below 65,536, so that the two fit into 32 bits, which sort
in half the time of 64. Frequent and rare pairs are therefore counted apart and come out as runs of their own. Runs are
sparse vectors, which SciPy adds two by two in one walk over both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from infuser.knowledge.counting.settings import Counting
from infuser.knowledge.counting.shapes import Encoded, PackedPairs, Pairs
from infuser.knowledge.counting.words import Vocabulary

Numbers = NDArray[np.int64]
Keys = NDArray[Any]
FREQUENT = 1 << 16
"""Words with smaller numbers are frequent; a pair of them is first * FREQUENT + second, in 32 bits."""
_LEAST_ROOM = 1 << 10
_AT_ONCE = 1 << 20
_NO_PAIRS = Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
_WIDTH = (1 << 63) - 1  # wider than any key
_ADDED_AT_ONCE = 1 << 20  # what fits into the caches, and into memory that is used again and again, is added fastest
_SAMPLES = 1 << 14


def count_pairs(sides: Sequence[Encoded], vocabulary: Vocabulary, settings: Counting, room: int = 1 << 24) -> Pairs:
    """Return how often two words of the vocabulary are seen together in these units; `room` pairs are held at once."""
    runs = count_runs([sides], vocabulary, settings, room)
    return add_pairs([run.rows(0, len(vocabulary.words)) for run in runs])


def count_runs(
    blocks: Iterable[Sequence[Encoded]], vocabulary: Vocabulary, settings: Counting, room: int
) -> Iterator[PackedPairs]:
    """Yield how often two words are seen together in these blocks, in runs of no more than `room` pairs."""
    n_words, at_once = len(vocabulary.words), min(room, _AT_ONCE)
    frequent, rare = _Gatherer(np.uint32, FREQUENT, n_words, room), _Gatherer(np.int64, n_words, n_words, room)
    for sides in blocks:
        numbers = [vocabulary.numbers_of(side.words) for side in sides]
        if settings.unit == "window":
            pairs = _in_windows(sides[0], numbers[0], settings.window, at_once)
        elif settings.unit == "pair":
            pairs = _across(_sets(sides[0], numbers[0], n_words), _sets(sides[1], numbers[1], n_words), at_once)
        else:
            pairs = _within(_sets(sides[0], numbers[0], n_words), at_once)
        for first, second in pairs:
            yield from (frequent if first.dtype == np.uint32 else rare).add(first, second)
    yield from chain(frequent.rest(), rare.rest())


class _Gatherer:
    """Gathers pairs of one kind in one array, which is sorted and counted when it is full."""

    def __init__(self, dtype: Any, width: int, n_words: int, room: int) -> None:
        self._width, self._n_words = width, n_words
        self._keys, self._n_keys = np.empty(max(room, _LEAST_ROOM), dtype), 0

    def add(self, first: Keys, second: Keys) -> Iterator[PackedPairs]:
        """Take in every sum of the two, and yield a run when there are too many."""
        keys = (first * self._keys.dtype.type(self._width) + second).ravel()
        at = 0
        while at < len(keys):
            n = min(len(keys) - at, len(self._keys) - self._n_keys)
            self._keys[self._n_keys : self._n_keys + n] = keys[at : at + n]
            at, self._n_keys = at + n, self._n_keys + n
            if self._n_keys == len(self._keys):
                yield from self.rest()

    def rest(self) -> Iterator[PackedPairs]:
        """Yield what is gathered."""
        if self._n_keys:
            yield _count(self._keys[: self._n_keys], self._width, self._n_words)
        self._n_keys = 0


def _count(keys: Keys, width: int, n_words: int) -> PackedPairs:
    """Return each key once, with its number; a piece at a time, because fresh memory is slow."""
    keys.sort()
    new = np.ones(len(keys) + 1, bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:-1])
    places = np.concatenate([_places(new, at) for at in range(0, len(new), _AT_ONCE)])
    pieces = range(0, len(places) - 1, _AT_ONCE)
    seconds = np.concatenate(
        [(keys[places[at : min(at + _AT_ONCE, len(places) - 1)]] % width).astype(np.uint32) for at in pieces]
    )
    counts = np.concatenate([np.diff(places[at : at + _AT_ONCE + 1]) for at in pieces])
    first = np.searchsorted(keys, np.arange(1, min(width, n_words)).astype(keys.dtype) * keys.dtype.type(width))
    begins = np.full(n_words + 1, len(seconds))
    begins[0] = 0
    begins[1 : len(first) + 1] = np.searchsorted(places, first)
    return PackedPairs(begins, seconds, counts.astype(np.min_scalar_type(int(counts.max()))))


def _places(new: NDArray[np.bool_], at: int) -> NDArray[np.uint32]:
    return (np.flatnonzero(new[at : at + _AT_ONCE]) + at).astype(np.uint32)


def _in_windows(side: Encoded, numbers: Numbers, window: int, room: int) -> Iterator[tuple[Keys, Keys]]:
    """Yield words at most window - 1 places apart, smaller first; words that are not kept hold their place."""
    n_units = len(side.starts) - 1
    gap = min(window - 1, int(np.diff(side.starts).max(initial=0)))  # a text that is shorter has no words further apart
    apart = np.full(len(side.ids) + n_units * gap, -1, np.int32)  # with so much nothing between units that none meet
    places = np.arange(len(side.ids)) + np.repeat(np.arange(n_units) * gap, np.diff(side.starts))
    apart[places] = numbers[side.ids]
    for begin in range(0, len(apart), room):
        for shift in range(1, gap + 1):
            other = apart[begin + shift : begin + shift + room]
            one = apart[begin : begin + len(other)]
            first, second = np.minimum(one, other), np.maximum(one, other)
            kept, small = first >= 0, second < FREQUENT
            yield first[kept & small].astype(np.uint32), second[kept & small].astype(np.uint32)
            kept &= ~small
            yield first[kept].astype(np.int64), second[kept].astype(np.int64)


class _Sets:
    """The kept words of each unit, ascending."""

    def __init__(self, members: Keys, starts: Numbers) -> None:
        self.members, self.starts, self.sizes = members, starts, np.diff(starts)

    def of_size(self, size: int) -> tuple[Numbers, Keys]:
        """Return the units of this size, and their words as a matrix."""
        units = np.flatnonzero(self.sizes == size)
        return units, self.members[self.starts[units][:, None] + np.arange(size)]


def _sets(side: Encoded, numbers: Numbers, n_words: int) -> tuple[_Sets, _Sets]:
    """Return the frequent and the rare words of each unit."""
    found = numbers[side.ids]
    units = np.repeat(np.arange(len(side.starts) - 1), np.diff(side.starts))
    kept = found >= 0
    units, members = np.divmod(np.sort(units[kept] * n_words + found[kept]), n_words)
    rare = members >= FREQUENT
    return tuple(  # type: ignore[return-value]
        _Sets(members[some].astype(dtype), np.searchsorted(units[some], np.arange(len(side.starts))))
        for some, dtype in ((~rare, np.uint32), (rare, np.int64))
    )


def _within(sets: tuple[_Sets, _Sets], room: int) -> Iterator[tuple[Keys, Keys]]:
    """Yield every two words of a unit, smaller first."""
    yield from _two_of(sets[0], room)
    yield from _one_of_each(sets[0], sets[1], room)
    yield from _two_of(sets[1], room)


def _across(left: tuple[_Sets, _Sets], right: tuple[_Sets, _Sets], room: int) -> Iterator[tuple[Keys, Keys]]:
    """Yield every word of a left side with every word of its right side."""
    for one in left:
        for other in right:
            yield from _one_of_each(one, other, room)


def _two_of(sets: _Sets, room: int) -> Iterator[tuple[Keys, Keys]]:
    """Yield every two words of a set."""
    for size in np.unique(sets.sizes[sets.sizes > 1]).tolist():
        _, matrix = sets.of_size(size)
        for begin in range(0, len(matrix), max(1, room // size)):
            some = matrix[begin : begin + max(1, room // size)]
            for place in range(size - 1):
                yield some[:, place, None], some[:, place + 1 :]


def _one_of_each(left: _Sets, right: _Sets, room: int) -> Iterator[tuple[Keys, Keys]]:
    """Yield every word of a left set with every word of the right set of the same unit."""
    unit_of = np.repeat(np.arange(len(left.sizes)), left.sizes)
    for size in np.unique(right.sizes[right.sizes > 0]).tolist():
        units, matrix = right.of_size(size)
        row_of = np.full(len(left.sizes), -1, np.int64)
        row_of[units] = np.arange(len(units))
        rows = row_of[unit_of]
        members, rows = left.members[rows >= 0], rows[rows >= 0]
        if members.dtype != matrix.dtype:  # a rare word makes a rare pair
            members, matrix = members.astype(np.int64), matrix.astype(np.int64)
        for begin in range(0, len(rows), max(1, room // size)):
            some = slice(begin, begin + max(1, room // size))
            yield members[some, None], matrix[rows[some]]


def add_pairs(runs: Sequence[Pairs]) -> Pairs:
    """Return the sum of counted pairs."""
    if len(runs) == 1:
        return runs[0]
    ends = max((int(run.keys[-1]) + 1 for run in runs if len(run.keys)), default=0)
    added = [_add([slice_pairs(run, *borders) for run in runs]) for borders in cut_range(runs, ends, _ADDED_AT_ONCE)]
    return added[0] if len(added) == 1 else Pairs(*(np.concatenate(parts) for parts in zip(*added, strict=True)))


def _add(runs: Sequence[Pairs]) -> Pairs:
    """Add two by two: adding one after another to a growing sum would be quadratic."""
    vectors = [_vector(run) for run in runs if len(run.keys)] or [_vector(_NO_PAIRS)]
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=False)
        vectors = [one + other for one, other in pairs] + (vectors[-1:] if len(vectors) % 2 else [])
    return Pairs(vectors[0].indices.astype(np.int64, copy=False), vectors[0].data)


def _vector(run: Pairs) -> Any:
    vector = sparse.csr_array((run.counts, run.keys, np.array([0, len(run.keys)])), shape=(1, _WIDTH))
    vector.has_canonical_format = True  # keys ascend and are distinct: no need to look
    return vector


def leave_out_rare(pairs: Pairs, least: int) -> Pairs:
    """Return the pairs that were seen at least so often."""
    if least <= 1:
        return pairs
    often = pairs.counts >= least
    return Pairs(pairs.keys[often], pairs.counts[often])


def slice_pairs(run: Pairs, low: int, high: int) -> Pairs:
    """Return the pairs with keys from `low` up to, not including, `high`."""
    begin, end = np.searchsorted(run.keys, [low, high])
    return Pairs(run.keys[begin:end], run.counts[begin:end])


def cut_range(runs: Sequence[Pairs], n_keys: int, room: int) -> list[tuple[int, int]]:
    """Return ranges that cover all keys below `n_keys`, each with at most about `room` rows of the runs."""
    n_rows = sum(len(run.keys) for run in runs)
    n_parts = 1 + n_rows // max(room, 1)
    if n_parts == 1:
        return [(0, n_keys)]
    sample = np.sort(np.concatenate([_sample(run.keys, n_rows) for run in runs]))
    inner = sample[np.arange(1, n_parts) * len(sample) // n_parts]
    borders = np.unique(np.concatenate([[0], inner, [n_keys]])).tolist()
    return list(pairwise(borders))


def _sample(keys: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Return every so many-th key, enough to tell where they are dense."""
    return np.array(keys[:: max(1, n_rows // _SAMPLES)])
