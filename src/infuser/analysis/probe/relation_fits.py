"""Gate and classifier of relations, fitted here or by an extractor: what they answer, confuse and weigh."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.analysis.probe.relation_rows import Ints, RowFeatures, choose_rows
from infuser.analysis.probe.result import Curve, EncoderReading, Importance, ProbeReport, ProbeScores, RelationScore
from infuser.relations.classifier import Linear
from infuser.relations.examples import NO_RELATION, RelationText
from infuser.relations.features import SpanReader, write_features
from infuser.relations.model import AttentionRelations
from infuser.versions import installed_versions
from infuser.words import counted

_Merge = tuple[float, float, float, float]
"""A row of `scipy.cluster.hierarchy.linkage`."""
_NEGATIVES = (
    "Triples that are none are drawn here among mentions and random words, as infuser probe does; an extraction meets "
    "harder ones. How right it is on raw text: infuser relations evaluate."
)


@dataclass(frozen=True)
class ProbeAnswers:
    """Two classifiers, and what they answer about test triples."""

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

    def reading(self, name: str, reader: SpanReader, labels: Mapping[str, str], **more: Any) -> EncoderReading:
        """Return what a report says about the encoder whose features were read, with `more` fields of it."""
        of_heads = reader.settings.kind == "attention"  # the states of a layer have no names that say anything
        linkage, clusters = grow_tree(self.which)
        return EncoderReading(
            name=name,
            features=reader.settings.kind,
            scores=self.scores,
            importance_gate=find_importance(self.gate, reader.shape) if of_heads else [],
            importance_relations=find_importance(self.which, reader.shape) if of_heads else [],
            directions=reader.settings.directions if of_heads else (),
            relations=scores_by_relation(self.truth, self.answers, labels),
            confusions=find_confusions(self.truth, self.answers),
            linkage=linkage,
            linked=self.which.classes,
            clusters=clusters,
            **more,
        )


def fit_and_answer(
    train: RowFeatures,
    test: RowFeatures,
    *,
    strength: float = 1.0,
    layer: int | None = None,
    shuffling: int | None = None,
) -> ProbeAnswers:
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
    return answer(gate, which, test, layer=layer)


def answer(gate: Linear, which: Linear, test: RowFeatures, *, layer: int | None = None) -> ProbeAnswers:
    """Return what two fitted classifiers answer about test triples."""
    asked, right = test.balanced()
    binary = float(np.mean(np.array(_best(gate, test, asked, layer)) == np.array(right)))
    known = test.facts(which.classes)
    return ProbeAnswers(gate, which, binary, test.rows.truth[known].tolist(), _best(which, test, known, layer))


def layer_curve(
    train: RowFeatures, test: RowFeatures, *, strength: float = 1.0, advance: Callable[[int], object] = lambda n: None
) -> Curve:
    """Return what each layer alone reaches: (layer, accuracy of the gate, macro-F1 of the relations)."""
    curve: Curve = []
    for layer in range(train.n_layers):
        scores = fit_and_answer(train, test, strength=strength, layer=layer).scores
        curve.append((layer, scores.binary, scores.f1))
        advance(1)
    return curve


def _best(model: Linear, seen: RowFeatures, places: Ints, layer: int | None) -> list[str]:
    """Return the most probable class of each of some rows."""
    if not len(places):
        return []
    numbers = model.probabilities(seen.matrix(places, layer)).argmax(axis=1)
    return [model.classes[number] for number in numbers.tolist()]


def score_answers(binary: float, truth: Sequence[str], answers: Sequence[str]) -> ProbeScores:
    """Return the accuracy of the gate as it is given, and all scores of the answers; means are over true relations."""
    if not len(truth):
        return ProbeScores(binary, math.nan, math.nan, math.nan, math.nan)
    each = scores_by_relation(truth, answers, {})
    precision, recall, f1 = np.mean([(one.precision, one.recall, one.f1) for one in each], axis=0).tolist()
    return ProbeScores(binary, float(np.mean(np.array(truth) == np.array(answers))), precision, recall, f1)


def scores_by_relation(
    truth: Sequence[str], answers: Sequence[str], labels: Mapping[str, str]
) -> tuple[RelationScore, ...]:
    """Return the scores of each relation that is true somewhere, sorted by id; one that is never answered has 0."""
    from sklearn.metrics import precision_recall_fscore_support

    relations = sorted(set(truth))
    if not relations:
        return ()
    columns = precision_recall_fscore_support(truth, answers, labels=relations, zero_division=0.0)
    rows = zip(relations, *(column.tolist() for column in columns), strict=True)
    return tuple(RelationScore(id, labels.get(id, ""), *scores) for id, *scores in rows)


def find_confusions(truth: Sequence[str], answers: Sequence[str]) -> tuple[tuple[str, str, int], ...]:
    """Return which relation was taken for which other one, and how often; the most frequent first."""
    wrong = Counter((one, other) for one, other in zip(truth, answers, strict=True) if one != other)
    return tuple((*pair, times) for pair, times in sorted(wrong.items(), key=lambda item: (-item[1], item[0])))


def find_importance(model: Linear, shape: tuple[int, ...]) -> Importance:
    """Return the mean absolute weight of each standardised feature, in the shape (layers, heads, directions)."""
    values: Importance = np.abs(model.centred()).mean(axis=0).reshape(shape).tolist()
    return values


def grow_tree(model: Linear) -> tuple[tuple[_Merge, ...], tuple[tuple[str, ...], ...]]:
    """Return the linkage of a classifier's classes by the cosine distance of their weights, and the groups in it.

    A group is what stays together below 0.7 of the largest distance, where dendrograms usually change their colour.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(model.classes) < 2:
        return (), ()
    weights = model.centred()
    # a relation without weights points nowhere; any direction will do, and all features alike favours none
    weights = np.where(np.abs(weights).sum(axis=1, keepdims=True) > 0, weights, 1.0)
    tree = np.maximum(linkage(weights, "average", metric="cosine"), 0.0)  # rounding may leave a distance below 0
    numbers: NDArray[np.int32] = fcluster(tree, 0.7 * tree[:, 2].max(), criterion="distance")
    groups: dict[int, list[str]] = {}
    for relation, number in zip(model.classes, numbers.tolist(), strict=True):
        groups.setdefault(number, []).append(relation)
    rows: list[_Merge] = [(one, other, distance, n) for one, other, distance, n in tree.tolist()]
    return tuple(rows), tuple(tuple(group) for group in groups.values() if len(group) > 1)


