"""What is known about entities beyond the text they stand in: in how many texts they occur, how near they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infuser.types import Annotations, Source, entity_key

if TYPE_CHECKING:
    from infuser.knowledge.candidates.store import CandidateStore
    from infuser.knowledge.graph.close_pairs import Nearness
    from infuser.knowledge.graph.store import GraphStore

_MOST_REMEMBERED = 1_000_000


class Surroundings:
    """Answers about the entities that one source finds; what was asked once is remembered."""

    def __init__(
        self, source: Source, frequencies: Mapping[str, int] | str | Path | None, graph: str | Path | None
    ) -> None:
        while hasattr(source, "source"):  # a wrapper, such as a source that remembers, has no store of its own
            source = source.source
        if frequencies is None:
            self.counts = _counts_of(source)
        else:
            self.counts = frequencies if isinstance(frequencies, Mapping) else read_counts(frequencies)
        self.graph: GraphStore | None = getattr(source, "graph_store", None)
        if graph is not None:
            from infuser.knowledge.graph.store import GraphStore

            self.graph = GraphStore.open(graph)
        self._nearness: dict[int, Nearness] = {}
        self._counted: dict[str, int] = {}
        self._numbers: dict[str, int] = {}

    def count(self, key: str) -> int:
        """Return in how many texts an entity is mentioned, 0 if nobody counted it."""
        if key not in self._counted:
            _make_room(self._counted)
            self._counted[key] = int(self.counts.get(key, 0))
        return self._counted[key]

    def n_near(self, entities: Sequence[str], hops: int) -> list[int]:
        """Return for each of these different entities how many of the others are at most so many edges away."""
        near = np.zeros(len(entities), np.int64)
        if self.graph is not None:
            nodes = np.array([self._number(key) for key in entities], np.int64)
            known = np.flatnonzero(nodes >= 0)
            if len(known) > 1:
                near[known] = self._near(hops).n_near(nodes[known])
        return near.tolist()

    def _near(self, hops: int) -> Nearness:
        if hops not in self._nearness:
            assert self.graph is not None
            self._nearness[hops] = self.graph.nearness(hops)
        return self._nearness[hops]

    def _number(self, key: str) -> int:
        if key not in self._numbers:
            _make_room(self._numbers)
            assert self.graph is not None
            number = self.graph.number_of(key)
            self._numbers[key] = -1 if number is None else number
        return self._numbers[key]


def count_entities(annotated: Iterable[Sequence[Annotations]]) -> dict[str, int]:
    """Return in how many texts each entity is found by any source, by `entity_key`."""
    counts: Counter[str] = Counter()
    for of_text in annotated:
        counts.update({entity_key(found.text, span) for found in of_text for span in found.spans})
    return dict(counts)


def read_counts(folder: str | Path) -> Mapping[str, int]:
    """Return how often each entity was met, by a folder of annotations, of candidates or of a graph."""
    from infuser.knowledge.artifact import kind_of

    kind = kind_of(folder)
    if kind == "graph":
        from infuser.knowledge.graph.store import GraphStore

        return _GraphCounts(GraphStore.open(folder))
    if kind == "candidates":
        from infuser.knowledge.candidates.store import CandidateStore

        return _totals(CandidateStore.open(folder))
    from infuser.sources.annotating.reading import read_frequencies

    return read_frequencies(folder)


def _counts_of(source: Any) -> Mapping[str, int]:
    """Return what a source's own store has counted; nothing for one that counts nothing."""
    if (graph := getattr(source, "graph_store", None)) is not None:
        return _GraphCounts(graph)
    finder = getattr(getattr(source, "candidates", source), "finder", None)  # of a knowledge base, or of candidates
    return {} if finder is None else _totals(finder.store)


class _GraphCounts(Mapping[str, int]):
    """Entity id to how often the graph says that it was met."""

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


def _make_room(remembered: dict[str, int]) -> None:
    if len(remembered) >= _MOST_REMEMBERED:
        remembered.clear()
