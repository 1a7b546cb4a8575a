"""`infuser bench`: tasks x methods x seeds in one folder that can be left and taken up again, and tables of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from infuser.cli.bench_telling import Watching, tell_results
from infuser.cli.console import loading
from infuser.cli.sources import CacheFolder, NoCache, chosen_cache
from infuser.errors import InputError
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.experiments.settings import Bench

app = typer.Typer(no_args_is_help=True, help="Run tasks with several methods and seeds, and compare them in one table.")

SettingsFile = Annotated[
    Path, typer.Argument(metavar="SETTINGS", help="A settings file (.toml); see docs/guides/bench.md.")
]
RunFolder = Annotated[Path, typer.Option("--out", help="Folder of the run: results, settings, tables.")]
Workers = Annotated[
    int, typer.Option("--workers", min=1, help="Processes on this machine, one cell each; threads are shared out.")
]
Together = Annotated[
    bool,
    typer.Option(
        "--together",
        help="Under accelerate or torchrun: all processes train each cell together, instead of one cell each.",
    ),
]
Tasks = Annotated[list[str] | None, typer.Option("--task", metavar="NAME", help="Only this task. Repeatable.")]
Methods = Annotated[
    list[str] | None, typer.Option("--method", metavar="NAME", help="Only this method and the baseline. Repeatable.")
]
Hosts = Annotated[list[str] | None, typer.Option("--host", metavar="NAME", help="Only this host. Repeatable.")]
Which = Annotated[
    str, typer.Option("--of", metavar="NAME", help="bench, or the name of a sweep or an ablation, as in sweep-alpha.")
]
Seeds = Annotated[
    int | None, typer.Option("--seeds", min=1, help="So many seeds: 0, 1, ...", show_default="those of the file")
]


@app.command()
def run(
    settings: SettingsFile,
    out: RunFolder,
    workers: Workers = 1,
    together: Together = False,
    task: Tasks = None,
    method: Methods = None,
    host: Hosts = None,
    seeds: Seeds = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
) -> None:
    """Train and score every host, method, task and seed that a settings file names.

    Every finished cell is a JSON file. A run that was stopped or killed goes on where it stopped when the same command
    is given again, and no finished cell is computed twice. The same command may run in several terminals, on several
    machines that see the folder, or under accelerate: each process takes the next cell that nobody works on.

    Examples:
      infuser bench run settings.toml --out runs/mine --workers 2
      torchrun --nproc-per-node 2 -m infuser bench run settings.toml --out runs/mine
      infuser bench table runs/mine
    """
    from infuser.experiments.settings import only, read_bench

    whole = _with_seeds(read_bench(settings), seeds)
    bench = only(whole, hosts=host or (), methods=method or (), tasks=task or ())
    _run(bench, out, "bench", workers, together, chosen_cache(cache, no_cache), whole=whole)


@app.command()
def sweep(
    settings: SettingsFile,
    over: Annotated[str, typer.Option(metavar="SETTING=A,B,C", help="The setting and its values: alpha=0,0.1,0.2,0.4")],
    out: RunFolder,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="The method to vary.", show_default="the only one")
    ] = None,
    workers: Workers = 1,
    together: Together = False,
    task: Tasks = None,
    host: Hosts = None,
    seeds: Seeds = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
) -> None:
    """Run one method with several values of one of its settings, and draw how the scores follow.

    Cells that are known from a run in the same folder are not computed again.

    Example:
      infuser bench sweep settings.toml --over alpha=0,0.1,0.2,0.4 --out runs/mine
    """
    from infuser.experiments.expanding import chosen_method, sweep_name
    from infuser.experiments.expanding import sweep as swept
    from infuser.experiments.settings import only, read_bench

    setting, equals, values = over.partition("=")
    if not equals or not values:
        raise InputError(f"--over {over}: name a setting and its values, as in alpha=0,0.1,0.2,0.4.")
    bench = only(read_bench(settings), hosts=host or (), tasks=task or ())
    chosen = chosen_method(bench, method)
    given = [_value(value) for value in values.split(",")]
    bench = swept(bench, chosen, setting, given)
    bench = only(bench, methods=[sweep_name(chosen, setting, value) for value in given])
    _run(_with_seeds(bench, seeds), out, f"sweep-{setting}", workers, together, chosen_cache(cache, no_cache))


@app.command()
def ablate(
    settings: SettingsFile,
    out: RunFolder,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="The method to take apart.", show_default="the only one")
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Leave out this source or part. Repeatable.", show_default="each in turn"),
    ] = None,
    workers: Workers = 1,
    together: Together = False,
    task: Tasks = None,
    host: Hosts = None,
    seeds: Seeds = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
) -> None:
    """Run one method without one of its sources or parts at a time, and draw what each is worth.

    Example:
      infuser bench ablate settings.toml --method kam --part pmi --part convolution --out runs/mine
    """
    from infuser.experiments.expanding import ablate as ablated
    from infuser.experiments.expanding import ablation_name, chosen_method
    from infuser.experiments.settings import only, read_bench

    bench = only(read_bench(settings), hosts=host or (), tasks=task or ())
    chosen = chosen_method(bench, method)
    bench = ablated(bench, chosen, part)
    made = [name for name in bench.arms if name.startswith(ablation_name(chosen, ""))]
    bench = only(bench, methods=[chosen, *made])
    _run(_with_seeds(bench, seeds), out, "ablate", workers, together, chosen_cache(cache, no_cache))


@app.command()
def table(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    of: Which = "bench",
    format: Annotated[
        Literal["terminal", "markdown", "html", "latex", "json"], typer.Option(help="What kind of table.")
    ] = "terminal",
    out: Annotated[Path | None, typer.Option(help="Write the table to this file.", show_default="the terminal")] = None,
    task: Tasks = None,
    method: Methods = None,
    host: Hosts = None,
    all_metrics: Annotated[
        bool, typer.Option("--all-metrics", help="Show every metric of a task, not the first.")
    ] = False,
) -> None:
    """Show the table of a run, finished or not: means, intervals, differences to the baseline, published numbers.

    Examples:
      infuser bench table runs/mine --format markdown --out table.md
      infuser bench table runs/mine --of sweep-alpha --format html --out sweep.html
    """
    from infuser.experiments.cells import Results
    from infuser.experiments.settings import only

    results = Results(run)
    bench = only(results.settings(of), hosts=host or (), methods=method or (), tasks=task or ())
    metrics = "all" if all_metrics else "first"
    tell_results(results, bench, format=format, out=out, metrics=metrics, console=Console())


@app.command()
def submission(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run with score_on = 'test'.")],
    out: Annotated[Path, typer.Option(help="The .zip file to write.")],
    method: Annotated[str, typer.Option(metavar="NAME", help="The method whose answers are sent.")],
    host: Annotated[str | None, typer.Option(metavar="NAME", help="The host.", show_default="the only one")] = None,
    seed: Annotated[int | None, typer.Option(help="The seed.", show_default="the first")] = None,
) -> None:
    """Write the answers of a run on GLUE's hidden test parts as the test server takes them.

    Example:
      infuser bench submission runs/glue-test --method kam --out kam.zip
    """
    from infuser.cli.bench_telling import write_glue_submission

    written, missing = write_glue_submission(run, out, method=method, host=host, seed=seed)
    console = Console()
    console.print(f"Wrote {out}: {', '.join(written)}", highlight=False)
    if missing:
        console.print(f"Missing: {', '.join(missing)}. The server wants all of them.", highlight=False)


def _run(
    bench: Bench,
    out: Path,
    name: str,
    workers: int,
    together: bool,
    cache: Path | None,
    *,
    whole: Bench | None = None,
) -> None:
    """Compute a bench, or a part of a whole one, and show its table."""
    from infuser.experiments.cells import Results
    from infuser.experiments.schedule import is_first_process, launched_processes, planned, run_bench

    first = is_first_process()
    console = Console(quiet=not first)
    with loading(Console(stderr=True, quiet=not first), "torch and transformers"):
        import torch  # noqa: F401  # it takes its time
    results = Results(out)
    if first:
        results.keep_settings(whole or bench, name)
    plan = planned(bench)
    known = [cell for cell in plan if results.is_finished(bench, cell)]
    console.print(
        f"{bench.title}: {counted(len(plan), 'training')} "
        f"({len(bench.hosts)} hosts x {len(bench.arms)} methods x {len(bench.tasks)} tasks x {len(bench.seeds)} seeds"
        f"{', and trials' if any(cell.trial is not None for cell in plan) else ''})"
        f"{f', {len(known)} known from before' if known else ''}",
        highlight=False,
        soft_wrap=True,
    )
    n_processes = launched_processes()
    with Watching(console, bench, results, plan, known) as watching:
        try:
            run_bench(bench, out, n_workers=workers, together=together, cache=cache, tell=watching.hear)
        except KeyboardInterrupt as error:
            console.print("\nStopped. Finished cells stay; the same command goes on with the others.")
            raise typer.Exit(130) from error
    if not first:
        return
    watching.tell_speed(max(n_processes, workers))
    tell_results(results, bench, format="terminal", out=None, metrics="first", console=console)
    tell_results(results, whole or bench, format="html", out=out / f"{name}.html", metrics="all", console=console)


def _with_seeds(bench: Bench, n: int | None) -> Bench:
    return bench if n is None else replace(bench, seeds=tuple(range(n)))


def _value(written: str) -> Any:
    """Return a value as people write it: a number, true or false, or a word."""
    try:
        return json.loads(written)
    except ValueError:
        return written
