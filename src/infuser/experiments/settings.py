"""The settings file of a bench: which hosts, methods, sources, tasks and seeds, and how all of them are trained.

    title = "KAM on CoLA"
    seeds = [0, 1, 2]
    baseline = "plain"

    [host.minilm]                a hub id, a folder or an asset
    checkpoint = "minilm"

    [source.pmi]                 as in a sources file: kind, file, settings
    kind = "correlation"
    file = "knowledge/pmi"

    [method.plain]               without a kind: the encoder as it is
    [method.kam]
    kind = "kam"
    sources = ["pmi"]
    alpha = 0.2                  any setting of the method; also placebo, select = "sampling", spectral = 0.001
    [method.placebo]
    like = "kam"                 all keys of another method
    placebo = true

    [task.cola]
    kind = "cola"
    data = "data/CoLA"           any field of the task; also score_on, hold_out, n_train, n_score
    [task.cola.train]            what differs from [train] for this task
    epochs = 4

    [train]                      `infuser.TrainSettings`
    learning_rate = 5e-5
    [tune]                       the same trials for every method, judged by what is held out of the training part
    learning_rate = [3e-5, 1e-4]
    epochs = 2                   without a list: how trials differ from the real thing; n_train makes them smaller

    [sweep]                      or [ablate]: see `variations`
    [published]                  what papers report: [published.HOST.METHOD] TASK = number

Paths start from where the file lies.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.experiments.arm import Host, check_names
from infuser.sources.naming import describe_type, has_type
from infuser.tables.rows import read_toml

_TOP = {"title", "seeds", "baseline", "average", "host", "source", "method", "task", "train", "tune", "sweep"}
_TOP |= {"ablate", "published"}


@dataclass(frozen=True)
class ArmEntry:
    """What a settings file says about an arm."""

    name: str
    kind: str | None = None
    """Registered name of the method; None is the plain encoder."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    placebo: bool = False
    """The same knowledge, shuffled between texts."""
    select: str | Mapping[str, Any] | None = None
    """"sampling": inject a part of the knowledge, as selective injection does; a table gives its settings, such as the
    graph in which hops are counted."""
    spectral: float | None = None
    """Weight of the spectral penalty."""
    tuned_as: str | None = None
    """Take over what was tuned for this method; None tunes for itself."""


@dataclass(frozen=True)
class TaskEntry:
    """A task with its data, and which part of them is used."""

    name: str
    kind: str
    settings: Mapping[str, Any]
    """Fields of the task."""
    score_on: str = "dev"
    """The split that is scored."""
    hold_out: float = 0.1
    """What is kept from the training part for choosing epochs and settings: a share, or from 1 on a number."""
    n_train: int | None = None
    """Train on so many examples of what is left, chosen once for all seeds; None on all."""
    n_score: int | None = None
    """Score so many examples; None all."""
    train: Mapping[str, Any] = field(default_factory=dict)
    """What differs from the common training settings."""


@dataclass(frozen=True)
class Bench:
    """All that a settings file says."""

    title: str
    seeds: tuple[int, ...]
    baseline: str
    hosts: Mapping[str, Host]
    arms: Mapping[str, ArmEntry]
    tasks: Mapping[str, TaskEntry]
    sources: Mapping[str, Mapping[str, Any]]
    train: Mapping[str, Any]
    tune: Mapping[str, Any]
    published: Mapping[str, Any]
    average: bool = False
    """Whether a table has a column with the mean over tasks."""
    folder: str = "."
    """Where paths start from."""

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Bench:
        """Return the bench that `to_json` wrote."""
        return cls(
            **{
                **values,
                "seeds": tuple(values["seeds"]),
                "hosts": {
                    name: Host(**{key: value for key, value in one.items() if key != "name"})
                    for name, one in values["hosts"].items()
                },
                "arms": {
                    name: ArmEntry(**{**one, "sources": tuple(one["sources"])}) for name, one in values["arms"].items()
                },
                "tasks": {name: TaskEntry(**one) for name, one in values["tasks"].items()},
            }
        )


