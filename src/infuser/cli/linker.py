"""`infuser linker`: train linkers with links or without any, train them on together with the encoder, measure them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infuser.cli.console import loading, print_json
from infuser.cli.linker_options import LinkFormat, print_scores, read_linked
from infuser.cli.linker_pretrain import pretrain
from infuser.cli.linker_train import train
from infuser.cli.options import argument, option

app = typer.Typer(
    no_args_is_help=True,
    help="Linkers: what mentions mean, learned.\n\n"
    "A linker stands inside an encoder (the method Kar) and chooses among the candidates of each mention. It learns "
    "from texts whose links are known, or from any texts: names that mean one thing only are hidden among others. "
    "`infuser link` then uses it.",
)

app.command()(train)
app.command()(pretrain)


@app.command()
def evaluate(
    model: Annotated[str, argument("Folder with a linker: RUN/model of `infuser linker train`.")],
    files: Annotated[
        list[Path], argument("Texts whose links are known: JSON lines, ELEVANT, AIDA.", metavar="FILE...")
    ],
    base: Annotated[
        str | None, option("The knowledge base whose entities the files name.", default="the only one")
    ] = None,
    format: LinkFormat = "auto",
    threshold: Annotated[
        float | None, option("Link mentions whose best score is at least this.", default="the model's own")
    ] = None,
    batch_size: Annotated[int, option("Texts that are read at once.", min=1)] = 32,
    as_json: Annotated[bool, option("Print JSON, with the counts of every document.", "--json")] = False,
) -> None:
    """Measure a linker, strictly: every gold mention counts, found or not.

    Beside it stand two that read no text: the most probable meaning of each
    name, and the entity that is meant most often overall. Ceiling is the
    recall that the candidates allow. Intervals (95 %) draw whole documents.

    Example:
      infuser linker evaluate runs/linker/model test.jsonl
    """
    with loading("the model"):
        from infuser.linking.evaluation import evaluate_linker
        from infuser.linking.inference import choose_base, load_linker

        infused = load_linker(model)
    chosen = choose_base(infused.sources, base)
    gold = read_linked(files, format, chosen)
    scores = evaluate_linker(infused, chosen, gold, threshold=threshold, batch_size=batch_size, progress=True)
    if as_json:
        print_json({name: one.to_json() for name, one in scores.items()}, indent=None)
    else:
        print_scores(scores)
