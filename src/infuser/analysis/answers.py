"""What a model answers about one text: the probability of each label, or the entities that it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from transformers import PreTrainedModel

from infuser.analysis.explanation import Entity
from infuser.analysis.predict import answer, classifies
from infuser.errors import InputError
from infuser.hosts.checkpoints import TAGGER
from infuser.signals.tags import Tags, TokenWord


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer about one text; both are None where the model's head gives neither."""

    shares: dict[str, float] | None = None
    """Probability of each label of the text."""
    entities: tuple[Entity, ...] | None = None


def answers_texts(model: PreTrainedModel) -> bool:
    """Return whether a model has a head whose answers can be shown: labels of texts, or tags of entities."""
    return classifies(model) or _tags_of(model) is not None


def read_answers(model: PreTrainedModel, logits: Tensor, words: Sequence[Sequence[TokenWord]]) -> list[Answer]:
    """Return what each row of logits says; `words` are those of each row."""
    rows = [row[None] for row in logits.cpu()]
    if classifies(model):
        return [Answer(shares=answer(model, row)) for row in rows]
    tags = _tags_of(model)
    if tags is None:
        return [Answer()] * len(rows)
    return [
        Answer(entities=tuple((*one,) for one in tags.read(row[0].double().numpy(), of_row)))
        for row, of_row in zip(rows, words, strict=True)
    ]


def _tags_of(model: PreTrainedModel) -> Tags | None:
    """Return the tags of a model that finds entities; None for other heads, and for tags that are not of entities."""
    if not type(model).__name__.endswith(TAGGER):
        return None
    try:
        return Tags.of_model(model.config)
    except InputError:
        return None
