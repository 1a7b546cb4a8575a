"""Tables of cells for the terminal, Markdown, LaTeX or a page; and the cells of a comparison."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infuser.reports.page import table as page_table
from infuser.stats.comparison import ArmStatistics, signed, signed_range
from infuser.stats.intervals import Interval
from infuser.terminal import visible

if TYPE_CHECKING:
    from rich.table import Table

_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "▲": r"$^{+}$",
    "▼": r"$^{-}$",
    "[": "{[}",  # a line that begins with a bracket would be an option of the line break before it
}


@dataclass(frozen=True)
class Grid:
    """The cells of a table; the first few columns are names, the others numbers."""

    head: list[str]
    body: list[list[str]]
    n_names: int = 1

    def to_terminal(self, *, title: str = "", caption: str = "", whole: Collection[int] = ()) -> Table:
        """Return the table for rich; the cells of the columns in `whole` are never broken."""
        from rich.table import Table
        from rich.text import Text  # a name such as "[bold]" is a name, not markup

        drawn = Table(
            title=Text(visible(title)) if title else None, caption=Text(visible(caption)), caption_justify="left"
        )
        for at, name in enumerate(self.head):
            drawn.add_column(Text(visible(name)), justify="left" if at < self.n_names else "right", no_wrap=at in whole)
        for line in self.body:
            drawn.add_row(*(Text(visible(cell)) for cell in line))
        return drawn

    def to_markdown(self, notes: Sequence[str] = ()) -> str:
        """Return the table in Markdown, with a list of notes below it."""
        rule = ["---" if at < self.n_names else "---:" for at in range(len(self.head))]
        lines = [self.head, rule, *self.body]
        drawn = "\n".join("| " + " | ".join(map(_markdown, line)) + " |" for line in lines)
        listed = "\n".join(f"- {_markdown(note)}" for note in notes)
        return f"{drawn}\n\n{listed}\n"

    def to_latex(self, caption: str) -> str:
        """Return the table for LaTeX with booktabs."""
        sides = "l" * self.n_names + "r" * (len(self.head) - self.n_names)
        head, *body = (" & ".join(map(_latex, line)) + r" \\" for line in [self.head, *self.body])
        lines = ["% \\usepackage{booktabs}", r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{sides}}}"]
        lines += [r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*lines, rf"\caption{{{_latex(caption)}}}", r"\end{table}", ""])

    def to_html(self) -> str:
        """Return the table for a page."""
        return page_table(self.head, self.body)


def comparison_grid(comparison: ArmStatistics) -> Grid:
    """Return one row of cells per arm; the first arm has no difference to itself."""
    first = comparison.arms[0].name
    to_first = {difference.arm: difference for difference in comparison.differences if difference.against == first}
    body = []
    for arm in comparison.arms:
        change = ["", ""]
        if (difference := to_first.get(arm.name)) is not None:
            reach = half_width(difference.over_seeds)
            change = [f"{signed(difference.mean)}{reach}", signed_range(difference.over_examples)]
        reached = f"{plain(arm.mean)}{half_width(arm.interval)}"
        body.append([arm.name, reached, *change, f"{arm.extra_weights:,}", duration(arm.seconds)])
    metric, minus = f"{comparison.metric} ± 95 %", f"minus {first} ± 95 %"
    return Grid(["arm", metric, minus, "95 % over examples", "extra weights", "time"], body)


def method_note(comparison: ArmStatistics) -> str:
    """Return one sentence on how the intervals were made."""
    n_seeds = len(comparison.arms[0].per_seed)
    drawn = f"{comparison.n_examples:,} test examples"
    if comparison.n_groups is not None:
        drawn += f" in {comparison.n_groups:,} groups drawn whole"
    return (
        f"Means over {n_seeds} seed{'s' if n_seeds != 1 else ''}, time per seed. 95 % intervals: ± by Student's t over "
        f"seeds, paired for differences; [low, high] by {comparison.rounds:,} paired bootstrap rounds over {drawn}."
    )


def markdown_table(comparison: ArmStatistics) -> str:
    """Return a comparison in Markdown, then the verdicts and how the intervals were made."""
    return f"{comparison_grid(comparison).to_markdown(comparison.verdicts)}\n{method_note(comparison)}\n"


def terminal_table(comparison: ArmStatistics) -> Table:
    """Return a comparison as a table for rich."""
    return comparison_grid(comparison).to_terminal(caption=method_note(comparison), whole=[3])


def plain(value: float, scale: float = 1.0) -> str:
    """Return a score as text; numbers are `scale` times as large, as papers write them."""
    return signed(value, scale).removeprefix("+")


def half_width(interval: Interval | None, scale: float = 1.0) -> str:
    """Return half the width of a t-interval, which is symmetric; nothing with one seed."""
    return "" if interval is None else f" ± {plain((interval[1] - interval[0]) / 2, scale)}"


def duration(seconds: float | None) -> str:
    """Return a time in seconds or minutes; nothing if it is unknown."""
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _markdown(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _latex(cell: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in cell)
