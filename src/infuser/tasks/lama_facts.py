"""What both ways to ask LAMA share: the facts, how they are worded, texts to train on beforehand, counts for scores."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from infuser.errors import InputError
from infuser.tasks.base import Example, Prediction, Split, Task, Training
from infuser.tasks.lama_readers import Fact, Part, read_facts, read_texts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.signals import Collator
    from infuser.training import TrainResult


@dataclass(frozen=True)
class LamaFacts(Task):
    """What both ways to ask share: the facts, their wording, and texts to train on beforehand."""

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

    def _examples(self, facts: Sequence[Fact]) -> list[Example]:
        valid: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        asked: defaultdict[str, dict[Any, Example]] = defaultdict(dict)
        for fact in facts:
            subject = fact.subject or fact.sentence
            valid[fact.relation, subject][fact.object] = None
            text = fact.prompt(self.prompt)
            # some facts differ in their sentences only; officially a template asks once
            key = (subject, fact.object) if self.prompt == "template" and fact.template else fact.place
            example = {"text": text, "relation": fact.relation, "type": fact.type, "subject": subject}
            asked[fact.relation].setdefault(key, {**example, "object": fact.object})
        examples = []
        for of_relation in asked.values():
            for example in _spread(list(of_relation.values()), self.max_facts_per_relation):
                right = valid[example["relation"], example["subject"]]
                examples.append({**example, "others": [name for name in right if name != example["object"]]})
        return examples

    def gold(self, example: Example) -> Any:
        """Return the relation, its type if the set says it, and the object."""
        return {name: example[name] for name in ("relation", "type", "object") if example[name]}

    def check_asked(self, examples: Sequence[Example]) -> None:
        """Refuse to ask texts of the corpus, such as those that a bench holds out to tune by."""
        if any("object" not in example for example in examples):
            raise InputError(
                "Only facts can be asked, not texts of the corpus, so LAMA cannot be tuned by what is held out of it. "
                "Set hold_out = 0, and fix what would be tuned."
            )

    def fit(
        self,
        model: PreTrainedModel,
        collator: Collator,
        examples: Sequence[Example],
        how: Training,
        *,
        dev: Sequence[Example] | None = None,
    ) -> TrainResult:
        """Train the whole model on masked words of texts and keep its last weights; `dev` is not looked at."""
        from infuser.tasks.masked_text import train_on_masked_words

        return train_on_masked_words(
            model, collator, examples, settings=how.settings, progress=how.progress, spectral=how.spectral
        )


def _spread(examples: list[Example], most: int | None) -> list[Example]:
    """Return so many examples at most, from the first to the last at even distances."""
    n = len(examples) if most is None else min(most, len(examples))
    return [examples[number * len(examples) // n] for number in range(n)]


def answered_facts(
    golds: Sequence[Mapping[str, Any]], predictions: Sequence[Prediction], name: str
) -> list[tuple[Mapping[str, Any], int]]:
    """Return the facts that were not left out, with what the model said; it may be none."""
    if len(golds) != len(predictions):
        raise InputError(f"{len(predictions)} predictions for {len(golds)} facts. Give one for each.")
    pairs = zip(golds, predictions, strict=True)
    return [(gold, prediction[name]) for gold, prediction in pairs if prediction[name] is not None]


def scored_facts(
    golds: Sequence[Mapping[str, Any]], predictions: Sequence[Prediction], name: str
) -> list[tuple[Mapping[str, Any], int]]:
    """Return the same, or say that there is nothing to score."""
    answered = answered_facts(golds, predictions, name)
    if not answered:
        reasons = "; ".join(f"{why}: {n}" for why, n in reasons_left_out(predictions).items())
        raise InputError(
            f"None of {len(golds)} facts could be asked ({reasons or 'there are none'}), so none is scored."
        )
    return answered


def reasons_left_out(predictions: Sequence[Prediction]) -> dict[str, int]:
    """Return for how many facts each reason holds."""
    return dict(Counter(one["left_out"] for one in predictions if one.get("left_out")))


def mean_over_relations(hits: Iterable[tuple[str, bool]]) -> float:
    """Return the mean of the shares of hits of each relation."""
    by_relation: defaultdict[str, list[bool]] = defaultdict(list)
    for relation, hit in hits:
        by_relation[relation].append(hit)
    return fmean(fmean(of_relation) for of_relation in by_relation.values())
