"""Small charts for a page, as inline SVG: values of every seed, curves, differences with their intervals, bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from infuser.analysis.explanation import shown
from infuser.reports.grids import SVG
from infuser.reports.parts import escaped
from infuser.stats.comparison import Comparison
from infuser.stats.intervals import Interval

Points = Sequence[tuple[float, float]]
Mark = tuple[str, float, Interval | None]
"""What is marked (an arm, a source), its difference and the interval of it."""

_WIDTH, _LEFT, _RIGHT, _BAR = 460, 14, 14, 56
COLOURS = ("#3b82c4", "#d9620e", "#4f9d69", "#b0629b", "#a08b2c", "#6e8898")
"""One per arm or curve; told apart by colour-blind readers too."""
_MOST_MARKED = 16
"""A line of more points is drawn without a spot for each."""


def dot_plot(comparison: Comparison) -> str:
    """Return one row per arm: a ring per seed, a dot for the mean, a line for the 95 % interval over seeds."""
    low, high = _range_of(comparison)
    row, top = 44, 6
    bottom = top + row * len(comparison.arms)
    parts = [_axis(low, high, top, bottom)]
    for at, arm in enumerate(comparison.arms):
        colour, y = COLOURS[at % len(COLOURS)], top + row * at + 29
        parts.append(f'<text x="{_LEFT}" y="{y - 14}">{escaped(shown(arm.name, 48))}</text>')
        if arm.interval is not None:
            # two seeds can ask for an interval wider than any chart: such ends stop at the border
            ends = [_x(min(max(end, low), high), low, high) for end in arm.interval]
            parts.append(
                f'<path stroke="{colour}" stroke-width="3" opacity=".55" d="M{ends[0]:.1f} {y}H{ends[1]:.1f}"/>'
            )
            for end, x in zip(arm.interval, ends, strict=True):
                if low <= end <= high:
                    parts.append(f'<path stroke="{colour}" stroke-width="2" d="M{x:.1f} {y - 5}v10"/>')
        for value in arm.per_seed:
            parts.append(
                f'<circle cx="{_x(value, low, high):.1f}" cy="{y}" r="4.5" fill="none" stroke="{colour}" '
                f'stroke-width="1.6"><title>one seed: {value:.4f}</title></circle>'
            )
        parts.append(f'<circle cx="{_x(arm.mean, low, high):.1f}" cy="{y}" r="3" fill="{colour}"/>')
    label = f"{comparison.metric} of every arm: a ring per seed, a dot for the mean, a line for the 95 % interval"
    return _chart(label, bottom + 24, parts)


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
    height = math.log10 if log else float
    everything = [point for points in lines.values() for point in points]
    first, last = _widened(min(x for x, _ in everything), max(x for x, _ in everything), 0.0)
    low, high = _widened(min(height(y) for _, y in everything), max(height(y) for _, y in everything), 0.05)
    top, bottom = (24, 204) if y_name else (8, 188)
    left = 44  # room for the numbers beside the lines
    parts = [_axis(first, last, top, bottom, left, whole=whole)]
    for tick in _log_ticks(low, high) if log else ticks(low, high):
        y = _between(height(tick), low, high, bottom, top)
        parts.append(f'<text class="tick e" x="{left - 4}" y="{y + 4:.1f}">{tick:g}</text>')
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{_WIDTH - _RIGHT}"/>')
    parts.append(f'<text class="tick" x="{_LEFT}" y="12">{escaped(y_name)}</text>' if y_name else "")
    colours = _colours(len(lines))
    for colour, points in zip(colours, lines.values(), strict=True):
        spots = [(_x(x, first, last, left), _between(height(y), low, high, bottom, top)) for x, y in points]
        path = "L".join(f"{x:.1f} {spot:.1f}" for x, spot in spots)
        parts.append(f'<path fill="none" stroke="{colour}" stroke-width="2" d="M{path}"/>')
        if len(spots) <= _MOST_MARKED:
            parts.extend(f'<circle cx="{x:.1f}" cy="{spot:.1f}" r="2.5" fill="{colour}"/>' for x, spot in spots)
    bottom += 42
    if x_name:
        parts.append(f'<text class="tick m" x="{(left + _WIDTH) / 2:.1f}" y="{bottom - 11}">{escaped(x_name)}</text>')
        bottom += 10
    legend, bottom = _legend(list(lines), colours, bottom)
    return _chart(label, bottom - 10, [*parts, legend])


def interval_plot(rows: Mapping[str, Sequence[Mark]], *, label: str, before: int = 0) -> str:
    """Return one group per row: a dot for each difference, a line for its interval, and where 0 is.

    `before` leaves out so many colours, which stand for other things in other charts of a page.
    """
    marks = [mark for of_row in rows.values() for mark in of_row]
    if not marks:
        return ""
    names = list(dict.fromkeys(name for name, _, _ in marks))
    colours = dict(zip(names, _colours(before + len(names))[before:], strict=True))
    ends = [0.0, *(end for _, value, interval in marks for end in (value, *(interval or ())))]
    low, high = _widened(min(ends), max(ends), 0.05)
    parts, y = [], 6
    for row, of_row in rows.items():
        y += 16
        # a rim of paper, so that the words can be read where they cross a line
        parts.append(f'<text class="rim" x="{_LEFT}" y="{y}">{escaped(shown(row, 56))}</text>')
        for name, value, interval in of_row:
            y += 14
            reach = ""
            if interval is not None:
                start, end = (_x(end, low, high) for end in interval)
                reach = f" [{interval[0]:+.4f}, {interval[1]:+.4f}]"
                parts.append(
                    f'<path stroke="{colours[name]}" stroke-width="3" opacity=".55" d="M{start:.1f} {y}H{end:.1f}"/>'
                )
            parts.append(
                f'<circle cx="{_x(value, low, high):.1f}" cy="{y}" r="4" fill="{colours[name]}">'
                f"<title>{escaped(name)}: {value:+.4f}{reach}</title></circle>"
            )
        y += 8
    zero = f'<path class="line" stroke-dasharray="3 3" d="M{_x(0.0, low, high):.1f} 6V{y}"/>'
    axis, bottom = _axis(low, high, 6, y), y + 24
    legend = ""
    if len(names) > 1:
        legend, bottom = _legend(names, list(colours.values()), bottom + 14)
    return _chart(label, bottom, [axis, zero, *parts, legend])


def bar_chart(values: Mapping[str, float], *, label: str, at: float | None = None) -> str:
    """Return one bar per name, with its value; values below 0 or not finite have none. `at` marks a value by a line."""
    if not values:
        return ""
    amounts = {name: value if math.isfinite(value) else 0.0 for name, value in values.items()}
    longest = max([*amounts.values(), at or 0.0]) or 1.0
    left, right, row, top = 128, _WIDTH - 48, 20, 6
    parts = []
    for number, (name, amount) in enumerate(amounts.items()):
        y, width = top + row * number, _between(max(amount, 0.0), 0.0, longest, 0, right - left)
        parts.append(f'<text class="e" x="{left - 6}" y="{y + 14}">{escaped(shown(name, 17))}</text>')
        parts.append(f'<rect fill="{COLOURS[0]}" x="{left}" y="{y + 3}" width="{width:.1f}" height="{row - 6}"/>')
        parts.append(f'<text class="tick rim" x="{left + width + 5:.1f}" y="{y + 14}">{amount:.2f}</text>')
    bottom, line = top + row * len(amounts), ""
    if at is not None:
        x = _between(at, 0.0, longest, left, right)
        line = f'<path class="line" stroke-dasharray="3 3" d="M{x:.1f} {top}V{bottom}"/>'
    return _chart(label, bottom + 6, [line, *parts])


def bar(share: float) -> str:
    """Return a small bar for a cell of a table, 0 to 1 of its rail; the number beside it tells the same."""
    width = _BAR * min(max(share, 0.0), 1.0)
    return (
        f'<svg {SVG} class="bar" aria-hidden="true" width="{_BAR}" height="10" viewBox="0 0 {_BAR} 10">'
        f'<rect class="rail" width="{_BAR}" height="10" rx="2"/><rect width="{width:.1f}" height="10" rx="2"/></svg>'
    )


def _legend(names: Sequence[str], colours: Sequence[str], top: int) -> tuple[str, int]:
    """Return the names beside spots of their colours, and where they end; many names stand in columns."""
    n_columns = 1 if len(names) <= len(COLOURS) else 4
    wide = (_WIDTH - _LEFT - _RIGHT) // n_columns
    parts = []
    for at, (name, colour) in enumerate(zip(names, colours, strict=True)):
        x, y = _LEFT + wide * (at % n_columns), top + 18 * (at // n_columns)
        parts.append(f'<circle cx="{x + 5}" cy="{y - 4}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{x + 16}" y="{y}">{escaped(shown(name, wide // 8))}</text>')
    return "".join(parts), top + 18 * math.ceil(len(names) / n_columns)


def _colours(n: int) -> list[str]:
    """Return a colour for each of so many things; more than there are colours become shades from blue to orange."""
    if n <= len(COLOURS):
        return list(COLOURS[:n])
    one, other = (tuple(bytes.fromhex(colour[1:])) for colour in COLOURS[:2])
    shares = [at / (n - 1) for at in range(n)]
    mixed = ([round(a + (b - a) * share) for a, b in zip(one, other, strict=True)] for share in shares)
    return ["#" + bytes(parts).hex() for parts in mixed]


def _drawable(x: float, y: float, *, log: bool) -> bool:
    return math.isfinite(x) and math.isfinite(y) and (y > 0 or not log)


def _chart(label: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg {SVG} class="chart" role="img" aria-label="{escaped(label)}" viewBox="0 0 {_WIDTH} {height}" '
        f'font-size="13">{"".join(parts)}</svg>'
    )


def _axis(low: float, high: float, top: int, bottom: int, left: int = _LEFT, *, whole: bool = False) -> str:
    parts = []
    for tick in ticks(low, high):
        if whole and tick != round(tick):
            continue
        x = _x(tick, low, high, left)
        parts.append(f'<path class="grid" d="M{x:.1f} {top}V{bottom}"/>')
        parts.append(f'<text class="tick m" x="{x:.1f}" y="{bottom + 15}">{tick:g}</text>')
    return "".join(parts)


def _range_of(comparison: Comparison) -> tuple[float, float]:
    """Return the ends of the axis: all values, and intervals as far as they stay within sight of them."""
    values = [value for arm in comparison.arms for value in arm.per_seed]
    reach = max(max(values) - min(values), 0.02)
    ends = [end for arm in comparison.arms if arm.interval for end in arm.interval]
    low = min([*values, max(min([*ends, *values]), min(values) - reach)])
    high = max([*values, min(max([*ends, *values]), max(values) + reach)])
    return _widened(low, high, 0.05)


def _widened(low: float, high: float, share: float) -> tuple[float, float]:
    room = (high - low) * share if high > low else max(abs(low) * 0.1, 0.01)
    return low - room, high + room


def ticks(low: float, high: float, n_ticks: int = 5) -> list[float]:
    """Return about five round numbers between low and high."""
    rough = (high - low) / n_ticks
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    return [round(at * step, 10) for at in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two powers of ten; about five, and powers of ten themselves where there are many."""
    decades = range(math.floor(low), math.ceil(high) + 1)
    factors = (1, 2, 5) if high - low < 2.5 else (1,)
    every = max(1, len(decades) // 6)
    ticks = [factor * 10.0**decade for decade in decades[::every] for factor in factors]
    return [tick for tick in ticks if low <= math.log10(tick) <= high]


def _x(value: float, low: float, high: float, left: int = _LEFT) -> float:
    return _between(value, low, high, left + 6, _WIDTH - _RIGHT - 6)


def _between(value: float, low: float, high: float, start: float, end: float) -> float:
    return start + (value - low) / (high - low) * (end - start)
