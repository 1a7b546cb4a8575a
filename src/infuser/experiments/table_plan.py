"""What a bench is going to do, read from its settings: names, seeds, tasks that judge, and what papers report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

from infuser.errors import InputError
from infuser.experiments.table_published import Published, check_told
from infuser.stats.resampling import Judge


class TaskEntry(Protocol):
    """A task as a bench's settings have it."""

    @property
    def kind(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class TaskPlan:
    """A task by the name that the bench gives it."""

    name: str
    judge: Judge
    """The task itself, which needs no data for judging."""
    metrics: tuple[str, ...]
    learns: bool
    """What does not learn answers the same with every seed, so it is run with the first only."""

    def higher_is_better(self, metric: str) -> bool:
        """Tell whether more of a metric is better."""
        from infuser.stats.metrics import METRICS

        return metric not in METRICS or METRICS[metric].higher_is_better


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

    def seeds_of(self, task: str) -> tuple[int, ...]:
        """Return the seeds with which a task is run."""
        return self.seeds if self.tasks[task].learns else self.seeds[:1]

    @property
    def n_cells(self) -> int:
        """How many results there will be."""
        return len(self.hosts) * len(self.methods) * sum(len(self.seeds_of(task)) for task in self.tasks)


def plan_of(settings: Mapping[str, Any], results: Sequence[Mapping[str, Any]] = ()) -> Plan:
    """Read the settings that `Bench.to_json` returned.

    Methods that only results know, such as those of a sweep, come after the others.
    """
    missing = [part for part in ("hosts", "arms", "tasks", "seeds", "baseline") if not settings.get(part)]
    if missing:
        raise InputError(f"These settings have no {missing[0]}. Give what Bench.to_json returns.")
    tasks = {name: _task(name, entry["kind"], entry["settings"]) for name, entry in settings["tasks"].items()}
    return Plan(
        title=settings["title"],
        baseline=settings["baseline"],
        seeds=tuple(settings["seeds"]),
        hosts=tuple(settings["hosts"]),
        methods=tuple(dict.fromkeys([*settings["arms"], *(result["cell"]["method"] for result in results)])),
        tasks=tasks,
        average=settings["average"],
        published=Published.read(settings["published"], settings["baseline"], _metrics(tasks)),
    )


def check_published(published: Mapping[str, Any], tasks: Mapping[str, TaskEntry]) -> None:
    """Refuse published numbers that cannot be meant, with their place; `tasks` are those of a bench."""
    check_told(published, _metrics({name: _task(name, entry.kind, entry.settings) for name, entry in tasks.items()}))


def _metrics(tasks: Mapping[str, TaskPlan]) -> dict[str, tuple[str, ...]]:
    return {name: task.metrics for name, task in tasks.items()}


def _task(name: str, kind: str, settings: Mapping[str, Any]) -> TaskPlan:
    import infuser.tasks.catalogue  # noqa: F401  # enters the classes into the registry
    from infuser.registry import TASKS

    cls = TASKS[kind]
    known = {field.name: settings[field.name] for field in fields(cls) if field.init and field.name in settings}
    task = cls(**{"data": "", **known})
    return TaskPlan(name, task, tuple(task.metrics), task.learns)
