"""What the commands of `infuser bench` share: their options, running a bench, showing its table."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from infuser.cli.console import loading, resumable, say, show
from infuser.cli.knowledge_options import CacheOptions
from infuser.cli.options import argument, option
from infuser.errors import InputError
from infuser.files import write_whole
from infuser.progress import progress_bar
from infuser.terminal import visible
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.experiments.cell import Cell
    from infuser.experiments.settings import Bench
    from infuser.training import StepReport


SettingsFile = Annotated[Path, argument("A settings file (.toml); see docs/guides/bench.md.", metavar="SETTINGS")]
Out = Annotated[Path, option("Folder of the run: results, settings, tables.", "--out")]
OneMethod = Annotated[str | None, option("The method to vary.", "--method", metavar="NAME", default="the only one")]
Methods = Annotated[list[str] | None, option("Only this method and baseline. Repeatable.", "--method", metavar="NAME")]


@dataclass(frozen=True, slots=True)
class PartOptions:
    """Which part of a bench is meant."""

    task: Annotated[list[str] | None, option("Only this task. Repeatable.", metavar="NAME")] = None
    host: Annotated[list[str] | None, option("Only this host. Repeatable.", metavar="NAME")] = None

    def of(self, bench: Bench, methods: list[str] | None = None) -> Bench:
        """Return this part of a bench."""
        from infuser.experiments.settings import only

        return only(bench, hosts=self.host or (), methods=methods or (), tasks=self.task or ())


@dataclass(frozen=True, slots=True)
class RunOptions(CacheOptions):
    """How a bench is computed."""

    workers: Annotated[int, option("Processes on this machine, one cell each; they share the threads.", min=1)] = 1
    together: Annotated[
        bool,
        option(
            "Under accelerate or torchrun: all processes train each cell together, instead of one cell each.",
            "--together",
        ),
    ] = False
    seeds: Annotated[int | None, option("So many seeds: 0, 1, ...", min=1, default="those of the file")] = None

    def seeded(self, bench: Bench) -> Bench:
        """Return a bench with so many seeds."""
        return bench if self.seeds is None else replace(bench, seeds=tuple(range(self.seeds)))


def run_and_show(bench: Bench, out: Path, name: str, running: RunOptions, *, whole: Bench | None = None) -> None:
    """Compute a bench, or a part of a whole one, and show its table."""
    with loading("torch and transformers"):
        from infuser.experiments.grid import keep_settings, planned, run_bench
        from infuser.experiments.run_folder import Results
        from infuser.processes import is_first_process, launched_processes

    first, results, plan = is_first_process(), Results(out), planned(bench)
    known = [cell for cell in plan if results.is_finished(cell)]
    if first:
        keep_settings(out, whole or bench, name)
        say(_summary(bench, plan, len(known)))
    started, n_processes = time.monotonic(), max(launched_processes(), running.workers)
    n_done = len(known)
    with progress_bar("cells", len(plan), shown=None if first else False) as bar:

        def show(cell: Cell, report: StepReport | None) -> None:
            nonlocal n_done
            if report is None:  # others may have finished cells, too
                n_done = sum(results.is_finished(one) for one in plan)
            state = "" if report is None else f"{cell}: step {report.step} of {report.n_steps}, loss {report.loss:.3f}"
            bar.report("cells", n_done, len(plan), detail=state)
            if report is None and first:
                say(f"  {cell}: done")

        with resumable("Finished cells stay; the same command resumes with the others."):
            run_bench(
                bench, out, workers=running.workers, together=running.together, cache=running.folder(), progress=show
            )
    if first:
        _show_speed(results, [cell for cell in plan if cell not in known], time.monotonic() - started, n_processes)
        show_table(out, bench, format="terminal")
        show_table(out, whole or bench, format="html", out=out / f"{name}.html", metrics="all")


def _summary(bench: Bench, plan: list[Cell], n_known: int) -> str:
    sizes = (
        f"{len(bench.hosts)} hosts x {len(bench.arms)} methods x {len(bench.tasks)} tasks x {len(bench.seeds)} seeds"
    )
    trials = ", and trials" if any(cell.trial is not None for cell in plan) else ""
    known = f", {n_known} known from before" if n_known else ""
    return f"{bench.title}: {counted(len(plan), 'training')} ({sizes}{trials}){known}"


def _show_speed(results: Any, computed: list[Cell], seconds: float, n_processes: int) -> None:
    """Print how long it took and, with several processes, how many cells were computed at a time."""
    if not computed:
        return
    alone = sum(result["seconds"]["total"] for cell in computed if (result := results.read(cell)) is not None)
    several = f"; {alone / seconds:.1f} cells at a time on average" if n_processes > 1 else ""
    say(f"{len(computed)} cells in {seconds / 60:.1f} min{several}")


def show_table(folder: Path, bench: Bench, *, format: str, out: Path | None = None, metrics: Any = "first") -> None:
    """Print the table of a bench, or write it to a file."""
    from infuser.experiments.grid import read_results
    from infuser.experiments.summary import summarise
    from infuser.reports.bench_page import bench_text
    from infuser.reports.bench_table import terminal_table

    summary = summarise(bench, read_results(folder, bench))
    if format == "terminal" and out is None:
        show(terminal_table(summary, metrics=metrics))
        return
    if format == "html" and out is None:
        raise InputError("A page is better in a file: give --out FILE.html.")
    text = bench_text(summary, format, metrics=metrics, settings={**bench.to_json(), "folder": "."})
    if out is None:
        print(visible(text))
    else:
        write_whole(out, text)
        say(f"Wrote {out}")
