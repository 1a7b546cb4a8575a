"""What `infuser bench` shows: how far it is, how fast it was, and the tables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from infuser.errors import InputError
from infuser.files import write_whole

if TYPE_CHECKING:
    from infuser.experiments.cells import Cell, Results
    from infuser.experiments.settings import Bench
    from infuser.training.steps import StepReport


class Watching:
    """A bar over all cells, and a line for each that this call finishes; others may finish cells, too."""

    def __init__(
        self, console: Console, bench: Bench, results: Results, plan: Sequence[Cell], known: Sequence[Cell]
    ) -> None:
        self.console, self.bench, self.results, self.plan, self.known = console, bench, results, plan, set(known)
        self.started = time.monotonic()
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self.bar = Progress(*columns, console=console, disable=console.quiet)

    def __enter__(self) -> Self:
        self.bar.__enter__()
        self.task = self.bar.add_task("", total=len(self.plan), completed=len(self.known))
        return self

    def __exit__(self, *problem: Any) -> None:
        self.bar.update(self.task, completed=len(self._finished()), description="")
        self.bar.__exit__(*problem)

    def hear(self, cell: Cell, report: StepReport | None) -> None:
        """Show what a process tells about a cell."""
        if report is None:
            self.bar.update(self.task, completed=len(self._finished()), description="")
            self.bar.console.print(f"  {cell}: done", highlight=False)
            return
        told = f"{cell}: step {report.step} of {report.n_steps}, loss {report.loss:.3f}"
        self.bar.update(self.task, description=told)

    def _finished(self) -> list[Cell]:
        return [cell for cell in self.plan if self.results.is_finished(self.bench, cell)]

    def tell_speed(self, n_processes: int) -> None:
        """Say how long it took and, with several processes, how many cells were computed at a time."""
        computed = [cell for cell in self._finished() if cell not in self.known]
        if not computed:
            return
        wall = time.monotonic() - self.started
        read = (self.results.read(self.bench, cell) for cell in computed)
        alone = sum(result["seconds"]["total"] for result in read if result is not None)
        several = f"; {alone / wall:.1f} cells at a time on average" if n_processes > 1 else ""
        self.console.print(f"{len(computed)} cells in {wall / 60:.1f} min{several}", highlight=False)


def tell_results(
    results: Results, bench: Bench, *, format: str, out: Path | None, metrics: Any, console: Console
) -> None:
    """Show or write the table of a bench."""
    from infuser.experiments.cells import all_cells
    from infuser.experiments.summary import summarise
    from infuser.reports.bench_page import bench_page
    from infuser.reports.bench_table import latex_table, markdown_table, terminal_table

    read = [results.read(bench, cell) for cell in all_cells(bench)]
    summary = summarise(bench, [result for result in read if result is not None])
    if format == "terminal" and out is None:
        console.print(terminal_table(summary, metrics=metrics))
        return
    if format == "html" and out is None:
        raise InputError("A page is better in a file: give --out FILE.html.")
    texts = {
        "markdown": lambda: markdown_table(summary, metrics=metrics),
        "terminal": lambda: markdown_table(summary, metrics=metrics),
        "latex": lambda: latex_table(summary, metrics=metrics),
        "html": lambda: bench_page(summary, metrics=metrics, settings={**bench.to_json(), "folder": "."}),
        "json": summary.to_json,
    }
    text = texts[format]()
    if out is None:
        print(text)
        return
    write_whole(out, text)
    console.print(f"Wrote {out}", highlight=False)


def write_glue_submission(
    run: Path, out: Path, *, method: str, host: str | None, seed: int | None
) -> tuple[list[str], list[str]]:
    """Write what GLUE's server takes, and return which parts are in it and which are missing."""
    import tempfile

    from infuser.experiments.cells import Cell, Results
    from infuser.experiments.making import make_task
    from infuser.tasks.glue import Glue
    from infuser.tasks.glue_totals import write_submission, write_zip

    results = Results(run)
    bench = results.settings()
    if method not in bench.arms:
        raise InputError(f"There is no method {method!r} in this run. Known: {', '.join(bench.arms)}.")
    if host is None and len(bench.hosts) > 1:
        raise InputError(f"Say which host: {', '.join(bench.hosts)}.")
    if host is not None and host not in bench.hosts:
        raise InputError(f"There is no host {host!r} in this run. Known: {', '.join(bench.hosts)}.")
    host = host or next(iter(bench.hosts))
    written: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for task_name, entry in bench.tasks.items():
            result = results.read(bench, Cell(host, method, task_name, bench.seeds[0] if seed is None else seed))
            task = make_task(bench, entry)
            if result is not None and entry.score_on == "test" and isinstance(task, Glue):
                name = write_submission(task, result["predictions"], folder).name
                if name in written:
                    raise InputError(f"Two tasks of this run answer {name}. Run one of them in a folder of its own.")
                written.append(name)
        if not written:
            raise InputError(
                f"{str(run)!r} holds no answers of {method!r} to a test part of GLUE. Run it with score_on = 'test'."
            )
        return written, write_zip(folder, out)
