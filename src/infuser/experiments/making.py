"""What the entries of a settings file name, made: tasks, sources, methods, training; and all of it checked at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import infuser.tasks.catalogue  # noqa: F401  # enters the tasks into the registry
from infuser.errors import InputError
from infuser.experiments.settings import Arm, Bench, TaskEntry, check_names
from infuser.registry import METHODS, TASKS
from infuser.tasks.base import Task
from infuser.tasks.official import is_datasets_name
from infuser.types import Source

if TYPE_CHECKING:
    from infuser.sources import Sampling
    from infuser.training import TrainSettings

_OF_TRIALS = "n_train"
"""A key of [tune] that is no setting of training."""


def make_task(bench: Bench, entry: TaskEntry) -> Task:
    """Return the task that an entry names; its paths start from where the settings file lies."""
    cls = TASKS[entry.kind]
    check_names(entry.settings, [field.name for field in fields(cls)], f"[task.{entry.name}]: {entry.kind}")
    if "data" not in entry.settings:
        raise InputError(f"[task.{entry.name}] has no data. Give a folder, or datasets:NAME.")
    placed = {
        name: str(Path(bench.folder) / value)
        for name, value in entry.settings.items()
        if name in cls.paths and isinstance(value, str) and not is_datasets_name(value)
    }
    task: Task = cls(**{**entry.settings, **placed})
    return task


def make_sources(bench: Bench, arm: Arm) -> list[Source]:
    """Return the sources that a method reads."""
    from infuser.sources import Candidates, KnowledgeBase
    from infuser.sources.naming import from_entry

    made: list[Source] = []
    for name in arm.sources:
        entry, where, folder = bench.sources[name], f"[source.{name}]", Path(bench.folder)
        if entry.get("kind") != "knowledge-base":
            made.append(from_entry(entry, where, folder))
            continue
        if not {"candidates", "vectors"} <= entry.keys():
            raise InputError(f"{where} needs candidates = DIR and vectors = DIR, which infuser builds.")
        more = {key: value for key, value in entry.items() if key not in ("kind", "candidates", "vectors")}
        candidates = Candidates(str(folder / entry["candidates"]))
        made.append(KnowledgeBase(candidates, folder / entry["vectors"], **{"missing": "skip", **more}))
    return made


def make_method(arm: Arm) -> Any:
    """Return the method of an arm, None for the plain encoder."""
    if arm.kind is None:
        return None
    import infuser.methods
    from infuser.methods.kar import EVERY_CANDIDATE

    cls = METHODS[arm.kind]
    check_names(arm.settings, [field.name for field in fields(cls)], f"[method.{arm.name}]: {arm.kind}")
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in arm.settings.items()}
    if cls is infuser.methods.Kar:
        settings.setdefault("threshold", EVERY_CANDIDATE)
    try:
        return cls(**settings)
    except TypeError as error:
        raise InputError(f"[method.{arm.name}]: {error}.") from error


def make_training(bench: Bench, task: str, more: Mapping[str, Any]) -> TrainSettings:
    """Return the training settings of a task, with what a seed or a trial adds to them."""
    from infuser.training import TrainSettings

    given = {**bench.train, **bench.tasks[task].train, **more}
    given.pop(_OF_TRIALS, None)
    check_names(given, [field.name for field in fields(TrainSettings)], "[train]")
    try:
        return TrainSettings(**given)
    except TypeError as error:
        raise InputError(f"[train]: {error}.") from error


def make_sampling(bench: Bench, arm: Arm, frequencies: Mapping[str, int]) -> Sampling:
    """Return by what an arm selects: the paper's sampling, with its settings."""
    from infuser.sources import Sampling

    given: Any = {} if arm.select == "sampling" else arm.select
    if not isinstance(given, Mapping):
        raise InputError(f"[method.{arm.name}]: select is {arm.select!r}; it can be 'sampling' or a table of settings.")
    known = [field.name for field in fields(Sampling) if field.init]
    check_names(given, known, f"[method.{arm.name}]: select")
    settings = dict(given)
    if isinstance(settings.get("graph"), str):
        settings["graph"] = str(Path(bench.folder) / settings["graph"])
    return Sampling(**{"frequencies": frequencies, **settings})


def check(bench: Bench) -> None:
    """Make all that a bench names, so that what is wrong with the last cell shows before the first is trained."""
    from infuser.experiments.cells import grid, trial_settings
    from infuser.experiments.data import read_data
    from infuser.experiments.published import check_published
    from infuser.experiments.summary import judging_task
    from infuser.methods.spectral import Spectral

    tasks = {name: judging_task(entry.kind, entry.settings) for name, entry in bench.tasks.items()}
    check_published(bench.published, {name: task.metrics for name, task in tasks.items()})
    for arm in bench.arms.values():
        make_method(arm)
        make_sources(bench, arm)
        if arm.select is not None:
            make_sampling(bench, arm, {})
        if arm.spectral is not None:
            Spectral(arm.spectral)
    for name, entry in bench.tasks.items():
        task = make_task(bench, entry)
        for more in [{}, *({**trial_settings(bench), **trial} for trial in grid(bench))]:
            make_training(bench, name, more)
        for arm in bench.arms.values():
            if not task.takes_annotations and (arm.placebo or arm.select is not None or arm.spectral is not None):
                raise InputError(
                    f"[method.{arm.name}] cannot be used for [task.{name}]: {entry.kind} asks the sources itself, so "
                    "there is no placebo, no selection and no penalty. Leave one of the two out."
                )
        data = read_data(task, entry)
        if task.learns and grid(bench) and not data.held_out:
            raise InputError(f"Nothing is held out of {name}, so nothing can be tuned. Set hold_out, or drop [tune].")
