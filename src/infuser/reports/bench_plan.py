"""What a bench is going to do, read from its settings: names, tasks that judge, and the numbers that papers report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from infuser.errors import InputError
from infuser.reports.bench_resampling import Judge

_TOLD = ("from", "note", "scale")
_OF_A_MODEL = ("n_weights", "flops")
"""What a published table says of a model besides its scores."""


@dataclass(frozen=True)
class TaskPlan:
    """A task by the name that the bench gives it."""

    name: str
    kind: str
    judge: Judge
    """The task itself, which needs no data for judging."""
    metrics: tuple[str, ...]

    def higher_is_better(self, metric: str) -> bool:
        """Tell whether more of a metric is better."""
        from infuser.tasks.metrics import METRICS

        return metric not in METRICS or METRICS[metric].higher_is_better


@dataclass(frozen=True)
class Published:
    """The numbers of a paper: {host: {method: {task: number, or {metric: number}}}}, besides average and n_weights."""

    baseline: str
    tasks: Collection[str]
    numbers: Mapping[str, Mapping[str, Mapping[str, Any]]]
    scale: float = 1.0
    source: str = ""
    note: str = ""

    def of(self, host: str, method: str, task: TaskPlan, metric: str) -> tuple[float | None, float | None]:
        """Return the number of a task's metric on our scale, and its difference to the published baseline."""
        return self._with_difference(host, method, lambda row: _number(row.get(task.name), task.metrics, metric))

    def average(self, host: str, method: str, name: str) -> tuple[float | None, float | None]:
        """Return the published average; none if the bench runs a part of its tasks only."""
        left_out = set(self.numbers.get(host, {}).get(method, {})) - {*self.tasks, *_OF_A_MODEL, name}
        if any(not key.startswith("average") for key in left_out):
            return None, None
        return self._with_difference(host, method, lambda row: row.get(name))

    def n_weights(self, host: str, method: str) -> int | None:
        """Return how many weights the paper's model has."""
        number = self.numbers.get(host, {}).get(method, {}).get("n_weights")
        return None if number is None else int(number)

    def only_published(self, host: str, run: Collection[str]) -> list[str]:
        """Return the methods of a host that the paper has and the bench does not run, if any of its tasks are here."""
        rows = self.numbers.get(host, {})
        return [name for name, row in rows.items() if name not in run and self._is_about_us(row)]

    def only_published_hosts(self, run: Collection[str]) -> list[str]:
        """Return the hosts that the paper has and the bench does not run."""
        return [host for host in self.numbers if host not in run]

    def _is_about_us(self, row: Mapping[str, Any]) -> bool:
        return not row.keys().isdisjoint(self.tasks)

    def _with_difference(self, host: str, method: str, find: Any) -> tuple[float | None, float | None]:
        rows = self.numbers.get(host, {})
        own, base = (find(rows.get(name, {})) for name in (method, self.baseline))
        if own is None:
            return None, None
        apart = None if base is None or method == self.baseline else (own - base) / self.scale
        return own / self.scale, apart


@dataclass(frozen=True)
class Plan:
    """What a bench runs, in the order of its settings."""

    title: str
    baseline: str
    seeds: tuple[int, ...]
    hosts: tuple[str, ...]
    methods: tuple[str, ...]
    tasks: Mapping[str, TaskPlan]
    average: bool
    published: Published


def plan_of(settings: Mapping[str, Any], results: Sequence[Mapping[str, Any]] = ()) -> Plan:
    """Read the settings: as their file has them ([host], [method], [task]), or as `Bench.to_json` does.

    Methods that only results know, such as those of a sweep, come after the others.
    """
    told = {part: settings.get(part, settings.get(single, {})) for part, single in _SPELLINGS}
    methods = dict.fromkeys([*told["arms"], *(result["cell"]["method"] for result in results)])
    tasks = {name: _task(name, table) for name, table in told["tasks"].items()}
    if not methods or not tasks or not told["hosts"]:
        raise InputError("These settings name no host, no method or no task, so there is no table of them.")
    baseline = str(settings.get("baseline") or next(iter(methods)))
    return Plan(
        title=str(settings.get("title", "Bench")),
        baseline=baseline,
        seeds=tuple(settings.get("seeds", (0, 1, 2))),
        hosts=tuple(told["hosts"]),
        methods=tuple(methods),
        tasks=tasks,
        average=bool(settings.get("average", False)),
        published=_published(settings.get("published", {}), baseline, tasks),
    )


_SPELLINGS = (("hosts", "host"), ("arms", "method"), ("tasks", "task"))


def _task(name: str, table: Mapping[str, Any]) -> TaskPlan:
    import infuser.tasks.catalogue  # noqa: F401  # enters the classes into the registry
    from infuser.registry import TASKS

    kind = str(table.get("kind", name))
    cls = TASKS[kind]
    given = table.get("settings", table)  # apart from what is the bench's own
    known = {field.name: given[field.name] for field in fields(cls) if field.init and field.name in given}
    task = cls(**{"data": "", **known})
    return TaskPlan(name, kind, task, tuple(task.metrics))


def _published(told: Mapping[str, Any], baseline: str, tasks: Collection[str]) -> Published:
    numbers = {host: rows for host, rows in told.items() if host not in _TOLD}
    source, note = str(told.get("from", "")), str(told.get("note", ""))
    return Published(baseline, tasks, numbers, float(told.get("scale", 1.0)), source, note)


def _number(said: Any, metrics: Sequence[str], metric: str) -> float | None:
    """Return a published number; a bare one is of the task's first metric."""
    if isinstance(said, Mapping):
        said = said.get(metric)
    elif metric != metrics[0]:
        return None
    return None if said is None else float(said)
