"""In how many texts entities occur, and how near they are to each other in a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from infuser.knowledge.artifact import kind_of
from infuser.knowledge.candidates.store import CandidateStore
from infuser.sources.knowledge_base import KnowledgeBase
from infuser.types import Annotations, FindsMentions, HasGraph, Source, entity_key, innermost

if TYPE_CHECKING:
    from infuser.knowledge.graph.close_pairs import ClosePairs
    from infuser.knowledge.graph.store import GraphStore

_MOST_CACHED = 1_000_000


class EntityStatistics:
    """Counts and distances of the entities that one source finds; each is looked up once."""

    def __init__(
        self, source: Source, frequencies: Mapping[str, int] | str | Path | None, graph: str | Path | None
    ) -> None:
        source = innermost(source)
        if frequencies is None:
            self.counts = _counts_of(source)
        else:
            self.counts = frequencies if isinstance(frequencies, Mapping) else read_counts(frequencies)
        self.graph: GraphStore | None = source.graph_store if isinstance(source, HasGraph) else None
        if graph is not None:
            from infuser.knowledge.graph.store import GraphStore

            self.graph = GraphStore.open(graph)
        self.count = lru_cache(_MOST_CACHED)(lambda key: int(self.counts.get(key, 0)))
        """Called with an entity's key, returns in how many texts it is mentioned, 0 if it was not counted."""
        self._number = lru_cache(_MOST_CACHED)(self._number_of)
        self._near = cache(self._nearness)

    def n_near(self, entities: Sequence[str], hops: int) -> list[int]:
        """Return for each of these different entities how many of the others are at most so many edges away."""
        near = np.zeros(len(entities), np.int64)
        if self.graph is not None:
            nodes = np.array([self._number(key) for key in entities], np.int64)
            known = np.flatnonzero(nodes >= 0)
            if len(known) > 1:
                near[known] = self._near(hops).n_near(nodes[known])
        return near.tolist()

    def _nearness(self, hops: int) -> ClosePairs:
        assert self.graph is not None
        return self.graph.nearness(hops)

    def _number_of(self, key: str) -> int:
        assert self.graph is not None
        number = self.graph.number_of(key)
        return -1 if number is None else number


def count_entities(annotated: Iterable[Sequence[Annotations]]) -> dict[str, int]:
    """Return in how many texts each entity is found by any source, by `entity_key`."""
    counts: Counter[str] = Counter()
    for of_text in annotated:
        counts.update({entity_key(found.text, span) for found in of_text for span in found.spans})
    return dict(counts)


def read_counts(folder: str | Path) -> Mapping[str, int]:
    """Return how often each entity was met, by a folder of annotations, of candidates or of a graph."""
    kind = kind_of(folder)
    if kind == "graph":
        from infuser.knowledge.graph.store import GraphStore

        return _GraphCounts(GraphStore.open(folder))
    if kind == "candidates":
        return _totals(CandidateStore.open(folder))
    from infuser.sources.annotating.reading import read_frequencies

    return read_frequencies(folder)


def _counts_of(source: Source) -> Mapping[str, int]:
    """Return what a source's own store has counted; nothing for one that counts nothing."""
    if isinstance(source, HasGraph):
        return _GraphCounts(source.graph_store)
    finds = source.candidates if isinstance(source, KnowledgeBase) else source
    return _totals(finds.finder.store) if isinstance(finds, FindsMentions) else {}


class _GraphCounts(Mapping[str, int]):
    """Entity id to its count in a graph."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store

    def __getitem__(self, id: str) -> int:
        number = self._store.number_of(id)
        if number is None:
            raise KeyError(id)
        return int(self._store.counts([number])[0])

    def __len__(self) -> int:
        return self._store.n_entities

    def __iter__(self) -> Iterator[str]:
        return (self._store.id_of(number) for number in range(self._store.n_entities))


def _totals(store: CandidateStore) -> dict[str, int]:
    return {store.ids[place]: round(total) for place, total in enumerate(store.totals().tolist())}
