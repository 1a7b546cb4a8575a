"""A knowledge graph: entities with their names, typed edges, and who is near whom; in memory or in a folder on disk.

ids, ids.keys, ids.entities   id <-> number; an entity's number is its place in the order in which they came. Further
                              ids of entities lead to their numbers, too
called, types, ...            labels, types ... of entities, see `entity_table`
edges, relations              typed edges, see `adjacency`
components, landmarks         what answers questions about distances, see `distances`
names                         the names of entities, ready to be found in texts, and the entity of each
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from infuser.errors import SourceError
from infuser.knowledge.arrays import Strings, key_in
from infuser.knowledge.artifact import Array, Folder, Parts, whole, write_folder
from infuser.knowledge.graph.adjacency import Adjacency
from infuser.knowledge.graph.close_pairs import ClosePairs
from infuser.knowledge.graph.distances import Distances
from infuser.knowledge.names.gazetteer import Gazetteer

KIND = "graph"
_HUBS = 5
_MANY_RELATIONS, _FEW_ENTITIES = 100, 4


@dataclass(frozen=True, slots=True)
class GraphEntity:
    """What a graph knows about one entity."""

    id: str
    label: str
    """The name shown to people; empty if none was given."""
    aliases: tuple[str, ...]
    description: str
    types: tuple[str, ...]
    count: int
    """How often it was met somewhere, 0 if that is not known."""
    degree: int
    """How many edges it has."""


class Edge(NamedTuple):
    """An edge between two entities, by their ids."""

    head: str
    relation: str
    tail: str
    weight: float


class EntityTie(NamedTuple):
    """How strongly two entities are tied, each by its place among those given."""

    one: int
    other: int
    weight: float
    relation: str
    """Over a single edge its relation, else empty."""


class GraphStore:
    """A graph that `build_graph` made or that was saved to a folder."""

    def __init__(self, parts: Parts, about: dict[str, Any]) -> None:
        self.parts, self.about = parts, about
        self.n_entities: int = about["n_entities"]
        self.n_edges: int = about["n_edges"]

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open a folder that `save_graph` wrote; its arrays stay on disk, shared by all processes that open it."""
        opened = Folder(folder, KIND)
        return cls(opened, opened.about)

    @property
    def digest(self) -> str:
        """Tells the content of a folder from any other; empty for a graph in memory."""
        return self.parts.digest if isinstance(self.parts, Folder) else ""

    @cached_property
    def relations(self) -> tuple[str, ...]:
        """The names of the relations, in the order in which they came."""
        names = Strings.open(self.parts, "relations")
        return tuple([names[number] for number in range(len(names))])

    @cached_property
    def names(self) -> Gazetteer:
        """All names of all entities, ready to be found in texts."""
        return Gazetteer.open(self.parts, "names", self.about)

    @property
    def owners(self) -> Array:
        """For each name of `names` the number of its entity."""
        owners: Array = self.parts["names.owners"]
        return owners

    def number_of(self, id: str) -> int | None:
        """Return the number of the entity with this id, its own or a further one; None if the graph has none."""
        key = key_in(self.parts["ids"], id)
        return None if key < 0 else int(self.parts["ids.entities"][key])

    def numbers_of(self, ids: Iterable[str]) -> NDArray[np.int64]:
        """Return the numbers of entities, -1 for ids that there are none of."""
        numbers = [self.number_of(id) for id in ids]
        return np.array([-1 if number is None else number for number in numbers], np.int64)

    def id_of(self, number: int) -> str:
        """Return the id of an entity."""
        if not 0 <= number < self.n_entities:
            raise SourceError(f"There is no entity number {number}; this graph has {self.n_entities:,}.")
        id: str = self.parts["ids"].restore_key(int(self.parts["ids.keys"][number]))
        return id

    def other_ids_of(self, number: int) -> list[str]:
        """Return the further ids by which an entity is found; looks at all ids once."""
        own = int(self.parts["ids.keys"][number])
        keys = np.flatnonzero(whole(self.parts["ids.entities"]) == number).tolist()
        return sorted(self.parts["ids"].restore_key(key) for key in keys if key != own)

    def entity(self, number: int) -> GraphEntity:
        """Return all that is known about an entity except its edges."""
        id = self.id_of(number)
        first, last = self.parts["called.begins"][number : number + 2].tolist()
        called = [self._called[place] for place in range(first, last)]
        n_labels = int(self.parts["labelled"][number])
        return GraphEntity(
            id=id,
            label="".join(called[:n_labels]),
            aliases=tuple(called[n_labels:]),
            description=Strings.open(self.parts, "descriptions")[number],
            types=self.types_of(number),
            count=int(self.parts["counts"][number]),
            degree=int(self._adjacency.degrees(np.array([number]))[0]),
        )

    def types_of(self, number: int) -> tuple[str, ...]:
        """Return the types of an entity, in the order in which they were given."""
        first, last = self.parts["types.begins"][number : number + 2].tolist()
        names = Strings.open(self.parts, "types")
        return tuple([names[code] for code in self.parts["types.codes"][first:last].tolist()])

    def edges_of(self, number: int, limit: int | None = None) -> list[Edge]:
        """Return the edges of an entity, or the first so many of them; by neighbour."""
        here = self.id_of(number)
        first, last = self._adjacency.begins[number : number + 2].tolist()
        if limit is not None:
            last = min(last, first + limit)
        places = np.arange(first, last)
        edges = []
        for neighbour, kind, weight in zip(
            self._adjacency.neighbours[places].tolist(),
            self._adjacency.kinds[places].tolist(),
            self._adjacency.weights_at(places).tolist(),
            strict=True,
        ):
            there = self.id_of(neighbour)
            head, tail = (there, here) if kind & 1 else (here, there)
            edges.append(Edge(head, self.relations[kind >> 1], tail, weight))
        return edges

    def degrees(self, numbers: ArrayLike) -> NDArray[np.int64]:
        """Return how many edges entities have."""
        return self._adjacency.degrees(np.asarray(numbers, np.int64))

    def counts(self, numbers: ArrayLike) -> NDArray[np.int64]:
        """Return how often entities were met, 0 where that is not known."""
        counts: NDArray[np.int64] = self.parts["counts"][np.asarray(numbers, np.int64)]
        return counts

    def by_frequency(self, numbers: Sequence[int]) -> list[int]:
        """Return entities in the order of their counts, then of their degrees, largest first; equals stay as given."""
        if len(numbers) < 2:
            return list(numbers)
        counts, degrees = self.counts(numbers).tolist(), self.degrees(numbers).tolist()
        order = sorted(range(len(numbers)), key=lambda place: (-counts[place], -degrees[place]))
        return [numbers[place] for place in order]

    def distances(self, numbers: ArrayLike, hops: int) -> NDArray[Any]:
        """Return how many edges lie between any two of the entities, in any direction; hops + 1 where it is more."""
        return self._distances.between(np.asarray(numbers, np.int64), hops)

    def within(self, numbers: ArrayLike, hops: int) -> NDArray[np.bool_]:
        """Return which two of the entities are at most `hops` edges apart, in any direction; cheaper than distances."""
        return self._distances.within(np.asarray(numbers, np.int64), hops)

    def nearness(self, hops: int) -> ClosePairs:
        """Return what answers `within` for many texts, one after another."""
        return ClosePairs(self._distances, hops)

    def ties(self, numbers: Sequence[int], hops: int, decay: float) -> list[EntityTie]:
        """Return the ties between any two of these different entities, shortest first, and those by loops.

        Only shortest paths count. A tie weighs decay ** (edges - 1) times the largest product of edge weights over
        them; of parallel edges the heaviest counts, of equals the first.
        """
        asked = np.asarray(numbers, np.int64)
        order = np.argsort(asked)
        nodes = asked[order]
        one, other, place = self._adjacency.among(nodes)
        weights = self._adjacency.weights_at(place)
        best = np.lexsort((np.arange(len(place)), -weights, other, one))
        best = best[np.diff(one[best] * len(nodes) + other[best], prepend=-1) > 0]
        relations = [self.relations[kind >> 1] for kind in self._adjacency.kinds[place[best]].tolist()]
        found = [(1, one[best], other[best], weights[best], relations)]
        if hops > 1:
            found += self._longer_ties(nodes, hops, decay)
        ties: list[EntityTie] = []
        for _, first, second, weight, names in found:
            ends = np.sort(np.stack([order[first], order[second]]), axis=0)
            rows = sorted(zip(*ends.tolist(), weight.tolist(), names, strict=True))
            ties += [EntityTie(*row) for row in rows]
        return ties

    def _longer_ties(self, nodes: NDArray[np.int64], hops: int, decay: float) -> list[tuple[Any, ...]]:
        distances = self._distances.between(nodes, hops).astype(np.int64)
        weighted = len(self._adjacency.weights) > 0
        products = self._distances.products(nodes, distances, hops) if weighted else np.ones(distances.shape)
        found = []
        for n_edges in range(2, hops + 1):
            one, other = np.nonzero(np.triu(distances == n_edges))
            if len(one):
                weights = decay ** (n_edges - 1) * products[one, other]
                found.append((n_edges, one, other, weights, [""] * len(one)))
        return found

    @cached_property
    def _adjacency(self) -> Adjacency:
        return Adjacency(self.parts)

    @cached_property
    def _distances(self) -> Distances:
        return Distances(self._adjacency, self.parts)

    @cached_property
    def _called(self) -> Strings:
        return Strings.open(self.parts, "called")


