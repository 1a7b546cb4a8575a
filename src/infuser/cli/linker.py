"""`infuser linker`: linkers are trained with links or without any, trained on together with the encoder, and measured.

DIR/train.json     what the run was made with and, at its end, how it went
DIR/checkpoints/   where a run that was stopped goes on
DIR/model/         the trained model
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from infuser.cli.console import loading
from infuser.cli.examples import TextColumn
from infuser.cli.link import open_linker
from infuser.cli.linker_data import (
    Corpus,
    Limit,
    LinkFormat,
    Restart,
    check_entities,
    digest_texts,
    read_all_links,
    read_corpus,
    read_documents,
)
from infuser.cli.linker_scores import score_linker, tell_scores
from infuser.cli.linker_stages import (
    Stages,
    described,
    infuse_base,
    made_with,
    n_steps,
    stoppable,
    tell_next,
    tell_stage,
)
from infuser.errors import InputError
from infuser.experiments.run_folder import Run
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.infused import Infused
    from infuser.sources import KnowledgeBase

app = typer.Typer(
    no_args_is_help=True,
    help="Linkers: what mentions mean, learned.\n\n"
    "A linker stands inside an encoder (the method Kar) and chooses among the candidates of each mention. It learns "
    "from texts whose links are known, or from any texts: names that mean one thing only are hidden among others. "
    "`infuser link` then uses it.",
)

_STEPS = "Training"
Loss = Annotated[
    Literal["margin", "softmax"],
    typer.Option(
        help="margin: the right candidate above the threshold, wrong ones below. softmax: the right one above the "
        "others; it never learns that a mention means none of its candidates."
    ),
]
OutFolder = Annotated[Path, typer.Option(help="Folder for the model, the record of the run and its checkpoints.")]


def _setting(*flags: str, **options: Any) -> Any:
    return typer.Option(*flags, rich_help_panel=_STEPS, **options)


@app.command()
def train(
    checkpoint: Annotated[
        str, typer.Argument(help="The encoder: a folder, a hub id, or an asset such as minilm, which is fetched.")
    ],
    candidates: Annotated[
        Path, typer.Option(metavar="DIR", help="What mentions may mean: `infuser candidates build`.")
    ],
    vectors: Annotated[Path, typer.Option(metavar="DIR", help="The entities' vectors: `infuser vectors build`.")],
    out: OutFolder,
    links: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Texts whose links are known: JSON lines, ELEVANT, AIDA. Repeatable."),
    ] = None,
    corpus: Corpus = None,
    dev: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Texts with links to measure the linker on. Repeatable."),
    ] = None,
    format: LinkFormat = "auto",
    text_column: TextColumn = "text",
    limit: Limit = None,
    name: Annotated[str, typer.Option(help="What the knowledge base is called inside the model.")] = "base",
    missing: Annotated[
        Literal["error", "skip"], typer.Option(help="What to do with candidates that have no vector.")
    ] = "error",
    layer: Annotated[
        int | None, typer.Option(help="Block behind which it stands, from 0.", show_default="the last but one")
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="A candidate with a lower score is not linked. Scores are no probabilities.")
    ] = 0.0,
    task: Annotated[
        Literal["encoder", "masked-lm", "pretraining"],
        typer.Option(help="The head that the model keeps; `infuser linker pretrain` needs one of the last two."),
    ] = "encoder",
    restart: Restart = False,
    loss: Loss = "margin",
    epochs: Annotated[int, _setting(min=1, help="How often each text is seen.")] = 3,
    batch_size: Annotated[int, _setting(min=1, help="Texts per batch.")] = 32,
    learning_rate: Annotated[float, _setting(help="Highest step size of the linker.")] = 1e-3,
    max_words: Annotated[int, _setting(min=8, help="Longer texts are read in windows of so many words.")] = 200,
    workers: Annotated[int, _setting(help="Processes that prepare batches in the background.")] = 0,
    seed: Annotated[int, _setting(help="Decides order, dropout and where the linker starts.")] = 0,
) -> None:
    """Put a knowledge base inside an encoder and teach its linker what mentions mean.

    Only the linker learns; the encoder stays as it is. With --corpus no
    labels are needed. With both, the corpus comes first. A command that was
    stopped goes on from its last checkpoint when it is run again.

    Examples:
      infuser linker train minilm --candidates C --vectors V --links L --out RUN
      infuser linker train minilm --candidates C --vectors V --corpus T --out RUN
      infuser link RUN/model --text "Jordan played in Chicago."
    """
    if not links and not corpus:
        raise InputError("Give what to learn from: --links FILE with known links, --corpus FILE without, or both.")
    from infuser.sources import Candidates, KnowledgeBase

    console = Console()
    base = KnowledgeBase(Candidates(candidates), vectors, name, missing)
    share = base.check()
    console.print(f"{name}: {share:.1%} of the entities in {candidates} have a vector", markup=False, highlight=False)
    linked, measured = (read_all_links(paths, format) if paths else [] for paths in (links, dev))
    for texts, paths in ((linked, links), (measured, dev)):
        if paths:
            check_entities(texts, base, paths)
    unlabelled = read_corpus(corpus, text_column, limit, max_words) if corpus else []

    with loading(Console(stderr=True), "torch and transformers"):
        from infuser.linking.training import LINKER
        from infuser.methods import Kar
    settings = replace(
        LINKER,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        new_learning_rate=learning_rate,
        seed=seed,
        n_workers=workers,
    )
    method = Kar(layers=None if layer is None else {name: layer}, threshold=threshold)
    run = Run(out)
    infused = infuse_base(checkpoint, method, base, task, seed)
    stages = Stages(infused, base, loss, settings, run.checkpoints)
    prepared = [stages.self_supervised(unlabelled)] if unlabelled else []
    prepared += [stages.supervised(linked, max_words)] if linked else []
    run.begin(
        made_with(settings, loss=loss, checkpoint=checkpoint, task=task, method=asdict(method), base=described(base))
        | {"max_words": max_words, "links": digest_texts(linked), "corpus": digest_texts(unlabelled)},
        restart=restart,
    )
    results = {stage: stages.train(console, stage, examples, how) for stage, examples, how in prepared}
    infused.save(run.model)
    scores = score_linker(infused, base, measured, batch_size=batch_size) if measured else {}
    run.finish(
        {stage: result.to_json() for stage, result in results.items()}
        | {"dev": {name: one.to_json() for name, one in scores.items()}, "new_weights": infused.n_new_weights()}
    )
    if scores:
        tell_scores(console, scores)
    tell_next(console, run, task)


@app.command()
def pretrain(
    model: Annotated[str, typer.Argument(help="Folder with a linker and a head for masked words.")],
    corpus: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="Texts: .txt (a sentence per line, a blank line between documents) or a table with a document per "
            "row. Repeatable.",
        ),
    ],
    out: OutFolder,
    text_column: TextColumn = "text",
    limit: Limit = None,
    restart: Restart = False,
    loss: Loss = "margin",
    epochs: Annotated[int, _setting(min=1, help="How often each text is seen, masked differently.")] = 1,
    batch_size: Annotated[int, _setting(min=1, help="Texts per batch.")] = 32,
    learning_rate: Annotated[float, _setting(help="Highest step size of the encoder.")] = 2e-5,
    new_learning_rate: Annotated[float, _setting(help="The same for the knowledge weights.")] = 1e-4,
    max_words: Annotated[int, _setting(min=4, help="A document is cut into parts of up to so many words.")] = 60,
    workers: Annotated[int, _setting(help="Processes that prepare batches in the background.")] = 0,
    seed: Annotated[int, _setting(help="Decides order, dropout and what is masked.")] = 0,
) -> None:
    """Train encoder and linker together: masked words, next sentence and linking, without labels.

    The model comes from `infuser linker train --task masked-lm`, or
    `--task pretraining` for next sentences too. The vectors stay as they are.

    Example:
      infuser linker pretrain runs/linker/model --corpus news.txt --out runs/joint
    """
    console = Console()
    documents = read_documents(corpus, text_column, limit, max_words)
    infused = open_linker(model, Console(stderr=True))
    from infuser.linking.examples import bases_of
    from infuser.linking.joint import joint_examples
    from infuser.linking.training import JOINT, check_masked_head, reads_next_sentence
    from infuser.linking.training import pretrain as train_jointly
    from infuser.saving import digest

    check_masked_head(infused.model)
    pairs = reads_next_sentence(infused.model)
    examples = joint_examples(documents, bases_of(infused.sources), pairs=pairs, seed=seed, copies=epochs)
    n_taught = sum("gold" in example for example in examples)
    console.print(
        f"{counted(len(examples), 'pair' if pairs else 'text')} with masked words, {n_taught:,} of them with names "
        "that mean one thing only",
        highlight=False,
    )
    settings = replace(
        JOINT,
        epochs=1,  # every epoch has examples of its own
        batch_size=batch_size,
        learning_rate=learning_rate,
        new_learning_rate=new_learning_rate,
        checkpoint_every=n_steps(len(examples) // epochs, batch_size),
        seed=seed,
        n_workers=workers,
    )
    run = Run(out)
    run.begin(
        made_with(settings, loss=loss, model=model, copies=epochs, max_words=max_words)
        | {"corpus": digest_texts(documents), "weights": digest(infused.model.state_dict())[:12]},
        restart=restart,
    )
    with stoppable() as progress:
        result = train_jointly(infused, examples, loss=loss, settings=settings, out=run.checkpoints, progress=progress)
    infused.save(run.model)
    run.finish(result.to_json() | {"new_weights": infused.n_new_weights()})
    tell_stage(console, "joint training", result)
    tell_next(console, run, "encoder")


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(help="Folder with a linker: RUN/model of `infuser linker train`.")],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Texts whose links are known: JSON lines, ELEVANT, AIDA.")
    ],
    base: Annotated[
        str | None,
        typer.Option(help="The knowledge base whose entities the files name.", show_default="the only one"),
    ] = None,
    format: LinkFormat = "auto",
    threshold: Annotated[
        float | None,
        typer.Option(help="Link mentions whose best score is at least this.", show_default="the model's own"),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts that are read at once.")] = 32,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the counts of every document.")] = False,
) -> None:
    """Measure a linker, strictly: every gold mention counts, found or not.

    Beside it stand two that read no text: the most probable meaning of each
    name, and the entity that is meant most often overall. Ceiling is the
    recall that the candidates allow. Intervals (95 %) draw whole documents.

    Example:
      infuser linker evaluate runs/linker/model test.jsonl
    """
    gold = read_all_links(files, format)
    told = Console(stderr=True)
    infused = open_linker(model, told)
    chosen = _choose(infused, base)
    check_entities(gold, chosen, files)
    scores = score_linker(infused, chosen, gold, threshold=threshold, batch_size=batch_size, progress=told.is_terminal)
    if as_json:
        typer.echo(json.dumps({name: one.to_json() for name, one in scores.items()}))
    else:
        tell_scores(Console(), scores)


def _choose(infused: Infused, name: str | None) -> KnowledgeBase:
    from infuser.linking.examples import bases_of

    bases: dict[str, Any] = bases_of(infused.sources)
    if name is None and len(bases) > 1:
        raise InputError(
            f"This model has several knowledge bases. Say whose entities are meant: --base {'|'.join(bases)}"
        )
    if name is not None and name not in bases:
        raise InputError(f"There is no knowledge base {name!r} in this model; it has {', '.join(bases)}.")
    chosen: KnowledgeBase = bases[name or next(iter(bases))]
    return chosen
