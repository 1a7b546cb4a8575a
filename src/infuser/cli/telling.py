"""What commands tell on the way: how much the sources know, how far it is, how it went, what to try next."""

from __future__ import annotations

import copy
import shlex
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from infuser.experiments.run_folder import Run
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.infused import Infused
    from infuser.signals import Collator
    from infuser.training import TrainResult

_Found = TypeVar("_Found")
_SECONDS_BETWEEN_LINES = 30.0


def annotate(
    console: Console, collator: Collator, examples: list[dict[str, Any]], which: str, cache: Path | None
) -> list[dict[str, Any]]:
    """Ask the sources once for all epochs, and tell how much they know about these texts.

    What they said before about one of these texts is taken from the cache.
    """
    from infuser.sources.annotating.cache import flush_caches, with_cache
    from infuser.sources.naming import source_names

    texts, pairs = [example["text"] for example in examples], [example["pair"] for example in examples]
    asking = copy.copy(collator)  # what is trained keeps the sources themselves
    asking.sources = tuple(with_cache(collator.sources, cache))
    found = asking.annotate(texts, pairs, progress=Console(stderr=True).is_terminal)
    flush_caches(asking.sources)
    for place, name in enumerate(source_names(collator.sources)):
        of_source = [of_text[place] for of_text in found]
        n_reached = sum(1 for one in of_source if one.links or one.terms)
        n_links = sum(len(one.links) for one in of_source)
        console.print(
            f"{name}: {counted(n_links, 'link')} in {n_reached:,} of {counted(len(texts), f'{which} text')}",
            markup=False,
            highlight=False,
        )
        if not n_reached:
            console.print("  It knows nothing about these texts. Are its names spelled as in them?", style="yellow")
    return [{**example, "annotations": of_text} for example, of_text in zip(examples, found, strict=True)]


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


def tell_result(console: Console, result: TrainResult, infused: Infused | None) -> None:
    """Print the evaluations as a table and the best one in a sentence."""
    table = Table("epoch", "training loss", f"dev {result.metric}")
    for entry in result.history:
        style = "bold" if entry.step == result.best_step else None
        table.add_row(f"{entry.epoch:g}", f"{entry.loss:.4f}", f"{entry.metrics[result.metric]:.4f}", style=style)
    console.print(table)
    early = ", stopped early" if result.stopped_early else ""
    new = "" if infused is None else f", {infused.n_new_weights():,} new weights"
    console.print(
        f"Best dev {result.metric} [b]{result.best:.4f}[/b] at step {result.best_step} of {result.steps}{early}; "
        f"{result.seconds:.0f} s, {result.examples_per_second:.0f} examples/s{new}",
        highlight=False,
    )


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


def tell_next(console: Console, run: Run, examples: list[dict[str, Any]], *, arm: str) -> None:
    """End with commands that can be copied; their text is the dev example about which most is known."""
    shown = max(examples, key=lambda example: sum(len(one.links) for one in example.get("annotations", ())))
    pair = "" if shown["pair"] is None else f" --pair {shlex.quote(shown['pair'])}"
    text = f"--text {shlex.quote(shown['text'])}{pair}"
    model, folder = shlex.quote(str(run.model)), shlex.quote(str(run.folder))
    predict = [f"infuser predict {model} NEW.csv --out predictions.jsonl", f"infuser predict {model} {text}"]
    if arm == "plain":
        steps = [
            *predict,
            "the same command with --entities, --graph ... instead of --plain and another --out: with knowledge",
        ]
    elif arm == "placebo":
        steps = [f"infuser diagnose RUN {folder}: this placebo beside RUN, the same command without --placebo"]
    else:
        steps = [
            f"infuser explain {model} {text} --out {shlex.quote(str(run.folder / 'explain'))}",
            *predict,
            "the same command with --seed 1, 2 ... and another --out: one seed is no evidence",
            f"infuser diagnose {folder}: does the knowledge help? It trains the baseline and the placebo, too",
        ]
    console.print("\n[b]What to try next[/b]")
    for step in steps:
        console.print(f"  {step}", markup=False, highlight=False, soft_wrap=True)
