from __future__ import annotations

import numpy as np
import pytest

from infuser.errors import InputError, UnknownNameError
from infuser.stats.metrics import METRICS, get_metric

TWO_CLASSES = np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.5], [0.1, 0.2]])


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("accuracy", [0, 1, 1, 1], 3 / 4),
        ("f1", [0, 1, 1, 1], 2 * (1.0 * 2 / 3) / (1.0 + 2 / 3)),  # precision 2/2, recall 2/3
        ("matthews", [0, 1, 1, 1], (2 * 1 - 0 * 1) / np.sqrt(2 * 3 * 1 * 2)),  # TP 2, TN 1, FP 0, FN 1
        ("auc", [0, 1, 1, 0], 3 / 4),  # margins -1, 3, -.5, .1: one of four pairs is the wrong way round
    ],
)
def test_class_metrics_agree_with_hand_counts(name, labels, expected):
    assert get_metric(name)(TWO_CLASSES, np.array(labels)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("mse", (0 + 1 + 1 + 0) / 4), ("pearson", 0.8), ("spearman", 0.8)],
)
def test_number_metrics_agree_with_hand_counts(name, expected):
    numbers, labels = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([1.0, 3.0, 2.0, 4.0])
    if name == "mse":
        labels = np.array([1.0, 3.0, 2.0, 4.0])
    assert get_metric(name)(numbers, labels) == pytest.approx(expected)


def test_more_classes_are_averaged():
    logits, labels = np.eye(3)[[0, 1, 2, 2]] * 5, np.array([0, 1, 2, 2])
    assert [get_metric(name)(logits, labels) for name in ("auc", "f1", "accuracy", "matthews")] == [1, 1, 1, 1]
    wrong = np.eye(3)[[0, 1, 2, 0]] * 5
    assert get_metric("f1")(wrong, labels) == pytest.approx((2 / 3 + 1 + 2 / 3) / 3)


def test_a_score_in_one_column_can_be_ranked():
    assert get_metric("auc")(np.array([0.1, 0.9, 0.3]), np.array([0, 1, 1])) == 1.0


def test_a_model_with_one_answer_for_everything_correlates_with_nothing():
    assert get_metric("pearson")(np.ones((3, 1)), np.array([1.0, 2.0, 3.0])) == 0.0
    assert get_metric("spearman")(np.ones((3, 1)), np.array([1.0, 2.0, 3.0])) == 0.0


def test_an_unknown_metric_gets_a_proposal():
    with pytest.raises(
        UnknownNameError, match=r"'acuracy'. Did you mean 'accuracy'\? Known: accuracy, auc, detection-f1, entity-f1,"
    ):
        get_metric("acuracy")


@pytest.mark.parametrize("name", ["auc", "pearson", "spearman"])
def test_a_set_of_one_kind_is_refused(name):
    with pytest.raises(InputError, match=rf"'{name}' needs examples with different labels, but all 4 have the label 1"):
        get_metric(name)(np.zeros((4, 1)), np.array([1, 1, 1, 1]))


def test_a_missing_class_is_refused_by_auc():
    with pytest.raises(InputError, match=r"all 3 classes, but the 4 labels hold only \[0, 2\]"):
        get_metric("auc")(np.zeros((4, 3)), np.array([0, 2, 0, 2]))


@pytest.mark.parametrize("name", ["accuracy", "f1", "matthews"])
def test_classes_cannot_be_read_from_a_number(name):
    with pytest.raises(InputError, match="one number per example"):
        get_metric(name)(np.zeros((4, 1)), np.array([0, 1, 0, 1]))


@pytest.mark.parametrize("name", ["mse", "pearson", "spearman"])
def test_a_number_cannot_be_read_from_classes(name):
    with pytest.raises(InputError, match="answers with 2 classes"):
        get_metric(name)(TWO_CLASSES, np.array([0, 1, 0, 1]))


@pytest.mark.parametrize("name", sorted(name for name, metric in METRICS.items() if metric.takes_arrays))
def test_bad_shapes_and_values_are_refused(name):
    def labels(shape):
        return np.zeros(shape if METRICS[name].kind == "several labels" else shape[:1])

    with pytest.raises(InputError, match="needs logits of shape"):
        get_metric(name)(np.zeros((2, 5, 2)), np.zeros((2, 5)))
    with pytest.raises(InputError, match="needs logits of shape"):  # as many labels as belong to the other kind
        get_metric(name)(np.zeros((2, 5)), np.zeros((2,) if METRICS[name].kind == "several labels" else (2, 5)))
    with pytest.raises(InputError, match="no examples"):
        get_metric(name)(np.zeros((0, 2)), labels((0, 2)))
    with pytest.raises(InputError, match="1 logits that are not finite"):
        get_metric(name)(np.array([[0.0, 1.0], [0.0, np.nan]]), labels((2, 2)))


def test_lower_is_better_for_errors_only():
    assert [name for name, metric in sorted(METRICS.items()) if metric.is_better(0.0, 1.0)] == ["mse"]
    assert all(metric.is_better(0.5, None) and not metric.is_better(0.5, 0.5) for metric in METRICS.values())


