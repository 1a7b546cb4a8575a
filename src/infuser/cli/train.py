"""`infuser train`: fine-tune a checkpoint with knowledge inside, and keep what is needed to use and repeat it.

DIR/train.json     what the run was made with and, at its end, how it went
DIR/checkpoints/   where a run that was stopped goes on
DIR/model/         the trained model
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from infuser.cli.examples import (
    Columns,
    LabelColumn,
    PairColumn,
    TextColumn,
    hold_out,
    list_labels,
    number_labels,
    read_all_examples,
)
from infuser.cli.files import counted
from infuser.cli.models import CARD, classifier_options, find_checkpoint, loading, plain_collator, save_plain
from infuser.cli.runs import Run, digest_of
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
from infuser.cli.telling import annotate, in_lines, tell_next, tell_result
from infuser.errors import InputError
from infuser.types import Source

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.infused import Infused
    from infuser.signals import Collator
    from infuser.training import TrainResult, TrainSettings

_HELD_OUT = 0.1
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
) -> None:
    """Fine-tune an encoder to label texts, with knowledge inside its attention.

    Labels are words or whole numbers; their names are kept in the model. A
    command that was stopped goes on from its last checkpoint when it is run
    again. Knowledge is named by files; each becomes one attention map.

    Examples:
      infuser train minilm train.csv --graph triples.tsv --out runs/mine
      infuser train minilm train.csv --dev dev.csv --plain --out runs/plain
    """
    named = (
        []
        if plain
        else _needed(
            read_sources(
                sources,
                named=source,
                entities=entities,
                phrases=phrases,
                correlation=correlation,
                graph=graph,
                aliases=aliases,
                terms=terms,
            )
        )
    )
    columns = Columns(text_column, pair_column, label_column)
    rows = read_all_examples(data, columns)
    labels = list_labels(rows)
    if dev is None:
        rows, dev_rows = hold_out(rows, share=_HELD_OUT, seed=seed)
    else:
        dev_rows = read_all_examples(dev, columns)
    examples, dev_examples = number_labels(rows, labels), number_labels(dev_rows, labels)
    console = Console()
    console.print(
        f"{len(examples):,} training and {counted(len(dev_examples), 'dev example')} of {len(labels)} labels",
        highlight=False,
    )

    with loading(Console(stderr=True), "torch and transformers"):
        from infuser.training import TrainSettings
    settings = TrainSettings(
        epochs=epochs,
        batch_size=batch_size,
        accumulate=accumulate,
        learning_rate=learning_rate,
        new_learning_rate=new_learning_rate,
        mixed_precision=precision,
        metric=metric or ("auc" if len(labels) == 2 else "accuracy"),
        patience=patience,
        checkpoint_every=checkpoint_every,
        seed=seed,
        n_workers=workers,
    )
    run = Run(out)
    model, collator, infused = _prepare(checkpoint, named, labels, seed)
    run.begin(
        _made_with(checkpoint, settings, labels, named, examples=digest_of(examples), dev=digest_of(dev_examples)),
        restart=restart,
    )
    if infused is not None:
        kept = chosen_cache(cache, no_cache)
        examples = annotate(console, collator, examples, "training", kept)
        dev_examples = annotate(console, collator, dev_examples, "dev", kept)
    result = _fit(model, collator, examples, dev_examples, settings, run.checkpoints, resume=not restart)
    if infused is None:
        save_plain(model, collator.tokenizer, run.model)
    else:
        infused.save(run.model)
    run.finish(result.to_json() | {"new_weights": 0 if infused is None else infused.n_new_weights()})
    tell_result(console, result, infused)
    tell_next(console, run, dev_examples, plain=plain)


def _needed(sources: list[Source]) -> list[Source]:
    if not sources:
        raise InputError(
            "No knowledge was named. Give --source, --entities, --phrases, --correlation, --graph or --sources FILE, "
            "or --plain to train without."
        )
    return sources


def _made_with(
    checkpoint: str, settings: TrainSettings, labels: list[str], sources: list[Source], **data: str
) -> dict[str, Any]:
    """Return all that decides the result, as plain values."""
    from dataclasses import asdict

    from infuser.annotating.fingerprints import describe
    from infuser.explaining import source_names
    from infuser.methods import Kam

    how = asdict(settings)
    del how["n_workers"], how["checkpoint_every"]
    knowledge = [
        f"{name} ({digest_of([part for key, part in describe(source).items() if key not in ('code', 'versions')])})"
        for name, source in zip(source_names(sources), sources, strict=True)
    ]
    method = asdict(Kam()) if sources else None
    return {"checkpoint": checkpoint, "labels": labels, **data, "knowledge": knowledge, "method": method, **how}


def _prepare(
    checkpoint: str, sources: list[Source], labels: list[str], seed: int
) -> tuple[PreTrainedModel, Collator, Infused | None]:
    told = Console(stderr=True)
    folder = find_checkpoint(checkpoint, told)
    if (Path(folder) / CARD).exists():
        told.print(f"{checkpoint} is infused already; here its encoder is trained on, with new knowledge weights.")
    with loading(told, checkpoint):
        import transformers

        from infuser.infused import infuse, load_model, load_tokenizer

        transformers.set_seed(seed)  # the new head starts at random
        options = classifier_options(folder, labels)
        if sources:
            infused = infuse(folder, sources=sources, task="sequence-classification", **options)
            return infused.model, infused.collator(), infused
        model = load_model(folder, "sequence-classification", **options)
        return model, plain_collator(model, load_tokenizer(folder)), None


def _fit(
    model: PreTrainedModel,
    collator: Collator,
    examples: list[dict[str, Any]],
    dev: list[dict[str, Any]],
    settings: TrainSettings,
    checkpoints: Path,
    *,
    resume: bool,
) -> TrainResult:
    from infuser.training import train as fine_tune

    told = Console(stderr=True)
    progress = True if told.is_terminal else in_lines(told)
    try:
        return fine_tune(
            model, examples, collator, dev=dev, settings=settings, out=checkpoints, resume=resume, progress=progress
        )
    except KeyboardInterrupt as error:
        told.print("\nStopped. The same command goes on from the last checkpoint.")
        raise typer.Exit(130) from error
