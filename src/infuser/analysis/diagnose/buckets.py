"""Scores by how frequent entities are: knowledge may help with rare ones and hurt with frequent ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from infuser.analysis.diagnose.result import Bucket
from infuser.errors import InputError
from infuser.stats.comparison import ArmScores
from infuser.stats.intervals import Interval, bootstrap, mean_per_arm, percentile_interval
from infuser.stats.metrics import METRICS, Metric
from infuser.types import Annotations, entity_key

EDGES = (0, 1, 10, 100, 1000)
"""Where buckets begin, in texts that mention an entity."""
NO_ENTITY = -1
"""Stands for the frequency of an example in which no entity was found."""


def entity_frequency(annotated: Sequence[Sequence[Annotations]], frequencies: Mapping[str, int]) -> NDArray[np.int64]:
    """Return for each example in how many texts its rarest entity is mentioned; `NO_ENTITY` where it has none.

    `annotated` holds for each example one Annotations per source; an entity that was never counted is in 0 texts.
    """
    rarest = [
        min(
            (frequencies.get(entity_key(found.text, span), 0) for found in example for span in found.spans),
            default=NO_ENTITY,
        )
        for example in annotated
    ]
    return np.array(rarest, np.int64)


def buckets(
    arms: Sequence[ArmScores],
    labels: ArrayLike,
    frequency: ArrayLike,
    *,
    edges: Sequence[int] = EDGES,
    metric: Metric = METRICS["auc"],
    groups: ArrayLike | None = None,
    rounds: int = 1000,
) -> list[Bucket]:
    """Return each arm's score in each bucket, and its difference to the first arm, buckets of rare entities first.

    A bucket holds the examples whose `frequency` (see `entity_frequency`) lies from one edge up to the next; empty
    ones are left out. A value or an interval that is undefined is None.
    """
    truth, frequent = np.asarray(labels), np.asarray(frequency)
    named = None if groups is None else np.asarray(groups)
    if len(frequent) != len(truth):
        raise InputError(f"{len(frequent)} frequencies for {len(truth)} labels. Give one frequency per test example.")
    lows = sorted({0, *edges})
    found = []
    for low, high in [*zip(lows, [*lows[1:], None], strict=True), (NO_ENTITY, 0)]:
        inside = np.flatnonzero((frequent >= low) & (frequent < (np.inf if high is None else high)))
        if len(inside):
            of_bucket = None if named is None else named[inside]
            found.append(_bucket(bucket_name(low, high), arms, truth, inside, metric, of_bucket, rounds))
    return found


def _bucket(
    name: str,
    arms: Sequence[ArmScores],
    labels: NDArray[Any],
    inside: NDArray[np.int64],
    metric: Metric,
    groups: NDArray[Any] | None,
    rounds: int,
) -> Bucket:
    truth = labels[inside]
    runs = [[np.asarray(scores)[inside] for scores in arm.scores_per_seed] for arm in arms]
    reached = [float(np.mean([metric.or_nan(scores, truth) for scores in run])) for run in runs]
    differences: dict[str, Interval | None] = {arm.name: None for arm in arms[1:]}
    if np.isfinite(reached).all():
        flat = [scores for run in runs for scores in run]
        resampled = mean_per_arm(
            bootstrap(metric, flat, truth, groups=groups, rounds=rounds), [len(run) for run in runs]
        )
        for place, arm in enumerate(arms[1:], start=1):
            differences[arm.name] = percentile_interval(resampled[:, place] - resampled[:, 0])
    values = {arm.name: value if np.isfinite(value) else None for arm, value in zip(arms, reached, strict=True)}
    return Bucket(name, len(inside), values, differences)


def bucket_name(low: int, high: int | None) -> str:
    """Return for people how frequent the entities from `low` up to `high` are."""
    if low < 0:
        return "no entity"
    if high is None:
        return f"in {low:,} or more texts"
    if high == 1:
        return "in no text"
    if high == low + 1:
        return f"in {low:,} text{'s' if low > 1 else ''}"
    return f"in {low:,} to {high - 1:,} texts"
