"""Scores of predictions: a metric takes (predictions, labels) and returns one number; it declares how it is resampled.

The predictions of most are logits, (examples, classes), or (examples, 1) for a model that answers with a number; labels
are (examples,). Where an example may have several labels, they are 0 or 1 in (examples, classes), and a logit above 0
means yes. A task with predictions of its own, such as written answers, declares metrics of the kind "own".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InfuserError, InputError, UnknownNameError, did_you_mean
from infuser.stats import weighted
from infuser.stats.entity_scores import measure_entities, score_entities
from infuser.stats.weighted import Floats, Weighted

Array: TypeAlias = NDArray[np.floating | np.integer]
Kind: TypeAlias = Literal["classes", "numbers", "ranking", "several labels", "entities", "own"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A named score; call it with predictions and labels."""

    name: str
    compute: Callable[[Any, Any], float]
    """(predictions, labels) to a number; arrays that have been checked, unless the kind is "own"."""
    weighted: Weighted | None = None
    """(predictions, labels, weights of (rounds, examples)) to the value of every round; None recomputes each round."""
    kind: Kind = "classes"
    """What the predictions are; "own" and "entities" take any sequences, one prediction and one gold per example."""
    higher_is_better: bool = True
    needs_variety: bool = False
    """Undefined where all labels are the same."""

    @property
    def takes_arrays(self) -> bool:
        """Whether predictions and labels are arrays of numbers."""
        return self.kind not in ("own", "entities")

    def __call__(self, predictions: Any, labels: Any) -> float:
        """Return the score; raise where it is undefined."""
        predictions, labels = self._checked(predictions, labels)
        return float(self.compute(predictions, labels))

    def or_nan(self, predictions: Any, labels: Any) -> float:
        """Return the score, or NaN where it is undefined, such as AUC of one class alone."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a resample may lack a class
            try:
                return self(predictions, labels)
            except (InfuserError, ArithmeticError, ValueError):
                return float("nan")

    def resample(self, predictions: Any, labels: Any, weights: Floats) -> Floats:
        """Return the score of every round, NaN where undefined; `weights` (rounds, examples) count the draws."""
        if self.weighted is not None:
            if self.takes_arrays:
                predictions, labels = _as_logits(predictions), np.asarray(labels)
            return np.asarray(self.weighted(predictions, labels, weights), np.float64)
        rounds = [np.repeat(np.arange(len(row)), row.astype(np.int64)) for row in weights]
        return np.array([self.or_nan(_take(predictions, drawn), _take(labels, drawn)) for drawn in rounds])

    def after(self, predictions: Callable[[Any], Any], labels: Callable[[Any], Any]) -> Metric:
        """Return this metric for a task whose predictions or golds have to be converted first."""
        declared = self.weighted
        weigh = None if declared is None else lambda p, g, w: self.resample(predictions(p), labels(g), w)
        return replace(self, compute=lambda p, g: self(predictions(p), labels(g)), weighted=weigh, kind="own")

    def check_labels(self, labels: Sequence[Any]) -> None:
        """Raise for labels that this metric cannot judge by; training checks before it starts."""
        if self.kind == "several labels" and any(np.ndim(label) != 1 or not set(label) <= {0, 1} for label in labels):
            raise InputError(
                f"The metric '{self.name}' needs a list of 0 or 1 as the label of each example, one per class. For one "
                "class per example use 'accuracy' or 'f1'."
            )
        if self.kind == "entities" and not all(isinstance(label, Mapping) for label in labels):
            raise InputError(
                f"The metric '{self.name}' judges entities in texts, but the labels are such as {labels[0]!r}. Use it "
                "with --task ner, or take 'accuracy' or 'auc'."
            )
        if self.needs_variety and len(labels) > 0 and all(label == labels[0] for label in labels):
            raise InputError(
                f"The metric '{self.name}' needs examples with different labels, but all {len(labels)} have the label "
                f"{labels[0]!r}. Use a larger or stratified set, or another metric such as 'accuracy' or 'mse'."
            )

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether `value` improves on the best value so far; anything improves on none."""
        return than is None or (value > than if self.higher_is_better else value < than)

    def _checked(self, predictions: Any, labels: Any) -> tuple[Any, Any]:
        if not self.takes_arrays:
            self.check_labels(labels)
            if len(predictions) != len(labels) or len(labels) == 0:
                raise InputError(
                    f"{len(predictions)} predictions for {len(labels)} examples. Give one for each, and at least one."
                )
            return predictions, labels
        logits, labels = _as_logits(predictions), np.asarray(labels)
        several = self.kind == "several labels"
        if logits.ndim != 2 or labels.shape != (logits.shape if several else logits.shape[:1]):
            raise InputError(
                f"The metric '{self.name}' needs logits of shape (examples, classes) and one label per "
                f"{'example and class' if several else 'example'}; it got {logits.shape} and {labels.shape}. "
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
        self._check_width(logits.shape[1])
        return logits, labels

    def _check_width(self, n_logits: int) -> None:
        if self.kind in ("classes", "several labels") and n_logits < 2:
            raise InputError(
                f"The metric '{self.name}' compares two or more classes, but the model answers with one number per "
                "example. Use 'pearson', 'spearman' or 'mse', or a model with num_labels >= 2."
            )
        if self.kind == "numbers" and n_logits != 1:
            raise InputError(
                f"The metric '{self.name}' compares numbers, but the model answers with {n_logits} classes. "
                "Use 'accuracy', 'f1', 'matthews' or 'auc', or a model with num_labels=1."
            )


def get_metric(name: str) -> Metric:
    """Return the metric of that name; raise with the known names if there is none."""
    if name in METRICS:
        return METRICS[name]
    hint = did_you_mean(name, METRICS)
    raise UnknownNameError(f"No metric is called {name!r}.{hint} Known: {', '.join(sorted(METRICS))}.")


def mean_metric(
    name: str,
    values: Callable[[Any, Any], Any],
    *,
    groups: Callable[[Any], Any] | None = None,
    kind: Kind = "own",
    higher_is_better: bool = True,
) -> Metric:
    """Return a metric that is the mean of `values(predictions, labels)`, one per example; NaN leaves an example out.

    With `groups(labels)`, one group per example, it is the mean over groups of their means.
    """

    def weigh(predictions: Any, labels: Any, weights: Floats) -> Floats:
        of_group = np.zeros(len(labels), np.int64) if groups is None else groups(labels)
        return weighted.group_mean(np.asarray(values(predictions, labels), np.float64), of_group, weights)

    def compute(predictions: Any, labels: Any) -> float:
        return float(weigh(predictions, labels, np.ones((1, len(labels))))[0])

    return Metric(name, compute, weigh, kind, higher_is_better)


def ranking_scores(logits: Array, metric: str) -> Array:
    """Return one number per example to rank by: the answer itself, or how much more likely class 1 is than class 0."""
    if logits.shape[1] > 2:
        raise InputError(
            f"The metric '{metric}' ranks by one number, but the model answers with {logits.shape[1]} classes. Use a "
            "model with num_labels=1 or 2."
        )
    return np.asarray(logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0))


