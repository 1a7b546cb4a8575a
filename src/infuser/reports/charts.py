"""Two small charts for a page, as inline SVG: values of every seed with intervals, and curves of training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from infuser.reports.comparison import Comparison
from infuser.reports.explanation import shown

_WIDTH, _LEFT, _RIGHT = 460, 14, 14
COLOURS = ("#3b82c4", "#d9620e", "#4f9d69", "#b0629b", "#a08b2c", "#6e8898")
"""One per arm or curve; told apart by colour-blind readers too."""


def dot_plot(comparison: Comparison) -> str:
    """Return one row per arm: a ring per seed, a dot for the mean, a line for the 95 % interval over seeds."""
    low, high = _range_of(comparison)
    row, top = 44, 6
    bottom = top + row * len(comparison.arms)
    parts = [_axis(low, high, top, bottom)]
    for at, arm in enumerate(comparison.arms):
        colour, y = COLOURS[at % len(COLOURS)], top + row * at + 29
        parts.append(f'<text x="{_LEFT}" y="{y - 14}">{escape(shown(arm.name, 48))}</text>')
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


def line_chart(curves: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return one line per name through its (step, value) points; points that are not finite are left out."""
    lines = {
        name: [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)] for name, points in curves.items()
    }
    lines = {name: points for name, points in lines.items() if points}
    if not lines:
        return ""
    everything = [point for points in lines.values() for point in points]
    first, last = _widened(min(x for x, _ in everything), max(x for x, _ in everything), 0.0)
    low, high = _widened(min(y for _, y in everything), max(y for _, y in everything), 0.05)
    top, bottom = 8, 188
    left = 44  # room for the numbers beside the lines
    parts = [_axis(first, last, top, bottom, left)]
    for tick in _ticks(low, high):
        y = _between(tick, low, high, bottom, top)
        parts.append(f'<text class="tick e" x="{left - 4}" y="{y + 4:.1f}">{tick:g}</text>')
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{_WIDTH - _RIGHT}"/>')
    for at, (name, points) in enumerate(lines.items()):
        colour, y = COLOURS[at % len(COLOURS)], bottom + 42 + 18 * at
        spots = [(_x(x, first, last, left), _between(value, low, high, bottom, top)) for x, value in points]
        path = "L".join(f"{x:.1f} {spot:.1f}" for x, spot in spots)
        parts.append(f'<path fill="none" stroke="{colour}" stroke-width="2" d="M{path}"/>')
        parts.extend(f'<circle cx="{x:.1f}" cy="{spot:.1f}" r="2.5" fill="{colour}"/>' for x, spot in spots)
        parts.append(f'<circle cx="{_LEFT + 5}" cy="{y - 4}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{_LEFT + 16}" y="{y}">{escape(shown(name, 56))}</text>')
    return _chart("Curves over training steps", bottom + 42 + 18 * len(lines) - 10, parts)


def _chart(label: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg class="chart" role="img" aria-label="{escape(label)}" viewBox="0 0 {_WIDTH} {height}" '
        f'font-size="13">{"".join(parts)}</svg>'
    )


def _axis(low: float, high: float, top: int, bottom: int, left: int = _LEFT) -> str:
    parts = []
    for tick in _ticks(low, high):
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


def _ticks(low: float, high: float, n_ticks: int = 5) -> list[float]:
    """Return about five round numbers between low and high."""
    rough = (high - low) / n_ticks
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    return [round(at * step, 10) for at in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _x(value: float, low: float, high: float, left: int = _LEFT) -> float:
    return _between(value, low, high, left + 6, _WIDTH - _RIGHT - 6)


def _between(value: float, low: float, high: float, start: float, end: float) -> float:
    return start + (value - low) / (high - low) * (end - start)