def read_bench(path: Path) -> Bench:
    """Read a settings file; what it cannot mean is an error that names the place."""
    from infuser.experiments.variations import expand

    said = read_toml(path, "settings file")
    return expand(make_bench(said, str(path), path.parent), said, str(path))


def make_bench(said: Mapping[str, Any], where: str, folder: Path) -> Bench:
    """Return the bench of settings as TOML reads them, without what a sweep or an ablation adds."""
    check_names(said, _TOP, f"{where}: a bench")
    for part in ("host", "method", "task"):
        if not isinstance(said.get(part), dict) or not said[part]:
            raise InputError(f"{where} names no {part}. Write at least one [{part}.NAME] table.")
    hosts = {name: _host(name, table, where) for name, table in said["host"].items()}
    sources = said.get("source", {})
    arms = {name: _arm(name, said["method"], sources, where) for name in said["method"]}
    tasks = {name: _task(name, table, where) for name, table in said["task"].items()}
    baseline = said.get("baseline", next(iter(arms)))
    if baseline not in arms:
        raise InputError(f"{where}: the baseline {baseline!r} is no method here. Methods: {', '.join(arms)}.")
    seeds = said.get("seeds", [0, 1, 2])
    if not isinstance(seeds, list) or not seeds or not all(type(one) is int and one >= 0 for one in seeds):
        raise InputError(f"{where}: seeds is {seeds!r}; give a list of whole numbers, as in seeds = [0, 1, 2].")
    if len(set(seeds)) != len(seeds):
        raise InputError(f"{where}: seeds is {seeds!r}; a seed that stands twice would count twice.")
    tune = said.get("tune", {})
    for part in ("train", "tune", "published"):
        _check_table(said.get(part, {}), f"{where}: [{part}]")
    if (tune and not any(isinstance(values, list) for values in tune.values())) or [] in tune.values():
        raise InputError(f"{where}: [tune] tries nothing. Give a list of values, as in learning_rate = [3e-5, 1e-4].")
    if not isinstance(tune.get("n_train", 1), int):
        raise InputError(f"{where}: [tune] n_train is {tune['n_train']!r}; give a whole number.")
    return Bench(
        title=str(said.get("title", Path(where).stem)),
        seeds=tuple(seeds),
        baseline=baseline,
        hosts=hosts,
        arms=arms,
        tasks=tasks,
        sources=sources,
        train=said.get("train", {}),
        tune=tune,
        published=said.get("published", {}),
        average=bool(said.get("average", False)),
        folder=str(folder.absolute()),
    )


def only(bench: Bench, *, hosts: Iterable[str] = (), methods: Iterable[str] = (), tasks: Iterable[str] = ()) -> Bench:
    """Return a part of a bench: some hosts, methods, tasks, by name; nothing named is all. The baseline stays."""
    kept: dict[str, Any] = {}
    for part, what, all_of, wanted in (
        ("hosts", "host", bench.hosts, list(hosts)),
        ("arms", "method", bench.arms, list(methods)),
        ("tasks", "task", bench.tasks, list(tasks)),
    ):
        for name in wanted:
            if name not in all_of:
                raise InputError(f"There is no {what} {name!r} in this bench. Known: {', '.join(all_of)}.")
        if part == "arms" and wanted:
            tuned = [bench.arms[name].tuned_as for name in wanted] if bench.tune else []
            wanted = [bench.baseline, *wanted, *(name for name in tuned if name)]
        kept[part] = {name: one for name, one in all_of.items() if not wanted or name in wanted}
    return replace(bench, **kept)


def _host(name: str, table: Any, where: str) -> Host:
    _check_table(table, f"{where}: [host.{name}]")
    check_names(table, {"checkpoint", "max_length", "random_weights"}, f"{where}: [host.{name}]: a host")
    _check_types(table, Host, f"{where}: [host.{name}]")
    if not isinstance(table.get("checkpoint"), str):
        raise InputError(f"{where}: [host.{name}] needs checkpoint = a hub id, a folder, or an asset such as 'minilm'.")
    return Host(**table)


