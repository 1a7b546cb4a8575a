"""Sweeps and ablations in the table of a bench: scores by the value of a setting, and what each part is worth."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from infuser.errors import InputError
from infuser.experiments.bench_table import BenchTable, Measure
from infuser.stats.intervals import Interval, t_interval

_SWEPT = re.compile(r"(.+) ([\w-]+)=[-+]?[\d.]+(?:e[-+]?\d+)?")
"""A method of a sweep over numbers."""


PartLoss = tuple[str, float, Interval | None]
"""The part, the difference without it, and the 95 % t-interval of that over seeds."""


@dataclass(frozen=True)
class Spot:
    """The score with one value of a setting."""

    value: float
    mean: float
    interval: Interval | None
    """95 % t-interval over seeds; None with one seed."""


@dataclass(frozen=True)
class Sweep:
    """A method with several values of one setting."""

    method: str
    setting: str
    host: str
    spots: Mapping[str, Sequence[Spot]]
    """By task and its metric, in the order of values."""
    baseline: str
    levels: Mapping[str, float]
    """Scores of the baseline, by task and its metric."""


@dataclass(frozen=True)
class Ablation:
    """A method without one of its parts, minus the whole method."""

    method: str
    host: str
    losses: Mapping[str, Sequence[PartLoss]]
    """By task and its metric: the part, the difference, and its 95 % t-interval over seeds."""


def sweep_of(table: BenchTable, method: str, setting: str, *, host: str | None = None) -> Sweep:
    """Return a sweep from the rows "METHOD SETTING=VALUE" of a table; without a host, of the first."""
    host = table.rows[0].host if host is None else host
    start = f"{method} {setting}="
    spots: dict[str, list[Spot]] = {}
    for row in table.rows:
        if row.host != host or not row.method.startswith(start):
            continue
        value = _number(row.method.removeprefix(start), row.method)
        for entry in row.entries:
            one = entry.first
            if one.mean is not None:
                spots.setdefault(_label(entry.column, one), []).append(Spot(value, one.mean, one.interval))
    if not spots:
        raise InputError(f"No row {start}VALUE of host {host!r} has a result yet, so there is no sweep to draw.")
    levels = {
        _label(entry.column, entry.first): entry.first.mean
        for row in table.rows
        if (row.host, row.method) == (host, table.baseline)
        for entry in row.entries
        if entry.first.mean is not None
    }
    ordered = {task: sorted(own, key=lambda spot: spot.value) for task, own in spots.items()}
    return Sweep(method, setting, host, ordered, table.baseline, levels)


def ablation_of(table: BenchTable, method: str, *, host: str | None = None) -> Ablation:
    """Return an ablation from the rows "METHOD without PART" of a table; without a host, of the first."""
    host = table.rows[0].host if host is None else host
    whole = {entry.column: entry.first for entry in table.row(method, host).entries}
    start = f"{method} without "
    losses: dict[str, list[PartLoss]] = {}
    for row in table.rows:
        if row.host != host or not row.method.startswith(start):
            continue
        for entry in row.entries:
            full = dict(zip(whole[entry.column].seeds, whole[entry.column].per_seed, strict=True))
            own = zip(entry.first.seeds, entry.first.per_seed, strict=True)
            apart = [value - full[seed] for seed, value in own if seed in full]
            if apart:
                mark = (row.method.removeprefix(f"{method} "), float(np.mean(apart)), t_interval(apart))
                losses.setdefault(_label(entry.column, entry.first), []).append(mark)
    if not losses:
        raise InputError(f"No row {start}PART of host {host!r} has a result yet, so there is no ablation to draw.")
    return Ablation(method, host, losses)


def plots_of(table: BenchTable) -> list[Sweep | Ablation]:
    """Return every sweep of numbers and every ablation that a table has results of, with every host."""
    plots: list[Sweep | Ablation] = []
    for host in dict.fromkeys(row.host for row in table.rows if row.runs):
        named = [row.method for row in table.rows if row.host == host and row.runs]
        swept = dict.fromkeys(match.groups() for name in named if (match := _SWEPT.fullmatch(name)))
        taken_apart = dict.fromkeys(name.partition(" without ")[0] for name in named if " without " in name)
        for method, setting in swept:
            with suppress(InputError):  # no results yet
                plots.append(sweep_of(table, method, setting, host=host))
        for method in taken_apart:
            with suppress(InputError):
                plots.append(ablation_of(table, method, host=host))
    return plots


def _label(task: str, measure: Measure) -> str:
    return f"{task}, {measure.metric}"


def _number(value: str, method: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise InputError(f"{method!r} has no number as its setting, so it has no place on an axis.") from error
