"""Counted pairs added up: sparse vectors, which SciPy adds two by two in one walk over both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from infuser.knowledge.counting.shapes import Pairs

NO_PAIRS = Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
_WIDTH = (1 << 63) - 1  # wider than any key
_AT_ONCE = 1 << 20  # what fits into the caches, and into memory that is used again and again, is added fastest


def add_pairs(runs: Sequence[Pairs]) -> Pairs:
    """Return the sum of counted pairs."""
    if len(runs) == 1:
        return runs[0]
    ends = max((int(run.keys[-1]) + 1 for run in runs if len(run.keys)), default=0)
    added = [_add([slice_pairs(run, *borders) for run in runs]) for borders in cut_range(runs, ends, _AT_ONCE)]
    return added[0] if len(added) == 1 else Pairs(*(np.concatenate(parts) for parts in zip(*added, strict=True)))


def _add(runs: Sequence[Pairs]) -> Pairs:
    """Add two by two: adding one after another to a growing sum would be quadratic."""
    vectors = [_vector(run) for run in runs if len(run.keys)] or [_vector(NO_PAIRS)]
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=False)
        vectors = [one + other for one, other in pairs] + (vectors[-1:] if len(vectors) % 2 else [])
    return Pairs(vectors[0].indices.astype(np.int64, copy=False), vectors[0].data)


def _vector(run: Pairs) -> Any:
    vector = sparse.csr_array((run.counts, run.keys, np.array([0, len(run.keys)])), shape=(1, _WIDTH))
    vector.has_canonical_format = True  # keys ascend and are distinct: no need to look
    return vector


def leave_out_rare(pairs: Pairs, least: int) -> Pairs:
    """Return the pairs that were seen at least so often."""
    if least <= 1:
        return pairs
    often = pairs.counts >= least
    return Pairs(pairs.keys[often], pairs.counts[often])


def slice_pairs(run: Pairs, low: int, high: int) -> Pairs:
    """Return the pairs with keys from `low` up to, not including, `high`."""
    begin, end = np.searchsorted(run.keys, [low, high])
    return Pairs(run.keys[begin:end], run.counts[begin:end])


def cut_range(runs: Sequence[Pairs], n_keys: int, room: int) -> list[tuple[int, int]]:
    """Return ranges that cover all keys below `n_keys`, each with at most about `room` rows of the runs."""
    n_rows = sum(len(run.keys) for run in runs)
    n_parts = 1 + n_rows // max(room, 1)
    if n_parts == 1:
        return [(0, n_keys)]
    sample = np.sort(np.concatenate([_sample(run.keys, n_rows) for run in runs]))
    inner = sample[np.arange(1, n_parts) * len(sample) // n_parts]
    borders = np.unique(np.concatenate([[0], inner, [n_keys]])).tolist()
    return list(pairwise(borders))


_SAMPLES = 1 << 14


def _sample(keys: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Return every so many-th key, enough to tell where they are dense."""
    return np.array(keys[:: max(1, n_rows // _SAMPLES)])
