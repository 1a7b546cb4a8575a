"""Facts for graphs, made in code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from infuser.knowledge.facts import ENTITIES, TRIPLES

Row = dict[str, Any]


def triples(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    """Return (head, relation, tail[, weight]) as a batch."""
    columns = [[row[place] for row in rows] for place in range(3)]
    weights = [row[3] if len(row) > 3 else 1.0 for row in rows]
    return pa.record_batch([*columns, pa.array(weights, pa.float32())], schema=TRIPLES)


def entities(*rows: Row) -> pa.RecordBatch:
    """Return entities as a batch; what is not said is null."""
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in ENTITIES]
    return pa.record_batch(columns, schema=ENTITIES)


def swiss() -> list[pa.RecordBatch]:
    """A small graph in which everything occurs: loops, parallel edges, weights, lists, nulls, an entity alone."""
    return [
        entities(
            {"id": "Q70", "label": "Bern", "aliases": ["Berne", "Berna"], "types": ["city", "capital"], "count": 90},
            {"id": "Q39", "label": "Switzerland", "description": "country in Europe", "types": ["country"]},
            {"id": "Q72", "label": "Zürich", "aliases": ["Zurich"], "types": ["city"], "count": 120},
            {"id": "Q12", "label": "Bern", "description": "a village"},
        ),
        triples(
            ("Q70", "capital of", "Q39"),
            ("Q72", "located in", "Q39", 0.5),
            ("Q70", "located in", "Q39", 0.25),
            ("Q39", "has part", "Q39", 0.75),
            ("Aare_river", "flows through", "Q70", 0.5),
        ),
        entities(
            {"id": "Q70", "label": "Bärn", "aliases": ["Bern", "Bärn", None, " "], "description": "seat", "count": 10},
            {"id": "Q99", "aliases": ["lonely"], "types": ["city", "city", "town"]},
        ),
    ]


def hub_graph(n: int = 400, seed: int = 0) -> list[pa.RecordBatch]:
    """A few hundred entities with hubs, islands, labels and weights."""
    chance = np.random.default_rng(seed)
    heads, tails = (n * chance.random((2, 3 * n)) ** np.array([[1.0], [4.0]])).astype(int)
    weights = chance.choice([0.25, 0.5, 1.0], 3 * n)
    rows = [
        (f"e{head}", f"r{(head + tail) % 5}", f"e{tail}", weight)
        for head, tail, weight in zip(heads.tolist(), tails.tolist(), weights.tolist(), strict=True)
    ]
    named = [{"id": f"e{number}", "label": f"name {number % 300}", "count": number} for number in range(0, n + 20, 2)]
    return [*_in_batches(rows, 500), entities(*named)]


def _in_batches(rows: Sequence[tuple[Any, ...]], size: int) -> list[pa.RecordBatch]:
    return [triples(*rows[first : first + size]) for first in range(0, len(rows), size)]
