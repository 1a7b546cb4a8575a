"""The table of a bench: the scores of every method on every task, differences to the baseline, and published numbers.

Results are plain values, one JSON result per cell. A run that is not finished has a table, too, with what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.experiments.bench_table import BenchRow, BenchTable, Column, Entry, Measure
from infuser.experiments.published import Published
from infuser.experiments.summary_notes import Result, notes_on, versions_of
from infuser.stats.comparison import Difference, paired_difference
from infuser.stats.intervals import bootstrap, t_interval

if TYPE_CHECKING:
    from infuser.experiments.settings import Bench
    from infuser.tasks.base import Task

Rounds: TypeAlias = NDArray[np.float64]
"""One value per bootstrap round."""
_Key: TypeAlias = tuple[str, str, str, int]
"""Host, method, task, seed."""


@dataclass(frozen=True)
class Average:
    """A weighted sum of scores; linear, so the average of differences is the difference of averages."""

    name: str
    weights: Mapping[tuple[str, str], float]
    """By task and metric."""

    def by_seed(self, scores: Mapping[tuple[str, str], Mapping[int, float]]) -> dict[int, float]:
        """Return the average of every seed that has all scores."""
        columns = [scores[key] for key in self.weights]
        seeds = [seed for seed in columns[0] if all(seed in column for column in columns)]
        return {seed: sum(weight * scores[key][seed] for key, weight in self.weights.items()) for seed in seeds}

    def of_rounds(self, rounds: Mapping[tuple[str, str], Rounds | None]) -> Rounds | None:
        """Return the average in every bootstrap round, as many as all metrics have; None if one has none."""
        columns = [(weight, rounds[key]) for key, weight in self.weights.items()]
        known = [(weight, values) for weight, values in columns if values is not None]
        if len(known) < len(columns):
            return None
        n_rounds = min(len(values) for _, values in known)
        return np.asarray(sum(weight * values[:n_rounds] for weight, values in known))


@dataclass(frozen=True)
class Plan:
    """A bench with what its table needs besides the settings."""

    bench: Bench
    methods: tuple[str, ...]
    """Those of the settings; methods that only results have, such as those of a sweep, come after them."""
    tasks: Mapping[str, Task]
    """By the names that the bench gives them; they judge predictions, which needs no data."""
    metrics: Mapping[str, tuple[str, ...]]
    """Of each task, the main one first."""
    averages: tuple[Average, ...]
    published: Published

    @classmethod
    def of(cls, bench: Bench, results: Sequence[Result]) -> Plan:
        """Return the plan of a bench and the results that there are so far."""
        tasks = {name: judging_task(entry.kind, entry.settings) for name, entry in bench.tasks.items()}
        metrics = {name: _metrics(name, task, results) for name, task in tasks.items()}
        methods = tuple(dict.fromkeys([*bench.arms, *(result["cell"]["method"] for result in results)]))
        averages = tuple(_averages(metrics)) if bench.average else ()
        return cls(bench, methods, tasks, metrics, averages, Published.read(bench.published, bench.baseline, metrics))

    def seeds_of(self, task: str) -> tuple[int, ...]:
        """Return the seeds with which a task is run."""
        return self.bench.seeds if self.tasks[task].learns else self.bench.seeds[:1]

    @property
    def n_cells(self) -> int:
        """How many results there will be."""
        return len(self.bench.hosts) * len(self.methods) * sum(len(self.seeds_of(task)) for task in self.tasks)


def _metrics(name: str, task: Task, results: Sequence[Result]) -> tuple[str, ...]:
    """Return the metrics of a task; those of a table depend on its labels, which only results know."""
    scored = [result for result in results if result["cell"]["task"] == name and result["scores"]]
    if scored and all(task.metrics[0] not in result["scores"] for result in scored):
        return tuple(scored[0]["metrics"])
    return task.metrics


def judging_task(kind: str, settings: Mapping[str, Any]) -> Task:
    """Return a task that judges predictions; it cannot read data."""
    import infuser.tasks.catalogue  # noqa: F401  # enters the classes into the registry
    from infuser.registry import TASKS

    cls = TASKS[kind]
    known = {field.name: settings[field.name] for field in fields(cls) if field.init and field.name in settings}
    task: Task = cls(**{"data": "", **known})
    return task


def _averages(metrics: Mapping[str, Sequence[str]]) -> list[Average]:
    """Return GLUE's averages where all of its tasks are there, else the plain mean of the main metrics."""
    from infuser.tasks.glue_totals import glue_average

    keys = [(task, metric) for task, of_task in metrics.items() for metric in of_task]
    found = []
    for name, with_wnli in (("average", False), ("average with WNLI", True)):
        try:
            # an average is linear: the average of 1 at one place and 0 elsewhere is the weight of that place
            weights = {
                key: glue_average(
                    {task: {metric: float((task, metric) == key) for metric in of} for task, of in metrics.items()},
                    with_wnli=with_wnli,
                )
                for key in keys
            }
        except InputError:  # it names the tasks that are not there
            continue
        found.append(Average(name, {key: weight for key, weight in weights.items() if weight}))
    firsts = {(task, of_task[0]): 1 / len(metrics) for task, of_task in metrics.items()}
    return found or [Average("average", firsts)]


