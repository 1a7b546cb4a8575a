"""`infuser linker`: train linkers with links or without any, train them on together with the encoder, measure them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from infuser.cli import linker_options as shared
from infuser.cli.console import loading, print_json, resumable, say, training_progress
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


@app.command()
def pretrain(
    model: Annotated[str, argument("Folder with a linker and a head for masked words.")],
    corpus: Annotated[
        list[Path],
        option(
            "Texts: .txt (a sentence per line, a blank line between documents) or a table with a document per "
            "row. Repeatable.",
            metavar="FILE",
        ),
    ],
    out: shared.OutFolder,
    text_column: shared.TextColumn = "text",
    limit: shared.TextLimit = None,
    restart: shared.Restart = False,
    loss: shared.Loss = "margin",
    epochs: Annotated[int, shared.setting("How often each text is seen, masked differently.", min=1)] = 1,
    batch_size: shared.BatchSize = 32,
    learning_rate: Annotated[float, shared.setting("Peak learning rate of the encoder.")] = 2e-5,
    new_learning_rate: Annotated[float, shared.setting("The same for the knowledge weights.")] = 1e-4,
    max_words: Annotated[int, shared.setting("A document is cut into parts of up to so many words.", min=4)] = 60,
    workers: shared.Workers = 0,
    seed: Annotated[int, shared.setting("Decides order, dropout and what is masked.")] = 0,
) -> None:
    """Train encoder and linker together: masked words, next sentence and linking, without labels.

    The model comes from `infuser linker train --task masked-lm`, or
    `--task pretraining` for next sentences too. The vectors stay as they are.

    Example:
      infuser linker pretrain runs/linker --corpus news.txt --out runs/joint
    """
    from infuser.linking.texts import read_document_windows

    documents = read_document_windows(corpus, text_column, limit, max_words)
    with loading("the model"):
        from infuser.experiments.linkers import run_joint
        from infuser.experiments.run_folder import RunFolder, find_model
        from infuser.linking.inference import load_linker
        from infuser.linking.training import JOINT

        infused = load_linker(find_model(model))
    settings = replace(JOINT, epochs=epochs, batch_size=batch_size, seed=seed, n_workers=workers)
    run = RunFolder(out)
    with resumable():
        run_joint(
            run,
            infused,
            documents,
            loss=loss,
            settings=replace(settings, learning_rate=learning_rate, new_learning_rate=new_learning_rate),
            max_words=max_words,
            made_with={"model": model},
            restart=restart,
            report=say,
            progress=training_progress(),
        )
    shared.print_next(run.model)


@app.command()
def evaluate(
    model: shared.LinkerModel,
    files: Annotated[list[Path], argument("Texts with known links: JSON lines, ELEVANT, AIDA.", metavar="FILE...")],
    base: Annotated[str | None, option("The knowledge base that the files link to.", default="the only one")] = None,
    format: shared.LinkFormat = "auto",
    threshold: shared.Threshold = None,
    batch_size: Annotated[int, option("Texts that are read at once.", min=1)] = 32,
    as_json: Annotated[bool, option("Print JSON, with the counts of every document.", "--json")] = False,
) -> None:
    """Measure a linker, strictly: every gold mention counts, found or not.

    Beside it stand two that read no text: the most probable meaning of each
    name, and the entity that is meant most often overall. Ceiling is the
    recall that the candidates allow. Intervals (95 %) draw whole documents.

    Example:
      infuser linker evaluate runs/linker test.jsonl
    """
    with loading("the model"):
        from infuser.experiments.run_folder import find_model
        from infuser.linking.evaluation import evaluate_linker
        from infuser.linking.inference import choose_base, load_linker

        infused = load_linker(find_model(model))
    chosen = choose_base(infused.sources, base)
    gold = shared.read_linked(files, format, chosen)
    scores = evaluate_linker(infused, chosen, gold, threshold=threshold, batch_size=batch_size, progress=True)
    if as_json:
        print_json({name: one.to_json() for name, one in scores.items()}, indent=None)
    else:
        shared.print_scores(scores)