def _as_logits(predictions: Any) -> Array:
    logits = np.asarray(predictions, dtype=np.float64)
    return logits[:, None] if logits.ndim == 1 else logits


def _take(values: Any, places: NDArray[np.int64]) -> Any:
    return values[places] if isinstance(values, np.ndarray) else [values[place] for place in places]


def _f1(logits: Array, labels: Array, *, macro: bool = False) -> float:
    """F1 of class 1 for two classes, as GLUE has it; the plain mean over classes for more, or with `macro`."""
    from sklearn.metrics import f1_score

    average = "binary" if logits.shape[1] == 2 and not macro else "macro"
    return float(f1_score(labels, logits.argmax(axis=1), average=average, zero_division=0.0))


def _matthews(logits: Array, labels: Array) -> float:
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(labels, logits.argmax(axis=1)))


def _auc(logits: Array, labels: Array) -> float:
    """Area under the ROC curve of class 1; for more than two classes the mean of each against the rest."""
    from sklearn.metrics import roc_auc_score

    present = np.unique(labels)
    if len(present) < logits.shape[1]:  # with more than two classes each is compared with the rest, so each must occur
        raise InputError(
            f"AUC needs examples of all {logits.shape[1]} classes, but the {len(labels)} labels hold only "
            f"{present.tolist()}. Use a larger or stratified set, or the metric 'accuracy'."
        )
    if logits.shape[1] > 2:
        return float(roc_auc_score(labels, _probabilities(logits), multi_class="ovr"))
    if set(present.tolist()) != {0, 1}:
        raise InputError(f"AUC needs labels 0 and 1, both present; got {present.tolist()[:5]}.")
    return float(roc_auc_score(labels, ranking_scores(logits, "auc")))


def _weighted_auc(logits: Array, labels: Array, weights: Floats) -> Floats:
    if logits.shape[1] <= 2:
        return weighted.auc(ranking_scores(logits, "auc"), labels == 1, weights)
    columns = enumerate(_probabilities(logits).T)
    return np.asarray(np.mean([weighted.auc(scores, labels == place, weights) for place, scores in columns], axis=0))


def _probabilities(logits: Array) -> Floats:
    from scipy.special import softmax

    return np.asarray(softmax(logits, axis=1), np.float64)


def _correlation(logits: Array, labels: Array, measure: Literal["pearsonr", "spearmanr"]) -> float:
    from scipy import stats

    numbers = logits[:, 0]
    if np.ptp(numbers) == 0:
        return 0.0  # one answer for everything does not depend on the labels
    return float(getattr(stats, measure)(numbers, labels).statistic)


