"""What a trained model answers, one text or a stream of them: labels with probabilities, or entities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from infuser.errors import InputError
from infuser.hosts.answers import finite
from infuser.hosts.checkpoints import CLASSIFIER, QUESTIONS, TAGGER
from infuser.signals import Collator, answers
from infuser.tasks.ner import find_in_documents
from infuser.tasks.span_windows import best_answers
from infuser.training.steps import Collate, Example, loader


def classifies(model: PreTrainedModel) -> bool:
    """Return whether a model gives whole texts labels."""
    return type(model).__name__.endswith(CLASSIFIER)


def tags_words(model: PreTrainedModel) -> bool:
    """Return whether a model gives every word a tag, so that it finds entities."""
    return type(model).__name__.endswith(TAGGER)


def gives_several(model: PreTrainedModel) -> bool:
    """Return whether a classifier may give a text several labels at once, or none."""
    return bool(model.config.problem_type == "multi_label_classification")


def answers_questions(model: PreTrainedModel) -> bool:
    """Return whether a model finds the answer to a question in a passage."""
    return type(model).__name__.endswith(QUESTIONS)


def label_names(model: PreTrainedModel) -> list[str]:
    """Return the names of a classifier's labels, or the one name "score" if it answers with a number."""
    return answers.label_names(model.config.id2label, int(model.config.num_labels or 0))


def probabilities(model: PreTrainedModel, logits: Tensor) -> Tensor:
    """Return what logits (texts, labels) mean: probabilities, or the number itself for a model with one label."""
    logits = finite(logits)
    if model.config.num_labels == 1:
        return logits.float()
    if gives_several(model):
        return logits.float().sigmoid()
    return logits.float().softmax(dim=-1)


def answer(model: PreTrainedModel, logits: Tensor) -> dict[str, float]:
    """Return the probability of each label for the first text of a batch."""
    return dict(zip(label_names(model), probabilities(model, logits)[0].tolist(), strict=True))


@torch.inference_mode()
def map_batches(
    model: PreTrainedModel,
    examples: Sequence[Example],
    collate: Collate,
    function: Callable[[dict[str, Tensor]], Any],
    *,
    batch_size: int,
) -> Tensor:
    """Return what a function makes of each batch, one row per example, on the CPU, without dropout and labels.

    The model's mode is left as it was.
    """
    if not len(examples):
        raise InputError("There are no examples to ask about. Give at least one.")
    was_training, rows = model.training, []
    model.train(False)
    try:
        for batch in loader(examples, collate, 0, batch_size=batch_size):
            given = {name: tensor.to(model.device) for name, tensor in batch.items() if name != "labels"}
            rows.append(function(given).cpu())
    finally:
        model.train(was_training)
    return torch.cat(rows)


def predict(
    model: PreTrainedModel, collator: Collator, examples: Iterable[Mapping[str, Any]], *, batch_size: int = 32
) -> Iterator[dict[str, Any]]:
    """Yield each example with the model's label and probabilities, or its score if it answers with a number.

    Of a tagger, each example has `entities`: start and end in characters, label, text and probability. Where a text
    may have several labels, it has `labels`; a question has `answer`, its `start` and `end` in the pair, and `score`.
    """
    if tags_words(model):
        yield from _entities(model, collator, iter(examples), batch_size)
        return
    if answers_questions(model):
        yield from _passages(model, collator, iter(examples), batch_size)
        return
    names, waiting = label_names(model), iter(examples)
    read = answers.several_answer if gives_several(model) and len(names) > 1 else answers.text_answer
    while chunk := list(islice(waiting, batch_size)):
        with torch.inference_mode():
            batch = {name: tensor.to(model.device) for name, tensor in collator(chunk).items()}
            rows = probabilities(model, model(**batch).logits).tolist()
        for example, row in zip(chunk, rows, strict=True):
            given = {name: value for name, value in example.items() if value is not None}
            yield {**given, **read(names, row)}


def _entities(
    model: PreTrainedModel, collator: Collator, waiting: Iterator[Mapping[str, Any]], batch_size: int
) -> Iterator[dict[str, Any]]:
    """Yield examples with their entities; texts that are longer than the encoder reads are read in windows."""
    while chunk := list(islice(waiting, batch_size)):
        found = find_in_documents(model, collator, chunk, batch_size=batch_size)
        for example, entities in zip(chunk, found, strict=True):
            given = {name: value for name, value in example.items() if value is not None}
            yield {**given, **answers.entity_answer(example["text"], entities)}


def _passages(
    model: PreTrainedModel, collator: Collator, waiting: Iterator[Mapping[str, Any]], batch_size: int
) -> Iterator[dict[str, Any]]:
    """Yield questions with their answers; a passage that is longer than the encoder reads is cut."""
    while chunk := list(islice(waiting, batch_size)):
        with torch.inference_mode():
            best = best_answers(model, collator, chunk, answers.MAX_ANSWER_TOKENS)
        for example, of_one in zip(chunk, best, strict=True):
            yield {**example, **answers.passage_answer(example["pair"], *of_one)}
