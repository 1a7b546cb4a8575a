"""Scores of predictions: each metric takes (logits, labels) and answers with one number.

Logits are (examples, classes), or (examples, 1) for a model that answers with a number; labels are (examples,).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError, UnknownNameError

Array = NDArray[np.floating | np.integer]


@dataclass(frozen=True, slots=True)
class Metric:
    """A named score; call it with logits and labels."""

    name: str
    compute: Callable[[Array, Array], float]
    higher_is_better: bool = True
    needs_variety: bool = False
    """Undefined where all labels are the same."""

    def __call__(self, logits: Array, labels: Array) -> float:
        logits, labels = np.asarray(logits, dtype=np.float64), np.asarray(labels)
        if logits.ndim == 1:
            logits = logits[:, None]
        if logits.ndim != 2 or labels.shape != logits.shape[:1]:
            raise InputError(
                f"The metric '{self.name}' needs logits of shape (examples, classes) and one label per example; it got "
                f"{logits.shape} and {labels.shape}. Models that answer per token need a metric of their own."
            )
        if len(labels) == 0:
            raise InputError(f"The metric '{self.name}' got no examples. Give a set with at least one.")
        if not np.isfinite(logits).all():
            raise InputError(
                f"The metric '{self.name}' got {np.count_nonzero(~np.isfinite(logits))} logits that are not finite. "
                "The model's weights have probably diverged: lower the learning rate."
            )
        self.check_labels(labels.tolist())
        return self.compute(logits, labels)

    def check_labels(self, labels: Sequence[Any]) -> None:
        """Refuse labels that this metric cannot judge by; training asks before it starts."""
        if self.needs_variety and len(labels) > 0 and all(label == labels[0] for label in labels):
            raise InputError(
                f"The metric '{self.name}' needs examples with different labels, but all {len(labels)} have the label "
                f"{labels[0]!r}. Use a larger or stratified set, or another metric such as 'accuracy' or 'mse'."
            )

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether `value` improves on the best value so far; anything improves on none."""
        return than is None or (value > than if self.higher_is_better else value < than)


def get_metric(name: str) -> Metric:
    """Return the metric of that name, or say which names exist."""
    if name in METRICS:
        return METRICS[name]
    near = difflib.get_close_matches(name, METRICS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownNameError(f"No metric is called {name!r}.{hint} Known: {', '.join(sorted(METRICS))}.")


def _classes(logits: Array, metric: str) -> Array:
    if logits.shape[1] < 2:
        raise InputError(
            f"The metric '{metric}' compares classes, but the model answers with one number per example. "
            "Use 'pearson', 'spearman' or 'mse', or a model with num_labels >= 2."
        )
    return np.asarray(logits.argmax(axis=1))


def _numbers(logits: Array, metric: str) -> Array:
    if logits.shape[1] != 1:
        raise InputError(
            f"The metric '{metric}' compares numbers, but the model answers with {logits.shape[1]} classes. "
            "Use 'accuracy', 'f1', 'matthews' or 'auc', or a model with num_labels=1."
        )
    return logits[:, 0]


def _accuracy(logits: Array, labels: Array) -> float:
    return float(np.mean(_classes(logits, "accuracy") == labels))


def _f1(logits: Array, labels: Array) -> float:
    """F1 of class 1 for two classes, as GLUE has it; the plain mean over classes for more."""
    from sklearn.metrics import f1_score

    classes = _classes(logits, "f1")
    average = "binary" if logits.shape[1] == 2 else "macro"
    return float(f1_score(labels, classes, average=average, zero_division=0.0))


def _matthews(logits: Array, labels: Array) -> float:
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(labels, _classes(logits, "matthews")))


def _auc(logits: Array, labels: Array) -> float:
    """Area under the ROC curve of class 1; for more than two classes the mean of each against the rest."""
    from sklearn.metrics import roc_auc_score

    present = np.unique(labels)
    if len(present) < logits.shape[1]:  # with more than two classes each is held against the rest, so each must occur
        raise InputError(
            f"AUC needs examples of all {logits.shape[1]} classes, but the {len(labels)} labels hold only "
            f"{present.tolist()}. Use a larger or stratified set, or the metric 'accuracy'."
        )
    if logits.shape[1] <= 2:
        return float(roc_auc_score(labels, logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0)))
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    return float(roc_auc_score(labels, scores / scores.sum(axis=1, keepdims=True), multi_class="ovr"))


def _correlation(logits: Array, labels: Array, metric: str) -> float:
    from scipy.stats import pearsonr, spearmanr

    numbers = _numbers(logits, metric)
    if np.ptp(numbers) == 0:
        return 0.0  # one answer for everything tells nothing about the labels
    measure = pearsonr if metric == "pearson" else spearmanr
    return float(measure(numbers, labels).statistic)


def _mse(logits: Array, labels: Array) -> float:
    return float(np.mean((_numbers(logits, "mse") - labels) ** 2))


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", _accuracy),
        Metric("f1", _f1),
        Metric("matthews", _matthews),
        Metric("auc", _auc, needs_variety=True),
        Metric("pearson", lambda logits, labels: _correlation(logits, labels, "pearson"), needs_variety=True),
        Metric("spearman", lambda logits, labels: _correlation(logits, labels, "spearman"), needs_variety=True),
        Metric("mse", _mse, higher_is_better=False),
    )
}