def summarise(bench: Bench, results: Sequence[Result], *, rounds: int = 1000) -> BenchTable:
    """Return the table of a bench and the results of its cells that there are so far."""
    plan = Plan.of(bench, results)
    cells, published = _by_cell(plan, results), plan.published
    rows: list[BenchRow] = []
    for host in dict.fromkeys([*bench.hosts, *published.numbers]):
        of_task = {name: _OneTask(plan, name, host, cells, rounds) for name in plan.tasks}
        run = plan.methods if host in bench.hosts else ()
        rows += [_row(plan, host, method, of_task) for method in run]
        rows += [_row(plan, host, method, of_task, runs=False) for method in published.only_published(host, run)]
    return BenchTable(
        title=bench.title,
        baseline=bench.baseline,
        scale=published.scale,
        columns=tuple(_columns(plan, cells)),
        rows=tuple(rows),
        n_cells=plan.n_cells,
        n_missing=plan.n_cells - len(cells),
        rounds=rounds,
        source=published.source,
        notes=tuple(notes_on(plan, list(cells.values()))),
        versions=versions_of(list(cells.values())),
    )


def _by_cell(plan: Plan, results: Sequence[Result]) -> dict[_Key, Result]:
    """Return the results of this bench's cells; two different ones of the same cell are an error."""
    cells: dict[_Key, Result] = {}
    for result in results:
        cell = result["cell"]
        key = (cell["host"], cell["method"], cell["task"], cell["seed"])
        if key[0] not in plan.bench.hosts or key[1] not in plan.methods or key[2] not in plan.tasks:
            continue
        if key[3] not in plan.seeds_of(key[2]):
            continue
        if key in cells and cells[key]["digest"] != result["digest"]:
            raise InputError(
                f"Two results are of {', '.join(map(str, key))}, with the digests {cells[key]['digest']} and "
                f"{result['digest']}: their settings differ. Give the results of one run's settings."
            )
        cells[key] = result
    return cells


def _columns(plan: Plan, cells: Mapping[_Key, Result]) -> list[Column]:
    columns = []
    for name, task in plan.tasks.items():
        split = next((cell["data"]["score"]["split"] for key, cell in cells.items() if key[2] == name), None)
        columns.append(Column(name, plan.metrics[name], split, task.learns))
    learns = any(task.learns for task in plan.tasks.values())
    return columns + [Column(average.name, ("mean",), learns=learns) for average in plan.averages]


