"""`infuser select`: decide which entities are worth injecting, see what that keeps and drops, and write it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from infuser.cli.console import loading, print_table, say
from infuser.cli.knowledge_options import CacheOptions, SourceOptions
from infuser.cli.options import TextColumnOptions, Texts, option, option_groups
from infuser.cli.select_options import KnownOptions, SamplingOptions
from infuser.errors import InputError
from infuser.tables.blocks import STDIN
from infuser.types import Annotations, join_pair
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.analysis.select import SelectionReport
    from infuser.sources.selective import Strategy


@option_groups
def select(
    data: Texts,
    out: Annotated[Path | None, option("File for the selection, .json.", default="not written")] = None,
    explain: Annotated[bool, option("Print keep-rates by frequency, what is dropped and why.", "--explain")] = False,
    show: Annotated[int, option("How many dropped entities and relations --explain lists.", min=0)] = 20,
    draws: Annotated[int, option("Over how many epochs keep-rates are counted.", min=1)] = 10,
    *,
    columns: TextColumnOptions,
    sampling: SamplingOptions,
    known: KnownOptions,
    sources: SourceOptions,
    cache: CacheOptions,
) -> None:
    """Choose what to inject: drop what is redundant, and see what is dropped and why.

    Knowledge about what the encoder knows anyway can hurt. Sampling draws a
    share of each text's entities in every epoch of training and injects
    everything in answering. With --measure or --known, what the plain encoder
    predicts is left out for good instead.

    Examples:
      infuser select train.csv --graph wordnet --explain
      infuser select train.csv --graph wordnet --out selection.json
      infuser select train.csv --entities names.tsv --measure probe
        --checkpoint minilm --explain
    """
    if data == STDIN:
        raise InputError("select counts its texts first, so it cannot read standard input. Give a file.")
    named = sources.read(needed=True)
    known.check()
    strategy: Strategy = sampling.strategy()  # before the work, so that a wrong number is known at once
    from infuser.sources.annotating.cache import annotate_cached
    from infuser.sources.entity_statistics import count_entities
    from infuser.sources.selective import write_selection
    from infuser.tables.examples import read_examples

    examples = [example for _, example in read_examples(data, columns.columns())]
    if not examples:
        raise InputError(f"{data} holds no texts. Give at least one; --text-column NAME says where texts stand.")
    found = annotate_cached(named, [join_pair(one["text"], one["pair"]) for one in examples], cache.folder())
    if known.known is not None or known.measure is not None:
        strategy = _known(known, examples, found, out)
    elif sampling.frequencies is None:
        strategy = replace(sampling.strategy(), frequencies=count_entities(found))
    from infuser.analysis.select import select as select_entities

    reports = select_entities(named, found, strategy, n_draws=draws if explain else 1, reasons=explain)
    for name, report in reports.items():
        _print_report(name, report, show if explain else None)
    if out is not None:
        write_selection(out, strategy, {"data": data.name, "texts": len(examples)})
        say(f"Selection: {out}. Train with it: infuser train ... --select {out}")


def _known(
    options: KnownOptions,
    examples: Sequence[dict[str, Any]],
    found: Sequence[tuple[Annotations, ...]],
    out: Path | None,
) -> Strategy:
    """Return the strategy that leaves out what the encoder knows, by a file of scores or by measuring it now."""
    from infuser.analysis.select import scores_in_use
    from infuser.knowledge.entity_scores import open_scores, write_scores
    from infuser.sources import Known

    if options.known is not None:
        known = Known(options.known, options.threshold)
        sentence, warnings = scores_in_use(known, open_scores(options.known).about, found)
        say(sentence)
        for warning in warnings:
            say(f"Warning: {warning}", style="yellow")
        return known
    assert options.checkpoint is not None and options.measure is not None
    annotated = [{**one, "annotations": of} for one, of in zip(examples, found, strict=True)]
    with loading(options.checkpoint) as progress:
        from infuser.analysis.probe.entities import measure_entities
        from infuser.hosts.checkpoints import find_checkpoint

        find_checkpoint(options.checkpoint, progress)
    scores, about = measure_entities(options.checkpoint, annotated, options.measure, types=options.read_types())
    if options.measure == "probe":
        say(
            f"The probe separates {counted(about['types'], 'type')} with accuracy {about['accuracy']:.3f}; with "
            f"shuffled types {about['control']:.3f}, by guessing {about['chance']:.3f}"
        )
    if out is not None:
        say(f"Scores: {write_scores(out.with_suffix('.scores.json'), scores, about)}")
    return Known({one.key: one.score for one in scores}, options.threshold)


def _print_report(name: str, report: SelectionReport, show: int | None) -> None:
    """Print how much of a source is injected and, with `show`, so many of what is dropped, and why."""
    entities = counted(len(report.entities), "entity", "entities")
    say(
        f"{name}: {report.kept:.1%} of the mentions it found are injected in training ({entities} in "
        f"{counted(report.n_texts, 'text')}, {counted(report.n_draws, 'draw')})"
    )
    if report.relations:
        links = counted(sum(one.n_links for one in report.relations), "link")
        say(f"  {links} of {counted(len(report.relations), 'relation')} that the encoder knows are left out")
    if show is None:
        return
    rates = [(one.name, f"{one.n_entities:,}", f"{one.n_texts:,}", f"{one.kept:.1%}") for one in report.buckets]
    print_table(("entities", "how many", "in texts", "kept"), rates, title="Keep-rates by frequency")
    if report.relations and show:
        rows = [(one.relation, f"{one.n_links:,}", one.why) for one in report.relations[:show]]
        print_table(("relation", "links", "why"), rows, title="Relations whose links are left out", left=(0, 2))
    dropped = [one for one in report.entities if one.kept < 1][:show]
    if dropped:
        entries = [(one.shown, f"{one.n_texts:,}", f"{one.kept:.0%}", one.why) for one in dropped]
        print_table(("entity", "in texts", "kept", "why"), entries, title="Dropped most often", left=(0, 3))
    elif not report.relations:
        say("Nothing is dropped.")