def report_fitted(
    model: AttentionRelations, test: Sequence[RelationText], *, name: str, data: str, progress: bool = False
) -> ProbeReport:
    """Return what a fitted model answers about the triples of test texts, and what it weighs."""
    rows = choose_rows(test, relations=model.model_.relations, seed=model.seed)
    with tempfile.TemporaryDirectory(prefix="infuser-relations-", ignore_cleanup_errors=True) as folder:
        features = write_features(model.reader(), rows.texts, Path(folder) / "test.npy", progress=progress)
        seen = RowFeatures.whole(rows, features)
        answers = answer(model.model_.gate, _relations_only(model.model_.which), seen)
        reading = answers.reading(name, model.reader(), model.labels_)
        n_lost = int((~seen.readable).sum())
        facts = {
            "Test triples": f"{len(seen.facts()):,} of {len(reading.relations):,} relations, {data}",
            "Features": f"{' x '.join(map(str, model.reader().shape))} numbers per triple ({model.features_.kind})",
            "Thresholds": f"gate {model.thresholds_.gate:g}, best relation {model.thresholds_.best:g}",
            "Seed": str(model.seed),
        }
        del seen, features  # a mapped file cannot be removed everywhere
    notes = [_NEGATIVES]
    if n_lost:
        notes.append(
            f"{counted(n_lost, 'triple')} of {len(rows.truth):,} could not be read (cut off, blank or without words "
            "that say the relation) and are left out."
        )
    untested = len(model.model_.relations) - len(reading.relations)
    if untested:
        notes.append(f"{counted(untested, 'relation')} of the model have no test triple, so no score.")
    versions = {**installed_versions(), "scikit-learn": version("scikit-learn")}
    return ProbeReport((reading,), model.labels_, tuple(notes), facts, versions)


def _relations_only(which: Linear) -> Linear:
    """Return a classifier without the class "none of them": what it would say if it had to name a relation."""
    kept = [place for place, name in enumerate(which.classes) if name != NO_RELATION]
    if len(kept) == len(which.classes):
        return which
    bias = which.bias if len(which.classes) > 2 else np.concatenate([-which.bias, which.bias]) / 2
    weights, bias = which.centred()[kept], bias[kept]
    if len(kept) < 3:  # one row tells two classes apart, and none is needed for one
        weights, bias = np.diff(weights, axis=0), np.diff(bias)
    return Linear(tuple(which.classes[place] for place in kept), which.mean, which.scale, weights, bias)
