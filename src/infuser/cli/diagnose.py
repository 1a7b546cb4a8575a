"""`infuser diagnose`: does the knowledge help, where, and what did it change? One page, and the numbers as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from infuser.cli.console import loading, print_finding, resumable, say, show, training_progress
from infuser.cli.knowledge_options import CacheOptions
from infuser.cli.options import argument, option, option_groups
from infuser.cli.train_output import Coverage

if TYPE_CHECKING:
    from infuser.analysis.diagnose.result import Diagnosis


@option_groups
def diagnose(
    runs: Annotated[
        list[Path], argument("Folders of `infuser train`: infused, plain, text, placebo.", metavar="RUN...")
    ],
    data: Annotated[Path | None, option("Test examples, written as for training.", default="the dev examples")] = None,
    frequencies: Annotated[
        Path | None,
        option(
            "In how many texts each entity occurs: a folder that `infuser annotate` wrote.",
            default="counted in the training texts",
        ),
    ] = None,
    out: Annotated[Path | None, option("Folder for diagnosis.html and diagnosis.json.", default="RUN/diagnose")] = None,
    no_training: Annotated[bool, option("Leave out what needs more training.", "--no-training")] = False,
    no_text: Annotated[bool, option("Leave out the arm that reads the knowledge as text.", "--no-text")] = False,
    sizes: Annotated[
        list[float] | None,
        option(
            "Train on this share of the examples too, to compare features. Repeatable.",
            metavar="SHARE",
            default="0.1, 0.3",
        ),
    ] = None,
    corrupt: Annotated[
        list[float] | None,
        option("Take this share of entities for others. Repeatable.", metavar="SHARE", default="0.1 to 0.5"),
    ] = None,
    *,
    cache: CacheOptions,
) -> None:
    """Measure whether knowledge helps, hurts or does nothing, where, and what it changed inside.

    Compares infused runs with the same training without knowledge, with the
    same knowledge written behind the texts, and with a placebo, seed by seed.
    Runs of several seeds are named together; what is missing is trained as
    they were and kept in RUN/diagnose, so a command that was stopped resumes
    when it is run again. One seed is no evidence.

    Examples:
      infuser diagnose runs/mine-0 runs/mine-1 runs/mine-2 --data test.csv
      infuser diagnose runs/mine runs/plain runs/placebo --no-training
    """
    folder = cache.folder()
    with resumable("The same command resumes with what is trained."):
        with loading("torch and transformers"):
            from infuser.analysis.diagnose.diagnose import SHARES, SIZES
            from infuser.analysis.diagnose.diagnose import diagnose as diagnose_runs
            from infuser.analysis.diagnose.runs import FOLDER
            from infuser.reports.diagnosis_page import write_diagnosis

        found = diagnose_runs(
            runs,
            data=data,
            frequencies=frequencies,
            sizes=sizes or SIZES,
            corrupt=corrupt or SHARES,
            text=not no_text,
            training=not no_training,
            cache=folder,
            report=lambda line: say(line, err=True),
            coverage=Coverage().print,
            progress=training_progress(),
        )
    page = write_diagnosis(found, out or runs[0] / FOLDER)
    _print_diagnosis(found)
    say(f"\nPage: {page}")


def _print_diagnosis(found: Diagnosis) -> None:
    print_finding(found.sentence, found.notes)
    if found.comparison is not None:
        from infuser.reports.table import terminal_table

        show(terminal_table(found.comparison))
    if found.buckets:
        from infuser.reports.diagnosis_page import bucket_grid

        caption = f"{found.metric} by how frequent the rarest entity of a text is"
        show(bucket_grid(found.buckets).to_terminal(caption=caption))
