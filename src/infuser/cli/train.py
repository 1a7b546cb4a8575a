"""`infuser train`: fine-tune a checkpoint with knowledge inside, and keep what is needed to use and repeat it.

DIR/train.json     what the run was made with and, at its end, how it went
DIR/checkpoints/   where a run that was stopped goes on
DIR/model/         the trained model
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

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
from infuser.cli.models import classifier_options, find_checkpoint, loading, plain_collator, save_plain
from infuser.cli.runs import Run, digest_of
from infuser.cli.sources import (
    AliasFiles,
    CorrelationFiles,
    EntityFiles,
    GraphFiles,
    PhraseFiles,
    SourcesFile,
    TermCount,
    read_sources,
)
from infuser.errors import InputError
from infuser.types import Source

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.infused import Infused
    from infuser.signals import Collator
    from infuser.training import StepReport, TrainResult, TrainSettings

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
        typer.Option(help="Examples to evaluate on. [default: a tenth of the training examples]", show_default=False),
    ] = None,
    text_column: TextColumn = "text",
    pair_column: PairColumn = None,
    label_column: LabelColumn = "label",
    plain: Annotated[bool, typer.Option("--plain", help="Train the baseline: the same without knowledge.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start anew instead of going on from a checkpoint.")
    ] = False,
    sources: SourcesFile = None,
    entities: EntityFiles = None,
    phrases: PhraseFiles = None,
    correlation: CorrelationFiles = None,
    graph: GraphFiles = None,
    aliases: AliasFiles = None,
    terms: TermCount = None,
    epochs: Annotated[int, _setting(help="How often each example is seen, at most.")] = 3,
    batch_size: Annotated[int, _setting(help="Examples per batch.")] = 32,
    accumulate: Annotated[int, _setting(help="Batches per step of the optimizer.")] = 1,
    learning_rate: Annotated[float, _setting(help="Highest step size of the encoder and its head.")] = 5e-5,
    new_learning_rate: Annotated[
        float | None,
        _setting(help="The same for the new knowledge weights. [default: learning rate]", show_default=False),
    ] = None,
    metric: Annotated[
        str | None,
        _setting(
            help="What decides on the dev set. [default: auc for two labels, accuracy for more]", show_default=False
        ),
    ] = None,
    patience: Annotated[int, _setting(help="Epochs without improvement after which training stops.")] = 2,
    precision: Annotated[Literal["no", "bf16", "fp16"], _setting(help="Compute in 16 bits where that is safe.")] = "no",
    checkpoint_every: Annotated[
        int | None, _setting(help="Steps between checkpoints. [default: one per epoch]", show_default=False)
    ] = None,
    workers: Annotated[int, _setting(help="Processes that prepare batches in the background.")] = 0,
    seed: Annotated[int, _setting(help="Decides order, dropout and the new head.")] = 0,
) -> None:
    """Fine-tune an encoder to label texts, with knowledge inside its attention.

    Labels are words or whole numbers; their names are kept in the model. A command that was stopped goes on from its
    last checkpoint when it is run again.

    Examples:
    infuser train minilm train.csv --dev dev.csv --graph triples.tsv --aliases names.tsv --out runs/mine

    infuser train minilm train.csv --dev dev.csv --plain --out runs/plain
    """
    named = (
        []
        if plain
        else _needed(
            read_sources(
                sources,
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
        f"{len(examples):,} training and {len(dev_examples):,} dev examples of {len(labels)} labels", highlight=False
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
    run.begin(
        _made_with(checkpoint, settings, labels, named, examples=digest_of(examples), dev=digest_of(dev_examples)),
        restart=restart,
    )
    model, collator, infused = _prepare(checkpoint, named, labels, seed)
    if infused is not None:
        examples, dev_examples = (_annotate(console, collator, part) for part in (examples, dev_examples))
    result = _fit(model, collator, examples, dev_examples, settings, run.checkpoints, resume=not restart)
    if infused is None:
        save_plain(model, collator.tokenizer, run.model)
    else:
        infused.save(run.model)
    run.finish(result.to_json() | {"new_weights": 0 if infused is None else infused.n_new_weights()})
    _tell_result(console, result, infused)
    _tell_next(console, run, checkpoint, data, dev, dev_examples, plain=plain)


def _needed(sources: list[Source]) -> list[Source]:
    if not sources:
        raise InputError(
            "No knowledge was named. Give --entities, --phrases, --correlation, --graph or --sources FILE, or --plain to "
            "train without."
        )
    return sources


def _made_with(
    checkpoint: str, settings: TrainSettings, labels: list[str], sources: list[Source], **data: str
) -> dict[str, Any]:
    """Return all that decides the result, as plain values."""
    from dataclasses import asdict

    from infuser.explaining import source_names
    from infuser.methods import Kam
    from infuser.sources.storage import settings_of

    how = asdict(settings)
    del how["n_workers"], how["checkpoint_every"]
    knowledge = [
        f"{name} ({digest_of(repr(settings_of(source)))})"
        for name, source in zip(source_names(sources), sources, strict=True)
    ]
    method = asdict(Kam()) if sources else None
    return {"checkpoint": checkpoint, "labels": labels, **data, "knowledge": knowledge, "method": method, **how}


def _prepare(
    checkpoint: str, sources: list[Source], labels: list[str], seed: int
) -> tuple[PreTrainedModel, Collator, Infused | None]:
    told = Console(stderr=True)
    folder = find_checkpoint(checkpoint, told)
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


def _annotate(console: Console, collator: Collator, examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask the sources once for all epochs, and tell how much they know about these texts."""
    from infuser.explaining import source_names

    texts, pairs = [example["text"] for example in examples], [example["pair"] for example in examples]
    found = collator.annotate(texts, pairs, progress=Console(stderr=True).is_terminal)
    for place, name in enumerate(source_names(collator.sources)):
        of_source = [of_text[place] for of_text in found]
        n_reached = sum(1 for one in of_source if one.links or one.terms)
        n_links = sum(len(one.links) for one in of_source)
        console.print(
            f"{name}: {n_links:,} links in {n_reached:,} of {len(texts):,} texts", markup=False, highlight=False
        )
        if not n_reached:
            console.print("  It knows nothing about these texts. Are its names spelled as in them?", style="yellow")
    return [{**example, "annotations": of_text} for example, of_text in zip(examples, found, strict=True)]


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
    progress = True if told.is_terminal else _in_lines(told)
    try:
        return fine_tune(
            model, examples, collator, dev=dev, settings=settings, out=checkpoints, resume=resume, progress=progress
        )
    except KeyboardInterrupt as error:
        told.print("\nStopped. The same command goes on from the last checkpoint.")
        raise typer.Exit(130) from error


