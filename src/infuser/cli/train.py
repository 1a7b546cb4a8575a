"""`infuser train`: fine-tune a checkpoint with knowledge inside, and keep what is needed to use and repeat it.

DIR/train.json     what the run was made with and, at its end, how it went
DIR/checkpoints/   where a run that was stopped goes on
DIR/model/         the trained model
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from infuser.cli.console import loading
from infuser.cli.examples import LabelColumn, PairColumn, TextColumn
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
from infuser.cli.telling import tell_next, tell_result
from infuser.errors import InputError
from infuser.experiments.arms import PLACEBO, PLAIN, Files, Plan, read_data, train_arm
from infuser.experiments.run_folder import Run
from infuser.tables.examples import Columns, read_all_examples
from infuser.tables.rows import read_json
from infuser.types import Source
from infuser.words import counted

_STEPS = "Training"


def _setting(*flags: str, **options: Any) -> Any:
    return typer.Option(*flags, rich_help_panel=_STEPS, **options)


def train(
    checkpoint: Annotated[
        str, typer.Argument(help="The encoder: a folder, a hub id, or an asset such as minilm, which is fetched.")
    ],
    data: Annotated[Path, typer.Argument(help="Training examples: .csv, .tsv, .jsonl or .json.")],
    out: Annotated[Path, typer.Option(help="Folder for the model, the record of the run and its checkpoints.")],
    dev: Annotated[
        Path | None,
        typer.Option(help="Examples to evaluate on.", show_default="a tenth of the training examples"),
    ] = None,
    text_column: TextColumn = "text",
    pair_column: PairColumn = None,
    label_column: LabelColumn = "label",
    plain: Annotated[bool, typer.Option("--plain", help="Train the baseline: the same without knowledge.")] = False,
    placebo: Annotated[
        bool, typer.Option("--placebo", help="Train the placebo: the same knowledge, shuffled between texts.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start anew instead of going on from a checkpoint.")
    ] = False,
    source: NamedSources = None,
    sources: SourcesFile = None,
    entities: EntityFiles = None,
    phrases: PhraseFiles = None,
    correlation: CorrelationFiles = None,
    graph: GraphFiles = None,
    aliases: AliasFiles = None,
    terms: TermCount = None,
    method: Annotated[
        Literal["kam", "kar", "ernie"],
        typer.Option(
            help="How knowledge is put inside: ties as attention maps, or entities of a knowledge base.",
            rich_help_panel="Knowledge",
        ),
    ] = "kam",
    candidates: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="kar and ernie: what mentions may mean, of `infuser candidates build`.",
            rich_help_panel="Knowledge",
            show_default=False,
        ),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="kar and ernie: the entities' vectors, of `infuser vectors build`.",
            rich_help_panel="Knowledge",
            show_default=False,
        ),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|sampling",
            help="Inject a part of the knowledge: what `infuser select` wrote to FILE, or the paper's sampling.",
            rich_help_panel="Knowledge",
            show_default="everything",
        ),
    ] = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    epochs: Annotated[int, _setting(help="How often each example is seen, at most.")] = 3,
    batch_size: Annotated[int, _setting(help="Examples per batch.")] = 32,
    accumulate: Annotated[int, _setting(help="Batches per step of the optimizer.")] = 1,
    learning_rate: Annotated[float, _setting(help="Highest step size of the encoder and its head.")] = 5e-5,
    new_learning_rate: Annotated[
        float | None,
        _setting(help="The same for the new knowledge weights.", show_default="learning rate"),
    ] = None,
    metric: Annotated[
        str | None,
        _setting(help="What decides on the dev set.", show_default="auc for two labels, accuracy for more"),
    ] = None,
    patience: Annotated[int, _setting(help="Epochs without improvement after which training stops.")] = 2,
    precision: Annotated[Literal["no", "bf16", "fp16"], _setting(help="Compute in 16 bits where that is safe.")] = "no",
    checkpoint_every: Annotated[
        int | None, _setting(help="Steps between checkpoints.", show_default="one per epoch")
    ] = None,
    workers: Annotated[int, _setting(help="Processes that prepare batches in the background.")] = 0,
    seed: Annotated[int, _setting(help="Decides order, dropout and the new head.")] = 0,
    spectral: Annotated[
        float | None,
        _setting(
            metavar="ETA", help="Shrink features that tell little, with this weight: 0.001.", show_default="not at all"
        ),
    ] = None,
    examples: Annotated[
        int | None,
        _setting(metavar="N", help="Train on N of the examples, chosen by the seed.", show_default="all"),
    ] = None,
) -> None:
    """Fine-tune an encoder to label texts, with knowledge inside its attention.

    Labels are words or whole numbers; their names are kept in the model. A
    command that was stopped goes on from its last checkpoint when it is run
    again. Knowledge is named by files; for kam each becomes one attention map.

    Examples:
      infuser train minilm train.csv --graph triples.tsv --out runs/mine
      infuser train minilm train.csv --dev dev.csv --plain --out runs/plain
      infuser train minilm train.csv --method kar --candidates c --vectors v ...
    """
    if plain and (placebo or select is not None):
        raise InputError(f"--plain has no knowledge, so it excludes {'--placebo' if placebo else '--select'}.")
    ties = read_sources(
        sources,
        named=source,
        entities=entities,
        phrases=phrases,
        correlation=correlation,
        graph=graph,
        aliases=aliases,
        terms=terms,
    )
    named = [] if plain else _needed(ties, method, candidates, vectors)
    columns = Columns(text_column, pair_column, label_column)
    files = Files(data, dev, columns)
    read = read_data(files, seed=seed, n_examples=examples)
    console = Console()
    console.print(
        f"{len(read.train):,} training and {counted(len(read.dev), 'dev example')} of {len(read.labels)} labels",
        highlight=False,
    )
    kept = chosen_cache(cache, no_cache)
    if select is not None:
        from infuser.sources.selections import select_sources

        # counted in the whole file, so that all seeds select by the same counts whatever each holds out
        named = select_sources(select, named, [example for _, example in read_all_examples(data, columns)], kept)

    with loading(Console(stderr=True), "torch and transformers"):
        from infuser.methods.spectral import Spectral
        from infuser.training import TrainSettings
    settings = TrainSettings(
        epochs=epochs,
        batch_size=batch_size,
        accumulate=accumulate,
        learning_rate=learning_rate,
        new_learning_rate=new_learning_rate,
        mixed_precision=precision,
        metric=metric or ("auc" if len(read.labels) == 2 else "accuracy"),
        patience=patience,
        checkpoint_every=checkpoint_every,
        seed=seed,
        n_workers=workers,
    )
    if spectral is not None:
        Spectral(spectral)  # says at once what is wrong with it
    plan = Plan(
        arm=PLACEBO if placebo else PLAIN if plain else method,
        checkpoint=checkpoint,
        settings=settings,
        columns=columns,
        method=None if plain else _method(method, Path(checkpoint)),
        sources=named,
        n_examples=examples,
        spectral=spectral,
        select=select,
    )
    run = Run(out)
    told = files.told() | {"checkpoint": str(Path(checkpoint).absolute()) if Path(checkpoint).exists() else checkpoint}
    trained = train_arm(plan, read, run, files=told, console=console, cache=kept, restart=restart)
    tell_result(console, trained.result, trained.infused)
    tell_next(console, run, trained.dev, arm=plan.arm)


def _method(name: str, checkpoint: Path) -> Any:
    """Return the method with its defaults, or as a checkpoint that is infused by it already has it."""
    from infuser.hosts.checkpoints import CARD
    from infuser.methods import Kar
    from infuser.methods.kar import EVERY_CANDIDATE
    from infuser.registry import METHODS

    if (checkpoint / CARD).exists():
        saved = read_json(checkpoint / CARD).get("method", {})
        if saved.get("name") == name:
            return METHODS[name](**saved["settings"])
    if name == "kar":
        return Kar(threshold=EVERY_CANDIDATE)
    return METHODS[name]()


def _needed(ties: list[Source], method: str, candidates: Path | None, vectors: Path | None) -> list[Source]:
    """Return the sources that the method reads, or say what is missing or too much."""
    if method == "kam":
        if candidates or vectors:
            raise InputError("--candidates and --vectors are for --method kar or ernie; kam reads ties between words.")
        if not ties:
            raise InputError(
                "No knowledge was named. Give --source, --entities, --phrases, --correlation, --graph or --sources "
                "FILE, or --plain to train without."
            )
        return ties
    if candidates is None or vectors is None or ties:
        raise InputError(f"--method {method} reads a knowledge base: give --candidates DIR and --vectors DIR, alone.")
    from infuser.sources import Candidates, KnowledgeBase

    return [KnowledgeBase(Candidates(candidates), vectors, missing="skip")]
