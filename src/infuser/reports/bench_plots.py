"""Pictures of a bench: how a score moves with a setting, and what each part of a method is worth.

What is drawn is taken from the table once (`sweep_of`, `ablation_of`); then it is drawn for a page or a PNG file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from infuser.errors import InputError
from infuser.experiments.bench_table import BenchTable, Measure
from infuser.reports.charts import Mark, draw_intervals, limits
from infuser.reports.figures import COLOURS, drawing, new_figure, write_figure
from infuser.reports.page import shown, visible
from infuser.stats.intervals import Interval, t_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SWEPT = re.compile(r"(.+) ([\w-]+)=[-+]?[\d.]+(?:e[-+]?\d+)?")
"""A method of a sweep over numbers."""


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
    losses: Mapping[str, Sequence[Mark]]
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
    losses: dict[str, list[Mark]] = {}
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


def draw_plot(plot: Sweep | Ablation) -> Figure:
    """Draw a sweep or an ablation."""
    return _draw_sweep(plot) if isinstance(plot, Sweep) else draw_intervals(plot.losses)


def plot_label(plot: Sweep | Ablation) -> str:
    """Return what a plot shows, for readers who cannot see it."""
    if isinstance(plot, Sweep):
        return f"{plot.method} against {plot.setting}: mean and 95 % interval over seeds; dashed: {plot.baseline}"
    return f"{plot.method} without one part, minus the whole method"


def write_png(plot: Sweep | Ablation, path: str | Path) -> Path:
    """Write a plot as a PNG file."""
    return write_figure(draw_plot(plot), path)


def _label(task: str, measure: Measure) -> str:
    return f"{task}, {measure.metric}"


def _number(value: str, method: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise InputError(f"{method!r} has no number as its setting, so it has no place on an axis.") from error


def _draw_sweep(sweep: Sweep) -> Figure:
    """Draw one panel per task: the mean with its 95 % interval against the setting, and the baseline as a line."""
    n_columns = min(len(sweep.spots), 2)
    n_rows = math.ceil(len(sweep.spots) / n_columns)
    with drawing():
        figure = new_figure(20 + 216 * n_rows, width=340 * n_columns)
        for number, (task, spots) in enumerate(sweep.spots.items(), start=1):
            axes = figure.add_subplot(n_rows, n_columns, number)
            level = sweep.levels.get(task)
            means = [spot.mean for spot in spots] + ([] if level is None else [level])
            low, high = limits(means, [end for spot in spots for end in spot.interval or ()], reach=2.0, least=0.01)
            banded = [(spot.value, *np.clip(spot.interval, low, high)) for spot in spots if spot.interval is not None]
            if len(banded) > 1:
                values, lower, upper = zip(*banded, strict=True)
                axes.fill_between(values, lower, upper, color=COLOURS[0], alpha=0.2, linewidth=0)
            axes.plot([spot.value for spot in spots], [spot.mean for spot in spots], color=COLOURS[0], linewidth=2)
            for spot in spots:
                about = visible(f"{sweep.setting} {spot.value:g}: {spot.mean:.4f}")
                axes.plot(spot.value, spot.mean, "o", color=COLOURS[0], markersize=7, gid=about)
            if level is not None:
                axes.axhline(level, color=COLOURS[1], linewidth=2, linestyle="--")
                name, place = shown(sweep.baseline, 30), axes.get_yaxis_transform()
                axes.text(1, level, name, transform=place, ha="right", va="bottom", fontsize=11)
            axes.set_title(shown(task, 40), loc="left", fontsize=13)
            axes.set_xlabel(visible(sweep.setting))
            axes.set_ylim(low, high)
            axes.set_xticks([spot.value for spot in spots])
            axes.xaxis.set_major_formatter("{x:g}")
            axes.grid(visible=False, axis="x")
    return figure
