"""The types and relations of a graph, counted."""

from __future__ import annotations

import numpy as np

from infuser.knowledge.arrays import Strings
from infuser.knowledge.artifact import whole
from infuser.knowledge.graph.store import GraphStore


def types_by_count(store: GraphStore, untyped: str) -> dict[str, int]:
    """Return how many entities have each type as their first, the most frequent first; `untyped`: those without."""
    begins = whole(store.parts["types.begins"])
    typed = np.flatnonzero(np.diff(begins))
    names = Strings.open(store.parts, "types")
    codes = np.bincount(whole(store.parts["types.codes"])[begins[typed]], minlength=len(names)).tolist()
    counts = {names[code]: count for code, count in enumerate(codes) if count}
    n_untyped = store.n_entities - len(typed)
    if n_untyped:
        counts[untyped] = counts.get(untyped, 0) + n_untyped
    return _most_first(counts)


def relations_by_count(store: GraphStore) -> dict[str, int]:
    """Return how many edges each relation has, the most frequent first."""
    counts = whole(store.parts["relations.counts"]).tolist()
    return _most_first(dict(zip(store.relations, counts, strict=True)))


def _most_first(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda row: -row[1]))
