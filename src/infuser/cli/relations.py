"""`infuser relations`: learn relations from attention, extract triples, score them and show what was learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infuser.cli.console import loading, print_finding, say
from infuser.cli.knowledge_options import SourceOptions
from infuser.cli.options import argument, option, option_groups
from infuser.cli.relations_extract import extract
from infuser.cli.relations_fit import fit
from infuser.cli.relations_options import DATA, EncoderNow, FittedModel, FittedOptions, RelationDataOptions
from infuser.cli.relations_scores import print_scores
from infuser.errors import InputError
from infuser.files import json_of, write_whole
from infuser.words import counted

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
@option_groups
def evaluate(
    model: FittedModel,
    data: Annotated[list[Path], argument(DATA, metavar="DATA...")],
    match: Annotated[
        list[str] | None,
        option("When a triple counts as right. Repeatable.", metavar="strict|labelled|lenient", default="all three"),
    ] = None,
    gold_spans: Annotated[bool, option("Relate the data's own mentions, not the sources'.", "--gold-spans")] = False,
    learned: Annotated[bool, option("Count only relations that the model has learned.", "--learned")] = False,
    out: Annotated[Path | None, option("Also write all counts as JSON.", "--json", metavar="FILE")] = None,
    *,
    how: RelationDataOptions,
    fitted: FittedOptions,
    sources: SourceOptions,
) -> None:
    """Measure an extraction: precision, recall and F1, with 95 % intervals.

    strict: exact places and the right relation. labelled: like words and
    the right relation. lenient: like words alone, beside what calling every
    pair related scores. Ceiling is the recall that the candidates allow.

    Examples:
      infuser relations evaluate rel test.jsonl
      infuser relations evaluate rel test.jsonl --gold-spans --json scores.json
    """
    from infuser.relations.scores import MATCHES

    given = sources.read()
    if gold_spans and given:
        raise InputError("--gold-spans relates the data's own mentions, so it cannot be combined with sources.")
    if unknown := [one for one in match or () if one not in MATCHES]:
        raise InputError(f"--match {unknown[0]}: choose among {', '.join(MATCHES)}.")
    texts, extractor = how.read(data), fitted.open(model)
    from infuser.relations.evaluation import ExtractionTest, unlearned_relations
    from infuser.relations.examples import only_relations
    from infuser.relations.saving import find_sources
    from infuser.sources.storage import name_of

    otherwise = " Or relate the data's own mentions: --gold-spans"
    spans = [] if gold_spans else find_sources(model, given, otherwise=otherwise)
    unlearned = unlearned_relations(extractor, texts)
    texts = only_relations(texts, extractor.classes_.tolist()) if learned else texts
    test = ExtractionTest(extractor, texts, spans, progress=True)
    numbers = test.to_json([one for one in MATCHES if not match or one in match])
    print_scores(test, numbers)
    if unlearned:
        say(
            f"{counted(sum(unlearned.values()), 'triple')} of {counted(len(unlearned), 'relation')} that the model has "
            f"not learned {'are left out' if learned else 'count as missed; --learned leaves them out'}."
        )
    if out is not None:
        about = {
            "model": str(model),
            "data": [str(path) for path in data],
            "spans": [name_of(source) for source in spans] or "gold",
            "thresholds": {"gate": extractor.thresholds_.gate, "best": extractor.thresholds_.best},
            "learned_only": learned,
            "unlearned": unlearned,
        }
        write_whole(out, json_of(about | numbers))
        say(f"Counts: {out}")


@app.command()
@option_groups
def report(
    model: FittedModel,
    data: Annotated[Path, option(f"To test with. {DATA}", metavar="FILE")],
    out: Annotated[Path, option("Folder for probe.html and probe.json.")],
    encoder: EncoderNow = None,
    *,
    how: RelationDataOptions,
) -> None:
    """Show what a model has learned: one page with plots, and the numbers as JSON.

    Which layers and heads it weighs, which relations are near each other,
    which it confuses, and how well it knows each, given the test spans.

    Example:
      infuser relations report rel --data test.jsonl --out report
    """
    texts, extractor = how.read([data]), FittedOptions(encoder=encoder).open(model)
    with loading("the report"):
        from infuser.analysis.probe.relation_fits import report_fitted
        from infuser.reports.probe_page import write_probe
    place = Path(encoder or extractor.opened().base or model)
    name = place.name if place.name != "model" else f"{place.parent.name}/model"  # RUN/model
    found = report_fitted(extractor, texts, name=name, data=data.name, progress=True)
    page = write_probe(found, out)
    print_finding(found.sentence, found.notes)
    say(f"Page: {page}")