def test_macro_f1_is_the_mean_over_classes_even_for_two():
    logits, labels = TWO_CLASSES, np.array([0, 1, 1, 1])  # class 0: P 1/2, R 1; class 1: P 1, R 2/3
    assert get_metric("macro-f1")(logits, labels) == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_ndcg_of_one_ranking_agrees_with_its_definition():
    grades, scores = np.array([0.0, 3.0, 1.0, 2.0]), np.array([0.9, 0.8, 0.1, 0.3])
    gained = 3 / np.log2(3) + 2 / np.log2(4) + 1 / np.log2(5)  # at ranks 2, 3 and 4
    best = 3 / np.log2(2) + 2 / np.log2(3) + 1 / np.log2(4)
    assert get_metric("ndcg")(scores, grades) == pytest.approx(gained / best)
    assert get_metric("ndcg")(np.stack([-scores, scores], axis=1), grades) == pytest.approx(gained / best)
    with pytest.raises(InputError, match="0 or more, but one is -1"):
        get_metric("ndcg")(scores, grades - 1)
    with pytest.raises(InputError, match="ranks by one number, but the model answers with 3 classes"):
        get_metric("ndcg")(np.zeros((4, 3)), grades)


def tacred_scores(golds: list[int], guesses: list[int]) -> tuple[float, float, float]:
    """Precision, recall and F1 as the TACRED paper and its scorer describe them, counted pair by pair.

    A guess counts where it is a relation, a gold label likewise, a hit where both are the same relation; precision is
    1 where nothing is guessed, recall 0 where there is nothing to find.
    """
    n_hits = n_guessed = n_gold = 0
    for gold, guess in zip(golds, guesses, strict=True):
        n_guessed += guess != 0
        n_gold += gold != 0
        n_hits += gold == guess != 0
    precision = n_hits / n_guessed if n_guessed else 1.0
    recall = n_hits / n_gold if n_gold else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@pytest.mark.parametrize("seed", range(6))
def test_relation_scores_agree_with_the_official_definition(seed):
    chance = np.random.default_rng(seed)
    logits, labels = chance.normal(size=(60, 5)), chance.integers(5, size=60)
    logits[:, 0] += seed / 2  # more and more often no relation
    expected = tacred_scores(labels.tolist(), logits.argmax(axis=1).tolist())
    names = ("relation-precision", "relation-recall", "relation-f1")
    assert [get_metric(name)(logits, labels) for name in names] == pytest.approx(expected)
    assert 0 < expected[2] < 1


@pytest.mark.parametrize(
    ("labels", "guesses"), [([0, 1, 2], [0, 0, 0]), ([0, 0, 0], [0, 1, 2]), ([0, 0], [0, 0]), ([1, 2], [2, 1])]
)
def test_relation_scores_of_extreme_answers_are_the_official_ones(labels, guesses):
    logits, expected = np.eye(3)[guesses], tacred_scores(labels, guesses)
    names = ("relation-precision", "relation-recall", "relation-f1")
    assert tuple(get_metric(name)(logits, np.array(labels)) for name in names) == expected


@pytest.mark.parametrize("seed", range(3))
def test_macro_f1_of_relations_and_their_detection_leave_out_class_0(seed):
    from sklearn.metrics import f1_score

    chance = np.random.default_rng(seed)
    logits, labels = chance.normal(size=(60, 5)), chance.integers(5, size=60)
    chosen = logits.argmax(axis=1)
    macro = f1_score(labels, chosen, labels=[1, 2, 3, 4], average="macro")
    assert get_metric("relation-macro-f1")(logits, labels) == pytest.approx(macro)
    assert get_metric("detection-f1")(logits, labels) == pytest.approx(f1_score(labels > 0, chosen > 0))
    assert get_metric("micro-f1")(logits, labels) == pytest.approx(f1_score(labels, chosen, average="micro"))


def typing_scores(golds: list[set[int]], guesses: list[set[int]]) -> dict[str, float]:
    """Micro and loose macro scores as Ling and Weld (2012) describe them, counted example by example."""

    def f1(precision, recall):
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    def mean(values):
        return sum(values) / len(values) if values else 0.0

    pairs = list(zip(golds, guesses, strict=True))
    n_hits, n_gold, n_guessed = sum(len(a & b) for a, b in pairs), sum(map(len, golds)), sum(map(len, guesses))
    precision, recall = n_hits / n_guessed if n_guessed else 0.0, n_hits / n_gold if n_gold else 0.0
    macro = mean([len(a & b) / len(b) for a, b in pairs if b]), mean([len(a & b) / len(a) for a, b in pairs if a])
    return {
        "typing-precision": precision,
        "typing-recall": recall,
        "typing-micro-f1": f1(precision, recall),
        "typing-macro-f1": f1(*macro),
    }


@pytest.mark.parametrize("threshold", [-9.0, -0.5, 0.0, 1.0, 9.0])  # from everything is guessed to nothing is
def test_typing_scores_agree_with_their_description(threshold):
    chance = np.random.default_rng(7)
    logits, labels = chance.normal(size=(40, 6)) - threshold, (chance.random((40, 6)) < 0.25).astype(int)
    assert (labels.sum(axis=1) == 0).any()  # some have no type
    golds = [set(np.flatnonzero(row).tolist()) for row in labels]
    guesses = [set(np.flatnonzero(row > 0).tolist()) for row in logits]
    expected = typing_scores(golds, guesses)
    for kind in (int, float, bool):  # training gives floats
        scored = {name: get_metric(name)(logits, labels.astype(kind)) for name in expected}
        assert scored == pytest.approx(expected)


def test_several_labels_per_example_are_zeros_and_ones():
    with pytest.raises(InputError, match="a list of 0 or 1 as the label of each example"):
        get_metric("typing-micro-f1")(np.zeros((2, 3)), np.array([[0, 1, 2], [0, 0, 0]]))
    with pytest.raises(InputError, match="a list of 0 or 1 as the label of each example"):
        get_metric("typing-micro-f1").check_labels([0, 1, 1])  # what training asks before it starts
    with pytest.raises(InputError, match="two or more classes"):
        get_metric("typing-recall")(np.zeros((2, 1)), np.zeros((2, 1)))
