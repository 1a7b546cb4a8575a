"""A task's own metric on thousands of resamples of its test examples, fast where it can be and always the same.

A task judges a list of predictions in milliseconds; a bootstrap asks it for thousands of lists. Most metrics can be had
for all resamples at once: means of hits, counts of classes, correlations, areas. Which one a task means is not guessed
from its name: a fast way is taken if it agrees with the task's own score of every run, and on a few resamples. Where
none agrees, the task itself is asked, in fewer rounds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InfuserError
from infuser.stats.intervals import Metric, bootstrap_values, weighted_auc
from infuser.stats.weighted import (
    CLASS_METRICS,
    SET_METRICS,
    ClassCounts,
    weighted_group_mean,
    weighted_pearson,
    weighted_spearman,
)

Weighted: TypeAlias = Callable[[NDArray[Any], NDArray[Any], NDArray[np.float64]], NDArray[np.float64]]

SLOW_ROUNDS = 200
"""Rounds where the task itself is asked; enough for the ends of a 95 % interval, few enough to wait for."""
_TRIALS = 4
"""Resamples on which a fast way must agree with the task, besides the whole test set of every run."""
_FEW = 32
"""So many examples tell whether a metric may be a mean over examples, before all of them are judged one by one."""
_MOST_GROUPS = 300
"""A mean over more groups than this is left to the task: a table of examples by groups would be too large."""
_CLOSE = 1e-9


class Judge(Protocol):
    """The part of a task that is needed here."""

    def score(self, golds: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]: ...


@dataclass(frozen=True)
class Way:
    """Golds and predictions of all runs as arrays, and the metric that takes them."""

    labels: NDArray[Any]
    runs: list[NDArray[Any]]
    metric: Metric

    def ask(self, run: int, drawn: NDArray[np.int64]) -> float:
        """Return the metric of one run on the examples drawn."""
        return self.metric(self.labels[drawn], self.runs[run][drawn])

    @property
    def is_fast(self) -> bool:
        """Whether all rounds are answered at once."""
        return hasattr(self.metric, "weighted")


def resampled_scores(
    task: Judge,
    metric: str,
    golds: Sequence[Any],
    runs: Sequence[Sequence[Any]],
    *,
    rounds: int,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return the metric of every run in every bootstrap round, (rounds, runs), all runs on the same resamples.

    Examples whose golds name a group are drawn by whole groups. A round in which the metric is undefined is NaN. There
    are `SLOW_ROUNDS` at most of a metric that only the task can compute.
    """
    way = find_way(task, metric, golds, runs)
    rounds = rounds if way.is_fast else min(rounds, SLOW_ROUNDS)
    scores = [[run] for run in way.runs]
    return bootstrap_values(way.labels, scores, metric=way.metric, groups=groups_of(golds), rounds=rounds, seed=seed)


def groups_of(golds: Sequence[Any]) -> list[str] | None:
    """Return the group of each example where golds name one: texts of one query are drawn together."""
    if not all(isinstance(gold, Mapping) and "group" in gold for gold in golds):
        return None
    return [str(gold["group"]) for gold in golds]


def find_way(task: Judge, metric: str, golds: Sequence[Any], runs: Sequence[Sequence[Any]]) -> Way:
    """Return a fast way to compute a task's metric that agrees with the task, or the task's own."""
    own = slow_way(task, metric, golds, runs)
    random = np.random.default_rng(0)
    n = len(golds)
    trials = [(number, np.arange(n)) for number in range(len(runs))]
    trials += [(number % len(runs), random.integers(0, n, n)) for number in range(_TRIALS)]
    expected = [own.ask(number, drawn) for number, drawn in trials]
    for way in _fast_ways(own, metric, golds, runs):
        found = [way.ask(number, drawn) for number, drawn in trials]
        if np.allclose(found, expected, rtol=0, atol=_CLOSE, equal_nan=True):
            return way
    return own


def slow_way(task: Judge, metric: str, golds: Sequence[Any], runs: Sequence[Sequence[Any]]) -> Way:
    """Return the task's own metric; its arrays hold places, since golds and predictions may be of any shape."""
    everything = [prediction for run in runs for prediction in run]

    def ask(labels: NDArray[Any], scores: NDArray[Any]) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a resample may lack a class, which is nobody's fault
            try:
                judged = task.score([golds[at] for at in labels], [everything[at] for at in scores])
            except (InfuserError, ArithmeticError, ValueError):  # such as AUC then; the whole set has been scored
                return np.nan
        return judged[metric]

    n = len(golds)
    return Way(np.arange(n), [np.arange(n) + n * number for number in range(len(runs))], ask)


@dataclass(frozen=True)
class _Fast:
    """A metric that answers all rounds of a bootstrap at once."""

    weighted: Weighted

    def __call__(self, labels: NDArray[Any], scores: NDArray[Any]) -> float:
        return float(self.weighted(labels, scores, np.ones((1, len(labels))))[0])


