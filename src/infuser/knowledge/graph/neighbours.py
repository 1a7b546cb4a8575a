"""What a graph says about one entity in words: its name, and its neighbours in the order of their edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from infuser.knowledge.graph.adjacency import Adjacency
from infuser.knowledge.graph.store import GraphStore


class Neighbour(NamedTuple):
    """An entity at the other end of an edge."""

    entity: int
    relation: str
    weight: float


def neighbours_of(store: GraphStore, entity: int, relation: str | None = None) -> Iterator[Neighbour]:
    """Yield where the edges of an entity lead, of all relations or of one: heaviest first, equals as in the graph.

    Edges that lead to it say what it is to others, such as the thousand kinds of a thing, and are left out.
    """
    adjacency = Adjacency(store.parts)
    first, last = adjacency.begins[entity : entity + 2].tolist()
    places = np.arange(first, last)
    kinds = adjacency.kinds[places].astype(np.int64)
    chosen = kinds & 1 == 0  # odd ones lead the other way
    if relation is not None:
        chosen &= kinds >> 1 == store.relations.index(relation)
    places, kinds = places[chosen], kinds[chosen]
    weights = adjacency.weights_at(places)
    for row in np.lexsort((places, -weights)).tolist():
        neighbour = int(adjacency.neighbours[int(places[row])])
        if neighbour != entity:
            yield Neighbour(neighbour, store.relations[int(kinds[row]) >> 1], float(weights[row]))


def name_of(store: GraphStore, entity: int) -> str:
    """Return what an entity is called: its label, else its first alias, else its id, underscores read as spaces."""
    known = store.entity(entity)
    name = known.label or next(iter(known.aliases), known.id)
    return name.replace("_", " ").strip()
