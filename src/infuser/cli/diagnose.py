"""`infuser diagnose`: does the knowledge help, where, and what did it change? One page, and the numbers as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from infuser.cli.console import loading
from infuser.cli.sources import CacheFolder, NoCache, chosen_cache
from infuser.cli.train_output import Coverage
from infuser.errors import InputError
from infuser.tables.examples import number_labels, read_all_examples
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.analysis.diagnose.result import Diagnosis
    from infuser.analysis.diagnose.runs import Arms
    from infuser.cli.diagnose_parts import Question
    from infuser.experiments.data import Data

_SIZES = (0.1, 0.3)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)


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
    cache: CacheFolder = None,
    no_cache: NoCache = False,
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
    told, console = Console(stderr=True), Console()
    shares = sorted({0.0, *(corrupt or _SHARES)})
    if not 0 <= shares[0] <= shares[-1] <= 1:
        raise InputError(f"--corrupt takes shares between 0 and 1, not {shares[0] or shares[-1]:g}.")
    kept = chosen_cache(cache, no_cache)
    from infuser.analysis.diagnose.runs import FOLDER, complete, sort_runs

    arms = sort_runs(runs)
    read = arms.first.again().data
    test = _test_examples(arms, read, data)
    try:
        with loading(told, "torch and transformers"):
            from infuser.cli.diagnose_parts import diagnose as find_out
            from infuser.reports.diagnosis_page import write_diagnosis
            from infuser.training.steps import print_steps
        question = _question(arms, read, test, frequencies, shares, kept)
        smaller = complete(
            arms,
            sizes or _SIZES,
            training=not no_training,
            cache=kept,
            report=lambda line: told.print(line, highlight=False),
            progress=True if told.is_terminal else print_steps,
        )
        found = find_out(arms, smaller, question, told)
    except KeyboardInterrupt as error:
        told.print("\nStopped. The same command goes on with what is trained.")
        raise typer.Exit(130) from error
    found = _with_remarks(found, arms, question, data, frequencies, n_smaller=len(smaller))
    page = write_diagnosis(found, out or runs[0] / FOLDER)
    _tell(console, found)
    console.print(f"\nPage: {page}", markup=False, highlight=False, soft_wrap=True)


def _test_examples(arms: Arms, read: Data, data: Path | None) -> list[dict[str, Any]]:
    """Return the examples of --data, or the dev examples if they are the same for all runs."""
    if data is not None:
        return number_labels(read_all_examples(data, arms.first.columns), read.labels)
    if not arms.same_dev():
        raise InputError(
            "These runs have no dev file, and each held out another tenth of its training examples (as infuser did "
            "before it had a data seed), so there are no test examples that none of them was trained on. Give some "
            "with --data FILE."
        )
    return read.dev


def _question(
    arms: Arms,
    read: Data,
    test: list[dict[str, Any]],
    frequencies: Path | None,
    shares: Sequence[float],
    cache: Path | None,
) -> Question:
    """Ask the sources of the first run about test and training texts, and count entities; all before any training."""
    import infuser
    from infuser.cli.diagnose_parts import Question
    from infuser.experiments.data import PART_SEEDS, annotate_part
    from infuser.sources.entity_statistics import count_entities, read_counts
    from infuser.sources.selective import Selective, bare
    from infuser.stats.metrics import get_metric

    metric = get_metric(arms.first.made_with["metric"])
    metric.check_labels([example["label"] for example in test])
    sources = list(infuser.load(arms.first.run.model).sources)
    known, train = (annotate_part(part, sources, cache, progress=None) for part in (test, read.train))
    Coverage().print("test", sources, [example["annotations"] for example in known])
    everything, counted_in = known, train
    if any(isinstance(source, Selective) for source in sources):
        sources = [bare(source) for source in sources]
        everything, counted_in = (annotate_part(part, sources, cache, progress=None) for part in (test, read.train))
    if frequencies is None:
        counts: Mapping[str, int] = count_entities(example["annotations"] for example in counted_in)
    else:
        counts = read_counts(frequencies)
    entities = [example["annotations"] for example in everything]
    # the placebo's weights were chosen on dev examples that were shuffled like this
    shuffling = PART_SEEDS["dev" if test is read.dev else "test"]
    return Question(known, train, read.labels, metric, entities, counts, shares, shuffling)


def _with_remarks(
    found: Diagnosis, arms: Arms, question: Question, data: Path | None, frequencies: Path | None, *, n_smaller: int
) -> Diagnosis:
    """Add what a reader must know to trust the numbers: what is missing, what flatters, how it was done."""
    from dataclasses import replace
    from datetime import UTC, datetime

    from infuser.experiments.arm import PLACEBO, PLAIN
    from infuser.versions import installed_versions

    notes = list(found.notes)
    seeds = arms.whole_seeds()
    lacking = [name for name, there in ((PLAIN, arms.plain), (PLACEBO, arms.placebo)) if arms.infused.keys() - there]
    if lacking:
        notes.append(
            f"Not every infused run has its {' and its '.join(lacking)} run"
            + (f"; compared are the seeds {', '.join(map(str, seeds))}" if seeds else ", so nothing is compared")
            + ". The same command without --no-training trains what is missing."
        )
    unpaired = sorted({*arms.plain, *arms.placebo} - arms.infused.keys())
    if unpaired:
        notes.append(f"Runs of the seeds {', '.join(map(str, unpaired))} have no infused run beside them; not used.")
    if not n_smaller:
        notes.append("Features are shown for one training-set size only; smaller ones take training.")
    if data is None:
        notes.append(
            "The test examples are the dev examples. The weights of each run were chosen on them, so all scores "
            "flatter; give examples of their own with --data FILE."
        )
    trained_on = {(example["text"], example["pair"]) for example in question.train}
    n_seen = sum((example["text"], example["pair"]) in trained_on for example in question.test)
    if n_seen:
        notes.append(
            f"{counted(n_seen, 'test example')} of {len(question.test):,} occur among the training examples, too."
        )
    links = [link for example in question.test for one in example["annotations"] for link in one.links]
    if all(link.source == link.target for link in links) and not _with_more_than_links(question):
        notes.append("The sources tie no two entities of the test examples, so links cannot be made wrong.")
    if frequencies is not None and all(bucket.name in ("in no text", "no entity") for bucket in found.buckets):
        notes.append(f"{frequencies} counts none of the entities in the test examples; were its sources the same?")
    return replace(
        found,
        notes=notes,
        facts=_facts(found, arms, question, data, frequencies),
        versions={**installed_versions(), "written": datetime.now(UTC).isoformat(timespec="seconds")},
    )


def _with_more_than_links(question: Question) -> bool:
    return any(one.terms or one.candidates for example in question.test for one in example["annotations"])


def _facts(
    found: Diagnosis, arms: Arms, question: Question, data: Path | None, frequencies: Path | None
) -> dict[str, str]:
    reached = found.corruption[arms.method][0][1]
    made_with = arms.first.made_with
    return {
        "Runs": ", ".join(str(run.run.folder) for _, run in sorted(arms.infused.items())),
        "Encoder": made_with["checkpoint"],
        "Knowledge": ", ".join(made_with["knowledge"]),
        "Training examples": f"{len(question.train):,}, {arms.first.table.name}",
        "Test examples": f"{len(question.test):,}, {'the dev examples' if data is None else data.name}",
        "How frequent an entity is": (
            "in how many training texts it occurs" if frequencies is None else f"as counted in {frequencies}"
        ),
        "Score": f"{found.metric}, higher is better; {arms.method} reaches {reached:.3f} on average",
        "Spectral penalty": str(made_with.get("spectral") or "none"),
        "Selection": str(made_with.get("select") or "none: all knowledge is injected"),
    }


def _tell(console: Console, found: Diagnosis) -> None:
    console.print(f"\n{found.sentence}", style="bold", markup=False, highlight=False)
    for note in found.notes:
        console.print(f"  {note}", style="yellow", markup=False, highlight=False)
    if found.comparison is not None:
        from infuser.reports.table import terminal_table

        console.print(terminal_table(found.comparison))
    if found.buckets:
        console.print(_bucket_table(found))


def _bucket_table(found: Diagnosis) -> Table:
    from infuser.stats.comparison import signed_range

    arms = list(found.buckets[0].values)
    table = Table(caption=Text(f"{found.metric} by how frequent the rarest entity of a text is"))
    table.add_column("rarest entity")
    for name in ("examples", *arms, *(f"{arm} minus {arms[0]}" for arm in arms[1:])):
        table.add_column(Text(name), justify="right")
    for bucket in found.buckets:
        scores = ["unknown" if value is None else f"{value:.3f}" for value in bucket.values.values()]
        ranges = [signed_range(bucket.differences.get(arm)) for arm in arms[1:]]
        table.add_row(*(Text(cell) for cell in (bucket.name, f"{bucket.n_examples:,}", *scores, *ranges)))
    return table
