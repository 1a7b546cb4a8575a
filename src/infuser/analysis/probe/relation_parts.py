"""The parts of a reading: scores, confusions, importance and the tree of relations, from answers and weights alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from infuser.analysis.probe.result import Importance, ProbeScores, RelationScore
from infuser.relations.classifier import Linear

Row = tuple[float, float, float, float]


def score_answers(binary: float, truth: Sequence[str], answers: Sequence[str]) -> ProbeScores:
    """Return the accuracy of the gate as it is given, and all scores of the answers; means are over true relations."""
    if not len(truth):
        return ProbeScores(binary, math.nan, math.nan, math.nan, math.nan)
    each = scores_by_relation(truth, answers, {})
    right = sum(one == other for one, other in zip(truth, answers, strict=True))
    precision, recall, f1 = (sum(values) / len(each) for values in zip(*map(_three, each), strict=True))
    return ProbeScores(binary, right / len(truth), precision, recall, f1)


def scores_by_relation(
    truth: Sequence[str], answers: Sequence[str], labels: Mapping[str, str]
) -> tuple[RelationScore, ...]:
    """Return the scores of each relation that is true somewhere, sorted by id; one that is never answered has 0."""
    n_true, n_said = Counter(truth), Counter(answers)
    n_right = Counter(one for one, other in zip(truth, answers, strict=True) if one == other)
    scores = []
    for relation, n in sorted(n_true.items()):
        right, said = n_right[relation], n_said[relation]
        scores.append(
            RelationScore(
                relation, labels.get(relation, ""), right / said if said else 0.0, right / n, 2 * right / (n + said), n
            )
        )
    return tuple(scores)


def find_confusions(truth: Sequence[str], answers: Sequence[str]) -> tuple[tuple[str, str, int], ...]:
    """Return which relation was taken for which other one, and how often; the most frequent first."""
    wrong = Counter((one, other) for one, other in zip(truth, answers, strict=True) if one != other)
    return tuple((*pair, times) for pair, times in sorted(wrong.items(), key=lambda item: (-item[1], item[0])))


def find_importance(model: Linear, shape: tuple[int, ...]) -> Importance:
    """Return the mean absolute weight of each standardised feature, in the shape (layers, heads, directions)."""
    values: Importance = np.abs(model.centred()).mean(axis=0).reshape(shape).tolist()
    return values


def grow_tree(model: Linear) -> tuple[tuple[Row, ...], tuple[tuple[str, ...], ...]]:
    """Return the linkage of a classifier's classes by the cosine distance of their weights, and the groups in it.

    A group is what stays together below 0.7 of the largest distance, where dendrograms usually change their colour.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(model.classes) < 2:
        return (), ()
    weights = model.centred()
    # a relation without weights points nowhere; any direction will do, and all features alike favours none
    weights = np.where(np.abs(weights).sum(axis=1, keepdims=True) > 0, weights, 1.0)
    tree = np.maximum(linkage(weights, "average", metric="cosine"), 0.0)  # rounding may leave a distance below 0
    numbers: NDArray[np.int32] = fcluster(tree, 0.7 * tree[:, 2].max(), criterion="distance")
    groups: dict[int, list[str]] = {}
    for relation, number in zip(model.classes, numbers.tolist(), strict=True):
        groups.setdefault(number, []).append(relation)
    rows: list[Row] = [(one, other, distance, n) for one, other, distance, n in tree.tolist()]
    return tuple(rows), tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _three(one: RelationScore) -> tuple[float, float, float]:
    return one.precision, one.recall, one.f1
