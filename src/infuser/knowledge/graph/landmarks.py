"""Hub landmarks: how far every entity is from a few dozen of the best connected ones.

One look at two entities' distances to the landmarks bounds the distance between them from both sides. All landmarks
spread at once: an entity has one bit per landmark, and a step ors the bits of its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.knowledge.graph.adjacency import Adjacency

FAR = 255
"""Stands for this distance, for any larger one, and for entities that cannot be reached."""

_BITS = 64
_AT_ONCE = 1 << 22  # entries per step, so that memory stays small whatever the size of the graph


def find_components(adjacency: Adjacency) -> NDArray[np.int32]:
    """Return for each entity the number of the component it lies in."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n = len(adjacency)
    ones = np.ones(len(adjacency.neighbours), np.int8)
    matrix = csr_array((ones, adjacency.neighbours, adjacency.begins), shape=(n, n))
    # every edge has both directions, so the strong components are the components, without a transposed copy
    labels: NDArray[np.int32] = connected_components(matrix, connection="strong")[1].astype(np.int32)
    return labels


def choose_landmarks(degrees: NDArray[Any], components: NDArray[Any], n: int) -> NDArray[np.int32]:
    """Return the entities with most edges; large components get their share, as parties get seats (D'Hondt)."""
    sizes = np.bincount(components)
    order = np.lexsort((np.arange(len(degrees)), -degrees, components))  # by component, best connected first
    begins = np.cumsum(sizes) - sizes
    rank = np.arange(len(order)) - begins[components[order]]
    candidates = (rank < n) & (degrees[order] > 0)
    order, rank = order[candidates], rank[candidates]
    share = sizes[components[order]] / (rank + 1)
    best = np.lexsort((order, -degrees[order], -share))[:n]
    landmarks: NDArray[np.int32] = order[best].astype(np.int32)
    return landmarks


def measure(
    adjacency: Adjacency, landmarks: NDArray[np.int32], report: Callable[[int], None] = lambda step: None
) -> NDArray[np.uint8]:
    """Return the distances from every entity to every landmark, (entities, landmarks)."""
    near = np.full((len(adjacency), len(landmarks)), FAR, np.uint8)
    for first in range(0, len(landmarks), _BITS):
        _spread(adjacency, landmarks[first : first + _BITS], near[:, first : first + _BITS], report)
    return near


def _spread(
    adjacency: Adjacency, landmarks: NDArray[np.int32], near: NDArray[np.uint8], report: Callable[[int], None]
) -> None:
    front = np.zeros(len(adjacency), np.uint64)
    front[landmarks] = np.uint64(1) << np.arange(len(landmarks), dtype=np.uint64)
    seen = front.copy()
    active = landmarks.astype(np.int64)
    for distance in range(FAR):
        report(distance)
        _note(near, front, active, distance)
        front = _step(adjacency, front, active)
        front &= ~seen
        seen |= front
        active = np.flatnonzero(front)
        if not len(active):
            return


def _step(adjacency: Adjacency, front: NDArray[np.uint64], active: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return for each entity the bits of its neighbours."""
    reached = np.zeros_like(front)
    if adjacency.degrees(active).sum() * 8 < len(adjacency.neighbours):  # few give: push
        for some in portions(adjacency.degrees(active), _AT_ONCE):
            places, owners = adjacency.entries(active[some])
            np.bitwise_or.at(reached, adjacency.neighbours[places], front[active[some]][owners])
        return reached
    takers = np.flatnonzero(np.diff(adjacency.begins))  # many give: everybody who has neighbours pulls
    begins = adjacency.begins[takers]
    for some in portions(adjacency.degrees(takers), _AT_ONCE):
        first, last = begins[some.start], adjacency.begins[takers[some.stop - 1] + 1]
        given = front[adjacency.neighbours[first:last]]
        reached[takers[some]] = np.bitwise_or.reduceat(given, begins[some] - first)
    return reached


def _note(near: NDArray[np.uint8], front: NDArray[np.uint64], active: NDArray[np.int64], distance: int) -> None:
    n_landmarks = near.shape[1]
    for first in range(0, len(active), _AT_ONCE // _BITS):
        some = active[first : first + _AT_ONCE // _BITS]
        octets = front[some].astype("<u8").view(np.uint8).reshape(-1, 8)
        bits = np.unpackbits(octets, axis=1, count=n_landmarks, bitorder="little").astype(bool)
        rows = near[some]
        rows[bits] = distance
        near[some] = rows


def portions(sizes: NDArray[np.int64], at_once: int) -> list[slice]:
    """Cut a list of things of these sizes into portions of about `at_once` in all."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // at_once)) + 1
    borders = [0, *cuts.tolist(), len(sizes)]
    return [slice(one, other) for one, other in pairwise(borders) if other > one]
