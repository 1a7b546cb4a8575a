"""Who is next to whom: every edge of a graph, seen from both of its ends.

The entries of entity number e stand at the places begins[e] up to begins[e + 1], ascending by neighbour, and parallel
edges in the order in which they were given. A loop has one entry, any other edge two.

    begins       (entities + 1) where the entries of each entity begin
    neighbours   the entity at the other end
    kinds        relation << 1, plus 1 if the edge comes from the other end
    weights      empty if every edge weighs 1
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuser.knowledge.arrays import begins_of, join_ranges
from infuser.knowledge.artifact import Parts

Numbers = NDArray[np.int64]

PARTS = ("begins", "neighbours", "kinds", "weights")
_HUB = 256  # an entity with fewer edges is never searched in a row of its own: the call would cost more


class Between(NamedTuple):
    """An edge between two of a few entities, each end by its place among them."""

    one: Numbers
    other: Numbers
    place: Numbers
    """The place of its entry."""


class Adjacency:
    """The edges of a graph, in memory or on disk."""

    def __init__(self, parts: Parts) -> None:
        self.begins = parts["edges.begins"]
        self.neighbours, self.kinds, self.weights = (
            parts[f"edges.{name}"] for name in ("neighbours", "kinds", "weights")
        )

    def __len__(self) -> int:
        return len(self.begins) - 1

    def degrees(self, nodes: NDArray[Any]) -> Numbers:
        """Return how many entries each of these entities has."""
        degrees: Numbers = self.begins[nodes + 1] - self.begins[nodes]
        return degrees

    def weights_at(self, places: NDArray[Any]) -> NDArray[Any]:
        """Return the weights of these entries."""
        weights: NDArray[Any] = self.weights[places] if len(self.weights) else np.ones(len(places))
        return weights

    def entries(self, nodes: NDArray[Any]) -> tuple[Numbers, Numbers]:
        """Return the places of all entries of these entities, and for each entry which of `nodes` has it."""
        begins = self.begins[nodes]
        degrees = self.begins[nodes + 1] - begins
        return join_ranges(begins, degrees), np.repeat(np.arange(len(nodes)), degrees)

    def among(self, nodes: NDArray[Any]) -> Between:
        """Return the edges between any two of these entities (ascending, each once), each edge once.

        The work grows with the smaller of the two ends: a hub may have a million neighbours.
        """
        degrees = self.degrees(nodes)
        is_hub = degrees > max(len(nodes), _HUB)
        small, large = np.flatnonzero(~is_hub), np.flatnonzero(is_hub)
        place, owners = self.entries(nodes[small])
        neighbours = self.neighbours[place]
        other = np.minimum(np.searchsorted(nodes, neighbours), max(len(nodes) - 1, 0))
        here = nodes[other] == neighbours if len(place) else np.zeros(0, bool)
        one, other, place = small[owners[here]], other[here], place[here]
        once = (one <= other) | is_hub[other]  # an edge of two small ends was met from both
        found = [Between(one[once], other[once], place[once])]
        for hub in large.tolist():
            found.append(self._among_hubs(nodes, hub, large[large >= hub]))
        one, other, place = (np.concatenate(column) for column in zip(*found, strict=True))
        one, other = np.minimum(one, other), np.maximum(one, other)
        order = np.lexsort((place, other, one))  # parallel edges as they were given
        return Between(one[order], other[order], place[order])

    def _among_hubs(self, nodes: NDArray[Any], hub: int, others: Numbers) -> Between:
        begin, end = self.begins[nodes[hub] : nodes[hub] + 2].tolist()
        neighbours = self.neighbours[begin:end]
        first, last = (np.searchsorted(neighbours, nodes[others], side=side) for side in ("left", "right"))
        n_edges = last - first
        place = join_ranges(begin + first, n_edges)
        return Between(np.full(len(place), hub), np.repeat(others, n_edges), place)


def lay_out(
    heads: NDArray[Any], tails: NDArray[Any], relations: NDArray[Any], weights: NDArray[Any], n_entities: int
) -> dict[str, NDArray[Any]]:
    """Return the parts of the adjacency of these edges."""
    edges = np.stack([heads, tails], axis=1).astype(np.int32)
    rows, neighbours = edges.ravel(), edges[:, ::-1].ravel()  # each edge from its head, then from its tail
    kinds = np.stack([relations << 1, relations << 1 | 1], axis=1).ravel()
    order = np.argsort(rows.astype(np.int64) * n_entities + neighbours, kind="stable")
    again = (rows == neighbours) & (kinds & 1 == 1)
    if again.any():
        order = order[~again[order]]
    weighs_one = bool((weights == 1).all())
    return {
        "edges.begins": begins_of(np.bincount(rows[order], minlength=n_entities)),
        "edges.neighbours": neighbours[order],
        "edges.kinds": kinds[order].astype(np.min_scalar_type(int(kinds.max(initial=0)))),
        "edges.weights": weights[:0] if weighs_one else weights[order >> 1],
    }
