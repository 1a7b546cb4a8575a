"""Which engine counts pairs: NumPy, SciPy, Arrow, Polars or DuckDB, in one run (docs/decisions/0012).

    python benchmarks/counting_engines.py

Two jobs, with pairs of real text (windows of 5 words). "block": the pairs of a block, each a number, become distinct
pairs with their count, in ascending order. "merge": such pairs of many blocks are added up. Engines take turns, the
fastest of several rounds counts; all give the same answer. Those with threads use all cores; NumPy, SciPy and Arrow
run on one, because our worker processes are the parallelism.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse
from support.generated_corpus import real_sentences
from support.measuring import RESULTS, about, timed, write_result

from infuser.knowledge.counting import Counting
from infuser.knowledge.counting.pairs import _in_windows, add_pairs
from infuser.knowledge.counting.shapes import Pairs, Texts
from infuser.knowledge.counting.tokens import encode
from infuser.knowledge.counting.words import choose_words, count_words

ROUNDS = 5
N_BLOCKS = 16
Keys = NDArray[np.int64]


def keys_of_blocks() -> list[Keys]:
    """Return the keys of all pairs of each of some blocks of a real corpus."""
    settings = Counting(unit="window", min_count=1)
    _, sentences = real_sentences()
    size = -(-len(sentences) // N_BLOCKS)
    blocks = [encode([Texts.of(sentences[at : at + size])], settings) for at in range(0, len(sentences), size)]
    vocabulary = choose_words(lambda: map(count_words, blocks), settings, 1 << 24)
    n_words = len(vocabulary.words)
    return [
        np.concatenate(
            [
                first.astype(np.int64) * n_words + second
                for first, second in _in_windows(side, vocabulary.numbers_of(side.words), 5, 1 << 24)
            ]
        )
        for (side,) in blocks
    ]


def numpy_count(keys: Keys) -> Pairs:
    """Sort, and count neighbours that are the same."""
    keys = np.sort(keys)
    places = np.flatnonzero(np.diff(keys, prepend=-1))
    return Pairs(keys[places], np.diff(places, append=len(keys)))


def scipy_count(keys: Keys) -> Pairs:
    """Let a sparse matrix add up what is entered twice; rows and columns are the halves of a key."""
    width = 1 << 20
    matrix = sparse.coo_array((np.ones(len(keys), np.int64), (keys // width, keys % width)), shape=(width * 64, width))
    summed = matrix.tocsr()
    rows = np.repeat(np.arange(summed.shape[0]), np.diff(summed.indptr))
    found = rows * width + summed.indices
    order = np.argsort(found)
    return Pairs(found[order], summed.data[order])


def arrow_sum(keys: Keys, counts: Keys) -> Pairs:
    """Group by key with Arrow, then sort."""
    table = pa.table({"k": keys, "n": counts}).group_by("k", use_threads=False).aggregate([("n", "sum")]).sort_by("k")
    return Pairs(table["k"].to_numpy(), table["n_sum"].to_numpy())


def polars_sum(keys: Keys, counts: Keys) -> Pairs:
    """Group by key with Polars, then sort."""
    table = pl.DataFrame({"k": keys, "n": counts}).group_by("k").agg(pl.col("n").sum()).sort("k")
    return Pairs(table["k"].to_numpy(), table["n"].to_numpy())


def duckdb_sum(keys: Keys, counts: Keys) -> Pairs:
    """Group by key with DuckDB, in the order of keys."""
    pairs = pa.table({"k": keys, "n": counts})  # DuckDB finds it by its name  # noqa: F841
    table = duckdb.sql("select k, cast(sum(n) as bigint) as n from pairs group by k order by k").to_arrow_table()
    return Pairs(table["k"].to_numpy(), table["n"].to_numpy())


def argsort_sum(keys: Keys, counts: Keys) -> Pairs:
    """Sort what is in sorted runs already, then add up neighbours."""
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    places = np.flatnonzero(np.diff(keys, prepend=-1))
    return Pairs(keys[places], np.add.reduceat(counts, places))


def race(ways: dict[str, Callable[[], Pairs]]) -> dict[str, float]:
    """Return the fastest of several rounds of each, after a look that all agree."""
    expected: Pairs | None = None
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            seconds, found = timed(way)
            best[name] = min(best.get(name, np.inf), seconds)
            expected = expected or found
            np.testing.assert_array_equal(found.keys, expected.keys)
            np.testing.assert_array_equal(found.counts, expected.counts)
    return best


def main() -> None:
    """Race, print and write the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "counting_engines.json")
    options = parser.parse_args()
    blocks = keys_of_blocks()
    block = np.concatenate(blocks)
    ones = np.ones(len(block), np.int64)
    runs = [numpy_count(keys) for keys in blocks]
    keys, counts = (np.concatenate(parts) for parts in zip(*runs, strict=True))
    jobs: dict[str, tuple[int, dict[str, Callable[[], Pairs]]]] = {
        "block": (
            len(block),
            {
                "NumPy sort": lambda: numpy_count(block),
                "SciPy sparse": lambda: scipy_count(block),
                "Arrow": lambda: arrow_sum(block, ones),
                "Polars": lambda: polars_sum(block, ones),
                "DuckDB": lambda: duckdb_sum(block, ones),
            },
        ),
        "merge": (
            len(keys),
            {
                "SciPy sparse": lambda: add_pairs(runs),
                "NumPy argsort": lambda: argsort_sum(keys, counts),
                "Arrow": lambda: arrow_sum(keys, counts),
                "Polars": lambda: polars_sum(keys, counts),
                "DuckDB": lambda: duckdb_sum(keys, counts),
            },
        ),
    }
    results: dict[str, Any] = {"load": [os.getloadavg()[0]]}
    for job, (n_rows, ways) in jobs.items():
        times = race(ways)
        least = min(times.values())
        print(f"{job}: {n_rows:,} rows")
        for name, seconds in sorted(times.items(), key=lambda one: one[1]):
            print(f"  {name:14s}{n_rows / seconds / 1e6:>8.1f} M rows/s   {seconds / least:.1f}x the fastest time")
        results[job] = {"rows": n_rows, "seconds": times}
    results["load"].append(os.getloadavg()[0])
    write_result(options.out, results | about())


if __name__ == "__main__":
    main()
