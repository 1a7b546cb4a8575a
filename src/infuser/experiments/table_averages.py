"""Averages over the tasks of a bench: GLUE's own where all of its tasks are there, else the plain mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.experiments.table_plan import Plan

Scores = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Average:
    """A mean of scores by task and metric; linear, so the average of differences is the difference of averages."""

    name: str
    compute: Callable[[Scores], float]

    def by_seed(self, scores: Mapping[str, Mapping[str, Mapping[int, float]]]) -> dict[int, float]:
        """Return the average of every seed that has all scores; those are by task, metric and seed."""
        columns = [by_seed for task in scores.values() for by_seed in task.values()]
        seeds = [seed for seed in columns[0] if all(seed in column for column in columns)]
        return {
            seed: self.compute({task: {metric: of[seed] for metric, of in own.items()} for task, own in scores.items()})
            for seed in seeds
        }

    def of_rounds(self, rounds: Mapping[str, Mapping[str, NDArray[np.float64] | None]]) -> NDArray[np.float64] | None:
        """Return the average in every bootstrap round, as many as all metrics have; None if one has none."""
        columns = [values for task in rounds.values() for values in task.values()]
        if any(values is None for values in columns):
            return None
        n_rounds = min(len(values) for values in columns if values is not None)
        each: Any = rounds
        return np.array(
            [
                self.compute(
                    {task: {metric: values[at] for metric, values in own.items()} for task, own in each.items()}
                )
                for at in range(n_rounds)
            ]
        )


def averages_of(plan: Plan) -> list[Average]:
    """Return the averages that the settings ask for."""
    if not plan.average:
        return []
    from infuser.tasks.glue_totals import glue_average

    zeros = {name: dict.fromkeys(task.metrics, 0.0) for name, task in plan.tasks.items()}
    found = []
    for name, with_wnli in (("average", False), ("average with WNLI", True)):
        try:
            glue_average(zeros, with_wnli=with_wnli)
        except InputError:  # it names the tasks that are not there
            continue
        found.append(Average(name, partial(glue_average, with_wnli=with_wnli)))
    firsts = {name: task.metrics[0] for name, task in plan.tasks.items()}
    plain = Average("average", lambda scores: fmean(scores[name][metric] for name, metric in firsts.items()))
    return found or [plain]
