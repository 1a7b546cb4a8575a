"""The one progress bar: a rich bar on a terminal's stderr, a line now and then in log files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from infuser.terminal import say, visible

if TYPE_CHECKING:
    from rich.console import Console

Report = Callable[[str, int, int | None], None]
"""Called with the current phase, how much of it is done, and how much there is (None if unknown)."""

_SECONDS_BETWEEN_LINES = 30.0
_T = TypeVar("_T")


def no_progress(what: str, done: int, total: int | None) -> None:
    """A `Report` that shows nothing."""


class ProgressBar:
    """What `progress_bar` yields: call `advance` per item, or `report` with a phase and totals."""

    def __init__(self, console: Console, bar: Any, what: str, total: int | None, unit: str) -> None:
        self._console, self._bar, self._unit = console, bar, unit
        self._what, self._done, self._total = what, 0, total
        self._task = bar.add_task(visible(what), total=total, rate="")
        self._first, self._started = 0, time.monotonic()
        self._printed = self._started

    def advance(self, n: int = 1) -> None:
        """Count `n` more items of the current phase."""
        self.report(self._what, self._done + n, self._total)

    def report(self, what: str, done: int, total: int | None = None, *, detail: str = "") -> None:
        """Show the phase `what` with `done` of `total` items, and `detail` in place of the speed."""
        if what != self._what:
            self._what = what
            self._restart(done)
        self._done, self._total = done, total
        now = time.monotonic()
        seconds = now - self._started
        rate = (done - self._first) / seconds if seconds > 0.5 else 0.0
        speed = f"{rate:,.0f}{f' {self._unit}' if self._unit else ''}/s" if rate else ""
        shown = detail or speed
        self._bar.update(self._task, description=visible(what), completed=done, total=total, rate=visible(shown))
        if not self._console.is_terminal and now - self._printed >= _SECONDS_BETWEEN_LINES:
            self.print_line()

    def print_line(self) -> None:
        """Print how far the current phase is as one line, for log files."""
        self._printed = time.monotonic()
        rate = (self._done - self._first) / max(self._printed - self._started, 1e-6)
        of = "" if self._total is None else f" of {self._total:,}"
        line = f"{self._what}: {self._done:,}{of} {self._unit}, {rate:,.0f} {self._unit}/s"
        if not self._console.quiet:
            say(line, err=True)

    def _restart(self, done: int) -> None:
        self._first, self._started = done, time.monotonic()


@contextmanager
def progress_bar(
    what: str = "", total: int | None = None, *, unit: str = "", shown: bool | None = None, last_line: bool = False
) -> Iterator[ProgressBar]:
    """Yield a progress bar on stderr; `shown=None` draws it on terminals only, False hides it and its log lines.

    With `last_line` a log file also gets the final figures.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, quiet=shown is False)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(),
    )
    hidden = shown is False or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        shown_bar = ProgressBar(console, bar, what, total, unit)
        yield shown_bar
    if last_line and not console.is_terminal:
        shown_bar.print_line()


def track(
    items: Iterable[_T], what: str, total: int | None = None, *, unit: str = "", shown: bool | None = None
) -> Iterator[_T]:
    """Yield the items and count them on a progress bar."""
    with progress_bar(what, total, unit=unit, shown=shown) as bar:
        for item in items:
            yield item
            bar.advance()
