"""Counted pairs added up: sparse vectors, which SciPy adds two by two in one walk over both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from infuser.counting.shapes import Pairs

_WIDTH = (1 << 63) - 1  # wider than any key


def add_pairs(runs: Sequence[Pairs]) -> Pairs:
    """Return the sum of counted pairs."""
    if not runs:
        return Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
    vectors = [_vector(run) for run in runs]
    while len(vectors) > 1:  # two by two: adding one after another to a growing sum would be quadratic
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
    """Return the pairs with keys from `low` up to, not including, `high`; a copy, so that a mapped file can close."""
    begin, end = np.searchsorted(run.keys, [low, high])
    return Pairs(np.array(run.keys[begin:end]), np.array(run.counts[begin:end], np.int64))


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
    """Return every so many-th key: enough to tell where they are dense, too few to read a mapped file whole."""
    return np.array(keys[:: max(1, n_rows // _SAMPLES)])
