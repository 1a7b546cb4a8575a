from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from infuser.analysis.diagnose.buckets import NO_ENTITY, buckets, entity_frequency
from infuser.errors import InputError
from infuser.stats.comparison import ArmScores, compare_arms
from infuser.stats.metrics import Metric, get_metric
from infuser.types import Annotations, Span

ACCURACY, AUC = get_metric("accuracy"), get_metric("auc")


def recomputed_auc(scores: NDArray[Any], labels: NDArray[Any]) -> float:
    if len(set(labels.tolist())) < 2:
        raise InputError("one class")
    return AUC(scores[:, 1], labels)


def test_the_rarest_entity_of_all_sources_counts_and_keys_are_ids_or_words() -> None:
    text = "Old  Bern and Basel"
    found = Annotations(text, (Span(0, 9), Span(14, 19, id="Q78")))
    other = Annotations(text, (Span(5, 9, id="Q70"),))
    frequencies = {"old bern": 12, "Q78": 40, "Q70": 3}
    examples = [(found, other), (found, Annotations(text)), (Annotations(text), Annotations(text)), (other,)]
    assert entity_frequency(examples, frequencies).tolist() == [3, 12, NO_ENTITY, 3]
    assert entity_frequency(examples[:1], {}).tolist() == [0]


def test_buckets_have_names_for_people_and_empty_ones_are_left_out() -> None:
    frequency = [NO_ENTITY, 0, 0, 1, 9, 10, 5000, 1000]
    arm = ArmScores("plain", [np.tile([0.4, 0.6], (8, 1))])
    found = buckets([arm, ArmScores("kam", arm.scores_per_seed)], [1] * 8, frequency, metric=ACCURACY, rounds=100)
    assert [(bucket.name, bucket.n_examples) for bucket in found] == [
        ("in no text", 2),
        ("in 1 to 9 texts", 2),
        ("in 10 to 99 texts", 1),
        ("in 1,000 or more texts", 2),
        ("no entity", 1),
    ]
    others = buckets([arm], [1] * 8, frequency, edges=(1, 2, 10, 11), metric=ACCURACY)
    assert [bucket.name for bucket in others][1:4] == ["in 1 text", "in 2 to 9 texts", "in 10 texts"]


def test_values_and_intervals_are_those_of_a_comparison_of_the_bucket_alone() -> None:
    chance = np.random.default_rng(0)
    labels, frequency = chance.integers(0, 2, 200), chance.choice([0, 50], 200)
    groups = chance.integers(0, 40, 200)
    plain = ArmScores("plain", [chance.random(200) for _ in range(2)])
    infused = ArmScores("kam", [scores + np.where(frequency == 0, labels, 0) for scores in plain.scores_per_seed])
    rare, frequent = buckets([plain, infused], labels, frequency, groups=groups, rounds=300)
    assert frequent.values["plain"] == frequent.values["kam"]
    assert frequent.differences == {"kam": (0.0, 0.0)}
    inside = frequency == 0
    alone = [ArmScores(arm.name, [scores[inside] for scores in arm.scores_per_seed]) for arm in (plain, infused)]
    wanted = compare_arms(alone, labels[inside], groups=groups[inside], rounds=300)
    assert rare.values == {arm.name: pytest.approx(arm.mean) for arm in wanted.arms}
    assert rare.values["kam"] == 1.0
    assert rare.differences == {"kam": wanted.differences[0].over_examples}


def test_what_is_undefined_in_a_bucket_is_none() -> None:
    labels = np.array([1, 1, 1, 0, 1])
    frequency = [0, 0, 0, 5, 5]
    arms = [ArmScores(name, [np.linspace(0.1, 0.9, 5)]) for name in ("plain", "kam")]
    one_class, both = buckets(arms, labels, frequency, metric=AUC, rounds=150)
    assert (one_class.values, one_class.differences) == ({"plain": None, "kam": None}, {"kam": None})
    assert both.values["kam"] == 1.0
    assert both.differences["kam"] is None, "in half of 150 rounds only one of two examples was drawn"
    # a metric that refuses such a bucket with an error of ours says the same
    wide = [
        ArmScores(arm.name, [np.stack([1 - arm.scores_per_seed[0], arm.scores_per_seed[0]], axis=1)]) for arm in arms
    ]
    strict = buckets(wide, labels, frequency, metric=Metric("own", recomputed_auc, kind="own"), rounds=150)
    assert strict == [one_class, both]
    with pytest.raises(InputError, match="4 frequencies for 5 labels"):
        buckets(arms, labels, frequency[:4])
