"""A generated knowledge graph: any size, degrees by a power law, written as the files that a user would have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from infuser.knowledge.facts import ENTITIES

SYLLABLES = [
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ha",
    "ke",
    "li",
    "mo",
    "nu",
    "pa",
    "re",
    "si",
    "to",
    "vu",
    "wa",
    "ze",
    "qui",
]
Numbers = NDArray[np.int64]


def zipf(chance: np.random.Generator, n: int, size: int, power: float) -> Numbers:
    """Draw numbers below n, number r with a probability of about (r + 1) ** -power."""
    rest = 1 - power
    return np.minimum((chance.random(size) * (n**rest - 1) + 1) ** (1 / rest) - 1, n - 1).astype(np.int64)


def draw_edges(n: int, n_edges: int, seed: int) -> tuple[Numbers, Numbers]:
    """Return heads and tails: one edge for every entity, the others from busy ones; a tenth stays nearby."""
    chance = np.random.default_rng(seed)
    main = n - n // 100  # one in a hundred lives on an island of two
    heads = np.concatenate([np.arange(n), zipf(chance, main, n_edges - n, 0.8)])
    tails = zipf(chance, main, n_edges, 0.95)
    nearby = chance.random(n_edges) < 0.1
    tails[nearby] = (heads[nearby] + chance.geometric(0.02, nearby.sum())) % main
    islands = heads >= main
    tails[islands] = np.minimum(heads[islands] ^ 1, n - 1)
    shuffled = chance.permutation(n)  # ids say nothing about degrees
    return shuffled[heads], shuffled[tails]


def write_files(folder: Path, n: int, n_edges: int, seed: int) -> None:
    """Write edges.tsv and entities.parquet: names of two words of 100,000, types and counts."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(seed + 1)
    heads, tails = draw_edges(n, n_edges, seed)
    ids = pc.binary_join_element_wise("Q", pa.array(np.arange(n)).cast(pa.string()), "")
    relations = pa.array([f"P{number}" for number in range(500)])
    kinds = zipf(chance, 500, n_edges, 0.9)
    table = pa.table({"head": ids.take(heads), "relation": relations.take(kinds), "tail": ids.take(tails)})
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    pyarrow.csv.write_csv(table, folder / "edges.tsv", options)
    spoken = chance.choice(SYLLABLES, (100_000, 4))
    words = pa.array(["".join(row).capitalize() for row in spoken])
    first, second, third = (words.take(pa.array(zipf(chance, len(words), n, 0.5))) for _ in range(3))
    types = pa.array([f"type {number}" for number in range(300)])
    lists = [
        pa.ListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int32)), values)
        for values in (pc.binary_join_element_wise(first, third, " "), types.take(zipf(chance, 300, n, 0.8)))
    ]
    columns = [
        ids,
        pc.binary_join_element_wise(first, second, " "),
        lists[0],
        first,
        lists[1],
        zipf(chance, 10**6, n, 1.2),
    ]
    pyarrow.parquet.write_table(pa.table(columns, schema=ENTITIES), folder / "entities.parquet")
