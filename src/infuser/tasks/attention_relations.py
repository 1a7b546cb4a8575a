"""Relations read from an encoder's attention, as tasks: the encoder is read, never trained.

    attention-probe        triples are given: is it a relation ("gate"), and which one ("name")?
    attention-extraction   triples are found in raw text and compared with those that the data state

Data are a folder with a train, a dev and a test file that `infuser.relations.readers` reads (T-REx, DocRED, JSONL). See
`infuser.relations` for the method, and docs/methods/attention-relations.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.stats.counts import count_metric
from infuser.stats.metrics import Metric
from infuser.tasks.base import Example, Examples, Prediction, Solved, Split, Task, Training
from infuser.tasks.official import find_file

Format = Literal["auto", "jsonl", "trex", "docred", "fewrel", "semeval"]
_Texts = Sequence["RelationText"]

if TYPE_CHECKING:
    from infuser.relations.examples import RelationText
    from infuser.relations.model import AttentionRelations
    from infuser.types import Source


@dataclass(frozen=True)
class _Relations(Task):
    """What both tasks share: where texts with relations come from, and the model that reads them."""

    train: str = "train.csv"
    dev: str = "valid.csv"
    test: str = "test.csv"
    format: Format = "auto"
    """Of the files: trex, docred, fewrel, semeval, jsonl, or auto."""
    trigger: bool | None = None
    """Read the words that state the relation; None if all facts of the data have some."""
    negatives: float = 1.0
    """Negative triples per stated one."""
    none_class: bool = False
    """Train the classifier with a class for "no relation", too."""

    head: ClassVar[str] = "encoder"
    takes_annotations: ClassVar[bool] = False

    def read(self, split: Split) -> list[Example]:
        from infuser.relations.readers import read_relations

        path = find_file(self.data, {"train": self.train, "dev": self.dev, "test": self.test}[split])
        return [{"text": text.text, "relations": text} for text in read_relations(path, self.format)]

    def solve(self, training: Training, train: Examples, asked: Examples, dev: Examples | None = None) -> Solved:
        """Fit classifiers on the triples of the training texts, and answer for the texts in `asked`."""
        from infuser.relations.encoders import Encoder
        from infuser.relations.model import AttentionRelations

        if training.spectral is not None:
            raise InputError(
                "The encoder is read here, not trained, so SR has nothing to act on. Take spectral out of the method."
            )
        started = time.perf_counter()
        collator, seed = training.collator, training.settings.seed
        encoder = Encoder(training.model.train(False), collator.tokenizer, tuple(collator.sources))
        classifiers = AttentionRelations(
            encoder,
            trigger=self.trigger,
            negatives=self.negatives,
            none_class=self.none_class,
            seed=seed,
        )
        self._fit(classifiers, [one["relations"] for one in train], [one["relations"] for one in dev or ()])
        trained = time.perf_counter()
        predictions = self._predict(classifiers, [one["relations"] for one in asked])
        return Solved(predictions, [], trained - started, time.perf_counter() - trained)

    def _fit(self, classifiers: AttentionRelations, texts: _Texts, dev: _Texts) -> None:
        classifiers.fit(texts)

    def _predict(self, classifiers: AttentionRelations, texts: _Texts) -> list[Prediction]:
        raise NotImplementedError


@TASKS.register("attention-probe")
@dataclass(frozen=True)
class AttentionProbe(_Relations):
    """Given triples: whether they are a relation, or which one; the paper's "binary" and "multi" classifiers."""

    question: Literal["gate", "name"] = "name"

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("accuracy",) if self.question == "gate" else ("macro-f1", "macro-precision", "macro-recall")

    def gold(self, example: Example) -> Any:
        """Return the relations of the facts of a text, in their order."""
        return [triple.relation for triple in _facts(example["relations"])]

    def _predict(self, classifiers: AttentionRelations, texts: _Texts) -> list[Prediction]:
        from infuser.relations.negatives import sample_negatives

        stated = [replace(text, triples=tuple(_facts(text))) for text in texts]
        if self.question == "name":
            decided, readable = classifiers.decide(stated)
            return _by_text(stated, np.where(readable, classifiers.classes_[1 + decided.best], ""))
        negatives = sample_negatives(stated, per_triple=1.0, seed=classifiers.seed)
        pairs = zip(stated, negatives, strict=True)
        both = [replace(text, triples=(*text.triples, *other.triples)) for text, other in pairs]
        decided, readable = classifiers.decide(both)
        return _by_text(both, np.where(readable, decided.gate, 0.0) > 0.5)  # an unreadable triple is no relation

    def score(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Return accuracy of the gate, or the means over relations of precision, recall and F1."""
        if self.question == "gate":  # facts stand first, then as many negatives
            pairs = zip(golds, predictions, strict=True)
            right = [answer == (at < len(gold)) for gold, of in pairs for at, answer in enumerate(of)]
            return {"accuracy": float(np.mean(right))}
        from sklearn.metrics import precision_recall_fscore_support

        truth, named = ([relation for of_text in some for relation in of_text] for some in (golds, predictions))
        precision, recall, f1, _ = precision_recall_fscore_support(
            truth, named, labels=sorted(set(truth)), average="macro", zero_division=0.0
        )
        return {"macro-f1": float(f1), "macro-precision": float(precision), "macro-recall": float(recall)}


@TASKS.register("attention-extraction")
@dataclass(frozen=True)
class AttentionExtraction(_Relations):
    """Triples from raw text; the two thresholds are tuned on what is held out of the training part."""

    negatives: float = 5.0
    none_class: bool = True
    spans: Literal["spacy", "mentions"] = "spacy"
    """Heads and tails: entities and phrases that spaCy finds, or the mentions that the data give."""
    match: Literal["strict", "labelled", "lenient"] = "lenient"
    """What counts as right; the paper is lenient."""

    metrics: ClassVar[tuple[str, ...]] = ("f1", "precision", "recall")

    def gold(self, example: Example) -> Any:
        """Return how many facts a text states; what was found of them is in the prediction."""
        return len(_facts(example["relations"]))

    def _fit(self, classifiers: AttentionRelations, texts: _Texts, dev: _Texts) -> None:
        classifiers.fit(texts, spans=self._span_sources)
        if dev:
            classifiers.tune(dev, self._span_sources, match=self.match)

    def _predict(self, classifiers: AttentionRelations, texts: _Texts) -> list[Prediction]:
        """Extract, and return for each text: gold, found, right among found, right among gold."""
        from infuser.relations.evaluation import ExtractionTest

        test = ExtractionTest(classifiers, texts, self._span_sources)
        return [list(astuple(one)) for one in test.scores(self.match).documents]

    @cached_property
    def _span_sources(self) -> list[Source]:
        from infuser.sources.spacy_pipelines import SpacyEntities, SpacyPhrases

        return [SpacyEntities(), SpacyPhrases()] if self.spans == "spacy" else []

    def get_metric(self, name: str) -> Metric:
        """Return precision, recall or F1 over all texts."""
        from infuser.relations.scores import RelationCounts

        return count_metric(name, RelationCounts)


def _facts(text: RelationText) -> list[Any]:
    return [triple for triple in text.triples if triple.is_fact]


def _by_text(texts: _Texts, answers: NDArray[Any]) -> list[Prediction]:
    """Return the answers to the triples of each text."""
    rest = iter(answers.tolist())
    return [[next(rest) for _ in text.triples] for text in texts]
