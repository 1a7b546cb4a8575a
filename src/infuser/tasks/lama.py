"""LAMA (Petroni et al., 2019): does a model with a masked-word head know facts? "Dante was born in [MASK] .".

    lama          ranks the object among all words of a list; facts whose object is not one word of it are left out
                  and counted, as officially
    lama-choice   the object against others of its relation, of any number of word pieces, drawn by a seed; objects
                  that are right for the same subject are not among them

P@k is the share of facts whose object is among the first k words, over all facts (micro) or as the mean over relations
(macro). LAMA's own tables of T-REx and Google-RE are macro, those of KAM-BERT are micro.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.stats.metrics import Metric, mean_metric
from infuser.tasks.base import Example, Examples, Prediction, Split, Task, Training
from infuser.tasks.lama_readers import LamaFact, Part, read_facts, read_texts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.signals import Collator
    from infuser.training import TrainResult


@dataclass(frozen=True)
class LamaTask(Task):
    """What both tasks share: the facts, their wording, and texts to train on beforehand."""

    part: Part = "trex"
    """Which of the four sets: "trex", "google-re", "conceptnet" or "squad"."""
    prompt: Literal["template", "evidence"] = "template"
    """Ask with the relation's template, or with a sentence that the set found; ConceptNet and SQuAD have only these."""
    max_facts_per_relation: int | None = None
    """Ask only so many of each relation, spread evenly; None asks all."""
    corpus: str | None = None
    """Texts to train on masked words before asking: a file with one per line, or a folder of .txt. Without, new weights
    for knowledge say nothing. The evidence sentences of T-REx (trex_evidence_sentences.txt) hold the facts of
    "trex": who trains on them must not report these as held out."""

    head: ClassVar[str] = "masked-lm"
    paths: ClassVar[tuple[str, ...]] = ("data", "corpus")
    answered: ClassVar[str]
    """The key of a prediction that holds the answer; it is None where the fact was left out."""

    def __post_init__(self) -> None:
        if self.prompt not in ("template", "evidence"):
            raise InputError(f"prompt is {self.prompt!r}; it can be 'template' or 'evidence'.")
        if self.max_facts_per_relation is not None and self.max_facts_per_relation < 1:
            raise InputError(f"max_facts_per_relation is {self.max_facts_per_relation}; give 1 or more, or None.")

    @property
    def learns(self) -> bool:
        """Whether there are texts to train on."""
        return self.corpus is not None

    def read(self, split: Split) -> list[Example]:
        """Return the facts (test), or the texts of the corpus (train)."""
        if split == "test":
            return self._examples(list(read_facts(self.data, self.part)))
        if split == "train" and self.corpus is not None:
            return [{"text": text} for text in read_texts(self.corpus)]
        raise InputError(f"LAMA has no {split} part: its facts are 'test', and with corpus=... its texts are 'train'.")

    def _examples(self, facts: Sequence[LamaFact]) -> list[Example]:
        valid: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        by_relation: defaultdict[str, dict[Any, Example]] = defaultdict(dict)
        for fact in facts:
            subject = fact.subject or fact.sentence
            valid[fact.relation, subject][fact.object] = None
            text = fact.prompt(self.prompt)
            # some facts differ in their sentences only; officially a template asks once
            key = (subject, fact.object) if self.prompt == "template" and fact.template else fact.place
            example = {"text": text, "relation": fact.relation, "type": fact.type, "subject": subject}
            by_relation[fact.relation].setdefault(key, {**example, "object": fact.object})
        examples = []
        for of_relation in by_relation.values():
            for example in _spread(list(of_relation.values()), self.max_facts_per_relation):
                right = valid[example["relation"], example["subject"]]
                examples.append({**example, "others": [name for name in right if name != example["object"]]})
        return examples

    def gold(self, example: Example) -> Any:
        """Return the relation, its type if the set names it, and the object."""
        return {name: example[name] for name in ("relation", "type", "object") if example[name]}

    def fit(self, training: Training, examples: Examples, dev: Examples | None = None) -> TrainResult:
        """Train the whole model on masked words of texts and keep its last weights; `dev` is not used."""
        from infuser.tasks.masked_words import train_on_masked_words

        return train_on_masked_words(training, examples)

    def answer(
        self, model: PreTrainedModel, collator: Collator, examples: Sequence[Example], *, batch_size: int = 64
    ) -> list[Prediction]:
        """Return what the model answers for each fact, or why the fact was left out."""
        if any("object" not in example for example in examples):  # such as those that a bench holds out to tune by
            raise InputError(
                "Only facts can be asked, not texts of the corpus, so LAMA cannot be tuned by what is held out of it. "
                "Set hold_out = 0, and fix what would be tuned."
            )
        return self._answer(model, collator, examples, batch_size)

    def _answer(
        self, model: PreTrainedModel, collator: Collator, examples: Sequence[Example], batch_size: int
    ) -> list[Prediction]:
        raise NotImplementedError

    def get_metric(self, name: str) -> Metric:
        """Return the mean of a value over the facts that were not left out; "macro" is the mean over relations."""
        groups = _relations if name.startswith("macro") else None
        return mean_metric(name, partial(self._values, name), groups=groups)

    def _value(self, metric: str, answer: int, gold: Mapping[str, Any]) -> float:
        """Return what one answer counts."""
        raise NotImplementedError

    def _values(
        self, metric: str, predictions: Sequence[Prediction], golds: Sequence[Mapping[str, Any]]
    ) -> list[float]:
        if not self._answered(golds, predictions):
            reasons = "; ".join(f"{why}: {n}" for why, n in _reasons_left_out(predictions).items())
            raise InputError(f"None of {len(golds)} facts could be asked ({reasons or 'there are none'}): no score.")
        answers = [one[self.answered] for one in predictions]
        return [
            math.nan if answer is None else self._value(metric, answer, gold)
            for answer, gold in zip(answers, golds, strict=True)
        ]

    def _answered(
        self, golds: Sequence[Mapping[str, Any]], predictions: Sequence[Prediction]
    ) -> list[tuple[Mapping[str, Any], int]]:
        pairs = zip(golds, predictions, strict=True)
        return [(gold, one[self.answered]) for gold, one in pairs if one[self.answered] is not None]


