"""Ties between words as one sparse matrix, in memory or on disk.

A word on one side of a text is a node: number * n_sides + side; the most frequent words have the smallest numbers. Row
`node` holds the words that it is tied to, ascending. Only a table of pairs has two sides: there the row of a left word
holds right words, and the other way round.

    ties.begins    (2 nodes + 1) where each row begins, and where its words from number N_NEAR on begin
    ties.columns   the words            ties.weights   of the ties, above 0 and up to 1
    ties.reach     (sides, LEVELS, words from N_NEAR on) the most that n of the m first words add to a word

The near words of the first rows, where most of the ties are, are also held as a dense corner: there, sums go twenty
times faster.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuser.knowledge.artifact import Parts, whole

Numbers = NDArray[Any]
N_NEAR = 8192
LEVELS = tuple(
    [(256, n) for n in (0, 8, 16, 20, 24, 28, 32, 48, 64, 256)] + [(32, n) for n in (0, 4, 8, 12, 16, 20, 24, 32)]
)
"""(m, n), by m. This and N_NEAR shape the files."""
_N_CORNER = 1024
_N_REMEMBERED = 200_000


class Gathered(NamedTuple):
    """The parts of some rows that lie outside the corner, joined."""

    nodes: Numbers
    """Whose rows these are."""
    begins: Numbers
    columns: Numbers
    weights: Numbers


class Head(NamedTuple):
    """What the first nodes add to the far words at most."""

    n_nodes: int
    levels: Numbers
    """Numbers of nodes, ascending."""
    reach: Numbers
    """(sides, levels, far words) the most that so many of these nodes of a side add."""
    highest: Numbers
    """(sides, levels)"""


class Ties:
    """The matrix: its rows, parts of rows, and the corner."""

    def __init__(self, parts: Parts, *, n_words: int, n_sides: int) -> None:
        self._parts = parts
        self.n_words, self.n_sides = n_words, n_sides
        self.n_near = min(n_words, N_NEAR)
        self.n_inner = min(n_words, _N_CORNER) * n_sides
        """How many nodes have a row in the corner."""
        self._rows = _Rows(self)
        self.scratch = Scratch()

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of the weights."""
        weights: Numbers = self._parts["ties.weights"][:0]
        return weights.dtype

    @cached_property
    def begins(self) -> Numbers:
        """Where the rows begin, and where their far words begin."""
        return whole(self._parts["ties.begins"])

    @cached_property
    def heads(self) -> list[Head]:
        """What the first words add to far words at most, for the largest number of first words first."""
        reach = whole(self._parts["ties.reach"])
        heads = []
        for m in sorted({m for m, _ in LEVELS}, reverse=True):
            rows = [row for row, level in enumerate(LEVELS) if level[0] == m]
            levels, mine = np.array([LEVELS[row][1] for row in rows]), reach[:, rows[0] : rows[-1] + 1]
            heads.append(Head(min(m * self.n_sides, self.n_inner), levels, mine, mine.max(axis=2, initial=0)))
        return heads

    @cached_property
    def place_of(self) -> Numbers:
        """The place of each word in the order of the alphabet."""
        return whole(self._parts["words.place"])

    @cached_property
    def corner(self) -> Numbers:
        """(first rows, near words), dense; made when first needed."""
        corner = np.zeros((self.n_inner, self.n_near), self.dtype)
        for node in range(self.n_inner):
            columns, weights = self._piece(*self.begins[2 * node : 2 * node + 2].tolist())
            corner[node, columns] = weights
        return corner

    def row(self, node: int) -> tuple[Numbers, Numbers]:
        """Return the words that a node is tied to, and the weights."""
        return self._piece(*self.begins[2 * node : 2 * node + 3 : 2].tolist())

    def outside(self, node: int) -> tuple[Numbers, Numbers]:
        """Return the part of a row that is not in the corner."""
        begin, far, end = self.begins[2 * node : 2 * node + 3].tolist()
        return self._piece(far if node < self.n_inner else begin, end)

    def gather(self, nodes: Numbers, name: str) -> Gathered:
        """Return the parts outside the corner of the rows of these nodes, until the next call with this name."""
        rows = [self._rows[node] for node in nodes.tolist()]
        begins = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(columns) for columns, _ in rows], out=begins[1:])
        joined = []
        for part, dtype in enumerate((np.dtype(np.int32), self.dtype)):
            room = self.scratch.room(f"{name}.{part}", (int(begins[-1]),), dtype)
            joined.append(np.concatenate([row[part] for row in rows], out=room) if rows else room)
        return Gathered(nodes, begins, *joined)

    def above(self, limit: float) -> Ties:
        """Return the matrix with only those ties that weigh more than `limit`, in memory."""
        columns, weights = whole(self._parts["ties.columns"]), whole(self._parts["ties.weights"])
        keep = weights > limit
        before = np.zeros(len(keep) + 1, np.int64)
        np.cumsum(keep, out=before[1:])
        # the reach stays: an upper bound is one all the more with fewer ties
        parts = {name: self._parts[name] for name in ("ties.reach", "words.place")}
        parts |= {"ties.begins": before[self.begins], "ties.columns": columns[keep], "ties.weights": weights[keep]}
        return Ties(parts, n_words=self.n_words, n_sides=self.n_sides)

    def _piece(self, begin: int, end: int) -> tuple[Numbers, Numbers]:
        return self._parts["ties.columns"][begin:end], self._parts["ties.weights"][begin:end]


class Scratch(threading.local):
    """Room for intermediate results that is kept: getting fresh memory from the system takes longer than filling it."""

    def __init__(self) -> None:
        self._rooms: dict[str, NDArray[np.uint8]] = {}

    def room(self, name: str, shape: tuple[int, ...], dtype: Any) -> Numbers:
        """Return an array with anything in it; it is valid until the next call with this name."""
        n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if name not in self._rooms or len(self._rooms[name]) < n_bytes:
            self._rooms[name] = np.empty(n_bytes + n_bytes // 4, np.uint8)
        room: Numbers = self._rooms[name][:n_bytes].view(dtype).reshape(shape)
        return room


class _Rows(dict[int, tuple[Numbers, Numbers]]):
    """Views of the rows that were asked for: cutting one from a checked file takes longer than using it."""

    def __init__(self, ties: Ties) -> None:
        super().__init__()
        self._ties = ties

    def __missing__(self, node: int) -> tuple[Numbers, Numbers]:
        if len(self) >= _N_REMEMBERED:
            self.clear()
        row = self[node] = self._ties.outside(node)
        return row
