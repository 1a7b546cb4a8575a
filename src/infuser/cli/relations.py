"""`infuser relations`: learn relations from attention, extract triples, score them and show what was learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from infuser.cli.console import loading
from infuser.cli.relations_data import (
    DATA,
    Best,
    EncoderNow,
    FittedModel,
    Gate,
    LabelFile,
    RelationFormat,
    Sentences,
    names_of,
    open_fitted,
    read_texts,
    sources_of,
    stated_relations,
)
from infuser.cli.relations_extract import extract
from infuser.cli.relations_fit import fit
from infuser.cli.relations_scores import evaluate_extraction, tell_evaluation
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
from infuser.files import write_whole
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.relations.scores import Match

app = typer.Typer(
    no_args_is_help=True,
    help="Relations: who is what to whom, read from attention.\n\n"
    "A small linear model learns from texts with known triples what the attention between two spans says about their "
    "relation. The encoder itself is not trained. The model then extracts triples from any text, and says which heads "
    "decided.",
)

app.command()(fit)
app.command()(extract)


@app.command()
def evaluate(
    model: FittedModel,
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help=DATA)],
    format: RelationFormat = "auto",
    match: Annotated[
        list[str] | None,
        typer.Option(
            metavar="strict|labelled|lenient",
            help="When a triple counts as right. Repeatable.",
            show_default="all three",
        ),
    ] = None,
    gold_spans: Annotated[
        bool, typer.Option("--gold-spans", help="Relate the data's own mentions, not what sources find.")
    ] = False,
    sentences: Sentences = False,
    learned: Annotated[
        bool, typer.Option("--learned", help="Count only relations that the model has learned.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Also write all counts as JSON.", show_default=False),
    ] = None,
    gate: Gate = None,
    best: Best = None,
    encoder: EncoderNow = None,
    source: NamedSources = None,
    sources: SourcesFile = None,
    entities: EntityFiles = None,
    phrases: PhraseFiles = None,
    correlation: CorrelationFiles = None,
    graph: GraphFiles = None,
    aliases: AliasFiles = None,
) -> None:
    """Measure an extraction: precision, recall and F1, with 95 % intervals.

    strict: both places are exact and the relation is right. labelled: the
    words are alike and the relation is right. lenient: the words are alike;
    the relation does not count, so calling every pair related scores high,
    too, and stands beside it. Ceiling is the recall that the candidates
    allow. Intervals draw whole texts.

    Examples:
      infuser relations evaluate rel test.jsonl
      infuser relations evaluate rel docred.json --sentences --learned
      infuser relations evaluate rel test.jsonl --gold-spans --json scores.json
    """
    console, told = Console(), Console(stderr=True)
    given = read_sources(
        sources,
        named=source,
        entities=entities,
        phrases=phrases,
        correlation=correlation,
        graph=graph,
        aliases=aliases,
    )
    if gold_spans and given:
        raise InputError("--gold-spans relates the data's own mentions, so it cannot be combined with sources.")
    matches = _matches(match)
    texts = read_texts(data, format, None, sentences=sentences)
    fitted = open_fitted(model, encoder, told, gate=gate, best=best)
    spans = [] if gold_spans else sources_of(model, given, otherwise=" Or relate the data's own mentions: --gold-spans")
    known, stated = set(fitted.classes_.tolist()), stated_relations(texts)
    unlearned = {relation: n for relation, n in sorted(stated.items()) if relation not in known}
    if len(unlearned) == len(stated):
        raise InputError(
            f"The model has learned none of the relations of these texts: they state {', '.join(list(stated)[:5])}, it "
            f"knows {', '.join(sorted(fitted.labels_)[:5])}. Name relations by the same ids in both."
        )
    if learned:
        from infuser.relations.examples import only_relations

        texts = only_relations(texts, known)
    evaluation = evaluate_extraction(fitted, texts, spans, matches, progress=told.is_terminal)
    tell_evaluation(console, evaluation, fitted.labels_)
    if unlearned:
        console.print(
            f"{counted(sum(unlearned.values()), 'triple')} of {counted(len(unlearned), 'relation')} that the model has "
            f"not learned {'are left out' if learned else 'count as missed; --learned leaves them out'}.",
            highlight=False,
            soft_wrap=True,
        )
    if out is not None:
        about = {
            "model": str(model),
            "data": [str(path) for path in data],
            "spans": names_of(spans) or "gold",
            "thresholds": {"gate": fitted.thresholds_.gate, "best": fitted.thresholds_.best},
            "learned_only": learned,
            "unlearned": unlearned,
        }
        write_whole(out, json.dumps(about | evaluation.numbers, indent=1, ensure_ascii=False))
        console.print(f"Counts: {out}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def report(
    model: FittedModel,
    data: Annotated[Path, typer.Option(metavar="FILE", help=f"To test with. {DATA}", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for probe.html and probe.json.", show_default=False)],
    format: RelationFormat = "auto",
    labels: LabelFile = None,
    sentences: Sentences = False,
    encoder: EncoderNow = None,
) -> None:
    """Show what a model has learned: one page with plots, and the numbers as JSON.

    Which layers and heads it weighs, which relations are near each other,
    which it takes for which, and how well it tells each of them, given the
    spans of the test triples.

    Example:
      infuser relations report rel --data test.jsonl --out report
    """
    console, told = Console(), Console(stderr=True)
    texts = read_texts([data], format, labels, sentences=sentences)
    fitted = open_fitted(model, encoder, told)
    with loading(told, "the report"):
        from infuser.cli.relations_report import report_fitted
        from infuser.relations.keeping import read_card
        from infuser.reports.probe_page import write_probe
    place = Path(encoder or read_card(model)["encoder"]["name"] or model)
    name = place.name if place.name != "model" else f"{place.parent.name}/model"  # RUN/model
    told_of = report_fitted(fitted, texts, name=name, data=data.name, progress=told.is_terminal)
    page = write_probe(told_of, out)
    console.print(told_of.sentence, style="bold", markup=False, highlight=False)
    for note in told_of.notes:
        console.print(f"  {note}", style="yellow", markup=False, highlight=False)
    console.print(f"Page: {page}", markup=False, highlight=False, soft_wrap=True)


def _matches(given: list[str] | None) -> list[Match]:
    """Return the matches that were asked for; all if none was."""
    from infuser.relations.scores import MATCHES

    unknown = [one for one in given or () if one not in MATCHES]
    if unknown:
        raise InputError(f"--match {unknown[0]}: choose among {', '.join(MATCHES)}.")
    return [match for match in MATCHES if not given or match in given]
