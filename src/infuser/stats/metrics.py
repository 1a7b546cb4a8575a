"""Scores of predictions: each metric takes (logits, labels) and answers with one number.

Logits are (examples, classes), or (examples, 1) for a model that answers with a number; labels are (examples,). Where
an example may have several labels, they are 0 or 1 in (examples, classes), and a logit above 0 says yes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError, UnknownNameError, did_you_mean

Array = NDArray[np.floating | np.integer]


@dataclass(frozen=True, slots=True)
class Metric:
    """A named score; call it with logits and labels."""

    name: str
    compute: Callable[[Array, Array], float]
    higher_is_better: bool = True
    needs_variety: bool = False
    """Undefined where all labels are the same."""
    multi_label: bool = False
    """Labels are one 0 or 1 per class instead of one number per example."""

    def __call__(self, logits: Array, labels: Array) -> float:
        logits, labels = np.asarray(logits, dtype=np.float64), np.asarray(labels)
        if logits.ndim == 1:
            logits = logits[:, None]
        if logits.ndim != 2 or labels.shape != (logits.shape if self.multi_label else logits.shape[:1]):
            raise InputError(
                f"The metric '{self.name}' needs logits of shape (examples, classes) and one label per "
                f"{'example and class' if self.multi_label else 'example'}; it got {logits.shape} and {labels.shape}. "
                "Models that answer per token need a metric of their own."
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
        if self.multi_label and any(np.ndim(label) != 1 or not set(label) <= {0, 1} for label in labels):
            raise InputError(
                f"The metric '{self.name}' needs a list of 0 or 1 as the label of each example, one per class. For one "
                "class per example use 'accuracy' or 'f1'."
            )
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
    hint = did_you_mean(name, METRICS)
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


def _macro_f1(logits: Array, labels: Array) -> float:
    """The plain mean of the F1 of each class that occurs, however many there are."""
    from sklearn.metrics import f1_score

    return float(f1_score(labels, _classes(logits, "macro-f1"), average="macro", zero_division=0.0))


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
        return float(roc_auc_score(labels, ranking_scores(logits, "auc")))
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


def ranking_scores(logits: Array, metric: str) -> Array:
    """Return what to rank by, one number each: the answer itself, or how much more likely class 1 is than class 0."""
    if logits.shape[1] > 2:
        raise InputError(
            f"The metric '{metric}' ranks by one number, but the model answers with {logits.shape[1]} classes. Use a "
            "model with num_labels=1 or 2."
        )
    return np.asarray(logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0))


def _ndcg(logits: Array, labels: Array) -> float:
    """NDCG of all examples as one ranking; `tasks.relevance` has the mean over queries."""
    from sklearn.metrics import ndcg_score

    if labels.min() < 0:
        raise InputError(f"NDCG needs labels of 0 or more, but one is {labels.min()}. Shift them.")
    return float(ndcg_score(labels[None], ranking_scores(logits, "ndcg")[None]))


def _relation(logits: Array, labels: Array, measure: str) -> float:
    """A score of TACRED: over all decisions, but class 0, no relation, is neither a guess nor a hit."""
    from sklearn.metrics import f1_score, precision_score, recall_score

    compute = {"precision": precision_score, "recall": recall_score, "f1": f1_score}[measure]
    classes, relations = _classes(logits, f"relation-{measure}"), list(range(1, logits.shape[1]))
    # who never guesses a relation is never wrong; the official scorer has it so, too
    undefined = 1.0 if measure == "precision" else 0.0
    return float(compute(labels, classes, labels=relations, average="micro", zero_division=undefined))


def _typing(logits: Array, labels: Array, measure: str, average: str = "micro") -> float:
    """Over all decisions ("micro"), or the mean over those examples where it is defined ("samples")."""
    from sklearn.metrics import precision_score, recall_score

    if logits.shape[1] < 2:
        raise InputError("The typing metrics need two or more classes. Use a model with num_labels >= 2.")
    compute = {"precision": precision_score, "recall": recall_score}[measure]
    value = float(compute(labels.astype(int), (logits > 0).astype(int), average=average, zero_division=np.nan))
    return 0.0 if np.isnan(value) else value


def _typing_f1(logits: Array, labels: Array, average: str) -> float:
    """F1 of precision and recall; with "samples" the loose macro F1 of Ling and Weld (2012)."""
    precision, recall = (_typing(logits, labels, measure, average) for measure in ("precision", "recall"))
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", _accuracy),
        Metric("f1", _f1),
        Metric("macro-f1", _macro_f1),
        Metric("matthews", _matthews),
        Metric("auc", _auc, needs_variety=True),
        Metric("pearson", partial(_correlation, metric="pearson"), needs_variety=True),
        Metric("spearman", partial(_correlation, metric="spearman"), needs_variety=True),
        Metric("mse", _mse, higher_is_better=False),
        Metric("ndcg", _ndcg, needs_variety=True),
        Metric("relation-f1", partial(_relation, measure="f1")),
        Metric("relation-precision", partial(_relation, measure="precision")),
        Metric("relation-recall", partial(_relation, measure="recall")),
        Metric("typing-micro-f1", partial(_typing_f1, average="micro"), multi_label=True),
        Metric("typing-macro-f1", partial(_typing_f1, average="samples"), multi_label=True),
        Metric("typing-precision", partial(_typing, measure="precision"), multi_label=True),
        Metric("typing-recall", partial(_typing, measure="recall"), multi_label=True),
    )
}
