"""A bench as one web page: what follows in words, the table, pictures, and what it was made with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from infuser.experiments.bench_table import BenchTable
from infuser.files import nan_to_null
from infuser.reports.bench_plots import Ablation, Sweep, ablation_plot, plots_of, sweep_plot
from infuser.reports.bench_table import Metrics, table_grid, table_note, table_verdicts
from infuser.reports.page import document
from infuser.reports.parts import escaped, notes_section, soft, table, versions_section


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
        f"<h1>{escaped(bench.title)}</h1>",
        _state(bench),
        _verdicts(bench),
        f"<h2>Results</h2>{table(wide.head, wide.body)}{soft(table_note(bench))}",
        *(_plot(plot) for plot in (plots_of(bench) if plots is None else plots)),
        f"<h2>In detail</h2>{table(long.head, long.body)}",
        notes_section(bench.notes),
        _settings(settings),
        versions_section(bench.versions or {}),
    ]
    return document(bench.title, "\n".join(part for part in parts if part))


def _state(bench: BenchTable) -> str:
    if not bench.n_missing:
        return ""
    done = bench.n_cells - bench.n_missing
    return f'<p class="verdict">Not finished: {done} of {bench.n_cells} cells have a result.</p>'


def _verdicts(bench: BenchTable) -> str:
    told = table_verdicts(bench)
    return f"<h2>What follows</h2><ul>{''.join(f'<li>{escaped(one)}</li>' for one in told)}</ul>" if told else ""


def _plot(plot: Sweep | Ablation) -> str:
    if isinstance(plot, Sweep):
        told = (
            f"Mean over seeds with its 95 % interval for each {plot.setting} of {plot.method}; the dashed line is "
            f"{plot.baseline}. Host: {plot.host}."
        )
        return f"<h2>{escaped(plot.method)} by {escaped(plot.setting)}</h2>{sweep_plot(plot)}{soft(told)}"
    told = (
        f"Each part is left out of {plot.method} in turn. Left of the dashed line something is lost without it; a line "
        f"is the 95 % interval over seeds, and one that crosses the dashed line is no evidence. Host: {plot.host}."
    )
    return f"<h2>What each part of {escaped(plot.method)} is worth</h2>{ablation_plot(plot)}{soft(told)}"


def _settings(settings: Mapping[str, Any] | None) -> str:
    if settings is None:
        return ""
    text = escaped(json.dumps(nan_to_null(settings), indent=1, ensure_ascii=False))
    return f'<details><summary>Settings</summary><div class="wide"><pre>{text}</pre></div></details>'
