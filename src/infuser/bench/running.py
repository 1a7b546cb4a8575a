"""One cell, from its settings to its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import set_seed

from infuser import __version__, assets
from infuser.bench.cells import Cell, Results, best_trial, grid, made_with, trial_settings, trials_of
from infuser.bench.data import Data, make_sources, make_task, marks_of, read_data, some, with_knowledge
from infuser.bench.memory import forget_peak, peak_mib
from infuser.bench.settings import Arm, Bench, Host
from infuser.digests import digest_of
from infuser.errors import InfuserError, InputError
from infuser.infused import Infused, infuse, load_model, load_tokenizer, longest_input
from infuser.methods.kar import EVERY_CANDIDATE, Kar
from infuser.methods.spectral import Spectral
from infuser.registry import METHODS
from infuser.reports.report import installed_versions
from infuser.signals import Collator
from infuser.steps import StepReport, make_accelerator
from infuser.tasks.base import Task
from infuser.tasks.metrics import METRICS
from infuser.training import TrainSettings
from infuser.types import Source

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
            data = with_knowledge(self.data, sources, placebo=arm.placebo, cache=self.cache)
            self._known[key] = (_selected(arm, sources, data, Path(self.bench.folder)), marks, data)
        return self._known[key]


def run_cell(workshop: Workshop, cell: Cell, tell: Tell) -> dict[str, Any]:
    """Train and score one cell, and return its result."""
    bench = workshop.at(cell.task).bench
    arm, task, host = bench.arms[cell.method], workshop.task, bench.hosts[cell.host]
    settings, tuned = _settings(workshop, cell)
    set_seed(cell.seed)  # the new head starts the same for every method
    started = time.perf_counter()
    sources: list[Source] = []
    marks: list[str] = []
    data = workshop.data
    if arm.kind is not None:
        sources, marks, data = workshop.knowledge(arm)
    prepared = time.perf_counter()
    forget_peak()
    model, collator, infused = _make(task, host, arm, sources, Path(bench.folder))
    held_out, scored = data.held_out or None, data.score
    if cell.trial is not None:
        if not held_out:
            raise InputError(f"Nothing is held out of {cell.task}, so nothing can be tuned. Set hold_out.")
        scored = data.held_out
    few = trial_settings(bench).get("n_train") if cell.trial is not None else None
    solved = task.solve(
        model,
        collator,
        some(data.train, few),
        scored,
        dev=held_out,
        settings=settings,
        progress=lambda report: tell(cell, report),
        spectral=None if arm.spectral is None else Spectral(arm.spectral),
    )
    ended = time.perf_counter()
    golds = [_gold(task, example) for example in scored]
    labelled = all(gold is not None for gold in golds)
    return {
        "cell": asdict(cell),
        "digest": digest_of(made_with(bench, cell)),
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
        "scores": task.score(golds, solved.predictions) if labelled else {},
        "notes": task.notes(golds, solved.predictions) if labelled else {},
        "golds": golds,
        "predictions": solved.predictions,
        "history": solved.history,
    }


def tuned_settings(workshop: Workshop, cell: Cell) -> dict[str, Any]:
    """Return the settings of the trial that was best on what is held out; none where nothing is tuned."""
    trials = grid(workshop.bench)
    if cell.trial is not None or not trials or not workshop.at(cell.task).task.learns:
        return {} if cell.trial is None else trials[cell.trial]
    results = [workshop.results.read(workshop.bench, one) for one in trials_of(workshop.bench, cell)]
    finished = [result for result in results if result is not None]
    if len(finished) < len(trials):
        raise InfuserError(f"{cell} cannot be trained before its {len(trials)} trials are finished.")
    metric = workshop.task.metrics[0]
    better = METRICS[metric].higher_is_better if metric in METRICS else True
    return trials[best_trial(finished, metric=metric, higher_is_better=better)]


def _settings(workshop: Workshop, cell: Cell) -> tuple[TrainSettings, dict[str, Any]]:
    entry = workshop.bench.tasks[cell.task]
    tuned = tuned_settings(workshop, cell)
    given = {**workshop.bench.train, **entry.train, "seed": cell.seed}
    if cell.trial is not None:
        given |= {name: value for name, value in trial_settings(workshop.bench).items() if name != "n_train"}
    given |= tuned
    known = {field.name for field in fields(TrainSettings)}
    for name in given:
        if name not in known:
            raise InputError(f"[train] has no setting {name!r}. Known: {', '.join(sorted(known))}.")
    return TrainSettings(**given), tuned


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
    if host.random_weights:
        known = load_model(checkpoint, task.head, **options)
        given: Any = type(known)(known.config)
    else:
        given = checkpoint
    tokenizer = load_tokenizer(checkpoint)
    if arm.kind is None:
        model = load_model(checkpoint, task.head, **options) if given is checkpoint else given
        return model, Collator(tokenizer, max_length=_longest(model, tokenizer, host)), None
    if given is checkpoint:
        infused = infuse(given, _method(arm), sources=sources, task=task.head, tokenizer=tokenizer, **options)
    else:
        infused = infuse(given, _method(arm), sources=sources, tokenizer=tokenizer)
    return infused.model, infused.collator(max_length=_longest(infused.model, tokenizer, host)), infused


def _longest(model: Any, tokenizer: Any, host: Host) -> int:
    longest = longest_input(model, tokenizer)
    return longest if host.max_length is None else min(longest, host.max_length)


def _method(arm: Arm) -> Any:
    cls = METHODS[arm.kind or ""]
    known = [field.name for field in fields(cls)]
    for name in arm.settings:
        if name not in known:
            raise InputError(f"[method.{arm.name}]: {arm.kind} has no setting {name!r}. Known: {', '.join(known)}.")
    settings = _tuples(arm.settings)
    if cls is Kar:
        settings.setdefault("threshold", EVERY_CANDIDATE)
    return cls(**settings)


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def _selected(arm: Arm, sources: list[Source], data: Data, folder: Path) -> list[Source]:
    """Return sources that select, by what was counted in the training part."""
    if arm.select is None:
        return sources
    from infuser.sources import Sampling, Selective
    from infuser.sources.surroundings import count_entities

    given = {} if arm.select == "sampling" else arm.select
    known = [field.name for field in fields(Sampling) if field.init]
    if not isinstance(given, Mapping) or not given.keys() <= set(known):
        raise InputError(
            f"[method.{arm.name}]: select is {arm.select!r}; it can be 'sampling', or a table of its settings: "
            f"{', '.join(known)}."
        )
    settings = dict(given)
    if "graph" in settings:
        settings["graph"] = str(folder / settings["graph"])
    found = [one for example in data.train for one in _of_rows(example["annotations"])]
    strategy = Sampling(**{"frequencies": count_entities(found), **settings})
    return [Selective(source, strategy) for source in sources]


def _of_rows(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def _gold(task: Task, example: dict[str, Any]) -> Any:
    """Return the right answer to an example; None for one of a hidden test part."""
    try:
        return task.gold(example)
    except KeyError:
        return None