@TASKS.register("lama")
@dataclass(frozen=True)
class Lama(LamaTask):
    """Rank the object of each fact among the words of a list."""

    vocabulary: str | None = None
    """A file with the words that are ranked, one per line; None ranks every piece of the tokenizer that is a word."""
    discount_others: bool = True
    """Whether other objects of the same subject and relation are taken out of the ranking."""

    paths: ClassVar[tuple[str, ...]] = (*LamaTask.paths, "vocabulary")
    metrics: ClassVar[tuple[str, ...]] = ("p@1", "p@10", "mrr", "macro p@1")
    answered: ClassVar[str] = "rank"

    def _answer(
        self, model: PreTrainedModel, collator: Collator, examples: Sequence[Example], batch_size: int
    ) -> list[Prediction]:
        """Return for each fact the rank of its object, the first word, and of how many."""
        from infuser.tasks.cloze import rank_objects, ranked_words

        words = ranked_words(collator.tokenizer, self.vocabulary)
        discount = self.discount_others
        return list(rank_objects(model, collator, examples, words, discount_others=discount, batch_size=batch_size))

    def _value(self, metric: str, answer: int, gold: Mapping[str, Any]) -> float:
        if metric == "mrr":
            return 1 / answer
        return float(answer <= (10 if metric == "p@10" else 1))

    def notes(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, Any]:
        """Return the word list, facts that were left out and why, P@1 by type and of the most frequent object."""
        ranked = self._answered(golds, predictions)
        by_type: defaultdict[str, list[bool]] = defaultdict(list)
        for gold, rank in ranked:
            if "type" in gold:
                by_type[gold["type"]].append(rank <= 1)
        return {
            "vocabulary": self.vocabulary or "every whole word of the tokenizer",
            "words": predictions[0]["words"] if predictions else 0,
            "facts": len(golds),
            "ranked": len(ranked),
            "left out": _reasons_left_out(predictions),
            **({"p@1 of the most frequent object": _by_frequency([gold for gold, _ in ranked])} if ranked else {}),
            **{f"p@1 of {name}": fmean(hits) for name, hits in sorted(by_type.items())},
        }


