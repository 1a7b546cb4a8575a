"""How far apart the entities of a text are: exact, for all pairs, in milliseconds.

A path through a landmark is as long as both distances to it together, so the nearest landmark gives an upper bound;
two entities whose distances to one landmark differ by d are at least d apart, a lower bound. Where the bounds leave a
choice, a search settles it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.errors import SourceError
from infuser.knowledge.artifact import Parts
from infuser.knowledge.graph.adjacency import Adjacency
from infuser.knowledge.graph.landmarks import FAR
from infuser.knowledge.graph.pair_search import Landmarks, Search

_AT_ONCE = 1 << 18  # numbers per step, so that they stay in the cache
_NEVER = np.iinfo(np.int16).max


class Distances:
    """Answers how far entities are apart, by the parts that `lay_out` and `measure` made."""

    def __init__(self, adjacency: Adjacency, parts: Parts) -> None:
        self.adjacency = adjacency
        self._components, self._near = parts["components"], parts["landmarks.near"]
        self.landmarks = parts["landmarks"]

    def between(self, numbers: NDArray[Any], hops: int) -> NDArray[Any]:
        """Return the distances between any two of the entities; hops + 1 stands for all that are larger."""
        nodes, places = _checked(numbers, hops, len(self.adjacency))
        lower, upper = self.bounds(nodes)
        near = self.adjacency.among(nodes)
        upper[near.one, near.other] = upper[near.other, near.one] = 1
        np.fill_diagonal(upper, 0)
        lower = np.maximum(lower, np.minimum(upper, 2))  # 1 and 0 are known by now
        distances = np.minimum(upper, hops + 1)
        found = self._search(nodes, np.where(lower < distances, distances - 1, 0))
        distances = np.where(found > 0, found, distances).astype(np.min_scalar_type(hops + 1))
        return distances[np.ix_(places, places)]

    def within(self, numbers: NDArray[Any], hops: int) -> NDArray[np.bool_]:
        """Return which two of the entities are at most so many edges apart."""
        nodes, places = _checked(numbers, hops, len(self.adjacency))
        lower, upper = self.bounds(nodes)
        np.fill_diagonal(upper, 0)
        near = upper <= hops
        near |= self._search(nodes, np.where(near | (lower > hops), 0, hops)) > 0
        return near[np.ix_(places, places)]

    def products(self, numbers: NDArray[Any], distances: NDArray[Any], hops: int) -> NDArray[np.float64]:
        """Return the largest product of edge weights over the shortest paths of 2 up to `hops` edges, else 0.

        The entities stand in ascending order, each once, and their distances are known.
        """
        most = np.where((distances > 1) & (distances <= hops), distances, 0).astype(np.int16)
        return self._run(numbers, most, weighted=True).products

    def _search(self, nodes: NDArray[Any], most: NDArray[Any]) -> NDArray[np.int16]:
        """Return how long the shortest path is, 0 if it is longer than `most` or leads through a landmark."""
        if not most.any():
            return np.zeros(most.shape, np.int16)
        return self._run(nodes, most.astype(np.int16), weighted=False).lengths

    def _run(self, nodes: NDArray[Any], most: NDArray[np.int16], *, weighted: bool) -> Search:
        # around the landmarks when no weights matter and all paths of interest through them are known
        around = self.landmarks[:] if not weighted and most.max() < FAR else self.landmarks[:0]
        landmarks = Landmarks(around, self._near)
        search = Search(self.adjacency, landmarks, nodes, most, weighted=weighted)
        search.run()
        return search

    def bounds(self, nodes: NDArray[Any]) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
        """Return the least and the largest distance between any two of the entities that the landmarks allow."""
        near = np.ascontiguousarray(
            self._near[nodes].T, np.int16
        )  # (landmarks, nodes): quick to go through by landmark
        n_landmarks, n = near.shape
        lower, upper = np.zeros((n, n), np.int16), np.full((n, n), _NEVER)
        reaching = np.where(near < FAR, near, _NEVER // 2)
        if n_landmarks:
            step = max(1, _AT_ONCE // (n * n_landmarks + 1))
            for first in range(0, n, step):
                some = slice(first, first + step)
                lower[some] = np.abs(near[:, some, None] - near[:, None]).max(axis=0)
                upper[some] = (reaching[:, some, None] + reaching[:, None]).min(axis=0)
        components = self._components[nodes]
        apart = components[:, None] != components[None]
        lower[apart] = upper[apart] = _NEVER
        return lower, upper


def _checked(numbers: NDArray[Any], hops: int, n_entities: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the different numbers in ascending order, and the place of each given number among them."""
    if not 0 < hops < _NEVER // 2:
        raise SourceError(f"hops={hops} cannot be used; it must be 1 or more, and below {_NEVER // 2}.")
    nodes, places = np.unique(np.asarray(numbers, np.int64).ravel(), return_inverse=True)
    if len(nodes) and not 0 <= nodes[0] <= nodes[-1] < n_entities:
        raise SourceError(
            f"There is no entity number {nodes[0] if nodes[0] < 0 else nodes[-1]}; this graph has {n_entities:,}."
        )
    return nodes, places
