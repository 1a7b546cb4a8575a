"""One plain loop that fine-tunes any transformers model, infused or not; read it top to bottom.

A step reads `batch_size * accumulate` examples. Which ones depends on seed and step alone, and every example weighs
the same, so the number of processes, a short last batch or a restart in mid-epoch changes nothing.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from accelerate.utils import send_to_device, set_seed
from torch import Tensor, nn

from infuser.errors import DivergedError, InputError
from infuser.files import from_plain
from infuser.hosts import is_new_weight
from infuser.methods.spectral import Spectral
from infuser.stats.metrics import get_metric
from infuser.training.checkpoints import CheckpointStore, cpu_state_dict, examples_digest, weights_digest
from infuser.training.evaluation import Judge, judge_dev
from infuser.training.steps import (
    Collate,
    Example,
    Precision,
    StepPlan,
    StepReport,
    loss_of,
    make_accelerator,
    parameter_groups,
    prepared,
    read_steps,
    reporter,
    set_learning_rates,
    text_lengths,
)
from infuser.work_folder import locked_folder

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """Settings of a training run; every field has a default that works."""

    epochs: int = 3
    """How often each example is seen."""
    batch_size: int = 32
    """Examples per batch, shared out over the processes."""
    accumulate: int = 1
    """Batches per step of the optimizer."""
    group_by_length: bool = True
    """Put texts of similar length into a batch: less padding, so more speed."""
    learning_rate: float = 5e-5
    """Peak learning rate of the encoder and its head."""
    new_learning_rate: float | None = None
    """Peak learning rate of the new knowledge weights; None takes the one that their method asks for, else
    `learning_rate`."""
    weight_decay: float = 0.01
    """AdamW's weight decay; biases and layer norms have none, new weights the decay of their method."""
    warmup: float = 0.1
    """Share of the steps in which the learning rates rise from zero; then they fall back to zero."""
    clip: float = 1.0
    """Gradients with a larger norm are scaled down to it."""
    mixed_precision: Precision = "no"
    """Compute in 16 bits where that is safe; "fp16" needs a GPU."""
    metric: str = "auc"
    """The metric on the dev set that chooses the best weights."""
    evaluate_every: int | Literal["epoch"] = "epoch"
    """Steps between evaluations."""
    patience: int | None = None
    """Evaluations without improvement after which training stops early; None never stops."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; None writes one per epoch."""
    seed: int = 0
    """Decides the order of the examples and the dropout."""
    n_workers: int = 0
    """Processes that collate batches in the background."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "evaluate_every", "patience", "checkpoint_every"):
            value = getattr(self, name)
            if value not in (None, "epoch") and not (isinstance(value, int) and value >= 1):
                raise InputError(f"The setting {name} is {value!r}; give a whole number of at least 1.")
        for name in ("seed", "n_workers", "weight_decay"):
            if getattr(self, name) < 0:
                raise InputError(f"The setting {name} is {getattr(self, name)!r}; give a number of at least 0.")
        for name in ("learning_rate", "new_learning_rate", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"The setting {name} is {value!r}; give a number above 0.")
        if not 0 <= self.warmup <= 1:
            raise InputError(f"The setting warmup is {self.warmup!r}; give a share of the steps between 0 and 1.")
        get_metric(self.metric)


_DEFAULTS = TrainSettings()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics at one evaluation; `loss` is the mean training loss since the one before."""

    step: int
    epoch: float
    loss: float
    metrics: dict[str, float]


