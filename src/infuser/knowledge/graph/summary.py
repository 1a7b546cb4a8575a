"""Figures of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuser.knowledge.artifact import whole
from infuser.knowledge.graph.store import GraphStore

_HUBS = 5
_MANY_RELATIONS, _FEW_ENTITIES = 100, 4


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
