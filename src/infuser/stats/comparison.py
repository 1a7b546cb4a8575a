"""Paired comparisons of arms: the same seeds and examples, with intervals over seeds and over test examples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from infuser.errors import InputError
from infuser.stats.intervals import (
    Interval,
    bootstrap,
    mean_per_arm,
    paired_p_value,
    percentile_interval,
    t_interval,
)
from infuser.stats.metrics import METRICS, Metric

Verdict: TypeAlias = Literal["helps", "hurts", "no evidence"]


@dataclass(frozen=True, eq=False)
class ArmScores:
    """The predictions of one arm for every seed, in the same order of seeds and examples as those of the others."""

    name: str
    scores_per_seed: Sequence[Any]
    """Per seed what the metric judges: logits of each test example; for AUC also the probability of class 1 alone."""
    extra_weights: int = 0
    """Weights that the plain model does not have."""
    seconds: Sequence[float] = ()
    """Training time of each seed."""


@dataclass(frozen=True)
class ArmResult:
    """The scores that one arm reached."""

    name: str
    per_seed: tuple[float, ...]
    mean: float
    interval: Interval | None
    """95 % t-interval over seeds; None with one seed, or if all seeds are alike."""
    extra_weights: int
    seconds: float | None
    """Mean training time of a seed."""


@dataclass(frozen=True)
class Difference:
    """One arm minus another, paired by seed and by test example."""

    arm: str
    against: str
    per_seed: tuple[float, ...]
    mean: float
    over_seeds: Interval | None
    """95 % t-interval over seeds: would other seeds agree? None with one seed, or if all seeds are alike."""
    over_examples: Interval | None
    """95 % bootstrap interval over test examples: would other test examples agree?"""
    verdict: Verdict
    """"helps" or "hurts" only when both intervals exclude 0."""
    p_value: float | None = None
    """Of the paired t-test over seeds; None with one seed, or if all seeds are alike."""


@dataclass(frozen=True)
class ArmStatistics:
    """The arms, their differences to the first one, and a verdict on each."""

    metric: str
    arms: tuple[ArmResult, ...]
    differences: tuple[Difference, ...]
    n_examples: int
    n_groups: int | None
    """How many groups of examples the bootstrap drew from; None when it drew single examples."""
    rounds: int
    """Bootstrap rounds."""

    @property
    def verdicts(self) -> list[str]:
        """One sentence per difference."""
        return [difference_sentence(self.metric, difference) for difference in self.differences]

    @property
    def verdict(self) -> str:
        """The sentence about the second arm against the first."""
        return self.verdicts[0]

    def to_json(self) -> str:
        """Return the comparison as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> ArmStatistics:
        """Return the comparison that `to_json` wrote."""
        try:
            values = json.loads(text)
            arms = tuple(ArmResult(**_with_tuples(arm)) for arm in values.pop("arms"))
            differences = tuple(Difference(**_with_tuples(one)) for one in values.pop("differences"))
            return cls(arms=arms, differences=differences, **values)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(
                f"Not a comparison: {error!r}. Give the text that ArmStatistics.to_json returned."
            ) from error


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def compare_arms(
    arms: Sequence[ArmScores],
    labels: Any,
    *,
    metric: Metric = METRICS["auc"],
    groups: ArrayLike | None = None,
    also: Sequence[tuple[str, str]] = (),
    rounds: int = 2000,
    seed: int = 0,
) -> ArmStatistics:
    """Compare every arm with the first one, and each pair of names in `also`, on the same seeds and examples.

    `groups` names the group of each test example when examples are not independent (for instance the test term they
    are about).
    """
    own = not metric.takes_arrays
    truth: Any = labels if own else np.asarray(labels)
    _check_arms(arms, truth, own=own)
    runs = [scores if own else np.asarray(scores) for arm in arms for scores in arm.scores_per_seed]
    reached = [tuple(metric(scores, truth) for scores in arm.scores_per_seed) for arm in arms]
    for arm, values in zip(arms, reached, strict=True):
        if not np.isfinite(values).all():
            raise InputError(f"The metric of arm {arm.name!r} is not a finite number: {values}. Check the test labels.")
    resampled = bootstrap(metric, runs, truth, groups=groups, rounds=rounds, seed=seed)
    per_arm = mean_per_arm(resampled, [len(arm.scores_per_seed) for arm in arms])

    place = {arm.name: at for at, arm in enumerate(arms)}
    pairs = [(arm.name, arms[0].name) for arm in arms[1:]] + list(also)
    unknown = sorted({name for pair in pairs for name in pair} - place.keys())
    if unknown:
        raise InputError(f"No arm is called {unknown[0]!r}. Arms: {', '.join(place)}.")

    differences = []
    for name, against in pairs:
        one, other = place[name], place[against]
        per_seed = [a - b for a, b in zip(reached[one], reached[other], strict=True)]
        rounds_apart = per_arm[:, one] - per_arm[:, other]
        differences.append(
            paired_difference(name, against, per_seed, rounds_apart, higher_is_better=metric.higher_is_better)
        )

    return ArmStatistics(
        metric=metric.name.replace("auc", "AUC"),
        arms=tuple(_result(arm, values) for arm, values in zip(arms, reached, strict=True)),
        differences=tuple(differences),
        n_examples=len(truth),
        n_groups=None if groups is None else len(np.unique(np.asarray(groups))),
        rounds=len(resampled),
    )


