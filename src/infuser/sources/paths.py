"""Short paths between a few entities of a large graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Tie(NamedTuple):
    """How strongly two entities are tied, and by which relation if they are neighbours."""

    weight: float
    relation: str = ""


Edges = Mapping[str, Mapping[str, Tie]]


class _Reached(NamedTuple):
    n_edges: int
    weight: float
    """Product of the edge weights, the largest over the shortest paths."""


def ties_between(entities: Sequence[str], edges: Edges, *, hops: int, decay: float) -> dict[tuple[str, str], Tie]:
    """Return the ties between any two of the entities, each pair once and in the order of `entities`.

    Only shortest paths count; among them the one with the largest product of edge weights.
    """
    number_of = {entity: number for number, entity in enumerate(entities)}
    ties: dict[tuple[str, str], Tie] = {}
    for one in entities:
        near = edges.get(one, {})
        # in time of the smaller: a hub may have a million neighbours
        present = [other for other in near if other in number_of] if len(near) < len(entities) else entities
        for other in sorted(present, key=number_of.__getitem__):
            if other in near and number_of[one] <= number_of[other]:
                ties[one, other] = near[other]
    if hops > 1:
        _add_longer(ties, entities, edges, hops=hops, decay=decay)
    return ties


def _add_longer(
    ties: dict[tuple[str, str], Tie], entities: Sequence[str], edges: Edges, *, hops: int, decay: float
) -> None:
    """Add the ties over two and more edges, searched from both ends so that each end goes half the way."""
    far = {entity: _reach(entity, edges, (hops + 1) // 2) for entity in entities}
    near = far if hops % 2 == 0 else {entity: _reach(entity, edges, hops // 2) for entity in entities}
    seen_by: dict[str, list[int]] = defaultdict(list)
    for number, entity in enumerate(entities):
        for node in near[entity]:
            seen_by[node].append(number)
    for number, one in enumerate(entities):
        best: dict[int, _Reached] = {}
        for node, there in far[one].items():
            for later in seen_by.get(node, ()):
                if later <= number:
                    continue
                back = near[entities[later]][node]
                path = _Reached(there.n_edges + back.n_edges, there.weight * back.weight)
                if later not in best or (path.n_edges, -path.weight) < (best[later].n_edges, -best[later].weight):
                    best[later] = path
        for later, path in sorted(best.items()):
            if path.n_edges > 1:
                ties[one, entities[later]] = Tie(decay ** (path.n_edges - 1) * path.weight)


def _reach(entity: str, edges: Edges, radius: int) -> dict[str, _Reached]:
    """Return everything within `radius` edges of an entity."""
    reached = {entity: _Reached(0, 1.0)}
    border = {entity: 1.0}
    for n_edges in range(1, radius + 1):
        beyond: dict[str, float] = {}
        for node, weight in border.items():
            for other, tie in edges.get(node, {}).items():
                if other not in reached:
                    beyond[other] = max(beyond.get(other, 0.0), weight * tie.weight)
        reached.update((node, _Reached(n_edges, weight)) for node, weight in beyond.items())
        border = beyond
    return reached