def _arm(name: str, tables: Mapping[str, Any], sources: Mapping[str, Any], where: str) -> ArmEntry:
    place = f"{where}: [method.{name}]"
    table = _resolved(name, tables, place, ())
    own = {
        key: table.pop(key) for key in ("kind", "sources", "placebo", "select", "spectral", "tuned_as") if key in table
    }
    _check_types({key: value for key, value in own.items() if key not in ("kind", "sources")}, ArmEntry, place)
    if not isinstance(own.get("sources", []), list):
        raise InputError(f"{place}: sources is {own['sources']!r}; give a list, as in sources = ['graph'].")
    own["sources"] = tuple(own.get("sources", ()))
    for source in own["sources"]:
        if source not in sources:
            known = ", ".join(sources) or "none"
            raise InputError(f"{place} reads the source {source!r}, but there is no [source.{source}]. Known: {known}.")
    arm = ArmEntry(name, settings=table, **own)
    if arm.kind is None and (table or arm.sources or arm.placebo or arm.select):
        raise InputError(
            f"{place} has {sorted(table) or 'knowledge'} but no kind. Write kind = 'kam', 'kar' or 'ernie'."
        )
    if arm.kind is not None and not arm.sources:
        raise InputError(f"{place} names no sources, so there is nothing to put inside. Write sources = ['...'].")
    if arm.tuned_as is not None and arm.tuned_as not in tables:
        raise InputError(f"{place}: tuned_as names {arm.tuned_as!r}, which is no method here.")
    return arm


def _resolved(name: str, tables: Mapping[str, Any], place: str, seen: tuple[str, ...]) -> dict[str, Any]:
    """Return the keys of a method with those that it takes over from another."""
    if name not in tables or name in seen:
        raise InputError(
            f"{place}: like names {name!r}, which is {'like itself' if name in seen else 'no method here'}."
        )
    table = tables[name]
    _check_table(table, place)
    own = {key: value for key, value in table.items() if key != "like"}
    return {**_resolved(table["like"], tables, place, (*seen, name)), **own} if "like" in table else own


def _task(name: str, table: Any, where: str) -> TaskEntry:
    place = f"{where}: [task.{name}]"
    _check_table(table, place)
    table = dict(table)
    own = {key: table.pop(key) for key in ("score_on", "hold_out", "n_train", "n_score") if key in table}
    if isinstance(table.get("train"), dict):  # a text is the task's own: a file
        own["train"] = table.pop("train")
    _check_types({key: value for key, value in own.items() if key != "train"}, TaskEntry, place)
    kind = table.pop("kind", name)
    entry = TaskEntry(name, kind, table, **own)
    if entry.score_on not in ("train", "dev", "test"):
        raise InputError(f"{place}: score_on is {entry.score_on!r}; it can be 'dev', 'test' or 'train'.")
    if not entry.hold_out >= 0:
        raise InputError(f"{place}: hold_out is {entry.hold_out!r}; give a share, or a number of examples.")
    for count in ("n_train", "n_score"):
        value = getattr(entry, count)
        if value is not None and not (isinstance(value, int) and value >= 1):
            raise InputError(f"{place}: {count} is {value!r}; give a whole number of at least 1.")
    return entry


def _check_table(table: Any, where: str) -> None:
    if not isinstance(table, dict):
        raise InputError(f"{where} is {table!r}, not a table of settings.")


def _check_types(table: Mapping[str, Any], cls: type[Any], where: str) -> None:
    """Raise if a value has a type that the entry does not take."""
    wanted = typing.get_type_hints(cls)
    for name, value in table.items():
        if name in wanted and not has_type(value, wanted[name]):
            raise InputError(f"{where}: {name} is {value!r}; give {describe_type(wanted[name], value)}.")
