"""The pairs of a corpus on disk: counted and sorted some blocks at a time, then added up a range of rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.knowledge.counting.folder import CountingFolder
from infuser.knowledge.counting.pairs import add_pairs, count_runs, leave_out_rare
from infuser.knowledge.counting.settings import Counting
from infuser.knowledge.counting.shapes import Chained, PackedPairs, RowKeys
from infuser.knowledge.counting.words import Vocabulary
from infuser.processes import ReportDone, WorkerPool
from infuser.progress import Report

LEAST_MEMORY = 400_000_000
_PROCESS = 160 << 20  # what a process with NumPy, SciPy and Arrow takes before it does anything
_PAIR_BYTES = 32  # a pair while it is counted: twice 8 bytes to be sorted in, and what is made of it
_ROW_BYTES = 48  # a counted pair while it is added to others
_MOST_PAIRS = 1 << 31  # their places are counted in 32 bits
_WORD_BYTES = 200  # a word while words are added up
_FEW_ROWS = 1 << 20  # are added fastest: they fit into the caches
_LEAST_TOKENS, _MOST_TOKENS, _USUAL_GROUPS = 2_000_000, 16_000_000, 16


class Share(NamedTuple):
    """How much may be held at once: by each process, and of words by this one."""

    n_pairs: int
    """Pairs that are not counted yet."""
    n_rows: int
    """Counted pairs that are added up."""
    n_words: int

    @classmethod
    def of(cls, memory: int, n_workers: int) -> Share:
        """Share out so many bytes among this process and its workers."""
        if memory < LEAST_MEMORY:
            raise InputError(f"memory={memory:,} bytes is too little to count with; give at least {LEAST_MEMORY:,}.")
        if n_workers > most_workers(memory):
            raise InputError(
                f"{memory / 1e9:.1f} GB of memory are not enough for {n_workers} processes. Give more memory, or at "
                f"most {most_workers(memory)} workers."
            )
        share = (memory - _PROCESS) // max(n_workers, 1) - (_PROCESS if n_workers else 0)
        return cls(min(share // _PAIR_BYTES, _MOST_PAIRS), share // _ROW_BYTES, memory // 2 // _WORD_BYTES)


def most_workers(memory: int) -> int:
    """Return how many worker processes can count within so many bytes."""
    return max(0, (memory - _PROCESS) // (2 * _PROCESS))


def group_blocks(n_tokens: Sequence[int]) -> list[range]:
    """Return which blocks are counted together, whatever machine counts them: more at once leave fewer runs."""
    size = min(max(sum(n_tokens) // _USUAL_GROUPS, _LEAST_TOKENS), _MOST_TOKENS)
    groups: dict[int, list[int]] = {}
    for number, before in enumerate(accumulate(n_tokens, initial=0)):
        if number < len(n_tokens):
            groups.setdefault(before // size, []).append(number)
    return [range(blocks[0], blocks[-1] + 1) for blocks in groups.values()]


def count_groups(
    folder: CountingFolder,
    groups: Sequence[range],
    settings: Counting,
    share: Share,
    pool: WorkerPool,
    progress: Report,
) -> list[str]:
    """Count the pairs of every group that is not counted yet, and return the names of all runs."""
    todo = [blocks for blocks in groups if folder.n_runs(_group(blocks)) is None]
    n_done = len(groups) - len(todo)
    if todo:
        folder.remove("part-*")
    work = _CountGroup(folder, settings, share.n_pairs)
    for _ in pool.map_unordered(todo, work, lambda n: None, doing="counted pairs"):
        n_done += 1
        progress("counting pairs", n_done, len(groups))
    return [f"{_group(blocks)}-{run}" for blocks in groups for run in range(folder.n_runs(_group(blocks)) or 0)]


@dataclass
class _CountGroup:
    folder: CountingFolder
    settings: Counting
    room: int
    _vocabulary: Vocabulary | None = None

    def __call__(self, blocks: range, report: ReportDone) -> None:
        self._vocabulary = self._vocabulary or self.folder.read_words()
        sides = (self.folder.read_block(number) for number in blocks)
        n_runs = 0
        for run in count_runs(sides, self._vocabulary, self.settings, self.room):
            self.folder.save_run(f"{_group(blocks)}-{n_runs}", run)
            n_runs += 1
        self.folder.save_n_runs(_group(blocks), n_runs)


def _group(blocks: range) -> str:
    return f"pairs-{blocks.start:05d}"


def add_up(
    folder: CountingFolder, names: Sequence[str], settings: Counting, share: Share, pool: WorkerPool, progress: Report
) -> tuple[RowKeys, Chained]:
    """Return keys and counts of all pairs that are kept: in memory if they fit, else mapped from disk."""
    # one after another: there may be more runs than files that can be open
    ends = sum((folder.read_run(name).begins for name in names), start=np.zeros(1, np.int64))  # of all rows together
    work = _AddUp(folder, tuple(names), settings.min_pairs)
    if ends[-1] <= share.n_rows:
        progress("adding up", 0, 1)
        parts = [work.add(rows) for rows in _ranges(ends, _FEW_ROWS)]
    else:
        ranges = _ranges(ends, share.n_rows)
        todo = [rows for rows in ranges if not folder.has_run(_part(rows))]
        n_done = len(ranges) - len(todo)
        for _ in pool.map_unordered(todo, work, lambda n: None, doing="added up pairs"):
            n_done += 1
            progress("adding up", n_done, len(ranges))
        parts = [folder.read_run(_part(rows)) for rows in ranges]
    begins = sum((part.begins for part in parts), start=np.zeros(len(ends), np.int64))
    return RowKeys(begins, Chained([part.seconds for part in parts])), Chained([part.counts for part in parts])


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
    folder: CountingFolder
    runs: tuple[str, ...]
    min_pairs: int

    def __call__(self, rows: tuple[int, int], report: ReportDone) -> None:
        self.folder.save_run(_part(rows), self.add(rows))

    def add(self, rows: tuple[int, int]) -> PackedPairs:
        n_words = len(self.folder.read_run(self.runs[0]).begins) - 1
        added = add_pairs([self.folder.read_run(name).rows(*rows) for name in self.runs])
        return PackedPairs.of(leave_out_rare(added, self.min_pairs), n_words)


def _part(rows: tuple[int, int]) -> str:
    return f"part-{rows[0]}-{rows[1]}"  # named by its rows: with more memory there are fewer and wider ones
