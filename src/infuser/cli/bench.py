"""`infuser bench`: hosts x methods x tasks x seeds in one folder that can be resumed, and tables of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from infuser.cli import bench_shared as shared
from infuser.cli.console import say
from infuser.cli.options import argument, option, option_groups

app = typer.Typer(no_args_is_help=True, help="Run tasks with several methods and seeds, and compare them in one table.")


@app.command()
@option_groups
def run(
    settings: shared.SettingsFile,
    out: shared.Out,
    method: shared.Methods = None,
    *,
    part: shared.PartOptions,
    running: shared.RunOptions,
) -> None:
    """Train and score every host, method, task and seed that a settings file names.

    A run that was stopped resumes when the same command is given again. It may run in several terminals, on several
    machines that see the folder, or under accelerate: each process takes the next cell that no other works on.

    Examples:
      infuser bench run settings.toml --out runs/mine --workers 2
      torchrun --nproc-per-node 2 -m infuser bench run settings.toml --out runs/mine
      infuser bench table runs/mine
    """
    from infuser.experiments.settings import read_bench

    whole = running.seeded(read_bench(settings))
    shared.run_and_show(part.of(whole, method), out, "bench", running, whole=whole)


@app.command()
@option_groups
def sweep(
    settings: shared.SettingsFile,
    over: Annotated[str, option("The setting and its values: alpha=0,0.1,0.2,0.4", metavar="SETTING=A,B,C")],
    out: shared.Out,
    method: shared.OneMethod = None,
    *,
    part: shared.PartOptions,
    running: shared.RunOptions,
) -> None:
    """Run one method with several values of one of its settings, and draw how the scores follow.

    Cells that are known from a run in the same folder are not computed again.

    Example:
      infuser bench sweep settings.toml --over alpha=0,0.1,0.2,0.4 --out runs/mine
    """
    from infuser.experiments.settings import read_bench
    from infuser.experiments.variations import parse_sweep, sweep_only

    setting, values = parse_sweep(over)
    bench = sweep_only(part.of(read_bench(settings)), method, setting, values)
    shared.run_and_show(running.seeded(bench), out, f"sweep-{setting}", running)


@app.command()
@option_groups
def ablate(
    settings: shared.SettingsFile,
    out: shared.Out,
    method: shared.OneMethod = None,
    leave_out: Annotated[
        list[str] | None,
        option("Leave out this source or part. Repeatable.", "--part", metavar="NAME", default="each in turn"),
    ] = None,
    *,
    part: shared.PartOptions,
    running: shared.RunOptions,
) -> None:
    """Run one method without one of its sources or parts at a time, and draw what each is worth.

    Example:
      infuser bench ablate settings.toml --method kam --part pmi --part convolution --out runs/mine
    """
    from infuser.experiments.settings import read_bench
    from infuser.experiments.variations import ablate_only

    bench = ablate_only(part.of(read_bench(settings)), method, leave_out)
    shared.run_and_show(running.seeded(bench), out, "ablate", running)


@app.command()
@option_groups
def table(
    run: Annotated[Path, argument("Folder of a run.", metavar="RUN")],
    of: Annotated[str, option("bench, or a sweep or an ablation, as in sweep-alpha.", metavar="NAME")] = "bench",
    format: Annotated[
        Literal["terminal", "markdown", "html", "latex", "json"], option("What kind of table.")
    ] = "terminal",
    out: Annotated[Path | None, option("Write the table to this file.", default="the terminal")] = None,
    method: shared.Methods = None,
    all_metrics: Annotated[bool, option("Show every metric of a task, not the first.", "--all-metrics")] = False,
    *,
    part: shared.PartOptions,
) -> None:
    """Show the table of a run, finished or not: means, intervals, differences to the baseline, published numbers.

    Examples:
      infuser bench table runs/mine --of sweep-alpha --format html --out sweep.html
    """
    from infuser.experiments.grid import read_settings

    bench = part.of(read_settings(run, of), method)
    shared.show_table(run, bench, format=format, out=out, metrics="all" if all_metrics else "first")


@app.command()
def submission(
    run: Annotated[Path, argument("Folder of a run with score_on = 'test'.", metavar="RUN")],
    out: Annotated[Path, option("The .zip file to write.")],
    method: Annotated[str, option("The method whose answers are sent.", metavar="NAME")],
    host: Annotated[str | None, option("The host.", metavar="NAME", default="the only one")] = None,
    seed: Annotated[int | None, option("The seed.", default="the first")] = None,
) -> None:
    """Write the answers of a run on GLUE's hidden test parts as the test server takes them.

    Example:
      infuser bench submission runs/glue-test --method kam --out kam.zip
    """
    from infuser.experiments.submission import write_glue_submission

    written, missing = write_glue_submission(run, out, method=method, host=host, seed=seed)
    lacking = f"\nMissing: {', '.join(missing)}. The server wants all of them." if missing else ""
    say(f"Wrote {out}: {', '.join(written)}{lacking}")
