"""Pictures of a bench: how a score moves with a setting, and what each part of a method is worth.

`experiments.sweeps` takes them from the table; here they are drawn for a page or a PNG file.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from infuser.experiments.sweeps import Ablation, Sweep
from infuser.reports.charts import draw_intervals, limits
from infuser.reports.figures import COLOURS, drawing, new_figure, write_figure
from infuser.reports.page import shown, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
