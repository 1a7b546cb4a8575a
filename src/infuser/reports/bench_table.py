"""The table of a bench as cells, for the terminal, Markdown, LaTeX or a page.

Two layouts. "long" has a line for each method on each task, with all that is known of it; "wide" has a line for each
method and a column for each task, as papers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from infuser.experiments.bench_table import BenchRow, BenchTable, Column, Entry, Measure
from infuser.reports.table import Grid, duration, half_width, plain
from infuser.stats.comparison import difference_sentence, signed, signed_range

if TYPE_CHECKING:
    from rich.table import Table

Layout = Literal["long", "wide"]
Metrics = Literal["first", "all"]
_MARKS = {"helps": " ▲", "hurts": " ▼", "no evidence": ""}


def table_grid(table: BenchTable, *, layout: Layout = "long", metrics: Metrics = "first") -> Grid:
    """Return the cells of a table; columns that would be empty are left out."""
    grid = _long(table, metrics) if layout == "long" else _wide(table, metrics)
    used = [at for at in range(len(grid.head)) if at < grid.n_names or any(line[at] for line in grid.body)]
    return Grid([grid.head[at] for at in used], [[line[at] for at in used] for line in grid.body], grid.n_names)


def terminal_table(table: BenchTable, *, layout: Layout = "long", metrics: Metrics = "first") -> Table:
    """Return the table for rich, with the notes below it."""
    caption = "\n".join([table_note(table), *table.notes])
    grid = table_grid(table, layout=layout, metrics=metrics)
    return grid.to_terminal(title=table.title, caption=caption, whole=range(grid.n_names))


def markdown_table(table: BenchTable, *, layout: Layout = "long", metrics: Metrics = "first") -> str:
    """Return the table in Markdown, then how to read it and the notes."""
    return table_grid(table, layout=layout, metrics=metrics).to_markdown([table_note(table), *table.notes])


def latex_table(table: BenchTable, *, layout: Layout = "wide", metrics: Metrics = "first") -> str:
    """Return the table for LaTeX with booktabs, notes as its caption."""
    caption = " ".join([f"{table.title}.", table_note(table), *table.notes])
    return table_grid(table, layout=layout, metrics=metrics).to_latex(caption)


def table_verdicts(table: BenchTable) -> list[str]:
    """Return one sentence for each method on each task, by its main metric."""
    several = len({row.host for row in table.rows if row.runs}) > 1
    return [
        difference_sentence(
            entry.first.metric,
            entry.first.difference,
            arm=f"{row.method} ({row.host})" if several else row.method,
            on=f" on {entry.column}",
            scale=table.scale,
            learns=column.learns,
        )
        for row in table.rows
        for column, entry in zip(table.columns, row.entries, strict=True)
        if entry.first.difference is not None
    ]


def table_note(table: BenchTable) -> str:
    """Return how the numbers were made and what the marks mean."""
    n_compared = sum(entry.first.difference is not None for row in table.rows for entry in row.entries)
    scale = f"Numbers are times {table.scale:g}. " if table.scale != 1 else ""
    return (
        f"{scale}Means over seeds ± half of the 95 % t-interval. Differences to {table.baseline} are paired, by seed "
        "(± again) and by test example ([low, high]: 95 % bootstrap interval). ▲ better, ▼ worse: both intervals "
        "exclude 0. p: paired t-test over seeds. Without ±: one seed, or all alike. Not corrected for the number of "
        f"comparisons, {n_compared}."
    )


def _long(table: BenchTable, metrics: Metrics) -> Grid:
    head = ["task", "host", "method", "metric", "measured", f"minus {table.baseline}", "over examples", "p"]
    head += ["published", "extra weights", "published extra", "time", "MiB", "missing"]
    hosts = {row.host for row in table.rows}
    body = []
    for at, column in enumerate(table.columns):
        for row in table.rows:
            entry = row.entries[at]
            for number, one in enumerate(_shown(entry, metrics)):
                if one.mean is None and one.published is None and not row.runs:
                    continue  # a paper without this task
                own = _of_entry(table, row, entry) if number == 0 else [""] * 5
                body.append([_task_name(column), row.host, row.method, one.metric, *_cells(table, one), *own])
    names = [0, 1, 2, 3] if len(hosts) > 1 else [0, 2, 3]
    rest = list(range(4, len(head)))
    return Grid([head[at] for at in names + rest], [[line[at] for at in names + rest] for line in body], len(names))


def _cells(table: BenchTable, one: Measure) -> list[str]:
    apart, change = one.difference, ["", "", ""]
    if apart is not None:
        p_value = "" if apart.p_value is None else f"{apart.p_value:.3f}"
        by_seed = signed(apart.mean, table.scale) + half_width(apart.over_seeds, table.scale) + _MARKS[apart.verdict]
        change = [by_seed, signed_range(apart.over_examples, table.scale), p_value]
    published = _published(table, one.published)
    if one.published_difference is not None:
        published += f" ({round(one.published_difference * table.scale, 6):+g})"
    return [_measured(table, one), *change, published]


def _of_entry(table: BenchTable, row: BenchRow, entry: Entry) -> list[str]:
    missing = f"{entry.n_missing}" if entry.n_missing else ""
    return [
        "" if entry.extra_weights is None else f"{entry.extra_weights:,}",
        "" if row.runs and entry.extra_weights is None else _published_extra(table, row),
        duration(entry.seconds),
        "" if entry.peak_mib is None else f"{entry.peak_mib:,.0f}",
        missing,
    ]


def _wide(table: BenchTable, metrics: Metrics) -> Grid:
    several = len({row.host for row in table.rows}) > 1
    shown = [
        (at, number, one.metric)
        for at in range(len(table.columns))
        for number, one in enumerate(_shown(table.rows[0].entries[at], metrics))
    ]
    head = [*(["host"] if several else []), "method"]
    for at, _, metric in shown:
        head += [f"{_task_name(table.columns[at])} {metric}", "published"]
    head += ["extra weights", "published extra"]
    body = []
    for row in table.rows:
        line = [*([row.host] if several else []), row.method]
        for at, number, _ in shown:
            one = row.entries[at].measures[number]
            line += [_with_difference(table, one), _published(table, one.published)]
        extra = max((entry.extra_weights for entry in row.entries if entry.extra_weights is not None), default=None)
        body.append([*line, "" if extra is None else f"{extra:,}", _published_extra(table, row)])
    return Grid(head, body, 2 if several else 1)


def _shown(entry: Entry, metrics: Metrics) -> Sequence[Measure]:
    return entry.measures if metrics == "all" else entry.measures[:1]


def _task_name(column: Column) -> str:
    return column.name if column.split in (None, "dev") else f"{column.name} ({column.split})"


def _measured(table: BenchTable, one: Measure) -> str:
    return "" if one.mean is None else plain(one.mean, table.scale) + half_width(one.interval, table.scale)


def _with_difference(table: BenchTable, one: Measure) -> str:
    apart = one.difference
    change = "" if apart is None else f" ({signed(apart.mean, table.scale)}){_MARKS[apart.verdict]}"
    return _measured(table, one) + change


def _published(table: BenchTable, value: float | None) -> str:
    """Return a number as the paper writes it."""
    return "" if value is None else f"{round(value * table.scale, 6):g}"


def _published_extra(table: BenchTable, row: BenchRow) -> str:
    """Return how many more weights the paper's model has than its baseline."""
    base = next((one for one in table.rows if (one.host, one.method) == (row.host, table.baseline)), None)
    if row is base or base is None or row.published_weights is None or base.published_weights is None:
        return ""
    return f"{row.published_weights - base.published_weights:,}"
