"""AttentionRelations: a relation classifier that reads nothing but attention, with scikit-learn's conventions.

    relations = AttentionRelations("path/to/bert").fit(train, dev=dev, spans=[SpacyEntities()])
    relations.predict(texts)                  # one relation per triple of the texts
    relations.save("relations"); AttentionRelations.load("relations")

Triples are given as `RelationText`s: texts with the places of heads, tails and, where they are known, triggers. To find
triples in raw text see `extraction.extract`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from infuser.errors import InputError
from infuser.infused import Infused
from infuser.relations.candidates import CandidateRule, find_candidates
from infuser.relations.classifier import Decided, Thresholds, TwoStage
from infuser.relations.encoders import Encoder, open_encoder
from infuser.relations.examples import NO_RELATION, RelationText, only_relations, relation_labels, with_relations
from infuser.relations.features import FeatureSettings, Kind, Pooling, SpanReader
from infuser.relations.negatives import draw_texts, sample_negatives
from infuser.relations.trigger_words import TriggerWords
from infuser.types import Source

if TYPE_CHECKING:
    from infuser.relations.extraction import FoundTriple
    from infuser.relations.scores import Match, RelationScores

_log = logging.getLogger(__name__)
_MOST_NUMBERS = 1 << 28
"""Features that are fitted on at once: 2 GB in float64, of which a fit needs some copies."""


class AttentionRelations(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A gate and a classifier on the attention between spans; the encoder itself is not trained."""

    def __init__(
        self,
        encoder: str | Path | Encoder | Infused = "minilm",
        *,
        relations: Sequence[str] | None = None,
        kind: Kind = "attention",
        pooling: Pooling = "sum",
        trigger: bool | None = None,
        gate: float = 0.7,
        best: float = 0.2,
        strength: float = 1.0,
        gate_strength: float | None = None,
        negatives: float = 5.0,
        none_class: bool = True,
        rule: CandidateRule | None = None,
        most_triples: int = 200_000,
        max_iter: int = 1000,
        batch_size: int = 32,
        seed: int = 0,
    ) -> None:
        """Keep the settings; nothing is loaded before it is needed.

        encoder: a hub id, a directory, a saved infused model, a live `Infused` or `Encoder`; or "minilm", an asset.
        relations: the ids that are learned; None for all in the data. Others count as no relation.
        kind, pooling: which features, see `FeatureSettings`.
        trigger: read the words that say the relation, too; None for "if every triple of the data has some".
        gate, best: thresholds of the decision (the paper's); `fit` tunes them if it is given dev data.
        strength, gate_strength: scikit-learn's C of the classifier and of the gate (None: the same).
        negatives: triples that are none, for each that is one (the paper: 1).
        none_class: let the classifier know "none of them", too (the paper's knows relations only).
        rule: which triples of a text are candidates.
        most_triples: texts are drawn for the fit until they hold so many; fewer of them if one takes many numbers.
        """
        self.encoder = encoder
        self.relations = relations
        self.kind = kind
        self.pooling = pooling
        self.trigger = trigger
        self.gate = gate
        self.best = best
        self.strength = strength
        self.gate_strength = gate_strength
        self.negatives = negatives
        self.none_class = none_class
        self.rule = rule
        self.most_triples = most_triples
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.seed = seed

    def fit(
        self,
        X: Sequence[RelationText],
        y: Sequence[str] | None = None,
        *,
        dev: Sequence[RelationText] | None = None,
        spans: Sequence[Source] = (),
        progress: bool = False,
    ) -> Self:
        """Learn from the triples of texts; `y` gives one relation per triple in the place of the triples' own.

        `spans` are the sources that will find spans when triples are extracted: the gate then learns from the pairs
        that they offer. With `dev` the two thresholds are set where the strict F1 of the extraction from these texts
        is highest; without `spans` from their known mentions.
        """
        texts = self._chosen(with_relations(X, y))
        facts = [triple for text in texts for triple in text.triples if triple.is_fact]
        if not facts:
            raise InputError(
                f"There is no triple with a relation in {len(texts)} texts"
                + (f" among the wanted ones, {', '.join(self.relations)}." if self.relations else ".")
            )
        with_trigger = all(triple.trigger for triple in facts) if self.trigger is None else self.trigger
        self.features_ = FeatureSettings(self.kind, self.pooling, with_trigger)  # what is set later must not change it
        self.labels_: dict[str, str] = relation_labels(texts)
        self.triggers_ = TriggerWords({})
        if self.trigger_:  # those met twice or more; in little data where none is, all
            self.triggers_ = TriggerWords.learned(texts)
            self.triggers_ = self.triggers_ if self.triggers_.phrases else TriggerWords.learned(texts, fewest=1)
        most = min(self.most_triples, _MOST_NUMBERS // int(np.prod(self.reader().shape)))
        texts = draw_texts(texts, most / (1 + self.negatives), seed=self.seed)
        offered = find_candidates(texts, spans, self.trigger_words(), self.rule_, progress=progress) if spans else None
        negatives = sample_negatives(texts, candidates=offered, per_triple=self.negatives, seed=self.seed)
        both = [
            replace(text, triples=(*(one for one in text.triples if one.is_fact), *none.triples))
            for text, none in zip(texts, negatives, strict=True)
        ]
        values, readable = self.features(both, progress=progress)
        truth = np.array([triple.relation for text in both for triple in text.triples], dtype=object)
        yes = truth != NO_RELATION
        self.n_unread_: int = int((~readable).sum())
        self.n_negatives_: int = int((readable & ~yes).sum())
        if self.n_unread_:
            _log.warning("%d of %d triples cannot be read and are left out.", self.n_unread_, len(truth))
        self.model_ = TwoStage.fitted(
            values[readable & yes],
            truth[readable & yes].tolist(),
            values[readable & ~yes],
            none_class=self.none_class,
            strength=self.strength,
            gate_strength=self.gate_strength,
            max_iter=self.max_iter,
        )
        self.model_ = replace(self.model_, thresholds=Thresholds(self.gate, self.best))
        if dev is not None:
            self.tune(dev, spans, progress=progress)
        return self

    def tune(
        self,
        dev: Sequence[RelationText],
        spans: Sequence[Source] = (),
        *,
        match: Match = "strict",
        progress: bool = False,
    ) -> RelationScores:
        """Set both thresholds where the F1 of the extraction from dev texts is highest; return the scores there.

        Where nothing that is proposed is right, the thresholds stay as they are.
        """
        from infuser.relations.evaluation import ExtractionTest

        test = ExtractionTest(self, self._chosen(dev), spans, progress=progress)
        if tuned := test.best_thresholds(match):
            self.model_ = replace(self.model_, thresholds=tuned)
        return test.scores(match)

    def set_thresholds(self, gate: float | None = None, best: float | None = None) -> None:
        """Set other thresholds; None leaves one as it is."""
        old = self.thresholds_
        new = Thresholds(old.gate if gate is None else gate, old.best if best is None else best)
        self.model_ = replace(self.fitted(), thresholds=new)

    @property
    def classes_(self) -> NDArray[np.str_]:
        """What `predict` may answer, in the order of `predict_proba`: "no relation" first."""
        return np.array([NO_RELATION, *self.fitted().relations])

    @property
    def trigger_(self) -> bool:
        """Whether the words that say a relation are read."""
        return self.features_.trigger

    def trigger_words(self) -> TriggerWords | None:
        """Return the words that say relations; None if they are not read."""
        return self.triggers_ if self.trigger_ else None

    @property
    def rule_(self) -> CandidateRule:
        """Which triples of a text are candidates."""
        return self.rule or CandidateRule()

    @property
    def thresholds_(self) -> Thresholds:
        """When a triple is accepted as a relation: as given, or as tuned on dev data."""
        return self.fitted().thresholds

    @property
    def n_features_in_(self) -> int:
        """How many numbers stand for one triple."""
        return len(self.fitted().gate.mean)

    def decide(self, X: Sequence[RelationText]) -> tuple[Decided, NDArray[np.bool_]]:
        """Return what gate and classifier say about each triple, and which triples could be read."""
        model = self.fitted()
        values, readable = self.features(with_relations(X))
        return model.decide(values), readable

    def predict(self, X: Sequence[RelationText]) -> NDArray[np.str_]:
        """Return the relation of each triple of the texts, in their order; "no_relation" where there is none."""
        decided, readable = self.decide(X)
        accepted = decided.accepted(self.thresholds_) & readable
        return np.where(accepted, self.classes_[1 + decided.best], NO_RELATION)

    def predict_proba(self, X: Sequence[RelationText]) -> NDArray[np.float64]:
        """Return how probable each class is for each triple, (triples, classes); a triple that cannot be read is none.

        The probability of a relation is the gate's times the classifier's.
        """
        decided, readable = self.decide(X)
        each = np.where(readable, decided.gate, 0.0)[:, None] * decided.each
        return np.concatenate([1 - each.sum(axis=1, keepdims=True), each], axis=1)

    def score(
        self, X: Sequence[RelationText], y: Sequence[str] | None = None, sample_weight: Sequence[float] | None = None
    ) -> float:
        """Return the share of triples whose class is right; relations that were not learned count as none."""
        known = set(self.classes_.tolist())
        texts = with_relations(X, y)
        if not any(text.triples for text in texts):
            raise InputError("There is no triple to score in these texts.")
        truth = [triple.relation if triple.is_fact else NO_RELATION for text in texts for triple in text.triples]
        right = self.predict(texts) == [relation if relation in known else NO_RELATION for relation in truth]
        return float(np.average(right, weights=sample_weight))

    def extract(self, texts: Iterable[str | RelationText], spans: Sequence[Source] = ()) -> Iterator[list[FoundTriple]]:
        """Yield the triples found in each text, between spans that these sources find; see `extraction.extract`."""
        from infuser.relations.extraction import extract

        return extract(self, texts, spans)

    def save(self, folder: str | Path) -> None:
        """Write the fitted model as JSON and safetensors; the encoder itself is not written, but its digest is."""
        from infuser.relations.saving import save

        save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, encoder: str | Path | Encoder | Infused | None = None) -> Self:
        """Read back what `save` wrote; `encoder` is where the encoder lies now. Any other encoder is an error."""
        from infuser.relations.saving import load

        return load(cls, Path(folder), encoder)

    def reader(self) -> SpanReader:
        """Return the reader of this model's features; the encoder is opened on first use."""
        encoder = self.opened()
        return SpanReader(
            encoder.model, encoder.tokenizer, encoder.sources, settings=self.features_, batch_size=self.batch_size
        )

    def opened(self) -> Encoder:
        """Return the encoder itself."""
        given, opened = getattr(self, "_opened", (None, None))
        if opened is None or given is not self.encoder:
            opened = open_encoder(self.encoder)
            self._opened: tuple[Any, Encoder] = (self.encoder, opened)
        return opened

    def features(
        self, texts: Sequence[RelationText], *, progress: bool = False
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the features (triples, features) of all triples, and which of them could be read."""
        reader = self.reader()
        parts = [features for _, features in reader.stream(texts, progress=progress)] or [reader.read([])]
        values = np.concatenate([part.values for part in parts])
        return values.reshape(len(values), int(np.prod(reader.shape))), np.concatenate([p.readable for p in parts])

    def fitted(self) -> TwoStage:
        """Return what was learned; raise if nothing was."""
        if not hasattr(self, "model_"):
            raise NotFittedError("This AttentionRelations has not learned anything yet. Call fit first, or load one.")
        return self.model_

    def _chosen(self, texts: Sequence[RelationText]) -> list[RelationText]:
        """Return the texts with every relation that is not wanted called none."""
        if self.relations is None:
            return list(texts)
        if isinstance(self.relations, str):
            raise InputError(f"relations is {self.relations!r}. Give a list of ids, such as [{self.relations!r}].")
        return only_relations(texts, self.relations)
