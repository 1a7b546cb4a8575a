"""One cell, from its settings to its result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import set_seed

from infuser import assets
from infuser.errors import DivergedError, InfuserError
from infuser.experiments.cells import Cell, Results, best_trial, digest, grid, made_with, trial_settings, trials_of
from infuser.experiments.data import Data, marks_of, read_data, some, with_knowledge
from infuser.experiments.making import make_method, make_sampling, make_sources, make_task, make_training
from infuser.experiments.memory import forget_peak, peak_mib
from infuser.experiments.settings import Arm, Bench, Host
from infuser.files import digest_of
from infuser.hosts.loading import load_model, load_tokenizer, longest_input
from infuser.infused import Infused, infuse
from infuser.methods.spectral import Spectral
from infuser.signals import Collator
from infuser.stats.metrics import METRICS
from infuser.tasks.base import Solved, Task, Training
from infuser.training.steps import StepReport, make_accelerator
from infuser.types import Source
from infuser.versions import __version__, installed_versions

Tell = Callable[[Cell, StepReport | None], None]
"""Called with a cell and the state of its training; None when it has its result."""


class Workshop:
    """What one process keeps between cells: the data of the task at hand, and what the sources found in them."""

    def __init__(self, bench: Bench, results: Results, cache: Path | None) -> None:
        self.bench, self.results, self.cache = bench, results, cache
        self._task_name = ""
        self._known: dict[str, tuple[list[Source], list[str], Data]] = {}

    def at(self, task: str) -> Workshop:
        """Turn to a task, and forget about the one before."""
        if task != self._task_name:
            self._task_name = task
            self._known = {}
            for name in ("task", "data", "told"):
                self.__dict__.pop(name, None)
        return self

    @cached_property
    def task(self) -> Task:
        """The task at hand."""
        return make_task(self.bench, self.bench.tasks[self._task_name])

    @cached_property
    def data(self) -> Data:
        """Its examples, without knowledge."""
        return read_data(self.task, self.bench.tasks[self._task_name])

    @cached_property
    def told(self) -> dict[str, Any]:
        """Sizes and digests of the examples."""
        return self.data.told(self.bench.tasks[self._task_name].score_on)

    def knowledge(self, arm: Arm) -> tuple[list[Source], list[str], Data]:
        """Return the sources of a method, their marks, and the examples with what they found: asked once per task."""
        key = digest_of([arm.sources, arm.placebo, arm.select])
        if key not in self._known:
            sources = make_sources(self.bench, arm)
            marks = marks_of(sources)
            if arm.select is not None:
                bare = with_knowledge(self.data, sources, placebo=False, cache=self.cache)
                sources = _selecting(self.bench, arm, sources, bare)
            data = with_knowledge(self.data, sources, placebo=arm.placebo, cache=self.cache)
            self._known[key] = (sources, marks, data)
        return self._known[key]


def run_cell(workshop: Workshop, cell: Cell, tell: Tell) -> dict[str, Any]:
    """Train and score one cell, and return its result."""
    bench = workshop.at(cell.task).bench
    arm, task, host = bench.arms[cell.method], workshop.task, bench.hosts[cell.host]
    tuned = tuned_settings(workshop, cell)
    smaller = {} if cell.trial is None else trial_settings(bench)
    settings = make_training(bench, cell.task, {**smaller, **tuned, "seed": cell.seed})
    started = time.perf_counter()
    sources: list[Source] = []
    marks: list[str] = []
    data = workshop.data
    if arm.kind is not None:
        sources, marks, data = workshop.knowledge(arm)
    prepared = time.perf_counter()
    forget_peak()
    set_seed(cell.seed)  # the new head starts the same for every method
    model, collator, infused = _make(task, host, arm, sources, Path(bench.folder))
    scored = data.score if cell.trial is None else data.held_out
    how = Training(
        settings,
        progress=lambda report: tell(cell, report),
        spectral=None if arm.spectral is None else Spectral(arm.spectral),
    )
    problem = ""
    try:
        train = some(data.train, smaller.get("n_train"))
        solved = task.solve(model, collator, train, scored, how, dev=data.held_out or None)
    except DivergedError as error:
        if cell.trial is None:
            raise
        solved, problem = Solved([], [], 0.0, 0.0), str(error)  # a trial may fail: that is what it is for
    ended = time.perf_counter()
    golds = [_gold(task, example) for example in scored] if not problem else []
    judged = bool(golds) and all(gold is not None for gold in golds)
    return {
        "cell": asdict(cell),
        "digest": digest(bench, cell),
        "settings": {**made_with(bench, cell), "tuned": tuned, "training": asdict(settings), "knowledge": marks},
        "versions": {"infuser": __version__, **installed_versions()},
        "data": workshop.told,
        "seconds": {
            "total": ended - started,
            "preparing": prepared - started,
            "training": solved.training,
            "answering": solved.answering,
        },
        "peak_mib": peak_mib(),
        "extra_weights": 0 if infused is None else infused.n_new_weights(),
        "n_processes": make_accelerator(settings.mixed_precision).num_processes,
        "metrics": list(task.metrics),
        "scores": task.score(golds, solved.predictions) if judged else {},
        "notes": task.notes(golds, solved.predictions) if judged else {"diverged": problem} if problem else {},
        "golds": golds,
        "predictions": solved.predictions,
        "history": solved.history,
    }


def tuned_settings(workshop: Workshop, cell: Cell) -> dict[str, Any]:
    """Return the settings of the trial that was best on what is held out; none where nothing is tuned."""
    if cell.trial is not None:
        return grid(workshop.bench)[cell.trial]
    trials = trials_of(workshop.bench, cell)
    results = [workshop.results.read(workshop.bench, one) for one in trials]
    finished = [result for result in results if result is not None]
    if len(finished) < len(trials):
        raise InfuserError(f"{cell} cannot be trained before its {len(trials)} trials are finished.")
    if not trials:
        return {}
    metric = workshop.at(cell.task).task.metrics[0]
    better = METRICS[metric].higher_is_better if metric in METRICS else True
    return grid(workshop.bench)[best_trial(finished, metric=metric, higher_is_better=better)]


def _found(checkpoint: str, folder: Path) -> str:
    """Return what transformers can load: a folder beside the settings file, an asset, or a hub id."""
    if (folder / checkpoint).exists():
        return str(folder / checkpoint)
    return str(assets.fetch(checkpoint)) if checkpoint in assets.ASSETS else checkpoint


def _make(
    task: Task, host: Host, arm: Arm, sources: list[Source], folder: Path
) -> tuple[Any, Collator, Infused | None]:
    """Return the model of a cell, what makes its batches, and the infusion if it is one."""
    checkpoint = _found(host.checkpoint, folder)
    options: dict[str, Any] = dict(task.head_options())
    if task.learns and task.head != "masked-lm":
        options["ignore_mismatched_sizes"] = True  # a checkpoint may have a head for other labels
    tokenizer = load_tokenizer(checkpoint)
    start: Any = checkpoint
    loading: dict[str, Any] = {"task": task.head, **options}
    if host.random_weights or arm.kind is None:
        start, loading = load_model(checkpoint, **loading), {}
    if host.random_weights:
        start = type(start)(start.config)
    if arm.kind is None:
        return start, Collator(tokenizer, max_length=_longest(start, tokenizer, host)), None
    infused = infuse(start, make_method(arm), sources=sources, tokenizer=tokenizer, **loading)
    return infused.model, infused.collator(max_length=_longest(infused.model, tokenizer, host)), infused


def _longest(model: Any, tokenizer: Any, host: Host) -> int:
    longest = longest_input(model, tokenizer)
    return longest if host.max_length is None else min(longest, host.max_length)


def _selecting(bench: Bench, arm: Arm, sources: list[Source], data: Data) -> list[Source]:
    """Return sources that select, by what was counted in the training part."""
    from infuser.sources import Selective
    from infuser.sources.entity_statistics import count_entities

    found = [one for example in data.train for one in _of_rows(example["annotations"])]
    strategy = make_sampling(bench, arm, count_entities(found))
    return [Selective(source, strategy) for source in sources]


def _of_rows(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def _gold(task: Task, example: dict[str, Any]) -> Any:
    """Return the right answer to an example; None for one of a hidden test part."""
    try:
        return task.gold(example)
    except KeyError:
        return None
