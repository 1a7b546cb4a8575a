"""Intervals: Student's t over seeds, and a bootstrap over test examples that all arms share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from infuser.errors import InputError
from infuser.stats.metrics import Metric
from infuser.stats.weighted import Floats

Interval: TypeAlias = tuple[float, float]

RECOMPUTED_ROUNDS = 200
"""Most rounds of a metric without a weighted form; enough for the ends of a 95 % interval, few enough to wait for."""
_CELLS_AT_ONCE = 4_000_000
"""Bootstrap weights in memory at one moment: about 30 MB."""
_SAME = 1e-12
"""Values that are no further apart are the same: what is left of a difference of equals is rounding."""
_FEWEST_ROUNDS = 100
"""Below this many usable rounds, the ends of an interval are guesswork."""


def t_interval(values: Sequence[float]) -> Interval | None:
    """Return the 95 % t-interval of the mean; None for one value alone, and for values that are all the same.

    Equal values come of what does not depend on the seed. An interval of no width would look like certainty.
    """
    if not _has_spread(values):
        return None
    from scipy.stats import t

    mean, error = float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(len(values))
    low, high = t.interval(0.95, len(values) - 1, loc=mean, scale=error)
    return float(low), float(high)


def paired_p_value(differences: Sequence[float]) -> float | None:
    """Return the two-sided p-value of a paired t-test, given its differences; None where `t_interval` has none."""
    if not _has_spread(differences):
        return None
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(differences, 0.0).pvalue)


def _has_spread(values: Sequence[float]) -> bool:
    return len(values) > 1 and float(np.ptp(values)) > _SAME


def bootstrap(
    metric: Metric,
    runs: Sequence[Any],
    labels: Any,
    *,
    groups: ArrayLike | None = None,
    rounds: int = 2000,
    seed: int = 0,
) -> Floats:
    """Return the metric of every run in every round, (rounds, runs), all runs on the same resamples of the examples.

    `runs` are predictions of the same examples. With `groups`, whole groups are drawn: examples that share a test term,
    a document or a person are not independent, and drawing them one by one would promise too narrow an interval. A
    round in which the metric is undefined is NaN. A metric that has to be recomputed gets `RECOMPUTED_ROUNDS` at most.
    """
    if metric.weighted is None:
        rounds = min(rounds, RECOMPUTED_ROUNDS)
    values = [np.empty((0, len(runs)))]
    for weights in resamples(len(labels), groups, rounds=rounds, seed=seed):
        values.append(np.stack([metric.resample(run, labels, weights) for run in runs], axis=1))
    return np.concatenate(values)


def mean_per_arm(values: Floats, n_seeds: Sequence[int]) -> Floats:
    """Return the mean over the runs of each arm, (rounds, arms); the runs are ordered by arm, `n_seeds` of each."""
    parts = np.split(values, np.cumsum(n_seeds)[:-1], axis=1)
    return np.stack([part.mean(axis=1) for part in parts], axis=1)


def resamples(n_examples: int, groups: ArrayLike | None = None, *, rounds: int, seed: int = 0) -> Iterator[Floats]:
    """Yield how often each example was drawn, (some rounds, examples), in pieces that fit in memory."""
    random = np.random.default_rng(seed)
    places = np.arange(n_examples) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    if len(places) != n_examples:
        raise InputError(f"{len(places)} group ids for {n_examples} test examples. Give one group id per example.")
    n_groups = int(places.max()) + 1
    at_once = max(1, _CELLS_AT_ONCE // n_examples)
    for first in range(0, rounds, at_once):
        n_rounds = min(at_once, rounds - first)
        drawn = random.integers(0, n_groups, size=(n_rounds, n_groups)) + n_groups * np.arange(n_rounds)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=n_rounds * n_groups).reshape(n_rounds, n_groups)
        yield counts[:, places].astype(np.float64)


def percentile_interval(values: NDArray[Any]) -> Interval | None:
    """Return the middle 95 % of bootstrap values; None when too few rounds were usable."""
    usable = values[np.isfinite(values)]
    if len(usable) < _FEWEST_ROUNDS:
        return None
    low, high = np.quantile(usable, [0.025, 0.975])
    return float(low), float(high)
