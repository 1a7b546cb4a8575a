"""What knowledge does while answering: source by source, example by example, and when some of it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from transformers import PreTrainedModel

from infuser.analysis.diagnose.corruption import Errors
from infuser.analysis.diagnose.result import Channel, Flip
from infuser.analysis.predict import map_batches, probabilities
from infuser.errors import InputError
from infuser.infused import Infused
from infuser.stats.comparison import ArmScores, compare_arms
from infuser.stats.metrics import METRICS, Metric
from infuser.training.steps import Collate, Example
from infuser.types import Annotations

Answers: TypeAlias = NDArray[np.float64]
"""Probabilities (examples, classes)."""


def answers(
    model: Infused | PreTrainedModel, examples: Sequence[Example], collate: Collate, *, batch_size: int = 64
) -> Answers:
    """Return the probability of each class for each example, without dropout; labels are not looked at."""
    host = model.model if isinstance(model, Infused) else model

    def chances(batch: dict[str, Tensor]) -> Tensor:
        logits = host(**batch).logits
        if logits.ndim != 2:
            raise InputError(
                f"The model answers with logits of shape {tuple(logits.shape)}; only models that give one row per "
                "example can be diagnosed."
            )
        return probabilities(host, logits).double()

    found: Answers = map_batches(host, examples, collate, chances, batch_size=batch_size).numpy()
    return found


def with_annotations(examples: Sequence[Example], found: Sequence[tuple[Annotations, ...]]) -> list[dict[str, Any]]:
    """Return the examples with other annotations."""
    return [{**example, "annotations": one} for example, one in zip(examples, found, strict=True)]


def without_channel(annotated: Sequence[Sequence[Annotations]], place: int) -> list[tuple[Annotations, ...]]:
    """Return the annotations with nothing from the source at this place."""
    for example in annotated:
        if not 0 <= place < len(example):
            raise InputError(f"There is no source {place}: an example has annotations of {len(example)}, from 0 on.")
    return [(*example[:place], Annotations(example[place].text), *example[place + 1 :]) for example in annotated]


def channel_effects(
    names: Sequence[str],
    with_all: Sequence[NDArray[Any]],
    without: Mapping[str, Sequence[NDArray[Any]]],
    labels: ArrayLike,
    *,
    metric: Metric = METRICS["auc"],
    rounds: int = 2000,
) -> list[Channel]:
    """Return for each source the score with all of them minus the score without it, in the order of `names`.

    `with_all` and `without[name]` hold for each seed what `metric` judges: logits (examples, classes), or for
    AUC also the probability of class 1 alone.
    """
    missing = [name for name in names if name not in without]
    if missing:
        raise InputError(f"No answers without the source {missing[0]!r}; there are some without {sorted(without)}.")
    everything = ArmScores("all sources", with_all)
    left_out = [ArmScores(f"without {name}", without[name]) for name in names]
    if not left_out:
        return []
    comparison = compare_arms(
        [everything, *left_out],
        labels,
        metric=metric,
        also=[(everything.name, arm.name) for arm in left_out],  # those to the first arm have the other sign
        rounds=rounds,
    )
    return [
        Channel(name, difference)
        for name, difference in zip(names, comparison.differences[len(left_out) :], strict=True)
    ]


def flips(
    examples: Sequence[Example],
    labels: ArrayLike,
    before: Sequence[Answers],
    after: Sequence[Answers],
    label_names: Sequence[str],
) -> list[Flip]:
    """Return the examples that went from wrong to right, or from right to wrong, in more than half of the seeds.

    `before` and `after` hold answers for each seed. The clearest come first: those whose right label's mean
    probability changed most towards where they went.
    """
    truth = np.asarray(labels)
    one, other = np.stack(before), np.stack(after)  # (seeds, examples, classes)
    if one.shape != other.shape or one.ndim != 3 or one.shape[1] != len(truth) or len(examples) != len(truth):
        raise InputError(
            f"Answers of shapes {one.shape} and {other.shape} (seeds, examples, classes) for {len(truth)} labels and "
            f"{len(examples)} examples do not fit together. Give the same seeds, examples and classes before and after."
        )
    if one.shape[2] < 2:
        raise InputError("A model that answers with one number has no right or wrong answers to flip.")
    n_seeds, everyone = len(one), np.arange(len(truth))
    was_right, is_right = one.argmax(axis=2) == truth, other.argmax(axis=2) == truth  # (seeds, examples)
    mended, spoilt = (~was_right & is_right).sum(axis=0), (was_right & ~is_right).sum(axis=0)
    sure_before, sure_after = (given[:, everyone, truth].mean(axis=0) for given in (one, other))
    change = np.where(mended > spoilt, sure_after - sure_before, sure_before - sure_after)
    flipped = np.flatnonzero(2 * np.maximum(mended, spoilt) > n_seeds)
    return [
        Flip(
            text=examples[place]["text"],
            pair=examples[place].get("pair"),
            label=label_names[int(truth[place])],
            mended=bool(mended[place] > spoilt[place]),
            n_seeds=int(max(mended[place], spoilt[place])),
            before=float(sure_before[place]),
            after=float(sure_after[place]),
        )
        for place in flipped[np.argsort(-change[flipped], kind="stable")].tolist()
    ]


def corruption_curve(
    infused: Infused,
    examples: Sequence[Example],
    shares: Sequence[float] = (0, 0.1, 0.2, 0.3, 0.4, 0.5),
    *,
    score: Callable[[Answers], float],
    pool: Sequence[Sequence[Annotations]] = (),
) -> list[tuple[float, float]]:
    """Return (share, score of the answers) for rising shares of wrong entities, see `analysis.diagnose.corruption`.

    Examples have their `annotations`; `pool` holds those of further texts, such as the training set, from which
    stand-ins come, too. The model stays as it was trained: only what it reads while answering is wrong.
    """
    without = [place for place, example in enumerate(examples) if example.get("annotations") is None]
    if without:
        raise InputError(
            f"Example {without[0]} has no annotations to corrupt. Give them along, from Collator.annotate."
        )
    collate = infused.collator()
    annotated = [example["annotations"] for example in examples]
    errors = Errors([*annotated, *pool])
    curve = []
    for share in shares:
        corrupted = with_annotations(examples, errors.put_into(annotated, share))
        curve.append((float(share), float(score(answers(infused, corrupted, collate)))))
    return curve