@TASKS.register("lama-choice")
@dataclass(frozen=True)
class LamaChoice(LamaTask):
    """Choose between the object of each fact and others of its relation, by the likelihood of their word pieces."""

    choices: int = 4
    """How many objects there are to choose from; fewer where the relation has not as many."""
    seed: int = 0
    """Decides which other objects are drawn, and their order."""

    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "macro accuracy")
    answered: ClassVar[str] = "answer"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.choices < 2:
            raise InputError(f"choices is {self.choices}; give 2 or more.")

    def _examples(self, facts: Sequence[LamaFact]) -> list[Example]:
        """Return the facts with their choices, without those whose relation has no other object."""
        objects: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for fact in facts:
            objects[fact.relation].setdefault(fact.object.casefold(), fact.object)
        examples = []
        for example in super()._examples(facts):
            right = {name.casefold() for name in (example["object"], *example["others"])}
            wrong = [name for folded, name in objects[example["relation"]].items() if folded not in right]
            if not wrong:
                continue
            # by content, so that the choices of a fact do not depend on which other facts are asked
            chance = random.Random("\n".join((str(self.seed), example["text"], example["object"])))
            drawn = [example["object"], *chance.sample(wrong, min(self.choices - 1, len(wrong)))]
            chance.shuffle(drawn)
            examples.append({**example, "choices": drawn, "label": drawn.index(example["object"])})
        return examples

    def gold(self, example: Example) -> Any:
        """Return the relation, the choices and which is right."""
        return {name: example[name] for name in ("relation", "choices", "label")}

    def _answer(
        self, model: PreTrainedModel, collator: Collator, examples: Sequence[Example], batch_size: int
    ) -> list[Prediction]:
        """Return for each fact the number of the preferred choice and all scores."""
        from infuser.tasks.cloze import choose

        return list(choose(model, collator, examples, batch_size=batch_size))

    def _value(self, metric: str, answer: int, gold: Mapping[str, Any]) -> float:
        return float(answer == gold["label"])

    def notes(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, Any]:
        """Return the accuracy of guessing, and facts that were left out and why."""
        answered = self._answered(golds, predictions)
        chances = [1 / len(gold["choices"]) for gold, _ in answered]
        counts = {"facts": len(golds), "answered": len(answered), "left out": _reasons_left_out(predictions)}
        return counts | ({"chance": fmean(chances)} if chances else {})


def _spread(examples: list[Example], most: int | None) -> list[Example]:
    """Return so many examples at most, from the first to the last at even distances."""
    n = len(examples) if most is None else min(most, len(examples))
    return [examples[number * len(examples) // n] for number in range(n)]


def _reasons_left_out(predictions: Sequence[Prediction]) -> dict[str, int]:
    return dict(Counter(one["left_out"] for one in predictions if one.get("left_out")))


def _relations(golds: Sequence[Mapping[str, Any]]) -> list[str]:
    return [gold["relation"] for gold in golds]


def _by_frequency(golds: Sequence[Mapping[str, Any]]) -> float:
    """Return P@1 of always naming the most frequent object of each relation: LAMA's "Freq"."""
    objects: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for gold in golds:
        objects[gold["relation"]][gold["object"]] += 1
    return sum(max(counts.values()) for counts in objects.values()) / len(golds)