def _ndcg(logits: Array, labels: Array) -> float:
    """NDCG of all examples as one ranking; `tasks.relevance` has the mean over queries."""
    from sklearn.metrics import ndcg_score

    if labels.min() < 0:
        raise InputError(f"NDCG needs labels of 0 or more, but one is {labels.min()}. Shift them.")
    return float(ndcg_score(labels[None], ranking_scores(logits, "ndcg")[None]))


def _relation(logits: Array, labels: Array, measure: str) -> float:
    """A score of TACRED: over all decisions, but class 0, no relation, is neither a guess nor a hit."""
    from sklearn.metrics import precision_recall_fscore_support

    relations = list(range(1, logits.shape[1]))
    # a model that never guesses a relation has a precision of 1, as the official scorer has it
    found = precision_recall_fscore_support(
        labels, logits.argmax(axis=1), labels=relations, average="micro", zero_division=float(measure == "precision")
    )
    return float(dict(zip(("precision", "recall", "f1"), found, strict=False))[measure])


def _relation_macro_f1(logits: Array, labels: Array) -> float:
    """Mean of F1 over the classes that are predicted or gold, without class 0, no relation."""
    return float(weighted.of_classes(weighted.macro_f1_without_class_0)(logits, labels, np.ones((1, len(labels))))[0])


def _detected(logits: Array) -> Array:
    """Return logits of two classes: no relation (class 0), and the best one of all others."""
    return np.stack([logits[:, 0], logits[:, 1:].max(axis=1)], axis=1)


def _detection_f1(logits: Array, labels: Array) -> float:
    return _f1(_detected(logits), (labels > 0).astype(np.int64))


def _weighted_detection_f1(logits: Array, labels: Array, weights: Floats) -> Floats:
    return weighted.of_classes(weighted.f1)(_detected(logits), (labels > 0).astype(np.int64), weights)


def _typing(logits: Array, labels: Array, measure: str, average: str = "micro") -> float:
    """Over all decisions ("micro"), or the mean over those examples where it is defined ("samples")."""
    from sklearn.metrics import precision_score, recall_score

    if measure == "f1":  # of the two means; with "samples" the loose macro F1 of Ling and Weld (2012)
        precision, recall = (_typing(logits, labels, one, average) for one in ("precision", "recall"))
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    compute = {"precision": precision_score, "recall": recall_score}[measure]
    value = float(compute(labels.astype(int), (logits > 0).astype(int), average=average, zero_division=np.nan))
    return 0.0 if np.isnan(value) else value


def _over_relations(measure: str) -> Metric:
    weigh = weighted.of_classes(partial(weighted.without_class_0, measure=measure))
    return Metric(f"relation-{measure}", partial(_relation, measure=measure), weigh)


def _over_types(name: str, measure: str, average: Literal["micro", "samples"] = "micro") -> Metric:
    weigh = partial(weighted.of_label_sets, measure=measure, by_example=average == "samples")
    return Metric(name, partial(_typing, measure=measure, average=average), weigh, "several labels")


def _over_entities(name: str, **options: Any) -> Metric:
    return Metric(name, partial(score_entities, **options), partial(measure_entities, **options), "entities")


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        mean_metric("accuracy", lambda logits, labels: logits.argmax(axis=1) == labels, kind="classes"),
        mean_metric("micro-f1", lambda logits, labels: logits.argmax(axis=1) == labels, kind="classes"),
        Metric("f1", _f1, weighted.of_classes(weighted.f1)),
        Metric("macro-f1", partial(_f1, macro=True), weighted.of_classes(weighted.macro_f1)),
        Metric("matthews", _matthews, weighted.of_classes(weighted.matthews)),
        Metric("auc", _auc, _weighted_auc, "ranking", needs_variety=True),
        Metric("pearson", partial(_correlation, measure="pearsonr"), weighted.pearson, "numbers", needs_variety=True),
        Metric(
            "spearman", partial(_correlation, measure="spearmanr"), weighted.spearman, "numbers", needs_variety=True
        ),
        mean_metric("mse", lambda logits, labels: (logits[:, 0] - labels) ** 2, kind="numbers", higher_is_better=False),
        Metric("ndcg", _ndcg, kind="ranking", needs_variety=True),
        *(_over_relations(measure) for measure in ("f1", "precision", "recall")),
        Metric("relation-macro-f1", _relation_macro_f1, weighted.of_classes(weighted.macro_f1_without_class_0)),
        Metric("detection-f1", _detection_f1, _weighted_detection_f1),
        _over_types("typing-micro-f1", "f1"),
        _over_types("typing-macro-f1", "f1", "samples"),
        _over_types("typing-precision", "precision"),
        _over_types("typing-recall", "recall"),
        *(_over_entities(f"entity-{measure}", measure=measure) for measure in ("f1", "precision", "recall")),
        *(_over_entities(f"entity-f1-{part}", part=part) for part in ("seen", "unseen")),
    )
}
