"""`infuser relations fit`: a relation extractor learned from texts with known triples."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from infuser.cli.relations_data import (
    DATA,
    LabelFile,
    RelationFormat,
    Sentences,
    check_out,
    names_of,
    open_encoder,
    read_texts,
    save_fitted,
    set_thresholds,
    stated_relations,
)
from infuser.cli.relations_scores import say_proposals
from infuser.cli.sources import (
    AliasFiles,
    CorrelationFiles,
    EntityFiles,
    GraphFiles,
    NamedSources,
    PhraseFiles,
    SourcesFile,
    read_sources,
)
from infuser.errors import InputError
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.relations.examples import RelationText
    from infuser.relations.model import AttentionRelations
    from infuser.types import Source

_LEARNING, _ASKING = "Learning", "What of a text is asked about (documents need more than sentences)"


def _setting(*flags: str, **options: Any) -> Any:
    return typer.Option(*flags, rich_help_panel=_LEARNING, **options)


def _limit(help: str) -> Any:
    return typer.Option(min=1, rich_help_panel=_ASKING, help=help)


def fit(
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help=DATA)],
    out: Annotated[Path, typer.Option(help="Folder for the fitted model.", show_default=False)],
    encoder: Annotated[
        str, typer.Option(help="A folder (plain, or infused: read with its knowledge), a hub id or an asset.")
    ] = "minilm",
    dev: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Other such texts, to set the thresholds by.", show_default=False),
    ] = None,
    format: RelationFormat = "auto",
    sentences: Sentences = False,
    labels: LabelFile = None,
    relations: Annotated[
        str | None, typer.Option(metavar="ID,ID,...", help="Learn only these relations.", show_default="all")
    ] = None,
    features: Annotated[
        Literal["attention", "embeddings"], _setting(help="Attention between the spans, or their states.")
    ] = "attention",
    pooling: Annotated[
        Literal["sum", "mean"], _setting(help="How attention between words becomes one number.")
    ] = "sum",
    pairs: Annotated[
        bool, _setting("--pairs", help="Look at head and tail alone, not at the words that say the relation.")
    ] = False,
    negatives: Annotated[float, _setting(help="Triples that are none, for each that is one; the paper has 1.")] = 5.0,
    no_none: Annotated[
        bool, _setting("--no-none", help="The classifier does not know 'none of them'; as in the paper.")
    ] = False,
    strength: Annotated[float, _setting(help="How freely it may fit (scikit-learn's C).")] = 1.0,
    seed: Annotated[int, _setting(help="Decides which triples that are none it learns from.")] = 0,
    max_spans: Annotated[int, _limit("Spans that are paired, the first ones of a window.")] = 400,
    max_pairs: Annotated[int, _limit("Ordered pairs of spans, the nearest ones.")] = 1000,
    max_triggers: Annotated[int, _limit("Triggers tried for each pair.")] = 3,
    max_distance: Annotated[int, _limit("Words between the two spans of a pair.")] = 60,
    source: NamedSources = None,
    sources: SourcesFile = None,
    entities: EntityFiles = None,
    phrases: PhraseFiles = None,
    correlation: CorrelationFiles = None,
    graph: GraphFiles = None,
    aliases: AliasFiles = None,
) -> None:
    """Learn relations from texts with known triples.

    Sources named here find the spans when triples are extracted; they are
    saved with the model, and "no relation" is learned from what they offer.
    With --dev the thresholds are set where the strict F1 of the extraction
    is highest.

    A line of the data, with places in characters ("trigger" if known):
      {"text": "Bern is the capital of Switzerland.", "triples":
       [{"head": [23, 34], "tail": [0, 4], "relation": "P36"}]}

    Examples:
      infuser relations fit train.jsonl --dev dev.jsonl --out rel
        --source spacy-entities --source spacy-phrases
      infuser relations fit train.csv --relations P36,P17 --entities names.tsv
        --encoder runs/mine/model --out rel
      infuser relations fit docred.json --source spacy-entities --out rel
        --max-pairs 4000 --max-distance 200
    """
    for flag, value in (("--strength", strength), ("--negatives", negatives)):
        if value <= 0:
            raise InputError(f"{flag} {value:g}: give a number above 0.")
    check_out(out)
    console, told = Console(), Console(stderr=True)
    spans = read_sources(
        sources,
        named=source,
        entities=entities,
        phrases=phrases,
        correlation=correlation,
        graph=graph,
        aliases=aliases,
    )
    texts = read_texts(data, format, labels, sentences=sentences)
    tuned_on = None if dev is None else read_texts([dev], format, labels, sentences=sentences)
    wanted = _chosen(relations, texts)
    opened = open_encoder(encoder, told)
    from infuser.relations.candidates import CandidateRule
    from infuser.relations.model import AttentionRelations

    model = AttentionRelations(
        opened,
        rule=CandidateRule(max_spans, max_pairs, max_triggers, max_distance),
        relations=wanted,
        kind=features,
        pooling=pooling,
        trigger=False if pairs else None,
        negatives=negatives,
        none_class=not no_none,
        strength=strength,
        seed=seed,
    )
    model.fit(texts, spans=spans, progress=told.is_terminal)
    _tell_fit(console, model, texts, spans)
    if tuned_on is None:
        gate, best = model.thresholds_.gate, model.thresholds_.best
        told_of = f"Thresholds: gate {gate:g}, best relation {best:g}, as in the paper; --dev FILE finds better ones"
        console.print(told_of, markup=False, highlight=False, soft_wrap=True)
    else:
        _tune(console, model, tuned_on, spans, progress=told.is_terminal)
    unsaved = save_fitted(model, spans, out)
    _tell_next(console, out, spans, unsaved)


def _chosen(given: str | None, texts: Sequence[RelationText]) -> list[str] | None:
    """Return the relations that were asked for, all of which the texts state; None for all."""
    if given is None:
        return None
    wanted = list(dict.fromkeys(id.strip() for id in given.split(",") if id.strip()))
    stated = stated_relations(texts)
    missing = [id for id in wanted if id not in stated]
    if missing or not wanted:
        raise InputError(
            f"--relations {given}: the texts do not state {', '.join(missing) or 'any'}. They state "
            f"{', '.join(id for id, _ in stated.most_common(10))}{' and others' if len(stated) > 10 else ''}."
        )
    return wanted


def _tune(
    console: Console, model: AttentionRelations, dev: list[RelationText], spans: Sequence[Source], *, progress: bool
) -> None:
    """Set the thresholds where the strict F1 on dev texts is highest, and tell how high."""
    from infuser.relations.examples import only_relations
    from infuser.relations.extracting import propose_all
    from infuser.relations.scores import score_relations
    from infuser.relations.tuning import best_thresholds

    # what `fit(dev=...)` does, but what is proposed for the dev texts serves for their scores, too
    gold = only_relations(dev, model.labels_) if model.relations else dev
    proposals = propose_all(model, gold, spans, progress=progress)
    best = best_thresholds(gold, proposals) or model.thresholds_
    set_thresholds(model, best.gate, best.best)
    total = score_relations(gold, say_proposals(gold, proposals, best)).total
    console.print(
        f"Thresholds: gate {best.gate:.3g}, best relation {best.best:.3g}, best for {counted(len(dev), 'dev text')}: "
        f"strict F1 {total.f1:.3f} there, precision {total.precision:.3f}, recall {total.recall:.3f}",
        highlight=False,
        soft_wrap=True,
    )


def _tell_fit(
    console: Console, model: AttentionRelations, texts: Sequence[RelationText], spans: Sequence[Source]
) -> None:
    n_triples = sum(n for id, n in stated_relations(texts).items() if id in model.labels_)
    words = f"with {counted(len(model.triggers_.phrases), 'phrase')} that say them" if model.trigger_ else "as pairs"
    ready = [
        f"the {what} {'has converged' if linear.converged else 'has not converged: a lower --strength helps'}"
        for what, linear in (("gate", model.model_.gate), ("relation classifier", model.model_.which))
    ]
    lines = [
        f"{counted(len(model.labels_), 'relation')} learned from {counted(n_triples, 'triple')} in "
        f"{counted(len(texts), 'text')}, {words}; and from {model.n_negatives_:,} that are none",
        f"{counted(model.n_unread_, 'triple')} could not be read; {', '.join(ready)}",
        f"Spans are found by: {', '.join(names_of(spans)) or 'no source yet'}",
    ]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _tell_next(console: Console, out: Path, spans: Sequence[Source], unsaved: Sequence[str]) -> None:
    for why in unsaved:
        console.print(f"Not saved, so name it again when extracting: {why}", style="yellow", markup=False)
    console.print(f"Model: {out}", markup=False, highlight=False, soft_wrap=True)
    folder = shlex.quote(str(out))
    named = "" if spans and not unsaved else " --source spacy-entities"
    console.print("\n[b]What to try next[/b]")
    for step in (
        f"infuser relations evaluate {folder} TEST{named}",
        f"infuser relations extract {folder} TEXTS.txt{named} --out triples.jsonl",
        f"infuser relations report {folder} --data TEST --out report",
    ):
        console.print(f"  {step}", markup=False, highlight=False, soft_wrap=True)
