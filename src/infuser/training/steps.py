"""The parts of a training step: which examples it reads, learning rates, the accelerator, progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs, GradientAccumulationPlugin
from torch import Tensor, nn
from torch.utils.data import DataLoader

from infuser.errors import InputError
from infuser.hosts import is_new_weight
from infuser.progress import progress_bar
from infuser.terminal import say
from infuser.types import CollatesPerEpoch

Precision = Literal["no", "bf16", "fp16"]
Example = Mapping[str, Any]
"""A text, perhaps its pair, and a label: {"text": ..., "pair": ..., "label": ...}; only `collate` looks inside."""
Collate = Callable[[list[Example]], Mapping[str, Tensor]]
"""Turns examples into the model's keywords, "labels" among them."""
_POOL = 8
"""Steps whose examples are sorted by length together."""
Share = tuple[list[int], float]
"""The examples that one process reads in one batch, and how much their mean loss counts in the step."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Which examples each step reads: a function of seed and step alone, so a run can start at any step."""

    n_examples: int
    batch_size: int
    accumulate: int
    seed: int
    lengths: Sequence[int] | None = None
    """Length of each example, to batch similar ones together; None batches at random."""

    @property
    def n_epoch_steps(self) -> int:
        """Steps until every example was read once."""
        return math.ceil(self.n_examples / (self.batch_size * self.accumulate))

    def epoch(self, epoch: int, process: int, n_processes: int) -> list[list[Share]]:
        """Return, for each step of an epoch, what this process reads in each of its batches."""
        chance = np.random.default_rng((self.seed, epoch))
        order = chance.permutation(self.n_examples).tolist()
        if self.lengths is not None:
            order = self._by_length(order, chance)
        size = self.batch_size * self.accumulate
        return [self._step(order[at : at + size], process, n_processes) for at in range(0, len(order), size)]

    def _by_length(self, order: list[int], chance: np.random.Generator) -> list[int]:
        """Sort by length within pools of some steps: little padding, and the batches stay random."""
        lengths, size = self.lengths or (), self.batch_size * self.accumulate
        mixed: list[int] = []
        for at in range(0, len(order), _POOL * size):
            pool = sorted(order[at : at + _POOL * size], key=lengths.__getitem__)
            whole = [pool[i : i + size] for i in range(0, len(pool) - size + 1, size)]
            chance.shuffle(whole)
            mixed += [example for batch in whole for example in batch] + pool[len(whole) * size :]
        return mixed

    def _step(self, read: list[int], process: int, n_processes: int) -> list[Share]:
        """Divide a step among processes so that each example weighs the same, however short the last batch is."""
        batches = [read[at : at + self.batch_size] for at in range(0, len(read), self.batch_size)]
        mine = [batch[process::n_processes] for batch in batches]
        # a process without examples reads the first one with weight 0: all must take part in the exchange
        return [(part or batch[:1], len(part) / len(read)) for part, batch in zip(mine, batches, strict=True)]

    def n_read(self, step: int) -> int:
        """Return how many examples all processes together have read after so many steps."""
        epochs, steps = divmod(step, self.n_epoch_steps)
        return epochs * self.n_examples + steps * self.batch_size * self.accumulate


def read_steps(
    plan: StepPlan,
    examples: Sequence[Example],
    collate: Collate,
    steps: range,
    process: int,
    n_processes: int,
    n_workers: int,
) -> Iterator[list[tuple[Mapping[str, Tensor], float]]]:
    """Yield, for each of the steps, this process's batches with the share of each in the step's loss."""
    at = steps.start
    while at < steps.stop:
        epoch, done = divmod(at, plan.n_epoch_steps)
        shares = plan.epoch(epoch, process, n_processes)[done:]
        drawing = collate.for_epoch(epoch, seed=plan.seed) if isinstance(collate, CollatesPerEpoch) else collate
        batches = iter(
            loader(examples, drawing, n_workers, batch_sampler=[read for step in shares for read, _ in step])
        )
        for step in shares:
            yield [(next(batches), share) for _, share in step]
        at += len(shares)


def loader(examples: Sequence[Example], collate: Collate, n_workers: int, **batching: Any) -> DataLoader[Any]:
    """Return a loader that leaves the global random generators alone, so that dropout can be resumed exactly."""
    generator = torch.Generator().manual_seed(0)
    return DataLoader(examples, collate_fn=collate, num_workers=n_workers, generator=generator, **batching)  # type: ignore[arg-type]


