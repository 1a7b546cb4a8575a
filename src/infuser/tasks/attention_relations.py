"""What an encoder's attention tells about relations, as tasks: the encoder is read, never trained.

    attention-probe        triples are given: is it a relation ("gate"), and which one ("name")?
    attention-extraction   triples are found in raw text and compared with those that the data state

Data are a folder with a train, a dev and a test file that `infuser.relations.readers` reads (T-REx, DocRED, JSONL). See
`infuser.relations` for the method, and docs/methods/attention-relations.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.tasks.base import Example, Prediction, Solved, Split, Task, Training
from infuser.tasks.official import find_file

Format = Literal["auto", "jsonl", "trex", "docred", "fewrel", "semeval"]

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.relations.examples import RelationText
    from infuser.relations.model import AttentionRelations
    from infuser.signals import Collator


@dataclass(frozen=True)
class _Relations(Task):
    """What both tasks share: where texts with relations come from, and the model that reads them."""

    train: str = "train.csv"
    dev: str = "valid.csv"
    test: str = "test.csv"
    format: Format = "auto"
    """Of the files: trex, docred, fewrel, semeval, jsonl, or auto."""
    trigger: bool | None = None
    """Read the words that say the relation; None if all facts of the data have some."""
    negatives: float = 1.0
    """Triples that are none, for each that is one."""
    none_class: bool = False
    """Let the classifier know "none of them", too."""

    head: ClassVar[str] = "encoder"
    takes_annotations: ClassVar[bool] = False

    def read(self, split: Split) -> list[Example]:
        from infuser.relations.readers import read_relations

        path = find_file(self.data, {"train": self.train, "dev": self.dev, "test": self.test}[split])
        return [{"text": text.text, "relations": text} for text in read_relations(path, self.format)]

    def _model(self, model: PreTrainedModel, collator: Collator, how: Training) -> AttentionRelations:
        if how.spectral is not None:
            raise InputError(
                "The encoder is read here, not trained, so SR has nothing to act on. Take spectral out of the method."
            )
        from infuser.relations.encoders import Encoder
        from infuser.relations.model import AttentionRelations

        encoder = Encoder(model.train(False), collator.tokenizer, tuple(collator.sources))
        return AttentionRelations(
            encoder,
            trigger=self.trigger,
            negatives=self.negatives,
            none_class=self.none_class,
            seed=how.settings.seed,
        )


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

    def solve(
        self,
        model: PreTrainedModel,
        collator: Collator,
        train: Sequence[Example],
        asked: Sequence[Example],
        how: Training,
        *,
        dev: Sequence[Example] | None = None,
    ) -> Solved:
        """Fit on the training triples, and answer for those of the texts that are asked about."""
        from infuser.relations.negatives import sample_negatives

        started = time.perf_counter()
        fitted = self._model(model, collator, how).fit([one["relations"] for one in train])
        trained = time.perf_counter()
        texts = [replace(one["relations"], triples=tuple(_facts(one["relations"]))) for one in asked]
        if self.question == "gate":
            none = sample_negatives(texts, per_triple=1.0, seed=how.settings.seed)
            both = [
                replace(text, triples=(*text.triples, *other.triples)) for text, other in zip(texts, none, strict=True)
            ]
            decided, readable = fitted.decide(both)
            said = iter((np.where(readable, decided.gate, 0.0) > 0.5).tolist())  # one that cannot be read is none
            predictions: list[Prediction] = [[next(said) for _ in text.triples] for text in both]
        else:
            decided, readable = fitted.decide(texts)
            names = np.where(readable, fitted.classes_[1 + decided.best], "")
            said = iter(names.tolist())
            predictions = [[next(said) for _ in text.triples] for text in texts]
        return Solved(predictions, [], trained - started, time.perf_counter() - trained)

    def score(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Return accuracy of the gate, or the means over relations of precision, recall and F1."""
        if self.question == "gate":  # facts stand first, then as many that are none
            right = [
                answer == (at < len(gold))
                for gold, of in zip(golds, predictions, strict=True)
                for at, answer in enumerate(of)
            ]
            return {"accuracy": float(np.mean(right))}
        from sklearn.metrics import precision_recall_fscore_support

        truth = [relation for gold in golds for relation in gold]
        said = [relation for of in predictions for relation in of]
        labels = sorted(set(truth))
        precision, recall, f1, _ = precision_recall_fscore_support(
            truth, said, labels=labels, average="macro", zero_division=0.0
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

    def solve(
        self,
        model: PreTrainedModel,
        collator: Collator,
        train: Sequence[Example],
        asked: Sequence[Example],
        how: Training,
        *,
        dev: Sequence[Example] | None = None,
    ) -> Solved:
        """Fit and tune, extract, and return for each text: gold, found, right among found, right among gold."""
        from infuser.relations.extracting import propose_all, say
        from infuser.relations.scores import score_relations
        from infuser.relations.tuning import best_thresholds
        from infuser.sources.spacy_pipelines import SpacyEntities, SpacyPhrases
        from infuser.types import Source

        started = time.perf_counter()
        spans: list[Source] = [SpacyEntities(), SpacyPhrases()] if self.spans == "spacy" else []
        fitted = self._model(model, collator, how).fit([one["relations"] for one in train], spans=spans)
        thresholds = fitted.thresholds_
        if dev:
            tuned = [one["relations"] for one in dev]
            thresholds = best_thresholds(tuned, propose_all(fitted, tuned, spans), match=self.match) or thresholds
        trained = time.perf_counter()
        texts = [one["relations"] for one in asked]
        proposed = propose_all(fitted, texts, spans)
        found = [
            [one.triple for one in say(text.text, of_text, thresholds)]
            for text, of_text in zip(texts, proposed, strict=True)
        ]
        counted = score_relations(texts, found, match=self.match).documents
        predictions: list[Prediction] = [list(astuple(one)) for one in counted]
        return Solved(predictions, [], trained - started, time.perf_counter() - trained)

    def score(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Return precision, recall and F1 over all texts."""
        from infuser.relations.scores import RelationCounts

        total = RelationCounts(*np.sum(np.asarray(predictions, dtype=np.int64).reshape(-1, 4), axis=0).tolist())
        return {name: float(getattr(total, name)) for name in self.metrics}


def _facts(text: RelationText) -> list[Any]:
    from infuser.relations.negatives import is_fact

    return [triple for triple in text.triples if is_fact(triple)]
