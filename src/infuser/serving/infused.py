"""An infused model, or a plain checkpoint, as a served model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Self

from infuser.analysis.explain import explain
from infuser.analysis.explained import Explained
from infuser.analysis.explanation import Explanation
from infuser.analysis.predict import answers_questions, classifies, label_names, predict, tags_words
from infuser.errors import InputError
from infuser.files import nan_to_null
from infuser.hosts.checkpoints import CHOICE
from infuser.hosts.loading import to_fastest_device
from infuser.infused import Infused
from infuser.linking.inference import check_linker, find_mentions
from infuser.methods.together import name_of
from infuser.opening import open_infused, open_plain, plain_collator
from infuser.relations.encoders import Encoder
from infuser.serving.annotations import described, described_by_name, find
from infuser.serving.model import ANNOTATE, EXPLAIN, LINK, NO_CHOICES, PREDICT, Question
from infuser.signals import Collator
from infuser.signals.answers import entity_answer
from infuser.types import Source

_N_CANDIDATES = 5


class InfusedModel:
    """Answers with an infused model, or with an encoder that holds no knowledge."""

    def __init__(self, infused: Explained) -> None:
        if type(infused.model).__name__.endswith(CHOICE):
            raise InputError(NO_CHOICES)
        self.infused = infused

    @property
    def sources(self) -> tuple[Source, ...]:
        """Those of the model."""
        return self.infused.sources

    @cached_property
    def tasks(self) -> frozenset[str]:
        """What the model's head, its method and its sources can do."""
        model = self.infused.model
        can = {
            PREDICT: classifies(model) or tags_words(model) or answers_questions(model),
            ANNOTATE: bool(self.sources),
            EXPLAIN: True,
            LINK: _links(self.infused),
        }
        return frozenset(task for task, able in can.items() if able)

    def about(self) -> dict[str, Any]:
        """Return the kind of model, its method and its labels."""
        model = self.infused.model
        labels = label_names(model) if classifies(model) or tags_words(model) else []
        method = name_of(self.infused.method) if isinstance(self.infused, Infused) else None
        return {"model": type(model).__name__, "method": method, "labels": labels}

    def predict(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Return labels and probabilities of each text, its score, its entities, or the answer to a question."""
        examples = [asdict(question) for question in questions]
        answers = predict(self.infused.model, self._collator, examples, batch_size=len(examples))
        return [
            nan_to_null({name: value for name, value in answer.items() if name not in ("text", "pair")})
            for answer in answers  # an empty passage has an answer of -inf
        ]

    def annotate(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Return what each source finds in each text, by the source's name."""
        return [{"found": described(self.sources, of_text)} for of_text in find(self.sources, questions)]

    def explain(self, questions: Sequence[Question], off: Collection[str] = ()) -> list[dict[str, Any]]:
        """Return the answer about each text with knowledge, without it, and without each source in turn."""
        return [explained(explain(self.infused, one.text, one.pair, off=off)) for one in questions]

    def link(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Return the mentions of each text and the entities that they mean."""
        assert isinstance(self.infused, Infused)
        found = find_mentions(self.infused, [one.text for one in questions])
        return [{"mentions": [mention.to_json(_N_CANDIDATES) for mention in of_text]} for of_text in found]

    def with_sources(self, sources: Sequence[Source]) -> Self:
        """Return the same model with other sources in the place of its own."""
        if not isinstance(self.infused, Infused):
            raise InputError("A plain checkpoint reads no knowledge. Serve one that infuser train wrote.")
        return type(self)(self.infused.with_sources(sources))

    @cached_property
    def _collator(self) -> Collator:
        if isinstance(self.infused, Infused):
            return self.infused.collator()
        return plain_collator(self.infused.model, self.infused.tokenizer)


def explained(one: Explanation) -> dict[str, Any]:
    """Return the answers of an explanation as JSON values, and what was found; attention is left to `infuser view`."""
    explanation = one.to_dict()
    kind = "entities" if one.entities_infused is not None else "answer"
    plural = {"entities": "entities", "answer": "answers"}[kind]

    def shown(answer: Any) -> Any:
        return entity_answer(one.text, answer)["entities"] if kind == "entities" else answer

    plain: dict[str, Any] = nan_to_null(
        {
            "with_knowledge": shown(explanation[f"{kind}_infused"]),
            "without_knowledge": shown(explanation[f"{kind}_plain"]),
            "without_source": {name: shown(answer) for name, answer in explanation[f"{plural}_without"].items()},
            "off": explanation["off"],
            "written": explanation["written"],
            "mentions": explanation["mentions"],
            "found": described_by_name(one.found),
        }
    )
    return plain


def open_infused_model(name: str, sources: Sequence[Source]) -> InfusedModel:
    """Return a saved infused model with these sources, a checkpoint infused on the fly, or a plain checkpoint."""
    infused: Explained = open_infused(name, sources) if sources else Encoder(*open_plain(name))
    to_fastest_device(infused.model)
    return InfusedModel(infused)


def _links(infused: Explained) -> bool:
    if not isinstance(infused, Infused):
        return False
    try:
        check_linker(infused)
    except InputError:
        return False
    return True
