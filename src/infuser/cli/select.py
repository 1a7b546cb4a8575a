"""`infuser select`: decide which entities are worth injecting, see what that keeps and drops, and write it down.

FILE.json          the selection, for infuser train --select FILE
FILE.scores.json   with --measure: how well the encoder knows each entity
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from infuser.cli.console import loading
from infuser.cli.examples import PairColumn, TextColumn
from infuser.cli.select_telling import tell_scores, tell_selection
from infuser.cli.sources import (
    AliasFiles,
    CacheFolder,
    CorrelationFiles,
    EntityFiles,
    GraphFiles,
    NamedSources,
    NoCache,
    PhraseFiles,
    SourcesFile,
    TermCount,
    chosen_cache,
    read_sources,
)
from infuser.errors import InputError
from infuser.tables.examples import Columns, read_examples
from infuser.tables.files import STDIN
from infuser.types import Annotations, join_pair
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.sources.selective import Strategy

_THE_PAPER, _THE_ENCODER = "Sampling (rare and connected entities)", "Known (what the encoder predicts)"


def _of_paper(**options: Any) -> Any:
    return typer.Option(rich_help_panel=_THE_PAPER, **options)


def _of_encoder(**options: Any) -> Any:
    return typer.Option(rich_help_panel=_THE_ENCODER, **options)


def select(
    data: Annotated[
        Path, typer.Argument(help="Texts: .csv, .tsv, .jsonl, .json, .txt (also packed, .csv.gz), or .parquet.")
    ],
    out: Annotated[Path | None, typer.Option(help="File for the selection, .json.", show_default="not written")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print keep-rates by frequency, and what is dropped and why.")
    ] = False,
    show: Annotated[int, typer.Option(min=0, help="How many dropped entities and relations --explain lists.")] = 20,
    draws: Annotated[int, typer.Option(min=1, help="Over how many epochs keep-rates are counted.")] = 10,
    text_column: TextColumn = "text",
    pair_column: PairColumn = None,
    frequencies: Annotated[
        Path | None,
        _of_paper(
            metavar="DIR",
            help="In how many texts entities are mentioned: a folder of infuser annotate, candidates or a graph.",
            show_default="counted in these texts",
        ),
    ] = None,
    hop_graph: Annotated[
        Path | None,
        _of_paper(metavar="DIR", help="Graph in which hops are counted.", show_default="that of each graph source"),
    ] = None,
    rare: Annotated[int, _of_paper(help="Entities of fewer texts are rare, which adds 1 to their weight.")] = 100,
    hops: Annotated[int, _of_paper(help="Entities at most so many edges apart are near.")] = 6,
    fewest: Annotated[int, _of_paper(help="So many near entities count at least.")] = 5,
    most: Annotated[int, _of_paper(help="So many near entities count at most.")] = 20,
    connection: Annotated[float, _of_paper(help="What each near entity adds to the weight.")] = 0.5,
    share: Annotated[float, _of_paper(help="Share of a text's entities that is drawn.")] = 0.85,
    neglected: Annotated[float, _of_paper(help="Chance of an entity that was not drawn.")] = 0.15,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Draw once for training and answering, not anew in every epoch.", rich_help_panel=_THE_PAPER
        ),
    ] = False,
    seed: Annotated[int, _of_paper(help="Decides the draws.")] = 0,
    known: Annotated[
        Path | None,
        _of_encoder(
            metavar="FILE",
            help="Scores of entities and relations, from --measure or infuser probe --scores.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        Literal["masked", "probe"] | None,
        _of_encoder(
            help="Measure it: masked words (needs a masked-LM head), or a probe of entity types.", show_default=False
        ),
    ] = None,
    checkpoint: Annotated[
        str | None, _of_encoder(help="The plain encoder to measure: a folder, hub id or asset.", show_default=False)
    ] = None,
    types: Annotated[
        Path | None,
        _of_encoder(
            metavar="FILE", help="Types for the probe: entity<TAB>type.", show_default="the labels that sources give"
        ),
    ] = None,
    threshold: Annotated[float, _of_encoder(help="Entities and relations with this score or more are left out.")] = 0.5,
    source: NamedSources = None,
    sources: SourcesFile = None,
    entities: EntityFiles = None,
    phrases: PhraseFiles = None,
    correlation: CorrelationFiles = None,
    graph: GraphFiles = None,
    aliases: AliasFiles = None,
    terms: TermCount = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
) -> None:
    """Choose what to inject: drop what is redundant, and see what is dropped and why.

    Knowledge about what the encoder knows anyway can hurt. Sampling draws a
    share of each text's entities anew in every epoch of training and injects
    everything in answering. With --measure or --known, what the plain encoder
    predicts is left out for good instead. The file serves infuser train
    --select FILE, for sources of the same entities.

    Examples:
      infuser select train.csv --graph wordnet --explain
      infuser select train.csv --graph wordnet --out selection.json
      infuser select train.csv --entities names.tsv --measure probe
        --checkpoint minilm --explain
    """
    if data == STDIN:
        raise InputError("select counts its texts first, so it cannot read standard input. Give a file.")
    named = read_sources(
        sources,
        named=source,
        entities=entities,
        phrases=phrases,
        correlation=correlation,
        graph=graph,
        aliases=aliases,
        terms=terms,
    )
    if not named:
        raise InputError("No knowledge was named. Give --source, --entities, --phrases, --correlation or --graph.")
    if known is not None and measure is not None:
        raise InputError("--known FILE holds what --measure would measure. Give one of them.")
    if (measure is None) != (checkpoint is None):
        raise InputError(
            "--measure masked|probe and --checkpoint CHECKPOINT go together: what to measure, and of whom."
        )
    from infuser.sources import Sampling
    from infuser.sources.entity_statistics import count_entities

    # before the work, so that a wrong number is known at once
    sampling = Sampling(
        graph=hop_graph,
        rare=rare,
        hops=hops,
        fewest=fewest,
        most=most,
        connection=connection,
        share=share,
        neglected=neglected,
        each_epoch=not once,
        seed=seed,
    )
    console, told = Console(), Console(stderr=True)
    examples = [example for _, example in read_examples(data, Columns(text_column, pair_column))]
    if not examples:
        raise InputError(f"{data} holds no texts. Give at least one; --text-column NAME says where texts stand.")
    from infuser.sources.annotating.cache import annotate_cached

    texts = [join_pair(one["text"], one["pair"]) for one in examples]
    found = annotate_cached(named, texts, chosen_cache(cache, no_cache))
    counts = count_entities(found)
    chosen: Strategy
    if known is None and measure is None:
        chosen = replace(sampling, frequencies=counts if frequencies is None else frequencies)
    else:
        chosen = _known(known, measure, checkpoint, types, threshold, examples, found, out, console)
    tell_selection(console, told, named, found, chosen, counts, explain=explain, show=show, draws=draws)
    if out is not None:
        from infuser.sources.selections import write_selection

        write_selection(out, chosen, {"data": data.name, "texts": len(examples)})
        console.print(
            f"Selection: {out}. Train with it: infuser train ... --select {out}", markup=False, soft_wrap=True
        )


def _known(
    known: Path | None,
    measure: str | None,
    checkpoint: str | None,
    types: Path | None,
    threshold: float,
    examples: Sequence[dict[str, Any]],
    found: Sequence[tuple[Annotations, ...]],
    out: Path | None,
    console: Console,
) -> Strategy:
    from infuser.knowledge.entity_scores import digest_of_texts, open_scores, write_scores
    from infuser.sources import Known

    if known is not None:
        given = Known(known, threshold)
        tell_scores(console, given, open_scores(known).about, found)
        return given
    assert checkpoint is not None
    annotated = [{**one, "annotations": of} for one, of in zip(examples, found, strict=True)]
    about: dict[str, Any] = {
        "checkpoint": checkpoint,
        "measure": measure,
        "texts": digest_of_texts(join_pair(one["text"], one["pair"]) for one in examples),
    }
    with loading(console, checkpoint) as report:
        from infuser.hosts.checkpoints import find_checkpoint
        from infuser.hosts.loading import load_model, load_tokenizer

        folder = find_checkpoint(checkpoint, report)
        tokenizer = load_tokenizer(folder)
    progress = Console(stderr=True).is_terminal
    if measure == "masked":
        from infuser.analysis.probe.masked_prediction import has_masked_head, masked_scores

        if not has_masked_head(folder):
            raise InputError(f"{checkpoint!r} has no head for masked words. Measure it with --measure probe.")
        scores = masked_scores(load_model(folder, "masked-lm"), tokenizer, annotated, progress=progress)
    else:
        from infuser.analysis.probe.entity_types import typed_scores
        from infuser.sources.lists import read_aliases

        kinds = None if types is None else {key: of_key[0] for key, of_key in read_aliases([types]).items()}
        probe = typed_scores(load_model(folder, "encoder"), tokenizer, annotated, types=kinds, progress=progress)
        scores = probe.scores
        about |= {"accuracy": probe.accuracy, "control": probe.control, "chance": probe.chance}
        console.print(
            f"The probe tells {counted(len(probe.types), 'type')} apart with accuracy {probe.accuracy:.3f}; with "
            f"shuffled types {probe.control:.3f}, by guessing {probe.chance:.3f}",
            highlight=False,
        )
    if out is not None:
        written = write_scores(out.with_suffix(".scores.json"), scores, about)
        console.print(f"Scores: {written}", markup=False, highlight=False, soft_wrap=True)
    return Known({one.key: one.score for one in scores}, threshold)
