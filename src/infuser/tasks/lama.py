"""LAMA: does a model with a head for masked words know facts? It is asked "Dante was born in [MASK] ." and the like.

The object is ranked among all words of a list. Facts whose object is not one word of it are left out and counted, as
officially; `lama-choice` asks for objects of several word pieces, too.

P@k is the share of facts whose object is among the first k words, over all facts (micro) or as the mean over relations
(macro). LAMA's own tables of T-REx and Google-RE are macro, those of KAM-BERT are micro.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from infuser.registry import TASKS
from infuser.tasks.base import Example, Prediction
from infuser.tasks.lama_facts import LamaFacts, answered_facts, mean_over_relations, reasons_left_out, scored_facts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.signals import Collator


@TASKS.register("lama")
@dataclass(frozen=True)
class Lama(LamaFacts):
    """Rank the object of each fact among the words of a list."""

    vocabulary: str | None = None
    """A file with the words that are ranked, one per line; None ranks every piece of the tokenizer that is a word."""
    discount_others: bool = True
    """Whether other objects of the same subject and relation are taken out of the ranking."""

    paths: ClassVar[tuple[str, ...]] = (*LamaFacts.paths, "vocabulary")
    metrics: ClassVar[tuple[str, ...]] = ("p@1", "p@10", "mrr", "macro p@1")

    def answer(
        self, model: PreTrainedModel, collator: Collator, examples: Sequence[Example], *, batch_size: int = 64
    ) -> list[Prediction]:
        """Return for each fact the rank of its object, the first word, and of how many; or why it was left out."""
        from infuser.tasks.cloze import rank_objects
        from infuser.tasks.word_lists import ranked_words

        self.check_asked(examples)
        words = ranked_words(collator.tokenizer, self.vocabulary)
        return list(
            rank_objects(model, collator, examples, words, discount_others=self.discount_others, batch_size=batch_size)
        )

    def score(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Return P@1, P@10 and the mean of 1 / rank over all facts that were ranked, and P@1 as mean over relations."""
        ranked = scored_facts(golds, predictions, "rank")
        ranks = [rank for _, rank in ranked]
        return {
            "p@1": fmean(rank <= 1 for rank in ranks),
            "p@10": fmean(rank <= 10 for rank in ranks),
            "mrr": fmean(1 / rank for rank in ranks),
            "macro p@1": mean_over_relations((gold["relation"], rank <= 1) for gold, rank in ranked),
        }

    def notes(self, golds: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, Any]:
        """Return what belongs beside the scores: the word list, facts that were left out and why, P@1 by type.

        Beside it stands what one would reach who always names the most frequent object of a relation.
        """
        ranked = answered_facts(golds, predictions, "rank")
        by_type: defaultdict[str, list[bool]] = defaultdict(list)
        for gold, rank in ranked:
            if "type" in gold:
                by_type[gold["type"]].append(rank <= 1)
        return {
            "vocabulary": self.vocabulary or "every whole word of the tokenizer",
            "words": predictions[0]["words"] if predictions else 0,
            "facts": len(golds),
            "ranked": len(ranked),
            "left out": reasons_left_out(predictions),
            **({"p@1 of the most frequent object": _by_frequency([gold for gold, _ in ranked])} if ranked else {}),
            **{f"p@1 of {name}": fmean(hits) for name, hits in sorted(by_type.items())},
        }


def _by_frequency(golds: Sequence[Mapping[str, Any]]) -> float:
    """Return P@1 of one who knows no fact but which object is the most frequent of each relation: LAMA's "Freq"."""
    objects: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for gold in golds:
        objects[gold["relation"]][gold["object"]] += 1
    return sum(max(counts.values()) for counts in objects.values()) / len(golds)
