"""`infuser diagnose`: does the knowledge help, where, and what did it change? One page, and the numbers as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from infuser.cli.console import loading, print_table, say
from infuser.cli.options import CacheOptions, option_groups
from infuser.cli.train_output import Coverage

if TYPE_CHECKING:
    from infuser.analysis.diagnose.result import Diagnosis


@option_groups
def diagnose(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of `infuser train`: infused, and plain or placebo if you have."),
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="Test examples, with the columns of the training file.", show_default="the dev examples"),
    ] = None,
    frequencies: Annotated[
        Path | None,
        typer.Option(
            help="In how many texts each entity occurs: a folder that `infuser annotate` wrote.",
            show_default="counted in the training texts",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for diagnosis.html and diagnosis.json.", show_default="RUN/diagnose"),
    ] = None,
    no_training: Annotated[
        bool, typer.Option("--no-training", help="Leave out what takes training instead of training it.")
    ] = False,
    sizes: Annotated[
        list[float] | None,
        typer.Option(
            metavar="SHARE",
            help="Train on this share of the examples too, to compare features. Repeatable.",
            show_default="0.1, 0.3",
        ),
    ] = None,
    corrupt: Annotated[
        list[float] | None,
        typer.Option(
            metavar="SHARE", help="Take this share of entities for others. Repeatable.", show_default="0.1 to 0.5"
        ),
    ] = None,
    *,
    cache: CacheOptions,
) -> None:
    """Tell whether knowledge helps, hurts or does nothing, where, and what it changed inside.

    Compares infused runs with the same training without knowledge and with
    a placebo, seed by seed. Runs of several seeds are named together; what
    is missing is trained as they were and kept in RUN/diagnose, so a command
    that was stopped goes on when it is run again. One seed is no evidence.

    Examples:
      infuser diagnose runs/mine-0 runs/mine-1 runs/mine-2 --data test.csv
      infuser diagnose runs/mine runs/plain runs/placebo --no-training
    """
    shown = Console(stderr=True)
    folder = cache.folder()
    try:
        with loading(shown, "torch and transformers"):
            from infuser.analysis.diagnose.diagnose import SHARES, SIZES
            from infuser.analysis.diagnose.diagnose import diagnose as diagnose_runs
            from infuser.analysis.diagnose.runs import FOLDER
            from infuser.reports.diagnosis_page import write_diagnosis
            from infuser.training.steps import print_steps

        found = diagnose_runs(
            runs,
            data=data,
            frequencies=frequencies,
            sizes=sizes or SIZES,
            corrupt=corrupt or SHARES,
            training=not no_training,
            cache=folder,
            report=lambda line: say(line, err=True),
            coverage=Coverage().print,
            progress=True if shown.is_terminal else print_steps,
        )
    except KeyboardInterrupt as error:
        say("\nStopped. The same command goes on with what is trained.", err=True)
        raise typer.Exit(130) from error
    page = write_diagnosis(found, out or runs[0] / FOLDER)
    _print_diagnosis(found)
    say(f"\nPage: {page}")


def _print_diagnosis(found: Diagnosis) -> None:
    say(f"\n{found.sentence}", style="bold")
    for note in found.notes:
        say(f"  {note}", style="yellow")
    if found.comparison is not None:
        from infuser.reports.table import terminal_table

        Console().print(terminal_table(found.comparison))
    if not found.buckets:
        return
    from infuser.stats.comparison import signed_range

    first, *others = found.buckets[0].values
    headers = ("rarest entity", "examples", first, *others, *(f"{arm} minus {first}" for arm in others))
    rows = []
    for bucket in found.buckets:
        scores = ("unknown" if value is None else f"{value:.3f}" for value in bucket.values.values())
        ranges = (signed_range(bucket.differences.get(arm)) for arm in others)
        rows.append((bucket.name, f"{bucket.n_examples:,}", *scores, *ranges))
    print_table(headers, rows, caption=f"{found.metric} by how frequent the rarest entity of a text is")
