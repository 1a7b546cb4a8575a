"""Two linear models on standardised features: a gate ("is it a relation?") and a classifier ("which one?").

The paper's classifier knows relations only, so whatever passes the gate gets one. Ours may know "none of them" as a
class, too: then two models must be convinced, and on T-REx that is worth more than any other setting (see
docs/methods/attention-relations.md).

Numbers only: this file knows neither encoders nor texts. scikit-learn fits, a few arrays are kept, and NumPy answers;
so a saved model is arrays and JSON, and answers alike under every version of scikit-learn.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.relations.examples import NO_RELATION
from infuser.signals.answers import check_finite

_log = logging.getLogger(__name__)
_ROWS = 65_536
"""Rows that are standardised at once when a model answers."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Linear:
    """Multinomial logistic regression on standardised features; two classes have one row of weights."""

    classes: tuple[str, ...]
    mean: Floats
    """(features,)"""
    scale: Floats
    """(features,)"""
    weights: Floats
    """(classes, features), or (1, features) for two classes, or none for one."""
    bias: Floats
    converged: bool = True

    @classmethod
    def fitted(
        cls, features: NDArray[np.float32], truth: Sequence[str], *, strength: float = 1.0, max_iter: int = 1000
    ) -> Self:
        """Learn from features (rows, features) and one class per row; `strength` is scikit-learn's C."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler

        if not len(truth):
            raise InputError("There is nothing to learn from: no triple with all its spans readable.")
        scaler = StandardScaler()
        scaled = scaler.fit_transform(np.asarray(features, np.float64))
        names = sorted(set(truth))
        if len(names) == 1:
            nothing = np.zeros((0, features.shape[1]))
            return cls((names[0],), scaler.mean_, scaler.scale_, nothing, np.zeros(0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # logged below, with what to do
            model = LogisticRegression(C=strength, max_iter=max_iter).fit(scaled, np.array(truth, dtype=object))
        converged = bool((model.n_iter_ < max_iter).all())
        if not converged:
            _log.warning(
                "The classifier of %d classes stopped after %d steps before it had converged; its weights are not the "
                "best ones. Give a larger max_iter or a smaller strength (now %g).",
                len(names),
                max_iter,
                strength,
            )
        # as a file gives them back: in another order the same sums are rounded otherwise on some machines
        weights = np.ascontiguousarray(model.coef_)
        return cls(tuple(model.classes_), scaler.mean_, scaler.scale_, weights, model.intercept_, converged)

    def scaled(self, features: NDArray[np.floating]) -> Floats:
        """Return features as the weights see them."""
        scaled: Floats = (np.asarray(features, np.float64) - self.mean) / self.scale
        return scaled

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Return (rows, classes)."""
        from scipy.special import expit, softmax

        answers = np.ones((len(features), len(self.classes)))
        if len(self.classes) == 1:
            return answers
        for first in range(0, len(features), _ROWS):
            logits = self.scaled(features[first : first + _ROWS]) @ self.weights.T + self.bias
            check_finite(int(np.count_nonzero(~np.isfinite(logits))), logits.size)
            if len(self.classes) == 2:
                answers[first : first + _ROWS, 1] = expit(logits[:, 0])
                answers[first : first + _ROWS, 0] = expit(-logits[:, 0])
            else:
                answers[first : first + _ROWS] = softmax(logits, axis=1)
        return answers

    def centred(self) -> Floats:
        """Return the weights of each class against the average of all classes, (classes, features)."""
        if len(self.classes) == 1:
            return np.zeros((1, len(self.mean)))
        if len(self.classes) == 2:
            return np.concatenate([-self.weights, self.weights]) / 2
        centred: Floats = self.weights - self.weights.mean(axis=0)
        return centred

    def arrays(self) -> dict[str, Floats]:
        """Return what must be kept beside the classes."""
        return {"mean": self.mean, "scale": self.scale, "weights": self.weights, "bias": self.bias}


YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a triple is accepted as a relation."""

    gate: float = 0.7
    """The gate's probability must be above this,"""
    best: float = 0.2
    """and that of the best relation above this (the paper's values)."""

    def __post_init__(self) -> None:
        for name in ("gate", "best"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise InputError(f"The threshold {name} is {value!r}; it lies between 0 and 1, 1 excluded.")


@dataclass(frozen=True)
class Decided:
    """What the two models say about each row."""

    gate: Floats
    """How probable it is that the row is a relation, (rows,)."""
    each: Floats
    """How probable the classifier finds each relation, (rows, relations); what is missing to 1 is "none of them"."""
    relations: tuple[str, ...]

    @cached_property
    def best(self) -> NDArray[np.int64]:
        """The most probable relation of each row."""
        best: NDArray[np.int64] = self.each.argmax(axis=1)
        return best

    @cached_property
    def best_probability(self) -> Floats:
        """How probable the classifier finds it."""
        return self.each[np.arange(len(self.each)), self.best]

    def accepted(self, thresholds: Thresholds) -> NDArray[np.bool_]:
        """Return which rows are accepted as a relation."""
        accepted: NDArray[np.bool_] = (self.gate > thresholds.gate) & (self.best_probability > thresholds.best)
        return accepted


@dataclass(frozen=True, slots=True)
class TwoStage:
    """The gate and the classifier behind it."""

    gate: Linear
    which: Linear
    thresholds: Thresholds = field(default_factory=Thresholds)

    @classmethod
    def fitted(
        cls,
        features: NDArray[np.float32],
        relations: Sequence[str],
        nothing: NDArray[np.float32],
        *,
        none_class: bool = True,
        strength: float = 1.0,
        gate_strength: float | None = None,
        max_iter: int = 1000,
    ) -> Self:
        """Learn from the features of triples with their relations, and from those of triples that are none.

        With `none_class` the classifier learns from both, too.
        """
        both = np.concatenate([features, nothing])
        truth = [YES] * len(features) + [NO] * len(nothing)
        gate = Linear.fitted(
            both, truth, strength=strength if gate_strength is None else gate_strength, max_iter=max_iter
        )
        if gate.classes != (NO, YES):
            raise InputError(
                f"The gate learns from triples that are relations and from triples that are none; there are "
                f"{len(features)} and {len(nothing)}. Give texts with further mentions, or a source that finds them."
            )
        names = [*relations, *[NO_RELATION] * len(nothing)] if none_class else relations
        which = Linear.fitted(both if none_class else features, names, strength=strength, max_iter=max_iter)
        return cls(gate, which)

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations that it knows."""
        return tuple(name for name in self.which.classes if name != NO_RELATION)

    def decide(self, features: NDArray[np.floating]) -> Decided:
        """Ask both models about features (rows, features)."""
        each = self.which.probabilities(features)[:, self._places()]
        return Decided(self.gate.probabilities(features)[:, 1], each, self.relations)

    def contributions(self, features: NDArray[np.floating], relation: NDArray[np.int64]) -> Floats:
        """Return what each feature adds to the decision for one relation per row, (rows, features).

        The decision's score is the gate's logit and the relation's logit above the average of all classes.
        """
        gate, which = self.gate, self.which
        added: Floats = (
            gate.scaled(features) * gate.weights[0] + which.scaled(features) * which.centred()[self._places()[relation]]
        )
        return added

    def _places(self) -> NDArray[np.int64]:
        """Return where the relations stand among the classifier's classes."""
        return np.flatnonzero([name != NO_RELATION for name in self.which.classes])

    def tensors(self) -> dict[str, Floats]:
        """Return all arrays by name, for a file."""
        return {
            f"{part}.{name}": array
            for part, model in (("gate", self.gate), ("which", self.which))
            for name, array in model.arrays().items()
        }

    @classmethod
    def from_tensors(
        cls,
        tensors: Mapping[str, Floats],
        classes: Sequence[str],
        thresholds: Thresholds,
        converged: Sequence[bool] = (True, True),
    ) -> Self:
        """Return the model that `tensors` described."""

        def linear(part: str, names: tuple[str, ...], converged: bool) -> Linear:
            mean, scale, weights, bias = (tensors[f"{part}.{name}"] for name in ("mean", "scale", "weights", "bias"))
            return Linear(names, mean, scale, weights, bias, bool(converged))

        gate, which = converged
        return cls(linear("gate", (NO, YES), gate), linear("which", tuple(classes), which), thresholds)