def _fast_ways(own: Way, metric: str, golds: Sequence[Any], runs: Sequence[Sequence[Any]]) -> Iterator[Way]:
    """Yield the ways that these golds and predictions allow, likely and cheap ones first."""
    told = golds
    if all(isinstance(gold, Mapping) and "label" in gold for gold in golds):
        golds = [gold["label"] for gold in golds]
    numbers = _numbers(golds, runs)
    if numbers is not None:
        labels, scores = numbers
        ways: list[Weighted] = [weighted_pearson, weighted_spearman]
        ways += [weighted_auc] if set(golds) <= {0, 1} else []
        for weighted in ways:
            yield Way(labels, scores, _Fast(weighted))
    classes = _classes(golds, runs)
    if classes is not None:
        labels, scores, n_classes = classes
        likely = sorted(CLASS_METRICS, key=lambda name: name.split()[0] != metric)
        for weighted in _over_classes(likely, n_classes):
            yield Way(labels, scores, _Fast(weighted))
    for sets in _sets(golds, runs):
        for weighted in SET_METRICS:
            yield Way(np.arange(len(golds)), sets, _Fast(weighted))
    everyone = np.zeros(len(golds), np.int64)
    for groups in (everyone, *_groups(told)):
        mean = _Fast(weighted_group_mean)  # of one group, the plain mean
        few = np.unique(np.linspace(0, len(golds) - 1, _FEW).astype(np.int64))
        if all(_is_mean(own, run, few, groups, mean) for run in range(len(runs))):
            yield Way(groups, [_singles(own, run, own.labels) for run in range(len(runs))], mean)


def _is_mean(own: Way, run: int, few: NDArray[np.int64], groups: NDArray[np.int64], mean: _Fast) -> bool:
    """Tell by a few examples whether the metric may be a mean; judging all of them one by one takes its time."""
    return bool(abs(mean(groups[few], _singles(own, run, few)) - own.ask(run, few)) <= _CLOSE)  # never, if NaN


def _singles(own: Way, run: int, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the score of every single example; NaN where the task leaves it out."""
    return np.array([own.ask(run, places[[at]]) for at in range(len(places))])


def _over_classes(names: Sequence[str], n_classes: int) -> Iterator[Weighted]:
    for name in names:
        measure = CLASS_METRICS[name]

        def weighted(
            labels: NDArray[Any],
            answers: NDArray[Any],
            weights: NDArray[np.float64],
            measure: Callable[[ClassCounts], NDArray[np.float64]] = measure,
        ) -> NDArray[np.float64]:
            return measure(ClassCounts.of(labels, answers, weights, n_classes))

        yield weighted


def _numbers(golds: Sequence[Any], runs: Sequence[Sequence[Any]]) -> tuple[NDArray[Any], list[NDArray[Any]]] | None:
    """Return golds and predictions as one number each; of two logits, how much larger the second is."""
    width = _width(runs)
    if width not in (0, 1, 2) or not all(_is_number(gold) for gold in golds):
        return None
    scores = [np.asarray(run, np.float64) for run in runs]
    if width > 0:
        scores = [run[:, -1] - (run[:, 0] if width == 2 else 0) for run in scores]
    return np.asarray(golds, np.float64), scores


def _classes(
    golds: Sequence[Any], runs: Sequence[Sequence[Any]]
) -> tuple[NDArray[Any], list[NDArray[Any]], int] | None:
    """Return golds and answers as classes: the place of the largest logit, or a label itself; small numbers first."""
    if not golds or not all(isinstance(gold, int | str) for gold in golds):
        return None
    if (_width(runs) or 0) > 1:
        chosen = [np.asarray(run, np.float64).argmax(axis=1).tolist() for run in runs]
    elif all(isinstance(one, int | str) for run in runs for one in run):
        chosen = [list(run) for run in runs]
    else:
        return None
    known = sorted({*golds, *(one for run in chosen for one in run)}, key=lambda one: (isinstance(one, str), one))
    if known and not isinstance(known[-1], str):  # class 1 of two stays class 1, also where 0 never occurs
        known = list(range(known[-1] + 1)) if known[0] >= 0 else known
    place: Mapping[Any, int] = {name: at for at, name in enumerate(known)}
    answers = [np.array([place[one] for one in run]) for run in chosen]
    return np.array([place[gold] for gold in golds]), answers, len(known)


def _sets(golds: Sequence[Any], runs: Sequence[Sequence[Any]]) -> Iterator[list[NDArray[np.float64]]]:
    """Yield counts of (right, given, meant) where golds are zeros and ones and predictions a logit for each.

    Given is what has a logit above 0; or, besides, what has the largest one.
    """
    width = _width(runs)
    if not width or not all(isinstance(gold, list) and len(gold) == width and set(gold) <= {0, 1} for gold in golds):
        return
    meant = np.asarray(golds, np.float64)
    logits = [np.asarray(run, np.float64) for run in runs]
    above = [run > 0 for run in logits]
    for given in (
        above,
        [one | np.eye(width, dtype=bool)[run.argmax(axis=1)] for one, run in zip(above, logits, strict=True)],
    ):
        yield [np.stack([(one * meant).sum(1), one.sum(1), meant.sum(1)], axis=1) for one in given]


def _groups(golds: Sequence[Any]) -> list[NDArray[np.int64]]:
    """Return groups of examples by what golds that are tables say in a few different words, such as their relation."""
    if not all(isinstance(gold, Mapping) for gold in golds):
        return []
    shared = [key for key in golds[0] if all(isinstance(gold.get(key), str) for gold in golds)]
    groups = [np.unique([gold[key] for gold in golds], return_inverse=True)[1] for key in shared]
    return [places for places in groups if places.max() < _MOST_GROUPS]


def _width(runs: Sequence[Sequence[Any]]) -> int | None:
    """Return how many numbers each prediction has, 0 for a bare number; None if they differ or are no numbers."""
    widths = set()
    for run in runs:
        for one in run:
            listed = one if isinstance(one, list) else [one]
            if not all(_is_number(value) for value in listed):
                return None
            widths.add(len(one) if isinstance(one, list) else 0)
    return widths.pop() if len(widths) == 1 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
