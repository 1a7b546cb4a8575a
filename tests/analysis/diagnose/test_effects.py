from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny_infusions import KNOWN_TEXT, examples, infuse_tiny

from infuser.analysis.diagnose.effects import answers, channel_effects, corruption_curve, flips, without_channel
from infuser.errors import InputError
from infuser.infused import Infused
from infuser.stats.metrics import get_metric
from infuser.types import Annotations, join_pair

TEXTS = examples("sequence-classification")
ACCURACY = get_metric("accuracy")


def annotated(infused: Infused) -> list[dict[str, Any]]:
    pairs = [example["pair"] for example in TEXTS]
    found = infused.collator().annotate([example["text"] for example in TEXTS], pairs)
    return [{**example, "label": 1, "annotations": of} for example, of in zip(TEXTS, found, strict=True)]


def test_answers_are_probabilities_of_the_model_at_rest() -> None:
    infused = infuse_tiny("bert", "sequence-classification")
    infused.model.train()
    told = answers(infused, annotated(infused), infused.collator(), batch_size=3)
    assert infused.model.training and told.shape == (4, 3)
    np.testing.assert_allclose(told.sum(axis=1), 1, atol=1e-6)
    logits = infused.model.eval()(**infused.batch([KNOWN_TEXT])).logits
    np.testing.assert_allclose(told[0], torch.softmax(logits, dim=-1)[0].detach(), atol=1e-6)
    np.testing.assert_array_equal(told, answers(infused.model, annotated(infused), infused.collator(), batch_size=3))
    per_token = infuse_tiny("bert", "token-classification")
    with pytest.raises(InputError, match="one row per example"):
        answers(per_token, TEXTS, per_token.collator())


def test_a_channel_left_out_is_silent_and_the_others_are_not() -> None:
    infused = infuse_tiny("bert", "sequence-classification")
    given = [example["annotations"] for example in annotated(infused)]
    bare = without_channel(given, 1)
    for before, after, example in zip(given, bare, TEXTS, strict=True):
        assert after == (before[0], Annotations(join_pair(example["text"], example["pair"])))
    told = [
        answers(infused, [{**e, "annotations": of} for e, of in zip(TEXTS, found, strict=True)], infused.collator())
        for found in (given, bare, without_channel(bare, 0))
    ]
    assert not np.allclose(told[0][0], told[1][0]) and not np.allclose(told[1][0], told[2][0])
    with pytest.raises(InputError, match="no source 2"):
        without_channel(given, 2)


def test_the_effect_of_a_channel_is_the_score_with_all_minus_the_score_without_it() -> None:
    labels = np.array([0, 1] * 20)
    right = np.eye(2)[labels]
    half = np.where(np.arange(40)[:, None] < 20, right, 1 - right)
    nearly = np.where(np.arange(40)[:, None] < 22, right, 1 - right)  # another seed: all alike would be no evidence
    names = ["useless", "useful", "harmful"]
    without = {"useful": [half, nearly], "useless": [right, right], "harmful": [right, right]}
    found = channel_effects(names[:2], [right, right], without, labels, rounds=200)
    assert [channel.name for channel in found] == ["useless", "useful"]
    assert found[0].difference.verdict == "no evidence" and found[0].difference.per_seed == (0, 0)
    # without it half of the examples are upside down, or 18 of 40: AUC is .5 and .55
    assert found[1].difference.per_seed == pytest.approx((0.5, 0.45)) and found[1].difference.verdict == "helps"
    assert (found[1].difference.arm, found[1].difference.against) == ("all sources", "without useful")
    [hurts] = channel_effects(["harmful"], [half, nearly], without, labels, metric=ACCURACY, rounds=200)
    assert hurts.difference.mean == pytest.approx(-0.475) and hurts.difference.verdict == "hurts"
    assert channel_effects([], [right], {}, labels) == []
    with pytest.raises(InputError, match="without the source 'useful'"):
        channel_effects(["useful"], [right], {}, labels)
    with pytest.raises(InputError, match="AUC needs examples of all 3 classes"):
        channel_effects(["useful"], [np.ones((40, 3))], {"useful": [np.ones((40, 3))]}, labels)


