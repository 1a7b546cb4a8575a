"""A cell is one training and what it scores: host x arm x task x seed, with everything that decides its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from infuser.errors import DivergedError
from infuser.experiments.arm import Arm, Host, make_model
from infuser.experiments.coverage import score_apart
from infuser.experiments.data import Annotator, Data, fewer
from infuser.experiments.memory import peak_mib, reset_peak
from infuser.experiments.rules import score_rule
from infuser.files import digest_of
from infuser.opening import save_plain
from infuser.tasks.base import Solved, Training
from infuser.training import StepReport, TrainSettings
from infuser.versions import installed_versions

Result = dict[str, Any]
"""The result of a cell as plain values: settings, data, versions, times, memory, scores, answers, history."""


@dataclass(frozen=True)
class Setup:
    """The live parts of a cell."""

    host: Host
    arm: Arm
    data: Data
    settings: TrainSettings
    """With the seed; the task decides the metric."""
    n_train: int | None = None
    """Train on fewer examples, as trials may."""
    on_dev: bool = False
    """Score the dev part, as trials do."""
    tuned: Mapping[str, Any] = field(default_factory=dict)
    """The settings that trials chose."""

    def describe(self) -> dict[str, Any]:
        """Return everything that decides the result, as plain values."""
        training = {key: value for key, value in asdict(self.settings).items() if key not in NOT_DECISIVE}
        return {
            "host": asdict(self.host),
            "arm": self.arm.describe(),
            "data": self.data.describe(),
            "metric": self.data.metric,
            "train": training,
            "seed": self.settings.seed,
        }


NOT_DECISIVE = ("n_workers", "checkpoint_every", "seed", "metric")
"""Training settings that do not decide a result, or that the cell or its task decides."""


@dataclass(frozen=True)
class Cell:
    """One training, known by the names of its parts; its live parts are made when its turn comes."""

    host: str
    method: str
    task: str
    seed: int
    trial: int | None = None
    """Number of the trial that this is for tuning; None is the real thing."""
    made_with: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Everything that decides the result, as plain values and without names."""
    open: Callable[[Sequence[Result], dict[Any, Any]], Setup] | None = field(default=None, compare=False, repr=False)
    """Makes the live parts, given the results of `after` and what earlier cells of the process made (see `run`)."""
    after: tuple[Cell, ...] = field(default=(), compare=False, repr=False)
    """The trials that must be finished before."""
    keep_model: bool = field(default=False, compare=False, repr=False)
    """Save the trained model beside the result."""
    earlier: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Digests under which earlier versions of infuser wrote its result; read for tables, and not computed on."""

    def __str__(self) -> str:
        which = f"seed {self.seed}" if self.trial is None else f"trial {self.trial + 1}"
        return f"{self.task}, {self.host}, {self.method}, {which}"

    @cached_property
    def digest(self) -> str:
        """Identifies the cell by what decides its result, whatever its name."""
        return digest_of(self.made_with)


def run_cell(
    cell: Cell,
    setup: Setup,
    annotator: Annotator,
    *,
    checkpoints: Path | None = None,
    model_folder: Path | None = None,
    resume: bool = True,
    progress: bool | Callable[[StepReport], None] = False,
) -> tuple[Result, Solved]:
    """Train and score one cell; with `checkpoints` it resumes where it was stopped, with `model_folder` it is kept."""
    from transformers import set_seed

    started = time.perf_counter()
    # fewer first: a source that is fitted must not learn from examples that are not trained on
    arm, data = annotator.annotate(fewer(setup.data, setup.n_train), setup.arm)
    prepared = time.perf_counter()
    reset_peak()
    set_seed(setup.settings.seed)  # the new head starts the same for every arm
    task = data.task
    model, collator, infused = make_model(task, setup.host, arm)
    scored = data.dev if setup.on_dev else data.test
    golds = data.golds(scored)
    if golds and task.has_usual_metrics:  # before the work, not after it
        for name in task.metrics:
            task.get_metric(name).check_labels(golds)
    problem, solved = "", Solved([], [], 0.0, 0.0)
    training = Training(
        model,
        collator,
        setup.settings,
        progress=progress,
        spectral=_spectral(arm),
        checkpoints=checkpoints,
        resume=resume,
    )
    try:
        solved = task.solve(training, data.train, scored, data.dev or None)
    except DivergedError as error:
        if cell.trial is None:
            raise
        problem = str(error)  # a trial may fail: that is what it is for
    ended = time.perf_counter()
    if model_folder is not None:
        if infused is None:
            save_plain(model, collator.tokenizer, model_folder)
        else:
            infused.save(model_folder)
    golds = [] if problem or golds is None else golds
    has_knowledge = arm.method is not None and not arm.shuffled
    answered = task.rules(data.train, scored) if golds and has_knowledge else {}
    rules = {name: score_rule(task, golds, answers) for name, answers in answered.items()}
    covered = task.covered(scored) if golds and has_knowledge else None
    notes = task.notes(golds, solved.predictions) if golds else {"diverged": problem} if problem else {}
    result = {
        "cell": {name: getattr(cell, name) for name in ("host", "method", "task", "seed", "trial")},
        "digest": cell.digest,
        "settings": {
            **cell.made_with,
            "tuned": dict(setup.tuned),
            "training": asdict(setup.settings),
            "knowledge": setup.arm.digests,
        },
        "versions": installed_versions(),
        "data": setup.data.describe(),
        "seconds": {
            "total": ended - started,
            "preparing": prepared - started,
            "training": solved.training,
            "answering": solved.answering,
        },
        "peak_mib": peak_mib(),
        "extra_weights": 0 if infused is None else infused.n_new_weights(),
        "n_processes": _n_processes(setup.settings),
        "metrics": list(task.metrics),
        "scores": task.score(golds, solved.predictions) if golds else {},
        "notes": {**notes, **{name: rule["scores"][task.metrics[0]] for name, rule in rules.items()}},
        "golds": golds or [None] * len(solved.predictions),
        "predictions": solved.predictions,
        **({"rules": rules} if rules else {}),
        **({"coverage": score_apart(task, golds, solved.predictions, covered)} if covered else {}),
        "history": solved.history,
    }
    return result, solved


def _spectral(arm: Arm) -> Any:
    from infuser.methods.spectral import Spectral

    return None if arm.spectral is None else Spectral(arm.spectral)


def _n_processes(settings: TrainSettings) -> int:
    from infuser.training.steps import make_accelerator

    n: int = make_accelerator(settings.mixed_precision).num_processes
    return n
