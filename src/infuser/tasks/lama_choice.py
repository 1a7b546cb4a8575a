"""LAMA as multiple choice: the object of a fact against others of its relation, of any number of word pieces.

The other objects are drawn by a seed; those that are right for the same subject are not among them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.tasks.base import Example, Prediction
from infuser.tasks.lama_facts import LamaFacts, answered_facts, mean_over_relations, reasons_left_out, scored_facts
from infuser.tasks.lama_readers import Fact

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.signals import Collator


@TASKS.register("lama-choice")
@dataclass(frozen=True)
class LamaChoice(LamaFacts):
    """Choose between the object of each fact and others of its relation, by the likelihood of their word pieces."""

    choices: int = 4
    """How many objects there are to choose from; fewer where the relation has not as many."""
    seed: int = 0
    """Decides which other objects are drawn, and their order."""

    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "macro accuracy")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.choices < 2:
            raise InputError(f"choices is {self.choices}; give 2 or more.")

    def _examples(self, facts: Sequence[Fact]) -> list[Example]:
        """Return the facts with their choices; one whose relation has no other object leaves no choice."""
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

    def answer(
        self, model: PreTrainedModel, collator: Collator, examples: Sequence[Example], *, batch_size: int = 64
    ) -> list[Prediction]:
        """Return for each fact the number of the preferred choice and all scores, or why it was left out."""
        from infuser.tasks.cloze import choose

        self.check_asked(examples)
        return list(choose(model, collator, examples, batch_size=batch_size))

    def score(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Return the share of right choices over all facts, and averaged over relations."""
        answered = scored_facts(golds, predictions, "answer")
        hits = [(gold["relation"], answer == gold["label"]) for gold, answer in answered]
        return {"accuracy": fmean(hit for _, hit in hits), "macro accuracy": mean_over_relations(hits)}

    def notes(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, Any]:
        """Return what belongs beside the scores: what a guess would reach, and facts that were left out and why."""
        answered = answered_facts(golds, predictions, "answer")
        chances = [1 / len(gold["choices"]) for gold, _ in answered]
        return {
            "facts": len(golds),
            "answered": len(answered),
            "left out": reasons_left_out(predictions),
            **({"chance": fmean(chances)} if chances else {}),
        }