def _in_lines(console: Console) -> Any:
    """Return a reporter for log files: a line now and then instead of a bar."""

    def show(report: StepReport) -> None:
        if report.step == report.n_steps or report.step % max(1, report.n_steps // 20) == 0:
            best = "" if report.best is None else f", best {report.best:.4f}"
            speed = f"{report.examples_per_second:.0f} examples/s"
            console.print(
                f"step {report.step} of {report.n_steps}: loss {report.loss:.4f}{best}, {speed}", highlight=False
            )

    return show


def _tell_result(console: Console, result: TrainResult, infused: Infused | None) -> None:
    table = Table("epoch", "training loss", f"dev {result.metric}")
    for entry in result.history:
        style = "bold" if entry.step == result.best_step else None
        table.add_row(f"{entry.epoch:g}", f"{entry.loss:.4f}", f"{entry.metrics[result.metric]:.4f}", style=style)
    console.print(table)
    early = ", stopped early" if result.stopped_early else ""
    new = "" if infused is None else f", {infused.n_new_weights():,} new weights"
    console.print(
        f"Best dev {result.metric} [b]{result.best:.4f}[/b] at step {result.best_step} of {result.steps}{early}; "
        f"{result.seconds:.0f} s, {result.examples_per_second:.0f} examples/s{new}",
        highlight=False,
    )


def _tell_next(
    console: Console,
    run: Run,
    checkpoint: str,
    data: Path,
    dev: Path | None,
    examples: list[dict[str, Any]],
    *,
    plain: bool,
) -> None:
    """End with commands that can be copied; the text is the dev example about which most is known."""
    shown = max(examples, key=lambda example: sum(len(one.links) for one in example.get("annotations", ())))
    pair = "" if shown["pair"] is None else f" --pair {shlex.quote(shown['pair'])}"
    text = f"--text {shlex.quote(shown['text'])}{pair}"
    model, others = shlex.quote(str(run.model)), "" if dev is None else f" --dev {shlex.quote(str(dev))}"
    steps = [f"infuser predict {model} NEW.csv --out predictions.jsonl", f"infuser predict {model} {text}"]
    if plain:
        steps.append(
            f"infuser train {shlex.quote(checkpoint)} {shlex.quote(str(data))}{others} --entities NAMES.txt --out DIR"
        )
    else:
        steps.insert(1, f"infuser explain {model} {text} --out {shlex.quote(str(run.folder / 'explain'))}")
        baseline = shlex.quote(f"{run.folder}-plain")
        steps.append(
            f"infuser train {shlex.quote(checkpoint)} {shlex.quote(str(data))}{others} --plain --out {baseline}"
        )
    console.print("\n[b]What to try next[/b]")
    for step in steps:
        console.print(f"  {step}", markup=False, highlight=False, soft_wrap=True)
