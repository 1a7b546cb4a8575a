"""Which relations and entities an encoder knows: held-out probabilities of a probe, for the strategy `Known`."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from infuser.analysis.probe.entity_types import connected_groups
from infuser.analysis.probe.relation_rows import RowFeatures
from infuser.analysis.probe.result import EncoderReading
from infuser.errors import InputError
from infuser.files import nan_to_null
from infuser.knowledge.entity_scores import EntityScore, ScoredRelation, digest_of_texts, write_scores
from infuser.relations.classifier import Linear
from infuser.relations.examples import RelationText, Triple
from infuser.types import Span, entity_key

HOW = "relation-probe"
"""What the scores of entities say about their measure."""
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RelationKnowledge:
    """How well relations and entities are known, and how that was held out."""

    relations: list[ScoredRelation] = field(default_factory=list)
    entities: list[EntityScore] = field(default_factory=list)
    held_out_by: str = ""
    """What no classifier has seen of the triples that it is asked about: "text and pair", or the "text" alone."""
    n_unlearned: int = 0
    """Triples with score 0, because the others were of one relation only: that is nothing to learn from."""


def score_knowledge(
    seen: Sequence[RowFeatures], *, folds: int = 5, strength: float = 1.0, seed: int = 0, by_id: bool = False
) -> RelationKnowledge:
    """Return how well each relation and each entity is known: how probable the right relation is, over its triples.

    Each triple is asked of a classifier that has learned from other texts and, as far as possible, from other pairs of
    entities.
    """
    if folds < 2:
        raise InputError(f"folds={folds}: cross-validation needs at least 2.")
    asked: list[tuple[str, Triple]] = []
    truth: list[str] = []
    for one in seen:
        rows = one.rows.asked()
        asked += [rows[place] for place in one.facts().tolist()]
        truth += one.rows.truth[one.facts()].tolist()
    features = np.concatenate([one.matrix(one.facts()) for one in seen])
    ends = [{_key(text, span, by_id) for span in (triple.head, triple.tail)} for text, triple in asked]
    groups, held_out_by = _groups([text for text, _ in asked], ends)
    right, n_unlearned = _held_out(features, np.array(truth, dtype=object), groups, folds, strength, seed)
    of_relation: dict[str, list[float]] = defaultdict(list)
    of_entity: dict[str, list[float]] = defaultdict(list)
    for relation, keys, probability in zip(truth, ends, right.tolist(), strict=True):
        of_relation[relation].append(probability)
        for key in keys:
            of_entity[key].append(probability)
    relations = [ScoredRelation(key, _mean(values), len(values)) for key, values in sorted(of_relation.items())]
    entities = [EntityScore(key, _mean(values), len(values), HOW) for key, values in sorted(of_entity.items())]
    return RelationKnowledge(relations, entities, held_out_by, n_unlearned)


def write_knowledge(
    path: Path,
    knowledge: RelationKnowledge,
    reading: EncoderReading,
    *,
    checkpoint: str,
    texts: Sequence[RelationText],
    seed: int,
) -> Path:
    """Write the scores, and what they were measured with, for the strategy `Known`."""
    about = {
        "checkpoint": checkpoint,
        "measure": HOW,
        "texts": digest_of_texts(text.text for text in texts),
        "features": reading.features,
        "seed": seed,
        "held_out_by": knowledge.held_out_by,
        "verdict": reading.verdict,
        "accuracy": reading.scores.accuracy,
        "controls": {name: scores.accuracy for name, scores in reading.controls.items()},
    }
    return write_scores(path, knowledge.entities, nan_to_null(about), knowledge.relations)


def _key(text: str, span: Span, by_id: bool) -> str:
    return entity_key(text, span if by_id else Span(span.start, span.end))


def _mean(values: Sequence[float]) -> float:
    return min(1.0, sum(values) / len(values))  # a sum of ones may be rounded up


def _groups(texts: Sequence[str], ends: Sequence[set[str]]) -> tuple[Ints, str]:
    """Return a group for each triple, and what makes one: triples of one text or of one pair of entities are together.

    Where that ties more than half of all triples together, only the text counts.
    """
    of_text, of_pair = (
        np.unique(np.array(names, dtype=object), return_inverse=True)[1]
        for names in (texts, ["\n".join(sorted(pair)) for pair in ends])
    )
    groups = connected_groups(of_text, of_pair)[of_text]
    return (groups, "text and pair") if 2 * np.bincount(groups).max() <= len(groups) else (of_text, "text")


def _held_out(
    features: NDArray[np.float32], truth: NDArray[np.object_], groups: Ints, folds: int, strength: float, seed: int
) -> tuple[NDArray[np.float64], int]:
    """Return how probable the right relation of each triple is to a classifier that has not seen its group.

    Triples that are left with 0 because the classifier would know a single relation are counted.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    most = np.unique(truth, return_counts=True)[1].max()
    folds = min(folds, len(np.unique(groups)), int(most))
    if folds < 2:
        raise InputError(
            "The triples cannot be parted for cross-validation: they are of one text, or each relation is stated once. "
            "Give more texts."
        )
    right, n_unlearned = np.zeros(len(truth)), 0
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")  # a rare relation is hard to know
        parts = list(splitter.split(features, truth, groups))
    for known, held in parts:
        if len(set(truth[known])) < 2:  # who knows one answer is always sure of it
            n_unlearned += len(held)
            continue
        model = Linear.fitted(features[known], truth[known].tolist(), strength=strength)
        place = {relation: number for number, relation in enumerate(model.classes)}
        probable = model.probabilities(features[held])
        for row, at in enumerate(held.tolist()):
            if truth[at] in place:  # a relation that was not seen keeps probability 0
                right[at] = probable[row, place[truth[at]]]
    return right, n_unlearned