def paired_difference(
    arm: str,
    against: str,
    per_seed: Sequence[float],
    resampled: NDArray[np.float64] | None,
    *,
    higher_is_better: bool = True,
) -> Difference:
    """Return the difference of two arms from its values by seed and by bootstrap round; None if there are no rounds."""
    values = tuple(float(value) for value in per_seed)
    over_seeds = t_interval(values)
    over_examples = None if resampled is None else percentile_interval(resampled)
    verdict = _verdict(over_seeds, over_examples, higher_is_better=higher_is_better)
    p_value = paired_p_value(values)
    return Difference(arm, against, values, float(np.mean(values)), over_seeds, over_examples, verdict, p_value)


def difference_sentence(
    metric: str, difference: Difference, *, arm: str = "", on: str = "", scale: float = 1.0, learns: bool = True
) -> str:
    """Return the verdict on a difference in words; numbers are `scale` times as large, as papers write them.

    A task that does not learn (`learns`) gives the same with every seed.
    """
    arm, against, mean = arm or difference.arm, difference.against, signed(difference.mean, scale)
    alike = difference.over_seeds is None and (len(difference.per_seed) > 1 or not learns)
    if difference.verdict == "no evidence":
        over_seeds = " over seeds" if alike else ""
        opening = f"No evidence{over_seeds} that {arm} differs from {against}{on}: {metric} {mean}"
    else:
        side = "higher" if difference.mean > 0 else "lower"
        opening = f"{arm} {difference.verdict}{on}: {metric} is {mean[1:]} {side} than {against}"
    over_examples = f"{signed_range(difference.over_examples, scale)} over test examples"
    if alike:
        return f"{opening} with every seed alike ({over_examples})."
    if difference.over_seeds is None:
        return f"{opening} with one seed ({over_examples}); run at least two seeds to know more."
    over_seeds = f"{signed_range(difference.over_seeds, scale)} over {len(difference.per_seed)} seeds"
    return f"{opening} (95 % interval {over_seeds}, {over_examples})."


def signed(value: float, scale: float = 1.0) -> str:
    """Return a difference as text, such as "+0.020", or "+2.00" of a scale of 100."""
    return f"{value * scale:+.{3 if scale < 10 else 2}f}"


def signed_range(interval: Interval | None, scale: float = 1.0) -> str:
    """Return the interval of a difference as text, such as "[-0.010, +0.020]"."""
    return "unknown" if interval is None else f"[{signed(interval[0], scale)}, {signed(interval[1], scale)}]"


def _result(arm: ArmScores, values: tuple[float, ...]) -> ArmResult:
    seconds = float(np.mean(arm.seconds)) if len(arm.seconds) else None
    return ArmResult(arm.name, values, float(np.mean(values)), t_interval(values), int(arm.extra_weights), seconds)


def _verdict(over_seeds: Interval | None, over_examples: Interval | None, *, higher_is_better: bool) -> Verdict:
    if over_seeds is None or over_examples is None:
        return "no evidence"
    if over_seeds[0] > 0 and over_examples[0] > 0:
        return "helps" if higher_is_better else "hurts"
    if over_seeds[1] < 0 and over_examples[1] < 0:
        return "hurts" if higher_is_better else "helps"
    return "no evidence"


def _check_arms(arms: Sequence[ArmScores], labels: Sequence[Any], *, own: bool) -> None:
    """Raise if the arms cannot be compared; with `own`, a task has predictions of its own form, one per example."""
    names = [arm.name for arm in arms]
    if len(arms) < 2 or len(set(names)) != len(names):
        raise InputError(f"A comparison needs two or more arms with names of their own; got {names}.")
    n_seeds = len(arms[0].scores_per_seed)
    for arm in arms:
        if len(arm.scores_per_seed) != n_seeds or n_seeds == 0:
            raise InputError(
                f"Arm {arm.name!r} has {len(arm.scores_per_seed)} seeds and {names[0]!r} has {n_seeds}. "
                "A paired comparison needs the same seeds for every arm, at least one."
            )
        for at, scores in enumerate(arm.scores_per_seed):
            if len(scores) != len(labels) or not (own or np.isfinite(np.asarray(scores, np.float64)).all()):
                shape = len(scores) if own else np.shape(scores)
                raise InputError(
                    f"Seed {at} of arm {arm.name!r} has scores of shape {shape} for {len(labels)} labels, or scores "
                    "that are not finite. Give one finite score per test example."
                )
