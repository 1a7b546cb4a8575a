"""What commands print with: consoles, tables, skipped rows, sizes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from infuser.terminal import json_for_programs, visible
from infuser.terminal import say as say
from infuser.terminal import show as show

if TYPE_CHECKING:
    from infuser.tables.skipped import Skipped
    from infuser.training import StepReport


def warn(message: str) -> None:
    """Print a warning in yellow on stderr."""
    say(message, style="yellow", err=True)


class Warnings(logging.Handler):
    """Prints what the library warns of; its messages may hold names from files."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        warn(self.format(record))


def print_json(value: Any, *, indent: int | None = 1) -> None:
    """Print plain values as JSON, for programs."""
    print(json_for_programs(value, indent=indent))


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    caption: str | None = None,
    left: Collection[int] = (0,),
    bold: int | None = None,
) -> None:
    """Print a table; `left` says which columns are left-aligned, `bold` which row stands out."""
    table = Table(
        title=None if title is None else _text(title),
        caption=None if caption is None else _text(caption),
        title_justify="left",
    )
    for place, header in enumerate(headers):
        table.add_column(_text(header), justify="left" if place in left else "right", overflow="fold")
    for number, row in enumerate(rows):
        table.add_row(*map(_text, row), style="bold" if number == bold else None)
    show(table)


def _text(cell: object) -> Text:
    """Return a cell as it is written: "[red]" and ":cat:" are names, not markup."""
    return Text(visible(str(cell)))


def with_interval(value: float, ends: Sequence[float] | None) -> str:
    """Return a table cell with a value and, below it, its interval."""
    return f"{value:.3f}" if ends is None else f"{value:.3f}\n{ends[0]:.2f}-{ends[1]:.2f}"


def print_fields(fields: Mapping[str, object], *, title: str | None = None) -> None:
    """Print names and values in two columns under a title."""
    if title is not None:
        say(title, style="bold")
    table = Table.grid(padding=(0, 2))
    for name, value in fields.items():
        table.add_row(_text(f"  {name}"), _text(f"{value:,}" if type(value) is int else value))
    show(table)


def print_finding(sentence: str, notes: Iterable[str]) -> None:
    """Print the result of an analysis in a sentence, and its notes."""
    say(f"\n{sentence}", style="bold")
    for note in notes:
        say(f"  {note}", style="yellow")


def print_next_steps(steps: Sequence[str]) -> None:
    """Print commands to try next, which can be copied."""
    if steps:
        say("\nWhat to try next", style="bold")
    for step in steps:
        say(f"  {step}")


@contextmanager
def skipping(strict: bool = False) -> Iterator[Skipped]:
    """Yield a count of the rows that cannot be read, and print it at the end; `strict` makes them errors."""
    from infuser.tables.skipped import Skipped

    skipped = Skipped(strict)
    try:
        yield skipped
    finally:
        print_skipped(skipped)


def print_skipped(skipped: Skipped) -> None:
    """Print how many rows could not be read, and the first few, on stderr."""
    if not skipped.n:
        return
    what = "row could not be read and was" if skipped.n == 1 else "rows could not be read and were"
    warn(f"{skipped.n:,} {what} skipped. The first:")
    for line in skipped.first:
        say(f"  {line}", err=True)


@contextmanager
def waiting(message: str) -> Iterator[Callable[[], None]]:
    """Show that something is under way; yield what ends the sign early."""
    with Console(stderr=True).status(_text(message)) as status:
        yield status.stop


@contextmanager
def loading(what: str, *, quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """Show that something is loaded, without transformers' own warnings; yield a `progress` for what is fetched."""
    with Console(stderr=True, quiet=quiet).status(_text(f"Loading {what}")) as status:
        from transformers.utils import logging as transformers_logging

        logging.getLogger("huggingface_hub").setLevel("ERROR")  # it logs every attempt to connect
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # fresh heads are expected

        def report(message: str, done: int, total: int) -> None:
            status.update(_text(f"{message} ({done / total:.0%})" if total else message))

        yield report


def training_progress() -> bool | Callable[[StepReport], None]:
    """Return how training reports its steps: a bar on a terminal, lines in log files."""
    from infuser.training.steps import print_steps

    return True if Console(stderr=True).is_terminal else print_steps


@contextmanager
def resumable(then: str = "The same command resumes from the last checkpoint.") -> Iterator[None]:
    """End a stopped command with exit code 130 and say what happens if it is run again."""
    try:
        yield
    except KeyboardInterrupt as error:
        say(f"\nStopped. {then}", err=True)
        raise typer.Exit(130) from error


def size_of(folder: Path) -> str:
    """Return the size of a folder for people."""
    return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 1e6:,.1f} MB"
