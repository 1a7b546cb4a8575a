"""Metrics of weighted examples, for all rows of weights at once: (rounds, examples) in, one value per round out.

A weight says how often an example was drawn, so a weighted metric is the plain one on the examples drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClassCounts:
    """How often each class was right, given and meant in every round; all are (rounds, classes)."""

    hits: _Floats
    answers: _Floats
    golds: _Floats

    @classmethod
    def of(cls, labels: NDArray[Any], answers: NDArray[Any], weights: _Floats, n_classes: int) -> ClassCounts:
        """Count the classes of weighted examples."""
        classes = np.eye(n_classes)
        right = classes[labels] * (labels == answers)[:, None]
        return cls(weights @ right, weights @ classes[answers], weights @ classes[labels])

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which classes were given or meant at all."""
        return (self.answers + self.golds) > 0


def weighted_group_mean(groups: NDArray[Any], values: NDArray[Any], weights: _Floats) -> _Floats:
    """Return the mean over groups of the mean of their values; an example without a value (NaN) does not count."""
    known = np.isfinite(values)
    member = np.eye(int(groups.max()) + 1)[groups] * known[:, None]  # (examples, groups)
    drawn = weights @ member
    means = _ratio(weights @ (member * np.where(known, values, 0.0)[:, None]), drawn)
    return _ratio(means.sum(axis=1), (drawn > 0).sum(axis=1), np.nan)


def weighted_pearson(labels: NDArray[Any], numbers: NDArray[Any], weights: _Floats) -> _Floats:
    """Return the correlation; 0 where all answers are the same, NaN where all labels are."""
    return _correlation(np.broadcast_to(labels, weights.shape), np.broadcast_to(numbers, weights.shape), weights)


def weighted_spearman(labels: NDArray[Any], numbers: NDArray[Any], weights: _Floats) -> _Floats:
    """Return the correlation of ranks; equals share theirs."""
    return _correlation(_ranks(labels, weights), _ranks(numbers, weights), weights)


def _accuracy(counts: ClassCounts) -> _Floats:
    return _ratio(counts.hits.sum(axis=1), counts.golds.sum(axis=1))


def _matthews(counts: ClassCounts) -> _Floats:
    n = counts.golds.sum(axis=1)
    above = counts.hits.sum(axis=1) * n - (counts.answers * counts.golds).sum(axis=1)
    spread = [n * n - (side * side).sum(axis=1) for side in (counts.answers, counts.golds)]
    return _ratio(above, np.sqrt(np.maximum(spread[0] * spread[1], 0.0)))


def _of_class_one(over: Callable[[ClassCounts], _Floats]) -> Callable[[ClassCounts], _Floats]:
    """The measure of class 1 alone, as two-class tasks have it."""
    return lambda counts: over(counts)[:, 1] if counts.hits.shape[1] > 1 else np.zeros(len(counts.hits))


def _macro(over: Callable[[ClassCounts], _Floats]) -> Callable[[ClassCounts], _Floats]:
    """The plain mean over the classes that occur."""
    return lambda counts: _ratio((over(counts) * counts.present).sum(axis=1), counts.present.sum(axis=1))


def _without_class_0(over: Callable[[ClassCounts], _Floats]) -> Callable[[ClassCounts], _Floats]:
    """The measure of all other classes taken together, where class 0 is "no relation" and never counts."""

    def pooled(counts: ClassCounts) -> _Floats:
        sides = (counts.hits, counts.answers, counts.golds)
        return over(ClassCounts(*(side[:, 1:].sum(axis=1, keepdims=True) for side in sides)))[:, 0]

    return pooled


def _precision(counts: ClassCounts, empty: float = 0.0) -> _Floats:
    return _ratio(counts.hits, counts.answers, empty)


_OVER: Mapping[str, Callable[[ClassCounts], _Floats]] = {
    "f1": lambda counts: _ratio(2 * counts.hits, counts.answers + counts.golds),
    "precision": _precision,
    "recall": lambda counts: _ratio(counts.hits, counts.golds),
}

CLASS_METRICS: Mapping[str, Callable[[ClassCounts], _Floats]] = {
    "accuracy": _accuracy,
    "matthews": _matthews,
    **{f"{name} of class 1": _of_class_one(over) for name, over in _OVER.items()},
    **{f"macro-{name}": _macro(over) for name, over in _OVER.items()},
    **{f"{name} without class 0": _without_class_0(over) for name, over in _OVER.items()},
    # who never guesses a relation is never wrong: TACRED has it so
    "precision without class 0": _without_class_0(lambda counts: _precision(counts, empty=1.0)),
}
"""What class counts can tell; a task's metric is whichever agrees with it."""


def _of_sets(measure: str, *, by_example: bool) -> Callable[[NDArray[Any], NDArray[Any], _Floats], _Floats]:
    """A measure of answers that are sets, over all decisions or as the mean over examples where it is defined."""

    def weighted(_: NDArray[Any], counts: NDArray[Any], weights: _Floats) -> _Floats:
        hits, answers, golds = counts.T  # each (examples,): how many are right, given, meant
        if by_example:
            precision, recall = (
                _ratio(weights @ _ratio(hits, side), weights @ (side > 0).astype(np.float64))
                for side in (answers, golds)
            )
        else:
            precision, recall = (_ratio(weights @ hits, weights @ side) for side in (answers, golds))
        f1 = _ratio(2 * precision * recall, precision + recall)
        return {"precision": precision, "recall": recall, "f1": f1}[measure]

    return weighted


SET_METRICS = [
    _of_sets(measure, by_example=by_example)
    for measure in ("f1", "precision", "recall")
    for by_example in (False, True)
]
"""What can be told of sets of labels."""


def _ranks(values: NDArray[Any], weights: _Floats) -> _Floats:
    """Return the rank of every example among those drawn; equals share the middle of theirs."""
    distinct, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(distinct)))
    drawn = np.add.reduceat(weights[:, order], starts, axis=1)  # (rounds, distinct values)
    ranks = np.cumsum(drawn, axis=1) - (drawn - 1) / 2
    return np.asarray(ranks[:, place])


def _correlation(one: _Floats, other: _Floats, weights: _Floats) -> _Floats:
    n = weights.sum(axis=1, keepdims=True)
    away = [side - (weights * side).sum(axis=1, keepdims=True) / n for side in (one, other)]
    together = (weights * away[0] * away[1]).sum(axis=1)
    labels, answers = ((weights * side * side).sum(axis=1) for side in away)
    same_labels, same_answers = _is_level(one, weights), _is_level(other, weights)
    value = together / np.sqrt(np.where(same_labels | same_answers, 1.0, labels * answers))
    return np.where(same_labels, np.nan, np.where(same_answers, 0.0, value))


def _is_level(values: _Floats, weights: _Floats) -> NDArray[np.bool_]:
    """Tell of each round whether all examples that were drawn have the same value."""
    drawn = weights > 0
    highest, lowest = np.where(drawn, values, -np.inf).max(axis=1), np.where(drawn, values, np.inf).min(axis=1)
    return np.asarray(highest == lowest)


def _ratio(above: _Floats, below: NDArray[Any], empty: float = 0.0) -> _Floats:
    """Divide; nothing by nothing is `empty`."""
    result = np.full(np.shape(above), empty)
    np.divide(above, below, out=result, where=below > 0)
    return result
