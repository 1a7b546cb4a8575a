"""An exported model as a served one: onnxruntime, tokenizers and NumPy, without torch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Self

from infuser.errors import InputError
from infuser.files import nan_to_null
from infuser.runtime import ExportedModel
from infuser.serving.annotations import described, find
from infuser.serving.model import ANNOTATE, EXPLAIN, NO_CHOICES, PREDICT, Question
from infuser.sources.naming import source_names
from infuser.types import Annotations, Source

_HEADS = ("sequence-classification", "token-classification", "question-answering")


class ServedExport:
    """Answers with an exported model."""

    def __init__(self, model: ExportedModel) -> None:
        if model.head == "multiple-choice":
            raise InputError(NO_CHOICES)
        self.model = model

    @property
    def sources(self) -> tuple[Source, ...]:
        """Those of the model."""
        return self.model.sources

    @cached_property
    def tasks(self) -> frozenset[str]:
        """What the exported head and the sources can do; linkers stay with the saved model."""
        card = self.model.card
        predicts = card.head in _HEADS and (card.head != "token-classification" or card.tag_moves is not None)
        can = {PREDICT: predicts, ANNOTATE: bool(self.sources), EXPLAIN: predicts and bool(self.sources)}
        return frozenset(task for task, able in can.items() if able)

    def about(self) -> dict[str, Any]:
        """Return the kind of model, its method and its labels."""
        card = self.model.card
        kind = f"{card.host}, {card.head}, exported{' in int8' if card.int8 else ''}"
        return {"model": kind, "method": (card.method or {}).get("kind"), "labels": list(card.labels)}

    def predict(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Return label and probabilities of each text, its score, its entities, or the answer to a question."""
        answers = self.model.answer([asdict(one) for one in questions], batch_size=len(questions))
        return [nan_to_null(answer) for answer in answers]  # an empty passage has an answer of -inf

    def annotate(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Return what each source finds in each text, by the source's name."""
        return [{"found": described(self.sources, of_text)} for of_text in find(self.sources, questions)]

    def explain(self, questions: Sequence[Question], off: Collection[str] = ()) -> list[dict[str, Any]]:
        """Return the answer about each text with knowledge, without what any source finds, and without each source."""
        names = source_names(self.sources)
        if unknown := sorted(set(off).difference(names)):
            raise InputError(f"There is no source {unknown[0]!r} to leave out: this model has {', '.join(names)}.")
        found = find(self.sources, questions)
        return [self._explained(one, of_text, names, off) for one, of_text in zip(questions, found, strict=True)]

    def link(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Raise: linkers are not exported."""
        raise InputError("An exported model does not link. Serve the saved model instead of its export.")

    def with_sources(self, sources: Sequence[Source]) -> Self:
        """Return the same model with other sources in the place of its own."""
        return type(self)(self.model.with_sources(sources))

    def _explained(
        self, question: Question, found: Sequence[Annotations], names: Sequence[str], off: Collection[str]
    ) -> dict[str, Any]:
        """Return the answers about one text, all read in one batch."""
        on = [name for name in names if name not in off]
        examples = [
            {**asdict(question), "annotations": _left(found, names, {*off, *left_out})}
            for left_out in ([], names, *([name] for name in on))
        ]
        with_all, without, *without_each = map(_shares, self.model.answer(examples, batch_size=len(examples)))
        return {
            "with_knowledge": with_all,
            "without_knowledge": without,
            "without_source": dict(zip(on, without_each, strict=True)),
            "off": [name for name in names if name in off],
            "found": described(self.sources, found),
        }


def _left(found: Sequence[Annotations], names: Sequence[str], off: Collection[str]) -> tuple[Annotations, ...]:
    """Return what was found, with nothing from the sources that are left out."""
    return tuple(Annotations(one.text) if name in off else one for one, name in zip(found, names, strict=True))


def _shares(answer: dict[str, Any]) -> Any:
    """Return the part of an answer that is compared: probabilities or entities where there are any."""
    return nan_to_null(answer.get("probabilities", answer.get("entities", answer)))
