"""The types and relations of a graph, counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from infuser.errors import SourceError, did_you_mean
from infuser.knowledge.arrays import Strings
from infuser.knowledge.artifact import whole
from infuser.knowledge.graph.store import GraphStore


class EntityLabels:
    """One type for each entity: the first that it has, or the first of some that are wanted."""

    def __init__(self, store: GraphStore, untyped: str, wanted: Sequence[str] | None = None) -> None:
        names = Strings.open(store.parts, "types")
        self._names = [names[code] for code in range(len(names))]
        known = {*self._names, untyped}
        for name in wanted or ():
            if name not in known:
                raise SourceError(
                    f"No entity of this graph has the type {name!r}.{did_you_mean(name, known)} Known: "
                    f"{', '.join(sorted(known)[:20])}."
                )
        begins, codes = whole(store.parts["types.begins"]), whole(store.parts["types.codes"])
        owners = np.repeat(np.arange(store.n_entities), np.diff(begins))
        if wanted is not None:
            allowed = np.array([name in wanted for name in self._names], bool)[codes]
            owners, codes = owners[allowed], codes[allowed]
        typed, first = np.unique(owners, return_index=True)
        self._codes: NDArray[np.int32] = np.full(store.n_entities, -1, np.int32)
        self._codes[typed] = codes[first]
        if wanted is None or untyped in wanted:
            if untyped not in self._names:
                self._names.append(untyped)
            self._codes[np.diff(begins) == 0] = self._names.index(untyped)

    def __getitem__(self, entity: int) -> str:
        """Return the type of an entity; empty if it has none that is wanted."""
        code = int(self._codes[entity])
        return self._names[code] if code >= 0 else ""

    def by_count(self) -> dict[str, int]:
        """Return how many entities have each type, the most frequent first."""
        counts = np.bincount(self._codes[self._codes >= 0], minlength=len(self._names)).tolist()
        return _most_first({name: count for name, count in zip(self._names, counts, strict=True) if count})


def relations_by_count(store: GraphStore) -> dict[str, int]:
    """Return how many edges each relation has, the most frequent first."""
    counts = whole(store.parts["relations.counts"]).tolist()
    return _most_first(dict(zip(store.relations, counts, strict=True)))


def _most_first(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda row: -row[1]))
