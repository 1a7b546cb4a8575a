"""Two classifiers fitted on what was read of training triples, and what they answer for test triples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from infuser.analysis.probe.relation_parts import score_answers
from infuser.analysis.probe.relation_rows import Ints, Seen
from infuser.analysis.probe.result import Curve, ProbeScores
from infuser.relations.classifier import Linear


@dataclass(frozen=True)
class Answers:
    """Two classifiers, and what they say about test triples."""

    gate: Linear
    which: Linear
    binary: float
    """Accuracy of the gate."""
    truth: list[str]
    """The relations of the test triples whose relation was there to be learned,"""
    answers: list[str]
    """and what the classifier takes them for."""

    @property
    def scores(self) -> ProbeScores:
        """The scores of both."""
        return score_answers(self.binary, self.truth, self.answers)


def answer(
    train: Seen, test: Seen, *, strength: float = 1.0, layer: int | None = None, shuffling: int | None = None
) -> Answers:
    """Fit gate and classifier on training triples, on one layer or all, and ask them about test triples.

    With `shuffling`, the seed of a shuffle, the training labels change their places first.
    """
    facts = train.facts()
    truth = train.rows.truth[facts].tolist()
    places, related = train.balanced()
    if shuffling is not None:
        rng = np.random.default_rng(shuffling)
        truth, related = (rng.permutation(np.array(labels, dtype=object)).tolist() for labels in (truth, related))
    gate = Linear.fitted(train.matrix(places, layer), related, strength=strength)
    which = Linear.fitted(train.matrix(facts, layer), truth, strength=strength)
    asked, right = test.balanced()
    said = _best(gate, test, asked, layer)
    binary = sum(one == other for one, other in zip(said, right, strict=True)) / len(right)
    known = test.facts(which.classes)
    return Answers(gate, which, binary, test.rows.truth[known].tolist(), _best(which, test, known, layer))


def layer_curve(
    train: Seen, test: Seen, *, strength: float = 1.0, tell: Callable[[int], object] = lambda n: None
) -> Curve:
    """Return what each layer alone reaches: (layer, accuracy of the gate, macro-F1 of the relations)."""
    curve: Curve = []
    for layer in range(train.n_layers):
        scores = answer(train, test, strength=strength, layer=layer).scores
        curve.append((layer, scores.binary, scores.f1))
        tell(1)
    return curve


def _best(model: Linear, seen: Seen, places: Ints, layer: int | None) -> list[str]:
    """Return the most probable class of each of some rows."""
    if not len(places):
        return []
    numbers = model.probabilities(seen.matrix(places, layer)).argmax(axis=1)
    return [model.classes[number] for number in numbers.tolist()]
