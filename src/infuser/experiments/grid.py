"""A bench is a grid of cells: hosts x arms x tasks x seeds, and the trials that tune each arm."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import infuser.tasks.catalogue  # noqa: F401  # enters the tasks into the registry
from infuser.errors import InputError
from infuser.experiments.arm import SAMPLING, Arm, Host, check_names, make_method, open_base
from infuser.experiments.cell import NOT_DECISIVE, Cell, Result, Setup
from infuser.experiments.data import Data
from infuser.experiments.run import run
from infuser.experiments.run_folder import Results
from infuser.experiments.settings import ArmEntry, Bench, TaskEntry
from infuser.files import digest_of, json_of, parse_json, write_whole
from infuser.registry import TASKS
from infuser.stats.metrics import Metric
from infuser.tasks.base import Task
from infuser.tasks.official import is_datasets_name
from infuser.training import TrainSettings
from infuser.types import Source

_TRIAL_SIZE = "n_train"
"""A key of [tune] that is not a training setting."""
_SPLIT = "stratified"
"""Names the rule by which data are held out; cells of an earlier rule have other digests."""


def all_cells(bench: Bench) -> list[Cell]:
    """Return the cells in the order of their computation: seed by seed, so that a stopped bench has whole pairs.

    A task that does not learn answers the same with every seed, so it has one cell.
    """
    return [
        make_cell(bench, host, method, task, seed)
        for task, entry in bench.tasks.items()
        for seed in (bench.seeds if make_task(bench, entry).learns else bench.seeds[:1])
        for host in bench.hosts
        for method in bench.arms
    ]


def planned(bench: Bench) -> list[Cell]:
    """Return all trials and cells in the order in which they are computed, each once."""
    return list(dict.fromkeys(one for cell in all_cells(bench) for one in [*cell.after, cell]))


def make_cell(bench: Bench, host: str, method: str, task: str, seed: int, trial: int | None = None) -> Cell:
    """Return one cell of a bench, with the trials that come before it."""
    after: tuple[Cell, ...] = ()
    if trial is None and trials(bench) and make_task(bench, bench.tasks[task]).learns:
        tuned = bench.arms[method].tuned_as or method
        after = tuple(
            make_cell(bench, host, tuned, task, bench.seeds[0], number) for number in range(len(trials(bench)))
        )
    made_with = _made_with(bench, host, method, task, seed, trial, tuned=bool(after))
    earlier = (digest_of({key: value for key, value in made_with.items() if key != "split"}),)
    opener = partial(_open, bench, host, method, task, seed, trial)
    return Cell(host, method, task, seed, trial, made_with, opener, after, earlier=earlier)


def trials(bench: Bench) -> list[dict[str, Any]]:
    """Return the training settings of each trial; none where nothing is tuned."""
    tried = {name: values for name, values in bench.tune.items() if isinstance(values, list)}
    return [dict(zip(tried, values, strict=True)) for values in itertools.product(*tried.values())] if tried else []


def trial_settings(bench: Bench) -> dict[str, Any]:
    """Return how trials differ from the real thing: fewer epochs, or fewer examples (n_train)."""
    return {name: value for name, value in bench.tune.items() if not isinstance(value, list)}


def best_trial(results: Sequence[Result], metric: Metric) -> int:
    """Return the number of the trial with the best score, the first of equal ones; one that diverged is never it."""
    name = metric.name
    values = {at: one["scores"][name] for at, one in enumerate(results) if name in one["scores"]}
    if not values:
        raise InputError(f"All {len(results)} trials diverged. Try lower learning rates in [tune].")
    return max(values, key=lambda at: (values[at] if metric.higher_is_better else -values[at], -at))


def _made_with(
    bench: Bench, host: str, method: str, task: str, seed: int, trial: int | None, *, tuned: bool
) -> dict[str, Any]:
    """Return all settings that decide the result of a cell, defaults too, without the names people gave them."""
    arm, entry = bench.arms[method], bench.tasks[task]
    of_trial = {} if trial is None else {**trial_settings(bench), **trials(bench)[trial]}
    training = asdict(make_training(bench, task, of_trial))
    reading = {"reading": TASKS[entry.kind].reading} if TASKS[entry.kind].reading else {}
    made: dict[str, Any] = {
        "host": asdict(bench.hosts[host]),
        "method": _describe(bench, arm),
        "task": {key: value for key, value in asdict(entry).items() if key not in ("name", "train")} | reading,
        "train": {key: value for key, value in training.items() if key not in NOT_DECISIVE},
        "seed": seed,
        "split": _SPLIT,
    }
    if trial is not None:
        made |= {"trial": True, "n_train": of_trial.get(_TRIAL_SIZE)}
    elif tuned:
        made |= {
            "trials": trials(bench),
            "smaller": trial_settings(bench),
            "tuned_for": _describe(bench, bench.arms[arm.tuned_as or arm.name]),
            "tuning_seed": bench.seeds[0],
        }
    plain: dict[str, Any] = _same_numbers(made)
    return plain


def _describe(bench: Bench, arm: ArmEntry) -> dict[str, Any]:
    about = {key: value for key, value in asdict(arm).items() if key not in ("name", "tuned_as")}
    settings = {} if arm.kind is None else asdict(make_method(arm.kind, arm.settings, where=f"[method.{arm.name}]"))
    return {**about, "settings": settings, "sources": [dict(bench.sources[name]) for name in arm.sources]}


def _same_numbers(value: Any) -> Any:
    """Return plain values in which 0 and 0.0 are the same."""
    if isinstance(value, dict):
        return {name: _same_numbers(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_same_numbers(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _open(
    bench: Bench,
    host: str,
    method: str,
    task: str,
    seed: int,
    trial: int | None,
    results: Sequence[Result],
    made: dict[Any, Any],
) -> Setup:
    """Make the live parts of a cell; data and arms that `made` holds from an earlier cell are used again."""
    if made.get("task") != task:  # the data of one task at a time
        made.clear()
        made["task"] = task
    entry = bench.tasks[task]
    if "data" not in made:
        made["data"] = read_data(make_task(bench, entry), entry)
    if ("arm", method) not in made:
        made["arm", method] = make_arm(bench, bench.arms[method])
    data: Data = made["data"]
    if trial is None:
        smaller: dict[str, Any] = {}
        tuned = trials(bench)[best_trial(results, data.task.get_metric(data.metric))] if results else {}
    else:
        smaller, tuned = trial_settings(bench), trials(bench)[trial]
    settings = make_training(bench, task, {**smaller, **tuned, "seed": seed})
    checkpoint = Path(bench.folder) / bench.hosts[host].checkpoint
    place = Host(**{**asdict(bench.hosts[host]), **({"checkpoint": str(checkpoint)} if checkpoint.exists() else {})})
    return Setup(place, made["arm", method], data, settings, smaller.get(_TRIAL_SIZE), trial is not None, tuned)


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


def read_data(task: Task, entry: TaskEntry) -> Data:
    """Read the parts of a task as an entry asks for them."""
    try:
        return Data.from_task(
            task,
            score_on=entry.score_on,  # type: ignore[arg-type]
            hold_out=entry.hold_out,
            n_train=entry.n_train,
            n_test=entry.n_score,
        )
    except InputError as error:
        raise InputError(f"[task.{entry.name}]: {error}") from error


def make_arm(bench: Bench, entry: ArmEntry) -> Arm:
    """Return the arm that an entry describes, with its method and its sources."""
    if entry.kind is None:
        return Arm(name=entry.name, spectral=entry.spectral)
    select: Any = entry.select
    if select is not None and select != SAMPLING:
        select = _sampling(bench, entry)
    return Arm(
        make_method(entry.kind, entry.settings, where=f"[method.{entry.name}]"),
        make_sources(bench, entry),
        entry.name,
        select=select,
        spectral=entry.spectral,
        shuffled=entry.placebo,
    )


def make_sources(bench: Bench, entry: ArmEntry) -> list[Source]:
    """Return the sources that an arm reads."""
    from infuser.sources.naming import from_entry

    made: list[Source] = []
    for name in entry.sources:
        table, where, folder = bench.sources[name], f"[source.{name}]", Path(bench.folder)
        if table.get("kind") != "knowledge-base":
            made.append(from_entry(table, where, folder))
            continue
        if not {"candidates", "vectors"} <= table.keys():
            raise InputError(f"{where} needs candidates = DIR and vectors = DIR, which infuser builds.")
        more = {key: value for key, value in table.items() if key not in ("kind", "candidates", "vectors")}
        made.append(open_base(folder / table["candidates"], folder / table["vectors"], **more))
    return made


def _sampling(bench: Bench, entry: ArmEntry) -> dict[str, Any]:
    """Return the settings of the sampling that an arm selects by."""
    from infuser.sources import Sampling

    if not isinstance(entry.select, Mapping):
        raise InputError(
            f"[method.{entry.name}]: select is {entry.select!r}; it can be 'sampling' or a table of settings."
        )
    known = [field.name for field in fields(Sampling) if field.init]
    check_names(entry.select, known, f"[method.{entry.name}]: select")
    settings = dict(entry.select)
    if isinstance(settings.get("graph"), str):
        settings["graph"] = str(Path(bench.folder) / settings["graph"])
    Sampling(**{"frequencies": {}, **settings})  # raises if a setting cannot be used
    return settings


def make_training(bench: Bench, task: str, more: Mapping[str, Any]) -> TrainSettings:
    """Return the training settings of a task, with what a seed or a trial adds to them."""
    given = {**bench.train, **bench.tasks[task].train, **more}
    given.pop(_TRIAL_SIZE, None)
    check_names(given, [field.name for field in fields(TrainSettings)], "[train]")
    try:
        return TrainSettings(**given)
    except TypeError as error:
        raise InputError(f"[train]: {error}.") from error


def run_bench(bench: Bench, folder: Path, **options: Any) -> None:
    """Compute all cells of a bench that have no result yet; `options` go to `run`."""
    plan, results = planned(bench), Results(folder)
    if not all(results.is_finished(cell) for cell in plan):
        check(bench)
    run(plan, folder, **options)


def check(bench: Bench) -> None:
    """Make all that a bench names, so that a mistake in the last cell shows before the first is trained."""
    from infuser.experiments.published import check_published

    metrics = {name: make_task(bench, entry).metrics for name, entry in bench.tasks.items()}
    check_published(bench.published, metrics)
    for arm in bench.arms.values():
        make_arm(bench, arm)
    for name, entry in bench.tasks.items():
        task = make_task(bench, entry)
        for more in [{}, *({**trial_settings(bench), **trial} for trial in trials(bench))]:
            make_training(bench, name, more)
        for arm in bench.arms.values():
            if not task.takes_annotations and (arm.placebo or arm.select is not None or arm.spectral is not None):
                raise InputError(
                    f"[method.{arm.name}] cannot be used for [task.{name}]: {entry.kind} asks the sources itself, so "
                    "there is no placebo, no selection and no penalty. Leave one of the two out."
                )
        data = read_data(task, entry)
        if task.learns and trials(bench) and not data.dev:
            raise InputError(f"Nothing is held out of {name}, so nothing can be tuned. Set hold_out, or drop [tune].")


def keep_settings(folder: Path, bench: Bench, name: str = "bench") -> None:
    """Write the settings of a bench beside its results, complete."""
    write_whole(folder / f"{name}.json", json_of(bench.to_json()))


def read_settings(folder: Path, name: str = "bench") -> Bench:
    """Return the settings that were written beside results."""
    path = folder / f"{name}.json"
    if not path.exists():
        there = ", ".join(sorted(one.stem for one in folder.glob("*.json"))) or "none"
        raise InputError(f"{str(folder)!r} holds no bench called {name!r}. Those it holds: {there}.")
    try:
        return Bench.from_json(parse_json(path, "it"))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error!r}). Run the bench again; finished cells stay.") from error


def read_results(folder: Path, bench: Bench) -> list[Result]:
    """Return the results of all cells of a bench that are finished."""
    results = Results(folder)
    return [result for cell in all_cells(bench) if (result := results.read(cell)) is not None]