class _OneTask:
    """The cells of one task with one host, and every difference to the baseline among them."""

    def __init__(self, plan: Plan, name: str, host: str, cells: Mapping[_Key, Result], rounds: int) -> None:
        self.plan, self.name, self.task, self.host = plan, name, plan.tasks[name], host
        self.seeds = plan.seeds_of(name)
        self.cells = {
            (method, seed): cells[host, method, name, seed]
            for method in plan.methods
            for seed in self.seeds
            if (host, method, name, seed) in cells
        }
        self.resampled = {metric: self._resample(metric, rounds) for metric in plan.metrics[name]}

    def scores(self, method: str, metric: str) -> dict[int, float]:
        """Return the scores of a method by seed; without cells that are missing or whose right answers are hidden."""
        own = {seed: cell["scores"] for (name, seed), cell in self.cells.items() if name == method}
        return {seed: float(scores[metric]) for seed, scores in own.items() if metric in scores}

    def scores_of_all_seeds(self, method: str, metric: str) -> dict[int, float]:
        """Return the score with each seed; a task that does not learn has the same with all of them."""
        reached = self.scores(method, metric)
        if self.task.learns or not reached:
            return reached
        return dict.fromkeys(self.plan.bench.seeds, reached[self.plan.bench.seeds[0]])

    def entry(self, method: str) -> Entry:
        """Return the scores of a method on this task."""
        own = [cell for (name, _), cell in self.cells.items() if name == method]
        return Entry(
            self.name,
            tuple(self._measure(method, metric) for metric in self.plan.metrics[self.name]),
            n_missing=len(self.seeds) - len(own),
            extra_weights=max((cell["extra_weights"] for cell in own), default=None),
            seconds=float(np.mean([_seconds(cell) for cell in own])) if own else None,
            peak_mib=max((cell["peak_mib"] for cell in own if cell.get("peak_mib") is not None), default=None),
        )

    def rounds_apart(self, method: str, metric: str, seeds: Sequence[int]) -> Rounds | None:
        """Return a method's difference to the baseline in every bootstrap round, the mean over these seeds."""
        rounds = self.resampled[metric]
        seeds = seeds if self.task.learns else self.seeds
        pairs = [((method, seed), (self.plan.bench.baseline, seed)) for seed in seeds]
        if not pairs or not all(one in rounds and other in rounds for one, other in pairs):
            return None
        return np.asarray(np.mean([rounds[one] - rounds[other] for one, other in pairs], axis=0))

    def _measure(self, method: str, metric: str) -> Measure:
        reached, base = self.scores(method, metric), self.scores(self.plan.bench.baseline, metric)
        difference = None
        if method != self.plan.bench.baseline and (apart := _apart(reached, base)):
            rounds = self.rounds_apart(method, metric, list(apart))
            better = self.task.get_metric(metric).higher_is_better
            difference = paired_difference(
                method, self.plan.bench.baseline, list(apart.values()), rounds, higher_is_better=better
            )
        return _measured(metric, reached, difference, self.plan.published.of(self.host, method, self.name, metric))

    def _resample(self, metric: str, rounds: int) -> dict[tuple[str, int], Rounds]:
        """Return the bootstrap rounds of every cell that was scored on the same examples as the baseline."""
        golds = next(
            (cell["golds"] for (method, _), cell in self.cells.items() if method == self.plan.bench.baseline), None
        )
        fit = [key for key, cell in self.cells.items() if metric in cell["scores"] and cell["golds"] == golds]
        if not golds or len({method for method, _ in fit}) < 2:
            return {}
        runs = [self.cells[key]["predictions"] for key in fit]
        groups = self.task.dependent_groups(golds)
        values = bootstrap(self.task.get_metric(metric), runs, golds, groups=groups, rounds=rounds)
        return {key: values[:, at] for at, key in enumerate(fit)}


def _row(plan: Plan, host: str, method: str, of_task: Mapping[str, _OneTask], *, runs: bool = True) -> BenchRow:
    """Return the scores of a method with a host; without `runs` only papers have it."""
    entries = [task.entry(method) for task in of_task.values()]
    n_missing = sum(entry.n_missing for entry in entries)
    entries += [_average(plan, average, host, method, of_task, n_missing) for average in plan.averages]
    if not runs:
        entries = [replace(entry, n_missing=0) for entry in entries]
    return BenchRow(host, method, tuple(entries), runs, plan.published.n_weights(host, method))


def _average(
    plan: Plan, average: Average, host: str, method: str, of_task: Mapping[str, _OneTask], n_missing: int
) -> Entry:
    """Return the average of a method over the seeds that have all tasks."""
    reached, base = (
        average.by_seed({key: of_task[key[0]].scores_of_all_seeds(who, key[1]) for key in average.weights})
        for who in (method, plan.bench.baseline)
    )
    difference = None
    if method != plan.bench.baseline and (apart := _apart(reached, base)):
        rounds = average.of_rounds(
            {key: of_task[key[0]].rounds_apart(method, key[1], list(apart)) for key in average.weights}
        )
        difference = paired_difference(method, plan.bench.baseline, list(apart.values()), rounds)
    published = plan.published.average(host, method, average.name)
    return Entry(average.name, (_measured("mean", reached, difference, published),), n_missing)


def _measured(
    metric: str,
    reached: Mapping[int, float],
    difference: Difference | None,
    published: tuple[float | None, float | None],
) -> Measure:
    values = tuple(reached.values())
    mean = float(np.mean(values)) if values else None
    return Measure(metric, tuple(reached), values, mean, t_interval(values), difference, *published)


def _apart(reached: Mapping[int, float], base: Mapping[int, float]) -> dict[int, float]:
    """Return the differences on the seeds that both have."""
    return {seed: value - base[seed] for seed, value in reached.items() if seed in base}


def _seconds(cell: Result) -> float:
    """Return the time of training and answering; annotating is done once for all and left out."""
    taken = cell["seconds"]
    both = [taken[part] for part in ("training", "answering") if part in taken]
    return float(sum(both)) if both else float(taken["total"])