def test_three_classes_are_compared_by_a_metric_of_their_own() -> None:
    labels = np.array([0, 1, 2] * 10)
    right = np.eye(3)[labels]
    [found] = channel_effects(["a"], [right], {"a": [np.roll(right, 1, axis=1)]}, labels, metric=ACCURACY, rounds=100)
    assert found.difference.mean == 1 and found.difference.over_examples == (1, 1)


def test_flips_by_hand() -> None:
    texts = [{"text": f"text {number}", "pair": "b" if number == 1 else None} for number in range(5)]
    labels = [1, 0, 1, 0, 1]

    def seed(*right: float) -> NDArray[np.float64]:
        """The probability of the right label of each example."""
        chances = np.empty((5, 2))
        for place, (label, chance) in enumerate(zip(labels, right, strict=True)):
            chances[place, label], chances[place, 1 - label] = chance, 1 - chance
        return chances

    # text 0 is mended in 2 of 3 seeds, text 1 spoilt in all, text 2 mended in 1, text 3 mended in all but little
    before = [seed(0.2, 0.9, 0.4, 0.4, 0.9), seed(0.3, 0.8, 0.6, 0.45, 0.9), seed(0.9, 0.7, 0.6, 0.4, 0.9)]
    after = [seed(0.8, 0.1, 0.6, 0.6, 0.9), seed(0.9, 0.2, 0.6, 0.55, 0.6), seed(0.9, 0.3, 0.6, 0.6, 0.9)]
    first, second, third = flips(texts, labels, before, after, ["no", "yes"])
    assert (first.text, first.pair, first.label, first.mended, first.n_seeds) == ("text 1", "b", "no", False, 3)
    assert (first.before, first.after) == pytest.approx((0.8, 0.2))
    assert (second.text, second.pair, second.label, second.mended, second.n_seeds) == ("text 0", None, "yes", True, 2)
    assert (second.before, second.after) == pytest.approx((1.4 / 3, 2.6 / 3))
    assert (third.text, third.mended, third.n_seeds) == ("text 3", True, 3)
    assert flips(texts, labels, before, before, ["no", "yes"]) == []
    with pytest.raises(InputError, match="do not fit together"):
        flips(texts, labels, before, after[:2], ["no", "yes"])
    with pytest.raises(InputError, match="one number"):
        flips(texts, labels, [np.zeros((5, 1))], [np.zeros((5, 1))], ["score"])


@pytest.mark.parametrize("method", ["kam", "kar"])
def test_the_curve_starts_at_the_models_own_score_and_leaves_it_with_wrong_knowledge(method: str) -> None:
    infused = infuse_tiny("bert", "sequence-classification", method)
    given = annotated(infused)
    told = answers(infused, given, infused.collator())
    curve = corruption_curve(infused, given, (0, 1), score=lambda got: float(np.abs(got - told).max()))
    assert curve[0] == (0.0, 0.0)
    assert curve[1][0] == 1.0 and curve[1][1] > 1e-4
    with pytest.raises(InputError, match="no annotations to corrupt"):
        corruption_curve(infused, TEXTS, score=lambda got: 0.0)


def test_stand_ins_come_from_the_pool_too() -> None:
    infused = infuse_tiny("bert", "sequence-classification")
    given = annotated(infused)
    pool = infused.collator().annotate(["the red river lies near the blue river and the red city"])
    seen: list[NDArray[np.float64]] = []
    for others in ((), pool):
        corruption_curve(infused, given, (1,), score=lambda got: seen.append(got) or 0.0, pool=others)
    assert seen[0].shape == seen[1].shape == (4, 3), "the pool is not answered"
    assert not np.allclose(seen[0], seen[1])