def loss_of(model: Any, batch: Mapping[str, Tensor]) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return the loss and, if the model returns them, its parts by name."""
    out = model(**batch)
    if out.loss is None:
        raise InputError(f"The model gave no loss for a batch of {sorted(batch)}. Let collate add 'labels'.")
    return out.loss, getattr(out, "parts", None) or {}


def parameter_groups(model: nn.Module, rate: float, new_rate: float | None, decay: float) -> list[dict[str, Any]]:
    """Return the trained weights grouped by learning rate and decay; `set_learning_rates` scales "highest".

    A module of new weights may ask for a rate of its own (`own_rate`) and for the share of its weights that a step at
    the peak rate takes away (`own_decay`); `new_rate` comes first, and None leaves the others at the host's rate.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {(rate, decay): [], (rate, 0.0): []}
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            continue
        if is_new_weight(name):
            module = model.get_submodule(name.rpartition(".")[0])
            own = new_rate or getattr(module, "own_rate", None) or rate
            kind = (own, getattr(module, "own_decay", 0.0) / own)  # AdamW multiplies decay by the rate
        else:
            kind = (rate, decay if weight.ndim > 1 else 0.0)  # biases and layer norms are spared
        groups.setdefault(kind, []).append(weight)
    if not any(groups.values()):
        raise InputError("All weights of the model are frozen. Set requires_grad on those to train.")
    return [{"params": p, "lr": r, "highest": r, "weight_decay": d} for (r, d), p in groups.items() if p]


def set_learning_rates(groups: Sequence[dict[str, Any]], step: int, n_steps: int, warmup: float) -> float:
    """Set each group's rate for a step, and return the first one's.

    The rate is a function of the step alone, so there is no scheduler whose state a checkpoint would have to hold.
    """
    n_warmup = math.ceil(warmup * n_steps)
    share = (step + 1) / n_warmup if step < n_warmup else (n_steps - step) / (n_steps - n_warmup)
    for group in groups:
        group["lr"] = group["highest"] * share
    return float(groups[0]["lr"])


def make_accelerator(mixed_precision: Precision) -> Accelerator:
    """Return an accelerator for one process or, where several were launched, for this one of them."""
    if AcceleratorState._shared_state and AcceleratorState().mixed_precision != mixed_precision:
        AcceleratorState._reset_state()  # it accepts only the first precision of a process
    try:
        accelerator = Accelerator(
            mixed_precision=mixed_precision,
            gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),  # the loop scales losses itself
            # a batch in which no auxiliary terms were found leaves their weights out
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
        )
    except ValueError as problem:
        raise InputError(f"mixed_precision={mixed_precision!r} does not work here: {problem} Try 'no'.") from problem
    if mixed_precision == "fp16" and accelerator.device.type == "cpu":  # accelerate would quietly compute in 32 bits
        raise InputError("mixed_precision='fp16' does not work on a CPU. Use 'bf16' or 'no'.")
    return accelerator


@contextmanager
def prepared(accelerator: Accelerator, model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[tuple[Any, Any]]:
    """Prepare model and optimizer with accelerate; afterwards remove the attributes that it leaves on the model."""
    marks = ("forward", "_original_forward", "_is_accelerate_prepared")
    before = {name: model.__dict__[name] for name in marks if name in model.__dict__}
    try:
        yield accelerator.prepare(model, optimizer)
    finally:
        for name in marks:
            model.__dict__.pop(name, None)
        model.__dict__.update(before)


@dataclass(frozen=True, slots=True)
class StepReport:
    """How training stands after a step."""

    step: int
    n_steps: int
    loss: float
    learning_rate: float
    examples_per_second: float
    best: float | None
    """Best value of the metric so far."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """The terms of the loss, if the model returns them."""

    def describe(self) -> str:
        """Return loss, best value, learning rate and speed in a line."""
        parts = "".join(f", {name} {value:.4f}" for name, value in self.parts.items())
        best = "" if self.best is None else f", best {self.best:.4f}"
        speed = f"{self.examples_per_second:.0f} examples/s"
        return f"loss {self.loss:.4f}{parts}{best}, rate {self.learning_rate:.1e}, {speed}"


@contextmanager
def reporter(progress: bool | Callable[[StepReport], None], n_steps: int) -> Iterator[Callable[[StepReport], None]]:
    """Yield the function to call after each step: the caller's own, or one that moves a progress bar (or does not)."""
    if callable(progress):
        yield progress
        return
    with progress_bar("training", n_steps, unit="steps", shown=None if progress else False) as bar:
        yield lambda report: bar.report("training", report.step, n_steps, detail=report.describe())


def print_steps(report: StepReport) -> None:
    """Print a line to stderr for every twentieth of the steps: progress for log files."""
    if report.step == report.n_steps or report.step % max(1, report.n_steps // 20) == 0:
        say(f"step {report.step} of {report.n_steps}: {report.describe()}", err=True)


def text_lengths(examples: Sequence[Example]) -> list[int] | None:
    """Return the number of characters of each example, all choices together, or None where examples are not texts."""
    lengths = []
    for example in examples:
        sides = [example.get("text"), example.get("pair") or ""]
        parts = [part for side in sides for part in (side if isinstance(side, list | tuple) else (side,))]
        if not all(isinstance(part, str) for part in parts):
            return None
        lengths.append(sum(map(len, parts)))
    return lengths
