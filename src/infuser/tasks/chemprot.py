"""ChemProt: how a chemical acts on a gene or protein, two marked mentions of a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from infuser.registry import TASKS
from infuser.relations.examples import RelationText, Triple
from infuser.relations.readers.common import Unreadable
from infuser.tables.skipped import Place
from infuser.tables.values import is_text
from infuser.tasks.base import Split
from infuser.tasks.official import official_records
from infuser.tasks.relation_classification import RelationClassification, read_texts
from infuser.types import Span

_ADVICE = 'Write {"text": "<< EGFR >> inhibitors such as [[ gefitinib ]]", "label": "INHIBITOR"}.'


@TASKS.register("chemprot")
class ChemProt(RelationClassification):
    """ChemProt as SciBERT's release has it: train.txt, dev.txt and test.txt, JSON lines with 13 labels.

        {"text": "<< EGFR >> inhibitors such as [[ gefitinib ]] (Iressa)", "label": "INHIBITOR"}

    << >> marks the head and [[ ]] the tail. Which of the two is the chemical varies and is not stated, so the mentions
    have no types and "typed" marks are plain ones. Every sentence has a relation, so micro-F1 equals accuracy.

    Published sizes: 4,169 / 2,427 / 3,469.
    """

    metrics = ("micro-f1", "accuracy", "macro-f1")

    def texts(self, split: Split) -> Iterable[RelationText]:
        """Return the texts of a split."""
        rows = official_records(self.data, split, f"{split}.txt", f"{split}.jsonl")
        return read_texts(rows, _chemprot_text, advice=_ADVICE)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The relations of the training part; there is no class "no relation"."""
        return tuple(sorted({text.triples[0].relation for text in self.texts("train")}))


def _chemprot_text(place: Place, row: dict[str, Any]) -> RelationText:
    marked, label = row.get("text"), row.get("label")
    if not is_text(marked):
        raise Unreadable(f"its 'text' is no text but {marked!r:.40}")
    if not is_text(label):
        raise Unreadable(f"its 'label' is no text but {label!r:.40}")
    # (place, length) of each mark; names of chemicals hold brackets too ("5-[2-[[2-hydroxy"), but no space beside them
    head, tail = (_marks(marked, *signs) for signs in (("<< ", " >>"), ("[[ ", " ]]")))
    cuts = sorted((*head, *tail))
    text, at = "", 0
    for cut in cuts:
        text, at = text + marked[at:cut], cut + len("<< ")
    text += marked[at:]
    spans = [_without_marks(start + len("<< "), end, cuts) for start, end in (head, tail)]
    if not all(text[span.start : span.end].strip() for span in spans):
        raise Unreadable("a mention without words")
    return RelationText(text, (Triple(spans[0], spans[1], label),), name=str(place.number))


def _marks(text: str, opening: str, closing: str) -> tuple[int, int]:
    """Return where the two marks of a mention stand; the first closing one behind the opening one is meant."""
    start = text.find(opening)
    end = text.find(closing, start + len(opening)) if start >= 0 else -1
    if end < 0 or text.count(opening) > 1:
        raise Unreadable(f"not one mention in {opening}{closing} but {text.count(opening)}")
    return start, end


def _without_marks(start: int, end: int, cuts: list[int]) -> Span:
    """Return a place in the text without its marks, which are all equally long."""
    first, last = (place - len("<< ") * sum(cut < place for cut in cuts) for place in (start, end))
    return Span(first, last)
