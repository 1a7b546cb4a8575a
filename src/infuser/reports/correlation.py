"""Scores of a correlation table against how often words are seen, as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from infuser.reports.figures import write_figure

_ENDINGS = (".png", ".svg", ".pdf")
_BINS, _FEW = 60, 20  # the median of fewer pairs is left out


def write_scores(frequencies: ArrayLike, scores: ArrayLike, name: str, path: str | Path) -> Path:
    """Write a picture of pairs as .png, .svg or .pdf: how often the rarer word is seen, the score, how many pairs."""
    from matplotlib.figure import Figure

    seen, scored = np.asarray(frequencies, float), np.asarray(scores, float)
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    if len(seen):
        drawn = axes.hexbin(seen, scored, xscale="log", bins="log", gridsize=_BINS, mincnt=1, cmap="viridis")
        figure.colorbar(drawn, ax=axes, label="pairs")
        edges = np.unique(np.geomspace(seen.min(), seen.max() + 1, 13))
        place = np.digitize(seen, edges)
        full = [one for one in np.unique(place) if np.count_nonzero(place == one) >= _FEW]
        middles = [(seen[place == one].mean(), np.median(scored[place == one])) for one in full]
        if middles:
            axes.plot(*zip(*middles, strict=True), color="#d9620e", marker="o", markersize=4, label="median")
            axes.legend(loc="lower right")
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set_xlabel("how often the rarer of the two words is seen")
    axes.set_ylabel(name)
    axes.set_title(f"{name} of {len(seen):,} pairs")
    return write_figure(figure, path, endings=_ENDINGS)