def save_graph(store: GraphStore, folder: str | Path) -> Path:
    """Write a graph as a folder, in place of an older graph that lies there."""
    return write_folder(folder, KIND, store.parts, **store.about)


def describe(store: GraphStore) -> dict[str, Any]:
    """Return the figures of a graph as plain data; all of its edges' ends are looked at once."""
    degrees = np.diff(whole(store.parts["edges.begins"]))
    counts = whole(store.parts["relations.counts"])
    components = whole(store.parts["components"])
    sizes = np.bincount(components) if len(components) else np.zeros(0, np.int64)
    reached = np.unique(components[store.parts["landmarks"][:]])
    hubs = np.argsort(-degrees, kind="stable")[:_HUBS].tolist()
    return {
        "entities": store.n_entities,
        "edges": store.n_edges,
        "names": store.about["n_names"],
        "fold_case": store.about["fold_case"],
        "fold_accents": store.about["fold_accents"],
        "labelled": int(whole(store.parts["labelled"]).sum()),
        "described": int((np.diff(whole(store.parts["descriptions.offsets"])) > 0).sum()),
        "typed": int((np.diff(whole(store.parts["types.begins"])) > 0).sum()),
        "counted": int((whole(store.parts["counts"]) > 0).sum()),
        "relations": {store.relations[code]: int(counts[code]) for code in np.argsort(-counts, kind="stable").tolist()},
        "degrees": _histogram(degrees),
        "median_degree": float(np.median(degrees)) if len(degrees) else 0.0,
        "hubs": [{"id": store.id_of(hub), "degree": int(degrees[hub])} for hub in hubs if degrees[hub]],
        "components": len(sizes),
        "largest_component": int(sizes.max(initial=0)),
        "landmarks": len(store.parts["landmarks"]),
        "reached_by_landmarks": int(sizes[reached].sum()),
        "digest": store.digest,
    }


def columns_look_swapped(store: GraphStore) -> bool:
    """Return whether there are so many relations for so few entities that triples were probably read in wrong order."""
    n_relations = len(store.relations)
    return n_relations > _MANY_RELATIONS and _FEW_ENTITIES * n_relations > store.n_entities


def _histogram(degrees: Any) -> list[dict[str, int]]:
    """Return how many entities have 0, 1, 2, 3 to 4, 5 to 8 ... edges."""
    rows = []
    first = last = 0
    while len(degrees) and first <= int(degrees.max()):
        rows.append({"from": first, "to": last, "entities": int(((degrees >= first) & (degrees <= last)).sum())})
        first, last = last + 1, max(1, 2 * last)
    return rows