@dataclass(slots=True)
class TrainResult:
    """The course of training so far; checkpoints hold it, so a resumed run reports all of it."""

    metric: str
    best: float | None = None
    """Best value of the metric on the dev set."""
    best_step: int | None = None
    since_best: int = 0
    """Evaluations without improvement since then."""
    stopped_early: bool = False
    steps: int = 0
    n_examples: int = 0
    """Examples seen, each as often as it was seen."""
    seconds: float = 0.0
    """Wall-clock time of everything."""
    step_seconds: float = 0.0
    """Wall-clock time of the training steps alone."""
    loss_sum: float = 0.0
    """Summed losses of the steps since the last evaluation."""
    history: list[Evaluation] = field(default_factory=list)

    @property
    def examples_per_second(self) -> float:
        """Speed of the training steps alone."""
        return self.n_examples / self.step_seconds if self.step_seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values, ready for `json.dump`."""
        return {**asdict(self), "examples_per_second": self.examples_per_second}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainResult:
        """Rebuild a result from what `to_json` returned."""
        return from_plain(cls, {name: value for name, value in values.items() if name != "examples_per_second"})


def train(
    model: nn.Module,
    examples: Sequence[Example],
    collate: Collate,
    *,
    dev: Sequence[Example] | None = None,
    settings: TrainSettings = _DEFAULTS,
    out: Path | None = None,
    resume: bool = True,
    progress: bool | Callable[[StepReport], None] = True,
    made_with: Mapping[str, Any] | None = None,
    spectral: Spectral | None = None,
    judge: Judge | None = None,
) -> TrainResult:
    """Fine-tune `model` in place; with a dev set it ends with its best weights, else with its last.

    With `out`, checkpoints go there, and the same call made again resumes from the newest one. `made_with` is what else
    decides the result: a checkpoint made with anything else is rejected. `spectral` adds its penalty to the loss.
    `judge` scores the dev set for models that do not answer with one row of logits per example.
    """
    if len(examples) == 0 or (dev is not None and len(dev) == 0):
        raise InputError("There are no examples to train or to evaluate on. Give at least one of each, or dev=None.")
    if settings.patience is not None and dev is None:
        raise InputError(f"patience={settings.patience} needs a dev set. Give dev=..., or patience=None.")
    metric = get_metric(settings.metric)
    metric.check_labels([example["label"] for example in dev or () if "label" in example])
    accelerator = make_accelerator(settings.mixed_precision)
    process, n_processes = accelerator.process_index, accelerator.num_processes
    set_seed(settings.seed + process)  # each process needs its own dropout
    lengths = text_lengths(examples) if settings.group_by_length else None
    plan = StepPlan(len(examples), settings.batch_size, settings.accumulate, settings.seed, lengths)
    n_steps = plan.n_epoch_steps * settings.epochs
    groups = parameter_groups(model, settings.learning_rate, settings.new_learning_rate, settings.weight_decay)
    host_and_new = [
        [weight for name, weight in model.named_parameters() if is_new_weight(name) is new] for new in (False, True)
    ]
    run, best_weights = TrainResult(settings.metric), None

    with (
        locked_folder(out) if out is not None and accelerator.is_main_process else nullcontext(),
        prepared(accelerator, model, torch.optim.AdamW(groups, fused=True)) as (wrapped, optimizer),
        reporter(progress if accelerator.is_main_process else False, n_steps) as report,
        spectral.on(model) if spectral else nullcontext(),
    ):
        decides = _made_with(settings, model, examples, dev, n_processes, spectral) | dict(made_with or {})
        store = CheckpointStore(out, accelerator, model, optimizer, decides)
        if found := store.open(resume=resume):
            run, best_weights = TrainResult.from_json(found.facts["run"]), found.tensors.get("best")
        n_left = 0 if found and found.facts["finished"] else n_steps - run.steps
        read = read_steps(
            plan, examples, collate, range(run.steps, run.steps + n_left), process, n_processes, settings.n_workers
        )
        started = time.monotonic() - run.seconds
        step_started = time.monotonic()
        model.train()

        for batches in read:
            rate = set_learning_rates(optimizer.param_groups, run.steps, n_steps, settings.warmup)
            shares: list[Tensor] = []
            parts_of_batches: list[dict[str, Tensor]] = []
            for number, (batch, share) in enumerate(batches, start=1):
                # gradients travel between processes once per step, with its last batch
                with nullcontext() if number == len(batches) else accelerator.no_sync(wrapped):
                    loss_of_batch, parts = loss_of(wrapped, send_to_device(batch, accelerator.device))
                    part = share * loss_of_batch
                    accelerator.backward(part * n_processes)  # because gradients are averaged over processes
                shares.append(part.detach())
                parts_of_batches.append({name: share * value.detach() for name, value in parts.items()})
            loss = accelerator.reduce(torch.stack(shares).sum(), "sum").item()
            # clipped apart, or the steep gradients of new weights would shorten the steps of the host
            norm = sum(accelerator.clip_grad_norm_(part, settings.clip).item() for part in host_and_new if part)
            _check_finite(loss, norm, run.steps + 1, settings)
            optimizer.step()
            optimizer.zero_grad()
            run.steps += 1
            run.n_examples = plan.n_read(run.steps)
            run.loss_sum += loss
            run.step_seconds += time.monotonic() - step_started

            epoch_ends, last = run.steps % plan.n_epoch_steps == 0, run.steps == n_steps
            if last or _is_due(settings.evaluate_every, run.steps, epoch_ends):
                metrics: dict[str, float] = {}
                if dev is not None:
                    metrics = judge_dev(
                        model,
                        dev,
                        collate,
                        judge,
                        metric=metric.name,
                        batch_size=settings.batch_size,
                        mixed_precision=settings.mixed_precision,
                        n_workers=settings.n_workers,
                    )
                    run.since_best += 1
                    if metric.is_better(metrics[metric.name], run.best):
                        run.best, run.best_step, run.since_best = metrics[metric.name], run.steps, 0
                        best_weights = cpu_state_dict(model)
                since = run.steps - (run.history[-1].step if run.history else 0)
                epochs = run.steps / plan.n_epoch_steps
                run.history.append(Evaluation(run.steps, epochs, run.loss_sum / since, metrics))
                run.loss_sum = 0.0
                if accelerator.is_main_process:
                    logger.info("step %d of %d: %s", run.steps, n_steps, run.history[-1])
            run.seconds = time.monotonic() - started
            # a batch may lack a part that others have
            names = dict.fromkeys(name for one in parts_of_batches for name in one)
            parts_of_step = {name: sum(one[name].item() for one in parts_of_batches if name in one) for name in names}
            report(StepReport(run.steps, n_steps, loss, rate, run.examples_per_second, run.best, parts_of_step))
            if run.since_best == settings.patience:
                run.stopped_early = not last
                break
            if not last and _is_due(settings.checkpoint_every or "epoch", run.steps, epoch_ends):
                store.save(run.steps, run.to_json(), best_weights)
            step_started = time.monotonic()

        if best_weights is not None:
            model.load_state_dict(best_weights)
        if n_left:
            store.save(run.steps, run.to_json(), None, finished=True)
        model.train(False)
    return run


def _made_with(
    settings: TrainSettings,
    model: nn.Module,
    examples: Sequence[Example],
    dev: Sequence[Example] | None,
    n_processes: int,
    spectral: Spectral | None,
) -> dict[str, Any]:
    """Return all that decides the result; only a run in which all of it is the same may resume."""
    made_with = asdict(settings)
    del made_with["n_workers"], made_with["checkpoint_every"]
    return made_with | {
        "examples": examples_digest(examples),
        "dev": examples_digest(dev) if dev is not None else None,
        "weights": weights_digest(model),
        "n_processes": n_processes,
        "spectral": asdict(spectral) if spectral else None,
    }


def _check_finite(loss: float, norm: float, step: int, settings: TrainSettings) -> None:
    """Raise before a step that is not finite reaches the weights."""
    # with fp16 a gradient may overflow now and then; accelerate then skips the step
    if math.isfinite(loss) and (math.isfinite(norm) or settings.mixed_precision == "fp16"):
        return
    raise DivergedError(
        f"Training diverged at step {step}: the loss is {loss} and the gradient's length {norm}. Lower learning_rate "
        f"({settings.learning_rate:g}) or new_learning_rate ({settings.new_learning_rate}), or lengthen warmup "
        f"({settings.warmup:g}); if it happens at the first step, look for labels or inputs that are not finite."
    )


def _is_due(every: int | Literal["epoch"], step: int, epoch_ends: bool) -> bool:
    return epoch_ends if every == "epoch" else step % every == 0
