"""The statistics of a comparison: Student's t over seeds, a paired bootstrap over test examples, AUC with ties."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from infuser.errors import InputError

Interval: TypeAlias = tuple[float, float]
Metric: TypeAlias = Callable[[NDArray[Any], NDArray[Any]], float]
"""(labels, scores) to a number; higher is better. One that also has `weighted(labels, scores, weights)`, like
`weighted_auc`, answers all rounds of a bootstrap at once."""
_Floats: TypeAlias = NDArray[np.float64]

_CELLS_AT_ONCE = 4_000_000
"""Bootstrap weights held at one moment: about 30 MB."""
_SAME = 1e-12
"""Values that are no further apart are the same: what is left of a difference of equals is rounding."""
_FEWEST_ROUNDS = 100
"""Below this many usable rounds, the ends of an interval are guesswork."""


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Return the t-interval of the mean; one value alone has none, nor have values that are all the same.

    Equal values come of what does not depend on the seed. An interval of no width would look like certainty.
    """
    if not _has_spread(values):
        return None
    from scipy.stats import t

    quantile = float(t.ppf((1 + confidence) / 2, len(values) - 1))
    reach = quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    mean = float(np.mean(values))
    return mean - reach, mean + reach


def paired_p_value(differences: Sequence[float]) -> float | None:
    """Return the two-sided p-value of a paired t-test, given its differences; None where `t_interval` has none."""
    if not _has_spread(differences):
        return None
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(differences, 0.0).pvalue)


def _has_spread(values: Sequence[float]) -> bool:
    return len(values) > 1 and float(np.ptp(values)) > _SAME


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the area under the ROC curve; tied scores count one half."""
    truth, given = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    return float(weighted_auc(truth, given, np.ones((1, len(given))))[0])


def weighted_auc(labels: NDArray[Any], scores: NDArray[Any], weights: _Floats) -> _Floats:
    """Return one AUC per row of `weights` (rounds, examples); NaN where a round lacks one of the classes."""
    order = np.argsort(scores, kind="stable")
    ranked, positive = scores[order], labels[order] == 1
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))  # where each run of ties begins
    weights = weights[:, order]
    positives = np.add.reduceat(weights * positive, starts, axis=1)  # (rounds, distinct scores)
    negatives = np.add.reduceat(weights * ~positive, starts, axis=1)
    below = np.cumsum(negatives, axis=1) - negatives
    won = (positives * (below + negatives / 2)).sum(axis=1)
    possible = positives.sum(axis=1) * negatives.sum(axis=1)
    return np.where(possible > 0, won / np.maximum(possible, 1e-300), np.nan)


def bootstrap_values(
    labels: NDArray[Any],
    scores: Sequence[Sequence[NDArray[Any]]],
    *,
    metric: Metric = auc,
    groups: ArrayLike | None = None,
    rounds: int = 2000,
    seed: int = 0,
) -> _Floats:
    """Return the mean metric over seeds of every arm in every round, (rounds, arms), all on the same resamples.

    `scores[arm][seed]` are test scores. With `groups`, whole groups are drawn: examples that share a test term,
    a document or a person are not independent, and drawing them one by one would promise too narrow an interval.
    """
    values = [np.empty((0, len(scores)))]
    for weights in _resamples(len(labels), groups, rounds, np.random.default_rng(seed)):
        columns = [
            np.mean([_metric_per_round(metric, labels, run, weights) for run in runs], axis=0) for runs in scores
        ]
        values.append(np.stack(columns, axis=1))
    return np.concatenate(values)


def percentile_interval(values: _Floats, confidence: float = 0.95) -> Interval | None:
    """Return the middle share of bootstrap values; None when too few rounds were usable."""
    usable = values[np.isfinite(values)]
    if len(usable) < _FEWEST_ROUNDS:
        return None
    low, high = np.quantile(usable, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _resamples(
    n_examples: int, groups: ArrayLike | None, rounds: int, random: np.random.Generator
) -> Iterator[_Floats]:
    """Yield how often each example was drawn, (some rounds, examples), in pieces that fit in memory."""
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


def _metric_per_round(metric: Metric, labels: NDArray[Any], scores: NDArray[Any], weights: _Floats) -> _Floats:
    weighted = weighted_auc if metric is auc else getattr(metric, "weighted", None)
    if weighted is not None:  # all rounds at once
        return np.asarray(weighted(labels, scores, weights), dtype=np.float64)
    everyone = np.arange(len(labels))
    draws = (np.repeat(everyone, row.astype(np.int64)) for row in weights)
    return np.array([float(metric(labels[drawn], scores[drawn])) for drawn in draws])
