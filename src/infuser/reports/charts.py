"""The charts of a page: values of every seed, curves, differences with their intervals, bars, trees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from infuser.reports.figures import COLOURS, WIDTH, drawing, new_figure, to_svg
from infuser.reports.page import SVG, shown, visible
from infuser.stats.comparison import ArmStatistics
from infuser.stats.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points: TypeAlias = Sequence[tuple[float, float]]
Mark: TypeAlias = tuple[str, float, Interval | None]
"""What is marked (an arm, a source), its difference and the interval of it."""
Linkage: TypeAlias = Sequence[Sequence[float]]
"""Rows of scipy.cluster.hierarchy.linkage: two things joined, their distance, how many leaves are below."""

_MOST_MARKED = 16
"""A line of more points is drawn without a spot for each."""
_FEW_DECADES = 300
"""A logarithmic axis of a smaller ratio has numbers between powers of ten."""
_BAR = 56
"""Width of a small bar, in pixels."""
_INK = "#1b1f24"


def dot_plot(comparison: ArmStatistics) -> str:
    """Return one row per arm: a ring per seed, a dot for the mean, a line for the 95 % interval over seeds."""
    values = [value for arm in comparison.arms for value in arm.per_seed]
    ends = [end for arm in comparison.arms for end in arm.interval or ()]
    low, high = limits(values, ends, reach=1.0, least=0.02)
    with drawing():
        figure = new_figure(30 + 44 * len(comparison.arms))
        axes = figure.subplots()
        for at, (arm, colour) in enumerate(zip(comparison.arms, colours(len(comparison.arms)), strict=True)):
            _name_row(axes, arm.name, at - 0.3)
            if arm.interval is not None:
                # the interval of two seeds can be wider than any chart: such ends stop at the border
                _reach(axes, np.clip(arm.interval, low, high), at, colour)
                inside = [end for end in arm.interval if low <= end <= high]
                axes.plot(inside, [at] * len(inside), "|", color=colour, markersize=10, markeredgewidth=2)
            for value in arm.per_seed:
                [ring] = axes.plot(value, at, "o", color=colour, markersize=9, gid=f"one seed: {value:.4f}")
                ring.set(markerfacecolor="none", markeredgewidth=1.6)
            axes.plot(arm.mean, at, "o", color=colour, markersize=5, gid=f"mean: {arm.mean:.4f}")
        _rows(axes, len(comparison.arms))
        axes.set_xlim(low, high)
    label = f"{comparison.metric} of every arm: a ring per seed, a dot for the mean, a line for the 95 % interval"
    return to_svg(figure, label)


def line_chart(
    curves: Mapping[str, Points],
    *,
    label: str = "Curves over training steps",
    x_name: str = "",
    y_name: str = "",
    log: bool = False,
    whole: bool = False,
) -> str:
    """Return one line per name through its (x, value) points; points that are not finite are left out.

    With `log` the values stand on a logarithmic axis, and those that are not above 0 are left out too. With `whole`
    the x axis counts something: no number between two of it is written.
    """
    lines = {name: [point for point in points if _drawable(*point, log=log)] for name, points in curves.items()}
    lines = {name: points for name, points in lines.items() if points}
    if not lines:
        return ""
    from matplotlib.ticker import LogLocator, MaxNLocator

    n_columns = 1 if len(lines) <= len(COLOURS) else 4
    with drawing():
        figure = new_figure(230 + 18 * math.ceil(len(lines) / n_columns))
        axes = figure.subplots()
        drawn = [
            axes.plot(*zip(*points, strict=True), color=colour, linewidth=2, marker=_spots(points), markersize=5)[0]
            for colour, points in zip(colours(len(lines)), lines.values(), strict=True)
        ]
        if log:
            axes.set_yscale("log")
            heights = [y for points in lines.values() for _, y in points]
            subs = (1, 2, 5) if max(heights) / min(heights) < _FEW_DECADES else (1,)
            axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=8))
        if whole:
            axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.set_xlabel(visible(x_name))
        axes.set_title(visible(y_name), loc="left", fontsize=11)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        names = [shown(name, 52 // n_columns) for name in lines]
        figure.legend(drawn, _legend_names(names), loc="outside lower left", ncols=n_columns, fontsize=13)
    return to_svg(figure, label)


def interval_plot(rows: Mapping[str, Sequence[Mark]], *, label: str, before: int = 0) -> str:
    """Return one group per row: a dot for each difference, a line for its interval, and where 0 is.

    `before` leaves out so many colours, which stand for other things in other charts of a page.
    """
    return to_svg(draw_intervals(rows, before=before), label) if any(rows.values()) else ""


def draw_intervals(rows: Mapping[str, Sequence[Mark]], *, before: int = 0) -> Figure:
    """Draw differences with their intervals, as `interval_plot` describes it."""
    names = list(dict.fromkeys(name for marks in rows.values() for name, _, _ in marks))
    colour_of = dict(zip(names, colours(before + len(names))[before:], strict=True))
    n_lines = sum(1 + len(marks) for marks in rows.values())
    with drawing():
        figure = new_figure(40 + 18 * n_lines + (18 * len(names) if len(names) > 1 else 0))
        axes, line = figure.subplots(), count()
        for row, marks in rows.items():
            _name_row(axes, row, next(line))
            for name, value, interval in marks:
                at, about = next(line), f"{name}: {value:+.4f}"
                if interval is not None:
                    about += f" [{interval[0]:+.4f}, {interval[1]:+.4f}]"
                    _reach(axes, interval, at, colour_of[name])
                axes.plot(value, at, "o", color=colour_of[name], markersize=8, gid=visible(about))
        axes.axvline(0, color=_INK, linewidth=1, linestyle=(0, (3, 3)))
        _rows(axes, n_lines)
        if len(names) > 1:
            handles = [axes.plot([], [], "o", color=colour)[0] for colour in colour_of.values()]
            cut = [shown(name, 56) for name in names]
            figure.legend(handles, _legend_names(cut), loc="outside lower left", fontsize=13)
    return figure


def bar_chart(values: Mapping[str, float], *, label: str, at: float | None = None) -> str:
    """Return one bar per name, with its value; values below 0 or not finite have none. `at` marks a value by a line."""
    if not values:
        return ""
    amounts = [max(value, 0.0) if math.isfinite(value) else 0.0 for value in values.values()]
    with drawing():
        figure = new_figure(16 + 20 * len(amounts))
        axes = figure.subplots()
        bars = axes.barh(range(len(amounts)), amounts, height=0.7, color=COLOURS[0])
        axes.bar_label(bars, fmt="%.2f", padding=4, fontsize=11, color=_INK)
        axes.set_yticks(range(len(amounts)), [shown(name, 17) for name in values], fontsize=13)
        if at is not None:
            axes.axvline(at, color=_INK, linewidth=1, linestyle=(0, (3, 3)))
        axes.set_xlim(0, 1.12 * (max([*amounts, at or 0.0]) or 1.0))
        axes.set_ylim(len(amounts) - 0.5, -0.5)
        axes.tick_params(labelbottom=False)
        axes.grid(visible=False)
    return to_svg(figure, label)


def bar(share: float) -> str:
    """Return a small bar for a cell of a table, 0 to 1 of its rail; the number beside it says the same."""
    width = _BAR * min(max(share, 0.0), 1.0)
    return (
        f'<svg xmlns="{SVG}" class="bar" aria-hidden="true" width="{_BAR}" height="10" viewBox="0 0 {_BAR} 10">'
        f'<rect class="rail" width="{_BAR}" height="10" rx="2"/><rect width="{width:.1f}" height="10" rx="2"/></svg>'
    )


class Merge(NamedTuple):
    """Where two branches meet: the one starts at (x, y), the other at (other_x, other_y), both end at `distance`."""

    x: float
    y: float
    other_x: float
    other_y: float
    distance: float
    group: int | None
    """The group of all leaves below, if it is one and the same."""


def leaf_order(linkage: Linkage) -> list[int]:
    """Return the leaves from top to bottom so that no two branches cross."""
    from scipy.cluster.hierarchy import leaves_list

    order: list[int] = leaves_list(np.asarray(linkage, float)).tolist()
    return order


def lay_out(linkage: Linkage, groups: Sequence[int | None] = ()) -> list[Merge]:
    """Return all merges; x and distance are distances, y counts leaves from the top."""
    order = leaf_order(linkage)
    below: dict[int, tuple[float, float, int | None]] = {
        leaf: (0.0, float(row), groups[leaf] if groups else None) for row, leaf in enumerate(order)
    }
    merges = []
    for number, (one, other, distance, *_) in enumerate(linkage, start=len(order)):
        (x, y, group), (other_x, other_y, other_group) = below[int(one)], below[int(other)]
        common = group if group == other_group else None
        merges.append(Merge(x, y, other_x, other_y, distance, common))
        below[number] = distance, (y + other_y) / 2, common
    return merges


def dendrogram(linkage: Linkage, names: Sequence[str], groups: Sequence[int | None] = ()) -> str:
    """Return the tree of `names`, in the order in which `linkage` counts them; "" with fewer than two.

    Names are joined further right the less alike they are. `groups` numbers the group of every name; branches within
    one group have its colour.
    """
    if len(names) < 2 or len(linkage) != len(names) - 1 or not all(math.isfinite(row[2]) for row in linkage):
        return ""
    order = leaf_order(linkage)
    # numbered from top to bottom, so that neighbours never have the same colour
    number_of = {group: number for number, group in enumerate(dict.fromkeys(groups[leaf] for leaf in order if groups))}
    with drawing():
        figure = new_figure(52 + 17 * len(names), width=1.7 * WIDTH)
        axes = figure.subplots()
        for merge in lay_out(linkage, groups):
            colour = "#56606a" if merge.group is None else COLOURS[number_of[merge.group] % len(COLOURS)]
            across, down = [merge.x, *[merge.distance] * 2, merge.other_x], [*[merge.y] * 2, *[merge.other_y] * 2]
            axes.plot(across, down, color=colour, linewidth=1.6, gid=f"joined at {merge.distance:.3f}")
        axes.set_yticks(range(len(order)), [shown(names[leaf], 52) for leaf in order], fontsize=12)
        for tick, leaf in zip(axes.get_yticklabels(), order, strict=True):
            tick.set_gid(visible(names[leaf]))  # whole under the pointer
        axes.set_xlim(0, 1.02 * (max(row[2] for row in linkage) or 1.0))
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="x", labeltop=True)
        axes.xaxis.set_major_formatter("{x:g}")
    about = f"Tree of {len(names)} names by how alike they are"
    return f'<div class="wide">{to_svg(figure, about, kind="tree")}</div>'


def colours(n: int) -> list[str]:
    """Return a colour for each of so many things; more than there are colours become shades from blue to orange."""
    if n <= len(COLOURS):
        return list(COLOURS[:n])
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    shades = LinearSegmentedColormap.from_list("shades", COLOURS[:2], N=n)
    return [to_hex(shades(at)) for at in range(n)]


def limits(values: Sequence[float], ends: Sequence[float], *, reach: float, least: float) -> tuple[float, float]:
    """Return the ends of an axis: all values, and ends of intervals that are not too far from them."""
    far = reach * max(max(values) - min(values), least)
    low = max(min([*values, *ends]), min(values) - far)
    high = min(max([*values, *ends]), max(values) + far)
    room = 0.06 * max(high - low, least / 2)
    return low - room, high + room


def _reach(axes: Axes, interval: Sequence[float] | np.ndarray, at: float, colour: str) -> None:
    axes.plot(interval, [at, at], color=colour, linewidth=3, alpha=0.55, solid_capstyle="butt")


def _name_row(axes: Axes, name: str, at: float) -> None:
    axes.text(0, at, shown(name, 56), transform=axes.get_yaxis_transform(), va="center")


def _rows(axes: Axes, n_rows: int) -> None:
    """Let an axis count rows from the top, without numbers."""
    axes.set_ylim(n_rows - 0.5, -0.6)
    axes.set_yticks([])
    axes.xaxis.set_major_formatter("{x:g}")


def _legend_names(names: Sequence[str]) -> list[str]:
    return [f"\u200b{name}" if name.startswith("_") else name for name in names]  # matplotlib leaves out such names


def _spots(points: Points) -> str:
    return "o" if len(points) <= _MOST_MARKED else ""


def _drawable(x: float, y: float, *, log: bool) -> bool:
    return math.isfinite(x) and math.isfinite(y) and (y > 0 or not log)
