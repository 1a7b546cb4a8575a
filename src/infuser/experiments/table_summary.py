"""The table of a bench: what every method reached on every task, how it differs from the baseline, what papers say.

Settings and results are plain values: what `Bench.to_json` returns, and one JSON result per cell. A run that is not
finished has a table, too; it says what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.experiments.table_averages import Average, averages_of
from infuser.experiments.table_notes import notes_on, versions_of
from infuser.experiments.table_parts import BenchTable, Column, Entry, Measure, Row
from infuser.experiments.table_plan import Plan, TaskPlan, plan_of
from infuser.stats.comparison import Difference, paired_difference
from infuser.stats.intervals import t_interval
from infuser.stats.resampling import resampled_scores

Result: TypeAlias = Mapping[str, Any]
"""What one cell wrote."""
Rounds: TypeAlias = NDArray[np.float64]
"""One value per bootstrap round."""
_Key: TypeAlias = tuple[str, str, str, int]
"""Host, method, task, seed."""


def summarise(settings: Mapping[str, Any], results: Sequence[Result], *, rounds: int = 1000) -> BenchTable:
    """Return the table of a bench's settings and the results of its cells that there are so far."""
    plan = plan_of(settings, results)
    cells = _by_cell(plan, results)
    rows: list[Row] = []
    for host in plan.hosts:
        of_task = {name: _OneTask(plan, task, host, cells, rounds) for name, task in plan.tasks.items()}
        rows += [_row(plan, host, method, of_task) for method in plan.methods]
        rows += [_published_row(plan, host, method) for method in plan.published.only_published(host, plan.methods)]
    for host in plan.published.only_published_hosts(plan.hosts):
        rows += [_published_row(plan, host, method) for method in plan.published.only_published(host, ())]
    return BenchTable(
        title=plan.title,
        baseline=plan.baseline,
        scale=plan.published.scale,
        columns=tuple(_columns(plan, cells)),
        rows=tuple(rows),
        n_cells=plan.n_cells,
        n_missing=plan.n_cells - len(cells),
        rounds=rounds,
        source=plan.published.source,
        notes=tuple(notes_on(plan, list(cells.values()))),
        versions=versions_of(list(cells.values())),
    )


def _by_cell(plan: Plan, results: Sequence[Result]) -> dict[_Key, Result]:
    """Return the results of this bench's cells; two different ones of the same cell are an error."""
    cells: dict[_Key, Result] = {}
    for result in results:
        told = result["cell"]
        key = (told["host"], told["method"], told["task"], told["seed"])
        if key[0] not in plan.hosts or key[1] not in plan.methods or key[2] not in plan.tasks:
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
        columns.append(Column(name, task.metrics, split, task.learns))
    learns = any(task.learns for task in plan.tasks.values())
    return columns + [Column(average.name, ("mean",), learns=learns) for average in averages_of(plan)]


