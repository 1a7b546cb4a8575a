"""What commands tell on the way: how much the sources know, how far it is, how it went, what to try next."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from infuser.words import counted

if TYPE_CHECKING:
    pass

_Found = TypeVar("_Found")
_SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def counting(console: Console, what: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function that shows how many texts of how many are done, how fast it goes and how long it will take.

    On a terminal that is a bar; in a log file, a line now and then.
    """
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    first: tuple[float, int] | None = None
    told = 0.0
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)

        def show(n_done: int, n_texts: int) -> None:
            nonlocal first, told
            now = time.monotonic()
            if first is None:  # what an earlier run did says nothing about speed
                first, told = (now, n_done), now
                bar.update(task, total=n_texts, completed=n_done)
                return
            rate = (n_done - first[1]) / max(now - first[0], 1e-9)
            bar.update(task, completed=n_done, description=f"{what}, {rate:,.0f} texts/s")
            if not console.is_terminal and (n_done == n_texts or now - told >= _SECONDS_BETWEEN_LINES):
                told = now
                left = (n_texts - n_done) / rate if rate else 0.0
                console.print(
                    f"{what}: {n_done:,} of {counted(n_texts, 'text')}, {rate:,.0f} texts/s, {left:,.0f} s left",
                    highlight=False,
                )

        yield show


def beside_texts(
    texts: Iterable[tuple[Path, str]], work: Callable[[Iterator[str]], Iterable[_Found]]
) -> Iterator[tuple[Path, str, _Found]]:
    """Yield each text with the file it came from and what `work` found in it; `work` may read ahead, in order."""
    waiting: deque[tuple[Path, str]] = deque()

    def remembered() -> Iterator[str]:
        for one in texts:
            waiting.append(one)
            yield one[1]

    for found in work(remembered()):
        yield *waiting.popleft(), found
