"""A bench as one web page: what follows in words, the table, pictures, and what it was made with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from infuser.experiments.bench_table import BenchTable
from infuser.experiments.sweeps import Ablation, Sweep, plots_of
from infuser.files import nan_to_null
from infuser.reports.bench_plots import draw_plot, plot_label
from infuser.reports.bench_table import Metrics, latex_table, markdown_table, table_grid, table_note, table_verdicts
from infuser.reports.figures import to_svg
from infuser.reports.page import bullets, document, escaped, folded, notes_section, section, soft, verdict


def bench_page(
    bench: BenchTable,
    plots: Sequence[Sweep | Ablation] | None = None,
    *,
    metrics: Metrics = "all",
    settings: Mapping[str, Any] | None = None,
) -> str:
    """Return a self-contained page; without plots, with those of every sweep and ablation in the table."""
    wide, long = table_grid(bench, layout="wide"), table_grid(bench, layout="long", metrics=metrics)
    parts = [
        _state(bench),
        section("What follows", bullets(table_verdicts(bench))),
        section("Results", wide.to_html(), soft(table_note(bench))),
        *(_plot(plot) for plot in (plots_of(bench) if plots is None else plots)),
        section("In detail", long.to_html()),
        notes_section(bench.notes),
        _settings(settings),
        folded("Versions", bench.versions or {}),
    ]
    return document(bench.title, parts)


def bench_text(
    table: BenchTable, format: str, *, metrics: Metrics = "first", settings: Mapping[str, Any] | None = None
) -> str:
    """Return a table of a bench as "html", "json", "latex" or Markdown."""
    if format == "html":
        return bench_page(table, metrics=metrics, settings=settings)
    if format == "json":
        return table.to_json()
    return latex_table(table, metrics=metrics) if format == "latex" else markdown_table(table, metrics=metrics)


def _state(bench: BenchTable) -> str:
    if not bench.n_missing:
        return ""
    done = bench.n_cells - bench.n_missing
    return verdict(f"Not finished: {done} of {bench.n_cells} cells have a result.", "")


def _plot(plot: Sweep | Ablation) -> str:
    if isinstance(plot, Sweep):
        title = f"{plot.method} by {plot.setting}"
        how = (
            f"Mean over seeds with its 95 % interval for each {plot.setting} of {plot.method}; the dashed line is "
            f"{plot.baseline}. Host: {plot.host}."
        )
    else:
        title = f"What each part of {plot.method} is worth"
        how = (
            f"Each part is left out of {plot.method} in turn. Left of the dashed line something is lost without it; a "
            "line is the 95 % interval over seeds, and one that crosses the dashed line is no evidence. Host: "
            f"{plot.host}."
        )
    return section(title, to_svg(draw_plot(plot), plot_label(plot)), soft(how))


def _settings(settings: Mapping[str, Any] | None) -> str:
    if settings is None:
        return ""
    text = escaped(json.dumps(nan_to_null(settings), indent=1, ensure_ascii=False))
    return f'<details><summary>Settings</summary><div class="wide"><pre>{text}</pre></div></details>'
