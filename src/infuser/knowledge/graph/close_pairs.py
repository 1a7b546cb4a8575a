"""Which entities of a text are near each other, for many texts: neighbourhoods are cached from text to text.

Two entities are at most h edges apart if a landmark says so, or if what lies within h/2 steps of the one shares a place
with what lies within h/2 steps of the other. The surroundings of an entity are walked through once and kept; where
they are too large to keep, a search settles the text as `Distances.within` does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from infuser.knowledge.artifact import whole
from infuser.knowledge.graph.adjacency import PARTS, Adjacency
from infuser.knowledge.graph.distances import Distances

_LARGEST = 50_000
"""Surroundings of more entities than this are not kept."""
_MOST_KEPT = 50_000_000
"""So many numbers are kept in all, 200 MB; then a new collection begins."""
_BITS = 32


class ClosePairs:
    """Answers for one graph and one number of hops; the same as `GraphStore.within`, faster for many texts."""

    def __init__(self, distances: Distances, hops: int) -> None:
        self._distances, self._hops = distances, hops
        # whole: looking at few places at a time would check each of them again
        parts = {f"edges.{name}": whole(getattr(distances.adjacency, name)) for name in PARTS}
        self._adjacency = adjacency = Adjacency(parts)
        self._walked = np.zeros(len(adjacency), bool)
        self._walked[distances.landmarks] = True  # paths through landmarks are known without walking
        self._place = np.zeros(len(adjacency), np.int64)
        self._marks = np.zeros(len(adjacency), np.uint32)
        self._kept: dict[int, tuple[NDArray[np.int32], int] | None] = {}
        self._n_kept = 0

    def n_near(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each of these different entities how many of the others are near."""
        n_near: NDArray[np.int64] = self.within(nodes).sum(axis=1) - 1  # everybody is near to itself
        return n_near

    def within(self, nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which two of these different entities are near."""
        lower, upper = self._distances.bounds(nodes)
        np.fill_diagonal(upper, 0)
        near: NDArray[np.bool_] = upper <= self._hops
        unknown = ~near & (lower <= self._hops)
        asked = np.flatnonzero(unknown.any(axis=1))
        if not len(asked):
            return near
        around = [self._around(int(node)) for node in nodes[asked]]
        kept = [one for one in around if one is not None]
        if len(kept) < len(asked):
            return self._distances.within(nodes, self._hops)
        for first in range(0, len(asked), _BITS):
            self._meet(near, asked, kept, first)
        return near

    def _meet(
        self, near: NDArray[np.bool_], asked: NDArray[np.int64], around: list[tuple[NDArray[np.int32], int]], first: int
    ) -> None:
        """Mark the surroundings of up to 32 entities, a bit for each, and return which marks each entity reaches."""
        marking = asked[first : first + _BITS]
        outer = [reached for reached, _ in around[first : first + _BITS]]
        inner = [reached[:n_inner] for reached, n_inner in around]
        bits = np.left_shift(np.uint32(1), np.arange(len(marking), dtype=np.uint32))
        marked = np.concatenate(outer)
        for bit, reached in zip(bits, outer, strict=True):  # each place once per entity, so no mark is lost
            self._marks[reached] |= bit
        sizes = np.array([len(one) for one in inner])
        met = np.bitwise_or.reduceat(self._marks[np.concatenate(inner)], np.cumsum(sizes) - sizes)
        self._marks[marked] = 0
        other, one = np.nonzero(met[:, None] & bits)
        near[asked[other], marking[one]] = near[marking[one], asked[other]] = True

    def _around(self, node: int) -> tuple[NDArray[np.int32], int] | None:
        """Return what lies within half of the hops, the larger half, and how many of these within the smaller."""
        if node not in self._kept:
            if self._n_kept > _MOST_KEPT:
                self._kept, self._n_kept = {}, 0
            self._kept[node] = found = self._walk(node)
            self._n_kept += 0 if found is None else len(found[0])
        return self._kept[node]

    def _walk(self, node: int) -> tuple[NDArray[np.int32], int] | None:
        adjacency: Adjacency = self._adjacency
        inner, outer = self._hops // 2, self._hops - self._hops // 2
        was_closed = bool(self._walked[node])
        self._walked[node] = True
        layers, n_inner, n_seen = [np.array([node], np.int32)], 1, 1
        for step in range(1, outer + 1):
            places, _ = adjacency.entries(layers[-1])
            reached = adjacency.neighbours[places]
            reached = reached[~self._walked[reached]]
            self._place[reached] = np.arange(len(reached))
            reached = reached[self._place[reached] == np.arange(len(reached))]  # each once
            self._walked[reached] = True
            layers.append(reached)
            n_seen += len(reached)
            if step <= inner:
                n_inner = n_seen
            if n_seen > _LARGEST or not len(reached):
                break
        for layer in layers:
            self._walked[layer] = False
        self._walked[node] = was_closed
        return None if n_seen > _LARGEST else (np.concatenate(layers).astype(np.int32), n_inner)