class _OneTask:
    """The cells of one task with one host, and every difference to the baseline among them."""

    def __init__(self, plan: Plan, task: TaskPlan, host: str, cells: Mapping[_Key, Result], rounds: int) -> None:
        self.plan, self.task, self.host = plan, task, host
        self.cells = {
            (method, seed): cells[host, method, task.name, seed]
            for method in plan.methods
            for seed in plan.seeds_of(task.name)
            if (host, method, task.name, seed) in cells
        }
        self.resampled = {metric: self._resample(metric, rounds) for metric in task.metrics}

    def scores(self, method: str, metric: str) -> dict[int, float]:
        """Return what a method reached, by seed; without cells that are missing or whose right answers are hidden."""
        own = {seed: cell["scores"] for (name, seed), cell in self.cells.items() if name == method}
        return {seed: float(scores[metric]) for seed, scores in own.items() if metric in scores}

    def scores_of_all_seeds(self, method: str, metric: str) -> dict[int, float]:
        """Return what a method reaches with each seed; what does not learn reaches the same with all of them."""
        reached = self.scores(method, metric)
        if self.task.learns or not reached:
            return reached
        return dict.fromkeys(self.plan.seeds, reached[self.plan.seeds[0]])

    def entry(self, method: str) -> Entry:
        """Return what a method reached on this task."""
        own = [cell for (name, _), cell in self.cells.items() if name == method]
        return Entry(
            self.task.name,
            tuple(self._measure(method, metric) for metric in self.task.metrics),
            n_missing=len(self.plan.seeds_of(self.task.name)) - len(own),
            extra_weights=max((cell["extra_weights"] for cell in own), default=None),
            seconds=float(np.mean([_seconds(cell) for cell in own])) if own else None,
            peak_mib=max((cell["peak_mib"] for cell in own if cell.get("peak_mib") is not None), default=None),
        )

    def rounds_apart(self, method: str, metric: str, seeds: Sequence[int]) -> Rounds | None:
        """Return a method's difference to the baseline in every bootstrap round, the mean over these seeds."""
        rounds = self.resampled[metric]
        seeds = seeds if self.task.learns else self.plan.seeds_of(self.task.name)
        pairs = [((method, seed), (self.plan.baseline, seed)) for seed in seeds]
        if not pairs or not all(one in rounds and other in rounds for one, other in pairs):
            return None
        return np.asarray(np.mean([rounds[one] - rounds[other] for one, other in pairs], axis=0))

    def _measure(self, method: str, metric: str) -> Measure:
        reached, base = self.scores(method, metric), self.scores(self.plan.baseline, metric)
        difference = None
        if method != self.plan.baseline and (apart := _apart(reached, base)):
            rounds = self.rounds_apart(method, metric, list(apart))
            better = self.task.higher_is_better(metric)
            difference = paired_difference(
                method, self.plan.baseline, list(apart.values()), rounds, higher_is_better=better
            )
        return _measured(metric, reached, difference, self.plan.published.of(self.host, method, self.task.name, metric))

    def _resample(self, metric: str, rounds: int) -> dict[tuple[str, int], Rounds]:
        """Return the bootstrap rounds of every cell that was scored on the same examples as the baseline."""
        golds = next((cell["golds"] for (method, _), cell in self.cells.items() if method == self.plan.baseline), None)
        fit = [key for key, cell in self.cells.items() if metric in cell["scores"] and cell["golds"] == golds]
        if not golds or len({method for method, _ in fit}) < 2:
            return {}
        runs = [self.cells[key]["predictions"] for key in fit]
        values = resampled_scores(self.task.judge, metric, golds, runs, rounds=rounds)
        return {key: values[:, at] for at, key in enumerate(fit)}


def _row(plan: Plan, host: str, method: str, of_task: Mapping[str, _OneTask]) -> Row:
    entries = [task.entry(method) for task in of_task.values()]
    n_missing = sum(entry.n_missing for entry in entries)
    entries += [_average(plan, average, host, method, of_task, n_missing) for average in averages_of(plan)]
    return Row(host, method, tuple(entries), published_weights=plan.published.n_weights(host, method))


def _average(
    plan: Plan, average: Average, host: str, method: str, of_task: Mapping[str, _OneTask], n_missing: int
) -> Entry:
    """Return the average of a method over the seeds that have all tasks."""
    reached, base = (
        average.by_seed(
            {
                name: {metric: task.scores_of_all_seeds(who, metric) for metric in task.task.metrics}
                for name, task in of_task.items()
            }
        )
        for who in (method, plan.baseline)
    )
    difference = None
    if method != plan.baseline and (apart := _apart(reached, base)):
        rounds = average.of_rounds(
            {
                name: {metric: task.rounds_apart(method, metric, list(apart)) for metric in task.task.metrics}
                for name, task in of_task.items()
            }
        )
        difference = paired_difference(method, plan.baseline, list(apart.values()), rounds)
    published = plan.published.average(host, method, average.name)
    return Entry(average.name, (_measured("mean", reached, difference, published),), n_missing)


def _published_row(plan: Plan, host: str, method: str) -> Row:
    entries = [
        Entry(
            name,
            tuple(
                _measured(metric, {}, None, plan.published.of(host, method, name, metric)) for metric in task.metrics
            ),
        )
        for name, task in plan.tasks.items()
    ]
    for average in averages_of(plan):
        published = plan.published.average(host, method, average.name)
        entries.append(Entry(average.name, (_measured("mean", {}, None, published),)))
    return Row(host, method, tuple(entries), False, plan.published.n_weights(host, method))


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
    """Return what training and answering took; what asking the sources took is paid once and left out."""
    taken = cell["seconds"]
    both = [taken[part] for part in ("training", "answering") if part in taken]
    return float(sum(both)) if both else float(taken["total"])
