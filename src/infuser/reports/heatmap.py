"""An explanation as one picture: the knowledge maps, then attention without, with, and the difference."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infuser.analysis.explanation import Explanation
from infuser.reports.figures import drawing, new_figure, write_figure
from infuser.reports.grids import BLUE, ORANGE, PURPLE, Panel, attention_panels, map_panel
from infuser.reports.page import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LABELS = 60
"""With more tokens than this, only every second, third ... one gets its label."""
LABEL_WIDTH = 16
"""Longer words are cut on the axes."""

_COLUMNS = 3
_DPI = 120


def draw_explanation(explanation: Explanation) -> Figure:
    """Return a figure with one panel per knowledge map and three of attention: without, with, difference."""
    n_words, n_columns = len(explanation.words), len(explanation.words) + len(explanation.terms)
    n_rows = math.ceil(len(explanation.maps) / _COLUMNS) + 1
    cell = max(0.13, min(0.3, 4.0 / n_words)) if n_words <= MOST_LABELS else 0.13 * MOST_LABELS / n_words
    cell = max(cell, 1.0 / n_words)
    font_size = min(9.0, cell * 72 * 0.75) if n_words <= MOST_LABELS else 7.0
    longest = max(len(shown(word, LABEL_WIDTH)) for word in [*explanation.words, *explanation.terms])
    gutter = 0.15 + longest * 0.62 * font_size / 72  # for the words beside and below a panel
    width = _COLUMNS * max(gutter + cell * n_columns + 0.75, gutter + 2.3)
    heading = _heading(explanation, max(44, int(width * 11)))
    height = n_rows * (cell * n_words + gutter + 0.5) + 0.35 + 0.2 * len(heading)

    maps = [(f"knowledge: {name}", map_panel(drawn)) for name, drawn in explanation.maps.items()]
    titles = ("attention without knowledge", "attention with knowledge", "with minus without")
    last = (n_rows - 1) * _COLUMNS  # attention has a row of its own
    places = [*range(len(maps)), *range(last, last + _COLUMNS)]
    panels = [*maps, *zip(titles, attention_panels(explanation), strict=True)]
    with drawing():
        figure = new_figure(72 * height, width=72 * width)
        title, *lines = heading
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, weight="bold")
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=9.5, color="0.25")
        for place, (name, panel) in zip(places, panels, strict=True):
            axes = figure.add_subplot(n_rows, _COLUMNS, place + 1)
            norm, colours = _colouring(panel)
            image = axes.imshow(panel.values, cmap=colours, norm=norm, interpolation="nearest", aspect="auto")
            axes.set_title(shown(name, 34), fontsize=10, loc="left")
            axes.grid(visible=False)
            _label(axes, explanation, panel.values.shape[1], font_size)
            scale = figure.colorbar(image, ax=axes, ticks=_ticks(norm), format="%.2g", aspect=40, pad=0.02)
            scale.ax.tick_params(labelsize=7, length=2)
            scale.outline.set_visible(False)
    return figure


def write_png(explanation: Explanation, path: str | Path) -> Path:
    """Draw an explanation into a PNG file."""
    return write_figure(draw_explanation(explanation), path, dpi=_DPI)


def _colouring(panel: Panel) -> tuple[Any, Any]:
    """Return the colour scale and the colours of a panel, as a page has them on white paper."""
    from matplotlib.colors import FuncNorm, LinearSegmentedColormap, Normalize, PowerNorm

    hues = (PURPLE, (255, 255, 255), ORANGE) if panel.signed else ((255, 255, 255), BLUE)
    colours = LinearSegmentedColormap.from_list("panel", [tuple(part / 255 for part in hue) for hue in hues])
    if panel.signed:
        roots = (lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * np.square(x))
        return FuncNorm(roots, -panel.top, panel.top), colours
    return (PowerNorm(0.5, 0, panel.top) if panel.scale == "root" else Normalize(0, panel.top)), colours


def _label(axes: Axes, explanation: Explanation, n_columns: int, font_size: float) -> None:
    """Write the words on both axes; auxiliary terms in italics behind a line."""
    n_words = len(explanation.words)
    step = math.ceil(n_words / MOST_LABELS)
    style: dict[str, Any] = {"fontsize": font_size}
    rows = range(0, n_words, step)
    words = [shown(word, LABEL_WIDTH) for word in [*explanation.words, *explanation.terms]]
    columns = [*rows, *range(n_words, n_columns, step)]
    axes.set_yticks(list(rows), [words[at] for at in rows], **style)
    axes.set_xticks(columns, [words[at] for at in columns], rotation=90, **style)
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set(visible=True, color="0.8")
    if n_columns > n_words:
        axes.axvline(n_words - 0.5, color="0.3", linewidth=1.2)
        for tick, at in zip(axes.get_xticklabels(), columns, strict=True):
            tick.set_fontstyle("italic" if at >= n_words else "normal")


def _heading(explanation: Explanation, width: int) -> list[str]:
    place = f"{explanation.place}; row reads column; attention coloured on a square-root scale"
    warning = textwrap.wrap(explanation.warning or "", width)
    text = [shown(line) for line in caption_lines(explanation, width)]
    return [shown(explanation.title, width), *text, place, *warning]


def _ticks(norm: Any) -> list[float]:
    """Return the ends of a colour scale and what lies half way between them in colour."""
    ends = [norm.vmin, 0.0, norm.vmax] if norm.vmin < 0 else [norm.vmin, norm.vmax]
    shares = [0.25, 0.75] if norm.vmin < 0 else [0.5]
    return sorted([*ends, *(float(norm.inverse(share)) for share in shares)])


def caption_lines(explanation: Explanation, width: int) -> list[str]:
    """Return the text, and its pair, shortened to two lines of `width` characters each."""
    sides = [side for side in (explanation.text, explanation.pair) if side]
    plain = (" ".join(side[: 8 * width].split()) for side in sides)  # more is cut anyway, and takes long
    return [line for side in plain for line in textwrap.wrap(side, width, max_lines=2, placeholder="…")]
