"""The pairs of a corpus on disk: counted and sorted some blocks at a time, then added up a range of keys at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuser.counting.merging import NO_PAIRS, add_pairs, leave_out_rare
from infuser.counting.pairs import Room, count_runs
from infuser.counting.settings import Counting
from infuser.counting.shapes import Progress
from infuser.counting.words import Vocabulary
from infuser.counting.workplace import Workplace
from infuser.errors import InputError
from infuser.processes import Crew, Tell

_LEAST_MEMORY = 512 << 20
_PROCESS = 160 << 20  # what a process with NumPy, SciPy and Arrow takes before it does anything
_PAIR_BYTES = 32  # a pair while it is sorted and counted, with everything that is copied on the way
_ROW_BYTES = 48  # a counted pair while it is added to others
_WORD_BYTES = 200  # a word while words are added up
_GROUP_TOKENS, _LEAST_GROUPS = 8_000_000, 8


class Share(NamedTuple):
    """How much may be held at once: by each process, and of words by this one."""

    room: Room
    n_words: int

    @classmethod
    def of(cls, memory: int, n_workers: int) -> Share:
        """Share out so many bytes among this process and its workers."""
        if memory < _LEAST_MEMORY:
            raise InputError(f"memory={memory:,} bytes is too little to count with; give at least {_LEAST_MEMORY:,}.")
        share = (memory - _PROCESS) // max(n_workers, 1) - (_PROCESS if n_workers else 0)
        if share < _PROCESS:
            raise InputError(
                f"{memory / 1e9:.1f} GB of memory are not enough for {n_workers} processes. Give more memory, or fewer "
                "workers."
            )
        # half for pairs that are being counted, half for those that are
        return cls(Room(share // 2 // _PAIR_BYTES, share // 2 // _ROW_BYTES), memory // 2 // _WORD_BYTES)


def group_blocks(n_tokens: Sequence[int]) -> list[range]:
    """Return which blocks are counted together, whatever machine counts them: more at once leave fewer runs."""
    size = max(1, min(_GROUP_TOKENS, sum(n_tokens) // _LEAST_GROUPS))
    groups: dict[int, list[int]] = {}
    for number, before in enumerate(accumulate(n_tokens, initial=0)):
        if number < len(n_tokens):
            groups.setdefault(before // size, []).append(number)
    return [range(blocks[0], blocks[-1] + 1) for blocks in groups.values()]


def count_groups(
    place: Workplace, groups: Sequence[range], settings: Counting, share: Share, crew: Crew, progress: Progress
) -> list[str]:
    """Count the pairs of every group that is not counted yet, and return the names of all runs."""
    todo = [blocks for blocks in groups if place.n_runs(_group(blocks)) is None]
    n_done = len(groups) - len(todo)
    if todo:
        place.forget("part-*")
    work = _CountGroup(place, settings, share.room)
    for _ in crew.spread(todo, work, lambda n: None, doing="counted pairs"):
        n_done += 1
        progress("counting pairs", n_done, len(groups))
    return [f"{_group(blocks)}-{run}" for blocks in groups for run in range(place.n_runs(_group(blocks)) or 0)]


@dataclass
class _CountGroup:
    place: Workplace
    settings: Counting
    room: Room
    _vocabulary: Vocabulary | None = None

    def __call__(self, blocks: range, tell: Tell) -> None:
        self._vocabulary = self._vocabulary or self.place.read_words()
        sides = (self.place.read_block(number) for number in blocks)
        n_runs = 0
        for run in count_runs(sides, self._vocabulary, self.settings, self.room):
            self.place.save_run(f"{_group(blocks)}-{n_runs}", run, len(self._vocabulary.words))
            n_runs += 1
        self.place.save_n_runs(_group(blocks), n_runs)


def _group(blocks: range) -> str:
    return f"pairs-{blocks.start:05d}"


def add_up(
    place: Workplace, names: Sequence[str], settings: Counting, share: Share, crew: Crew, progress: Progress
) -> tuple[Any, Any]:
    """Return keys and counts of all pairs that are kept: in memory if they fit, else mapped from disk."""
    runs = [place.read_run(name) for name in names]
    ends = sum((run.begins for run in runs), start=np.zeros(1, np.int64))  # of the rows of all runs together
    ranges = _ranges(ends, share.room.rows)
    if len(ranges) <= 1:
        progress("adding up", 0, 1)
        whole = [run.rows(0, len(ends) - 1) for run in runs]
        return leave_out_rare(add_pairs(whole) if whole else NO_PAIRS, settings.min_pairs)
    todo = [rows for rows in ranges if not place.has_pairs(_part(rows))]
    n_done = len(ranges) - len(todo)
    work = _AddUp(place, tuple(names), settings.min_pairs)
    for _ in crew.spread(todo, work, lambda n: None, doing="added up pairs"):
        n_done += 1
        progress("adding up", n_done, len(ranges))
    keys, counts = zip(*(place.read_pairs(_part(rows)) for rows in ranges), strict=True)
    return Chained(keys), Chained(counts)


def _ranges(ends: NDArray[np.int64], room: int) -> list[tuple[int, int]]:
    """Return ranges of rows that together hold no more entries than there is room for, unless it is one row."""
    ranges, low = [], 0
    while low < len(ends) - 1:
        high = int(np.searchsorted(ends, ends[low] + room, side="right")) - 1
        ranges.append((low, max(high, low + 1)))
        low = ranges[-1][1]
    return ranges


@dataclass(frozen=True)
class _AddUp:
    place: Workplace
    runs: tuple[str, ...]
    min_pairs: int

    def __call__(self, rows: tuple[int, int], tell: Tell) -> None:
        added = add_pairs([self.place.read_run(name).rows(*rows) for name in self.runs])
        self.place.save_pairs(_part(rows), leave_out_rare(added, self.min_pairs))


def _part(rows: tuple[int, int]) -> str:
    return f"part-{rows[0]}-{rows[1]}"  # named by its rows: with more memory there are fewer and wider ones


class Chained:
    """Arrays one after another, read as one, a slice at a time."""

    def __init__(self, arrays: Sequence[NDArray[Any]]) -> None:
        self._arrays = arrays
        self._starts = np.cumsum([0, *map(len, arrays)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, key: slice) -> NDArray[np.int64]:
        start, stop, _ = key.indices(len(self))
        cut = [
            array[max(start - at, 0) : max(stop - at, 0)]
            for array, at in zip(self._arrays, self._starts.tolist(), strict=False)
        ]
        return np.concatenate([np.zeros(0, np.int64), *cut])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or np.int64)
