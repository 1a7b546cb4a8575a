"""A comparison as a table: cells once, then Markdown, the terminal or HTML around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infuser.stats.comparison import Comparison, signed_range
from infuser.stats.intervals import Interval

if TYPE_CHECKING:
    from rich.table import Table


def header(comparison: Comparison) -> list[str]:
    """Return the column names."""
    first = comparison.arms[0].name
    return [
        "arm",
        f"{comparison.metric} ± 95 %",
        f"minus {first} ± 95 %",
        "95 % over examples",
        "extra weights",
        "time",
    ]


def rows(comparison: Comparison) -> list[list[str]]:
    """Return one row of cells per arm; the first arm has no difference to itself."""
    first = comparison.arms[0].name
    to_first = {difference.arm: difference for difference in comparison.differences if difference.against == first}
    table = []
    for arm in comparison.arms:
        difference = to_first.get(arm.name)
        change = ["", ""]
        if difference is not None:
            reach = _reach(difference.over_seeds)
            change = [f"{difference.mean:+.3f}{reach}", signed_range(difference.over_examples)]
        reached = f"{arm.mean:.3f}{_reach(arm.interval)}"
        table.append([arm.name, reached, *change, f"{arm.extra_weights:,}", _time(arm.seconds)])
    return table


def method_note(comparison: Comparison) -> str:
    """Say in one sentence how the intervals were made."""
    n_seeds = len(comparison.arms[0].per_seed)
    drawn = f"{comparison.n_examples:,} test examples"
    if comparison.n_groups is not None:
        drawn += f" in {comparison.n_groups:,} groups drawn whole"
    return (
        f"Means over {n_seeds} seed{'s' if n_seeds != 1 else ''}, time per seed. 95 % intervals: ± by Student's t over "
        f"seeds, paired for differences; [low, high] by {comparison.rounds:,} paired bootstrap rounds over {drawn}."
    )


def markdown_table(comparison: Comparison) -> str:
    """Return the table in Markdown, then the verdicts and how the intervals were made."""
    names = header(comparison)
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *rows(comparison)]
    table = "\n".join("| " + " | ".join(_markdown_cell(cell) for cell in line) + " |" for line in lines)
    verdicts = "\n".join(f"- {_markdown_cell(sentence)}" for sentence in comparison.verdicts)
    return f"{table}\n\n{verdicts}\n\n{method_note(comparison)}\n"


def terminal_table(comparison: Comparison) -> Table:
    """Return the table for rich."""
    from rich.table import Table
    from rich.text import Text

    table = Table(caption=Text(method_note(comparison)), caption_justify="left")
    for at, name in enumerate(header(comparison)):
        table.add_column(Text(name), justify="left" if at == 0 else "right", no_wrap=at == 3)
    for row in rows(comparison):
        table.add_row(*(Text(cell) for cell in row))  # Text: a name such as "[bold]" is a name, not markup
    return table


def _reach(interval: Interval | None) -> str:
    """Return half the width of a t-interval, which is symmetric; nothing with one seed."""
    return "" if interval is None else f" ± {(interval[1] - interval[0]) / 2:.3f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _markdown_cell(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
