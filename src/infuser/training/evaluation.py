"""Scores of a model on labelled examples, gathered from all processes, each example counted once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import Tensor, nn

from infuser.errors import InputError
from infuser.hosts.answers import finite
from infuser.progress import progress_bar
from infuser.stats.metrics import get_metric
from infuser.training.steps import Collate, Example, Precision, loader, make_accelerator

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Judge = Callable[[nn.Module, Sequence[Example]], Mapping[str, float]]
"""Scores of a model on the dev set by their names, the metric of the settings among them."""


@dataclass(frozen=True, slots=True)
class Scores:
    """A model's answers on a set of examples, and their metrics."""

    metrics: dict[str, float]
    logits: np.ndarray[Any, Any]
    """(examples, classes), in the order of the examples."""
    labels: np.ndarray[Any, Any]
    """(examples,)"""


def evaluate(
    model: nn.Module,
    examples: Sequence[Example],
    collate: Collate,
    *,
    metric: str | Sequence[str] = "auc",
    batch_size: int = 64,
    mixed_precision: Precision = "no",
    n_workers: int = 0,
) -> Scores:
    """Return the model's logits on labelled examples and one or several metrics over all of them.

    The model is moved to the device that training uses; a batch of `batch_size` goes to each process.
    """
    names = [metric] if isinstance(metric, str) else metric
    measures = {name: get_metric(name) for name in names}  # an unknown name fails before the work
    logits, labels = _answers(model, examples, collate, batch_size, mixed_precision, n_workers)
    if labels is None:
        raise InputError("The examples have no labels to compare the answers with. Give labelled ones.")
    return Scores({name: measure(logits, labels) for name, measure in measures.items()}, logits, labels)


def judge_dev(
    model: nn.Module,
    dev: Sequence[Example],
    collate: Collate,
    judge: Judge | None,
    *,
    metric: str,
    **options: Any,
) -> dict[str, float]:
    """Return the scores on the dev set while a model is trained, by the judge or else as `evaluate` has them."""
    if judge is None:
        return evaluate(model, dev, collate, metric=metric, **options).metrics
    metrics = dict(judge(model, dev))
    if metric not in metrics:
        raise InputError(f"The judge gave no {metric!r} but {', '.join(metrics)}. Set metric to one of them.")
    return metrics


def logits_of(
    model: nn.Module, examples: Sequence[Example], collate: Collate, *, batch_size: int = 64
) -> np.ndarray[Any, Any]:
    """Return the model's logits on examples with or without labels, (examples, classes)."""
    return _answers(model, examples, collate, batch_size)[0]


def answer_in_batches(
    model: nn.Module,
    items: Sequence[Item],
    answer: Callable[[list[Item]], Sequence[Answer]],
    *,
    lengths: Sequence[int],
    title: str,
    unit: str,
    batch_size: int = 64,
    mixed_precision: Precision = "no",
    progress: bool = True,
) -> list[Answer]:
    """Return what `answer` gives for each item, asked in batches of similar length without dropout and gradients.

    Several processes share the batches, and each gets all answers. Within training there is no second bar: `progress`
    is False, and the precision is that of training.
    """
    by_length = sorted(range(len(items)), key=lengths.__getitem__)  # less padding
    batches = [by_length[begin : begin + batch_size] for begin in range(0, len(items), batch_size)]
    found: list[tuple[int, Answer]] = []
    with _not_learning(model), make_accelerator(mixed_precision).autocast():
        mine = share_batches(model, batches, title, unit=unit, mixed_precision=mixed_precision, progress=progress)
        for places in mine:
            found += zip(places, answer([items[place] for place in places]), strict=True)
    known: dict[int, Answer] = dict(gather_object(found))
    return [known[place] for place in range(len(items))]


def share_batches(
    model: nn.Module,
    batches: Sequence[Sequence[Item]],
    title: str,
    *,
    unit: str,
    mixed_precision: Precision = "no",
    progress: bool = True,
) -> Iterator[Sequence[Item]]:
    """Yield the batches that this process reads, of several that were launched together; the first shows a bar."""
    accelerator = make_accelerator(mixed_precision)
    model.to(accelerator.device)
    mine = batches[accelerator.process_index :: accelerator.num_processes]
    shown = None if progress and accelerator.is_main_process else False
    with progress_bar(title, sum(map(len, mine)), unit=unit, shown=shown) as bar:
        for batch in mine:
            yield batch
            bar.advance(len(batch))


def _answers(
    model: nn.Module,
    examples: Sequence[Example],
    collate: Collate,
    batch_size: int,
    mixed_precision: Precision = "no",
    n_workers: int = 0,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
    """Return logits and, if there are any, labels, gathered from all processes; the model's mode is restored."""
    if len(examples) == 0:
        raise InputError("There are no examples to evaluate on. Give at least one.")
    accelerator = make_accelerator(mixed_precision)
    model.to(accelerator.device)
    answers: list[Tensor] = []
    labels: list[Tensor] = []
    with _not_learning(model), accelerator.autocast():
        for batch in accelerator.prepare_data_loader(loader(examples, collate, n_workers, batch_size=batch_size)):
            logits = model(**{name: tensor for name, tensor in batch.items() if name != "labels"}).logits
            if logits.ndim != 2:
                raise InputError(
                    f"Cannot evaluate a batch of {sorted(batch)} with logits of shape {tuple(logits.shape)}. It takes "
                    "a model that gives one row of logits per example; for others give train(judge=...)."
                )
            # the last batch is padded so that all processes get the same number; this drops the padding
            if "labels" in batch:
                logits, right = accelerator.gather_for_metrics((logits.float(), batch["labels"]))
                labels.append(right)
            else:
                logits = accelerator.gather_for_metrics(logits.float())
            answers.append(finite(logits))
    return torch.cat(answers).cpu().numpy(), torch.cat(labels).cpu().numpy() if labels else None


@contextmanager
def _not_learning(model: nn.Module) -> Iterator[None]:
    """Let a model answer without dropout and gradients; its mode is restored. Training may go on afterwards."""
    was_training = model.training
    model.train(False)
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)
