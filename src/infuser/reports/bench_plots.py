"""Pictures of a bench: how a score moves with a setting, and what each part of a method is worth.

What is drawn is taken from the table once (`sweep_of`, `ablation_of`); then it is inline SVG for a page, which follows
the reader's light or dark, or a PNG file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from infuser.errors import InputError
from infuser.experiments.bench_table import BenchTable, Measure
from infuser.reports.charts import COLOURS, Mark, interval_plot, ticks
from infuser.reports.grids import SVG
from infuser.reports.parts import escaped
from infuser.stats.intervals import Interval, t_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SWEPT = re.compile(r"(.+) ([\w-]+)=[-+]?[\d.]+(?:e[-+]?\d+)?")
"""A method of a sweep over numbers."""
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 340, 236, 52, 30, 184


@dataclass(frozen=True)
class Spot:
    """What was reached with one value of a setting."""

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
    """What the baseline reached, by task and its metric."""


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
        swept = [match.groups() for name in named if (match := _SWEPT.fullmatch(name))]
        taken_apart = [name.partition(" without ")[0] for name in named if " without " in name]
        tries: list[tuple[Callable[..., Sweep | Ablation], tuple[str, ...]]]
        tries = [(sweep_of, names) for names in dict.fromkeys(swept)]
        tries += [(ablation_of, (method,)) for method in dict.fromkeys(taken_apart)]
        for find, names in tries:
            try:
                plots.append(find(table, *names, host=host))
            except InputError:  # no results yet
                continue
    return plots


def sweep_plot(sweep: Sweep) -> str:
    """Return one panel per task: the mean with its 95 % interval against the setting, and the baseline as a line."""
    panels = "".join(
        f"<figure>{_panel(sweep, task, spots, sweep.levels.get(task))}</figure>" for task, spots in sweep.spots.items()
    )
    return f'<div class="panels">{panels}</div>'


def ablation_plot(ablation: Ablation) -> str:
    """Return what is lost without each part: a dot for the difference to the whole method, a line for its interval."""
    return interval_plot(ablation.losses, label=f"{ablation.method} without one part, minus the whole method")


def write_png(plot: Sweep | Ablation, path: str | Path) -> Path:
    """Write a plot as a PNG file."""
    from infuser.files import whole_file

    path = Path(path)
    if path.suffix.lower() != ".png":
        raise InputError(f"{str(path)!r} is no name of a PNG file; let it end in .png.")
    figure = _draw_sweep(plot) if isinstance(plot, Sweep) else _draw_ablation(plot)
    with whole_file(path, "wb") as file:
        figure.savefig(file, format="png", dpi=150)
    return path


def _label(task: str, measure: Measure) -> str:
    return f"{task}, {measure.metric}"


def _number(said: str, method: str) -> float:
    try:
        return float(said)
    except ValueError as error:
        raise InputError(f"{method!r} has no number as its setting, so it has no place on an axis.") from error


def _panel(sweep: Sweep, task: str, spots: Sequence[Spot], level: float | None) -> str:
    values = [spot.value for spot in spots]
    first, last = (min(values), max(values)) if len(spots) > 1 else (values[0] - 0.5, values[0] + 0.5)
    low, high = _heights(spots, level)

    def at(value: float, mean: float) -> tuple[float, float]:
        x = _LEFT + 10 + (value - first) / (last - first) * (_WIDTH - _LEFT - 24)
        return x, _BOTTOM - (min(max(mean, low), high) - low) / (high - low) * (_BOTTOM - _TOP)

    parts = [f'<text x="4" y="14">{escaped(task)}</text>']
    for tick in ticks(low, high):
        y = at(first, tick)[1]
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - 8}"/>')
        parts.append(f'<text class="tick e" x="{_LEFT - 5}" y="{y + 4:.1f}">{tick:g}</text>')
    for value in values:
        x = at(value, low)[0]
        parts.append(f'<text class="tick m" x="{x:.1f}" y="{_BOTTOM + 17}">{value:g}</text>')
    parts.append(
        f'<text class="tick m" x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_BOTTOM + 34}">{escaped(sweep.setting)}</text>'
    )
    banded = [(spot.value, spot.interval) for spot in spots if spot.interval is not None]
    if len(banded) > 1:
        edge = [at(value, ends[1]) for value, ends in banded] + [at(value, ends[0]) for value, ends in banded[::-1]]
        parts.append(f'<path fill="{COLOURS[0]}" opacity=".2" d="M{_path(edge)}Z"/>')
    line = [at(spot.value, spot.mean) for spot in spots]
    parts.append(f'<path fill="none" stroke="{COLOURS[0]}" stroke-width="2" d="M{_path(line)}"/>')
    for spot, (x, y) in zip(spots, line, strict=True):
        told = f"{sweep.setting} {spot.value:g}: {spot.mean:.4f}"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOURS[0]}"><title>{escaped(told)}</title></circle>'
        )
    if level is not None:
        y = at(first, level)[1]
        parts.append(
            f'<path stroke="{COLOURS[1]}" stroke-width="2" stroke-dasharray="5 4" d="M{_LEFT} {y:.1f}H{_WIDTH - 8}"/>'
        )
        parts.append(f'<text class="tick e" x="{_WIDTH - 10}" y="{y - 5:.1f}">{escaped(sweep.baseline)}</text>')
    label = f"{task} of {sweep.method} against {sweep.setting}: mean and 95 % interval over seeds"
    return (
        f'<svg {SVG} class="chart" role="img" aria-label="{escaped(label)}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" font-size="13">{"".join(parts)}</svg>'
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _heights(spots: Sequence[Spot], level: float | None) -> tuple[float, float]:
    """Return the ends of the axis: all means, and intervals as far as they stay within sight of them."""
    means = [spot.mean for spot in spots] + ([] if level is None else [level])
    reach = max(max(means) - min(means), 0.01)
    ends = [end for spot in spots for end in spot.interval or ()]
    low = max(min([*means, *ends]), min(means) - 2 * reach)
    high = min(max([*means, *ends]), max(means) + 2 * reach)
    room = 0.08 * max(high - low, 0.01)
    return low - room, high + room


def _draw_sweep(sweep: Sweep) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(sweep.spots), 3.4), layout="constrained")
    panels = figure.subplots(1, len(sweep.spots), squeeze=False)[0]
    for axes, (task, spots) in zip(panels, sweep.spots.items(), strict=True):
        values = [spot.value for spot in spots]
        axes.plot(values, [spot.mean for spot in spots], color=COLOURS[0], marker="o", label=sweep.method)
        ends = [spot.interval or (spot.mean, spot.mean) for spot in spots]
        axes.fill_between(values, *zip(*ends, strict=True), color=COLOURS[0], alpha=0.2, linewidth=0)
        axes.set_ylim(*_heights(spots, sweep.levels.get(task)))
        if task in sweep.levels:
            axes.axhline(sweep.levels[task], color=COLOURS[1], linestyle="--", label=sweep.baseline)
        axes.set_title(task, fontsize=10)
        axes.set_xlabel(sweep.setting)
        axes.set_xticks(values)
        axes.grid(axis="y", alpha=0.3)
    panels[0].legend(frameon=False, fontsize=9)
    return figure


def _draw_ablation(ablation: Ablation) -> Figure:
    from matplotlib.figure import Figure

    n_lines = max(len(marks) for marks in ablation.losses.values())
    figure = Figure(figsize=(4.6 * len(ablation.losses), 1.2 + 0.4 * n_lines), layout="constrained")
    panels = figure.subplots(1, len(ablation.losses), squeeze=False)[0]
    for axes, (task, marks) in zip(panels, ablation.losses.items(), strict=True):
        for at, (_, loss, interval) in enumerate(marks):
            reach = None if interval is None else (interval[1] - interval[0]) / 2
            axes.barh(at, loss, xerr=reach, color=COLOURS[1] if loss < 0 else COLOURS[0], ecolor="0.35", capsize=3)
        axes.set_yticks(range(len(marks)), [part for part, _, _ in marks])
        axes.invert_yaxis()
        axes.axvline(0, color="0.35", linewidth=0.8)
        axes.set_title(f"{task}, minus {ablation.method}", fontsize=10)
        axes.grid(axis="x", alpha=0.3)
    return figure
