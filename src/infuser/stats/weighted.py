"""Metrics of weighted examples, for all rows of weights at once: (rounds, examples) in, one value per round out.

A weight is how often an example was drawn, so a weighted metric equals the plain one on the examples drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Weighted: TypeAlias = Callable[[Any, Any, Floats], Floats]
"""(predictions, labels, weights) to the value of every round."""


@dataclass(frozen=True)
class ClassCounts:
    """How often each class was right, predicted and gold in every round; all are (rounds, classes)."""

    right: Floats
    predicted: Floats
    gold: Floats


def of_classes(measure: Callable[[ClassCounts], Floats]) -> Weighted:
    """Return the weighted form of a measure that needs no more than the counts of each class."""

    def weigh(logits: NDArray[Any], labels: NDArray[Any], weights: Floats) -> Floats:
        chosen, classes = logits.argmax(axis=1), np.eye(logits.shape[1])
        right = classes[labels] * (labels == chosen)[:, None]
        return measure(ClassCounts(weights @ right, weights @ classes[chosen], weights @ classes[labels]))

    return weigh


def f1(counts: ClassCounts) -> Floats:
    """Return F1 of class 1 of two; the mean over the classes that occur for more."""
    return _f1_of_classes(counts)[:, 1] if counts.right.shape[1] == 2 else macro_f1(counts)


def macro_f1(counts: ClassCounts) -> Floats:
    """Return the mean of F1 over the classes that are predicted or gold."""
    n_present = ((counts.predicted + counts.gold) > 0).sum(axis=1)
    return ratio(_f1_of_classes(counts).sum(axis=1), n_present)  # F1 of an absent class is 0


def macro_f1_without_class_0(counts: ClassCounts) -> Floats:
    """Return the mean of F1 over the classes that are predicted or gold, but class 0, which is "no relation"."""
    return macro_f1(ClassCounts(counts.right[:, 1:], counts.predicted[:, 1:], counts.gold[:, 1:]))


def _f1_of_classes(counts: ClassCounts) -> Floats:
    return ratio(2 * counts.right, counts.predicted + counts.gold)


def matthews(counts: ClassCounts) -> Floats:
    """Return the correlation of Matthews; 0 where one side has one class only."""
    n = counts.gold.sum(axis=1)
    above = counts.right.sum(axis=1) * n - (counts.predicted * counts.gold).sum(axis=1)
    spread = [n * n - (side * side).sum(axis=1) for side in (counts.predicted, counts.gold)]
    return ratio(above, np.sqrt(np.maximum(spread[0] * spread[1], 0.0)))


def without_class_0(counts: ClassCounts, measure: str) -> Floats:
    """Return precision, recall or F1 of all other classes together: class 0 is "no relation" and never counts."""
    right, predicted, gold = (side[:, 1:].sum(axis=1) for side in (counts.right, counts.predicted, counts.gold))
    if measure == "precision":
        return ratio(right, predicted, empty=1.0)
    return ratio(right, gold) if measure == "recall" else ratio(2 * right, predicted + gold)


def of_label_sets(
    logits: NDArray[Any], labels: NDArray[Any], weights: Floats, *, measure: str, by_example: bool
) -> Floats:
    """Return a measure of sets of labels, over all decisions or as the mean over examples where it is defined."""
    given = logits > 0
    right, predicted, gold = (side.sum(axis=1).astype(np.float64) for side in (given * labels, given, labels))
    if by_example:
        precision, recall = (
            ratio(weights @ ratio(right, side), weights @ (side > 0).astype(np.float64)) for side in (predicted, gold)
        )
    else:
        precision, recall = (ratio(weights @ right, weights @ side) for side in (predicted, gold))
    if measure == "f1":
        return ratio(2 * precision * recall, precision + recall)
    return precision if measure == "precision" else recall


def group_mean(values: Floats, groups: Any, weights: Floats) -> Floats:
    """Return the mean over groups of the means of their values; an example without a value (NaN) does not count."""
    known = np.isfinite(values)
    names, place = np.unique(np.asarray(groups)[known], return_inverse=True)
    order = np.argsort(place, kind="stable")
    weights, values = weights[:, known][:, order], values[known][order]
    if len(names) == 0:
        return np.full(len(weights), np.nan)
    starts = np.searchsorted(place[order], np.arange(len(names)))
    drawn = np.add.reduceat(weights, starts, axis=1)  # (rounds, groups)
    means = ratio(np.add.reduceat(weights * values, starts, axis=1), drawn)
    return ratio(means.sum(axis=1), (drawn > 0).sum(axis=1), empty=np.nan)


def auc(scores: NDArray[Any], positive: NDArray[np.bool_], weights: Floats) -> Floats:
    """Return the area under the ROC curve; ties count one half; NaN where a round lacks one of the classes."""
    order = np.argsort(scores, kind="stable")
    ranked, positive = scores[order], positive[order]
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))  # where each run of ties begins
    weights = weights[:, order]
    positives = np.add.reduceat(weights * positive, starts, axis=1)  # (rounds, distinct scores)
    negatives = np.add.reduceat(weights * ~positive, starts, axis=1)
    below = np.cumsum(negatives, axis=1) - negatives
    won = (positives * (below + negatives / 2)).sum(axis=1)
    return ratio(won, positives.sum(axis=1) * negatives.sum(axis=1), empty=np.nan)


def pearson(logits: NDArray[Any], labels: NDArray[Any], weights: Floats) -> Floats:
    """Return the correlation; 0 where all answers are the same, NaN where all labels are."""
    answers, golds = (np.broadcast_to(side, weights.shape) for side in (logits[:, 0], labels))
    return _correlation(answers, golds, weights)


def spearman(logits: NDArray[Any], labels: NDArray[Any], weights: Floats) -> Floats:
    """Return the correlation of ranks; equals share theirs."""
    return _correlation(_ranks(logits[:, 0], weights), _ranks(labels, weights), weights)


def _ranks(values: NDArray[Any], weights: Floats) -> Floats:
    """Return the rank of every example among those drawn; equals share the middle of theirs."""
    distinct, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(distinct)))
    drawn = np.add.reduceat(weights[:, order], starts, axis=1)  # (rounds, distinct values)
    ranks = np.cumsum(drawn, axis=1) - (drawn - 1) / 2
    return np.asarray(ranks[:, place])


def _correlation(answers: Floats, golds: Floats, weights: Floats) -> Floats:
    n = weights.sum(axis=1, keepdims=True)
    away = [side - (weights * side).sum(axis=1, keepdims=True) / n for side in (answers, golds)]
    together = (weights * away[0] * away[1]).sum(axis=1)
    squares = [(weights * side * side).sum(axis=1) for side in away]
    same_answers, same_golds = (_all_same(side, weights) for side in (answers, golds))
    value = together / np.sqrt(np.where(same_golds | same_answers, 1.0, squares[0] * squares[1]))
    return np.where(same_golds, np.nan, np.where(same_answers, 0.0, value))


def _all_same(values: Floats, weights: Floats) -> NDArray[np.bool_]:
    """Return for each round whether all examples that were drawn have the same value."""
    drawn = weights > 0
    highest, lowest = np.where(drawn, values, -np.inf).max(axis=1), np.where(drawn, values, np.inf).min(axis=1)
    return np.asarray(highest == lowest)


def ratio(above: Floats, below: NDArray[Any], empty: float = 0.0) -> Floats:
    """Divide; nothing by nothing is `empty`."""
    result = np.full(np.shape(above), empty)
    np.divide(above, below, out=result, where=below > 0)
    return result
