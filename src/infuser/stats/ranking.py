"""NDCG of ranked rows in groups, such as the texts of a query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError


def rankable(grades: Sequence[float] | NDArray[np.float64], groups: Sequence[str]) -> list[list[int]]:
    """Return the places of the rows of each group that has two or more rows and one above 0."""
    places = defaultdict(list)
    for place, group in enumerate(groups):
        places[group].append(place)
    return [of_group for of_group in places.values() if len(of_group) > 1 and any(grades[i] > 0 for i in of_group)]


def mean_ndcg(
    scores: Sequence[float] | NDArray[Any], grades: Sequence[float] | NDArray[Any], groups: Sequence[str], *, k: int
) -> float:
    """Return the mean over groups of the NDCG of their first `k`; groups where it is undefined are left out."""
    return fmean(value for _, value in ndcg_of_groups(scores, grades, groups, k=k))


def ndcg_of_groups(
    scores: Sequence[float] | NDArray[Any], grades: Sequence[float] | NDArray[Any], groups: Sequence[str], *, k: int
) -> list[tuple[int, float]]:
    """Return the place of the first row of each group, and the NDCG of its first `k`; tied scores share their gains.

    scikit-learn has the mean of many groups, but not the value of each, or only by one slow call per group.
    """
    ranked = rankable(grades, groups)
    if not ranked:
        raise InputError(
            f"NDCG needs a query with two or more texts, one of them relevant; of {len(set(groups)):,} queries none "
            "has. Give a larger set, or set k = 0 to leave NDCG out."
        )
    by_size = defaultdict(list)
    for of_group in ranked:
        by_size[len(of_group)].append(of_group)
    values: list[tuple[int, float]] = []
    for same_size in by_size.values():
        places = np.array(same_size)  # (groups, rows of each)
        values += zip(
            places[:, 0].tolist(), _ndcg(np.asarray(scores)[places], np.asarray(grades)[places], k), strict=True
        )
    return values


def _ndcg(scores: NDArray[Any], grades: NDArray[Any], k: int) -> list[float]:
    """Return the NDCG of every row of scores and grades."""
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked, gains = np.take_along_axis(scores, order, axis=1), np.take_along_axis(grades, order, axis=1)
    starts = np.ones(ranked.shape, bool)
    starts[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    tie = np.cumsum(starts) - 1  # rows come one after the other, so a tie is never in two of them
    shared = (np.bincount(tie, gains.ravel()) / np.bincount(tie))[tie].reshape(gains.shape)
    discount = 1 / np.log2(np.arange(2, gains.shape[1] + 2))
    discount[k:] = 0
    best = -np.sort(-grades, axis=1)
    values: list[float] = ((shared @ discount) / (best @ discount)).tolist()
    return values
