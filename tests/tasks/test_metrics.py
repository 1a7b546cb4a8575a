from __future__ import annotations

import numpy as np
import pytest

from infuser.errors import InputError, UnknownNameError
from infuser.tasks.metrics import METRICS, get_metric

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
    with pytest.raises(UnknownNameError, match=r"'acuracy'. Did you mean 'accuracy'\? Known: accuracy, auc, f1"):
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


@pytest.mark.parametrize("name", sorted(METRICS))
def test_bad_shapes_and_values_are_refused(name):
    with pytest.raises(InputError, match="needs logits of shape"):
        get_metric(name)(np.zeros((2, 5, 2)), np.zeros((2, 5)))
    with pytest.raises(InputError, match="no examples"):
        get_metric(name)(np.zeros((0, 2)), np.zeros(0))
    with pytest.raises(InputError, match="1 logits that are not finite"):
        get_metric(name)(np.array([[0.0], [np.nan]]), np.array([0, 1]))


def test_lower_is_better_for_errors_only():
    assert [name for name, metric in sorted(METRICS.items()) if metric.is_better(0.0, 1.0)] == ["mse"]
    assert all(metric.is_better(0.5, None) and not metric.is_better(0.5, 0.5) for metric in METRICS.values())
