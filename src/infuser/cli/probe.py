"""`infuser probe`: what an encoder knows about relations, and where; one page, and the numbers as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from infuser.cli.console import loading
from infuser.errors import InputError
from infuser.words import counted

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from infuser.analysis.probe.relations import ProbedEncoder, ProbeSettings
    from infuser.analysis.probe.result import EncoderReading, ProbeReport
    from infuser.relations.examples import RelationText
    from infuser.relations.readers import Format
    from infuser.types import Source

_READING = "What is read"


class _Encoder(NamedTuple):
    """An encoder with what reads for it."""

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    sources: Sequence[Source]
    """Of an infused one; a plain one has none."""


def _of_reading(*flags: str, **options: Any) -> Any:
    return typer.Option(*flags, rich_help_panel=_READING, **options)


def probe(
    data: Annotated[Path, typer.Argument(help="Texts whose relations are known; see --format.")],
    out: Annotated[Path, typer.Option(help="Folder for probe.html and probe.json.")],
    encoder: Annotated[
        str, typer.Option(help="A folder (plain, or infused: read with its knowledge), a hub id or an asset.")
    ] = "minilm",
    compare: Annotated[
        str | None, typer.Option(help="Another encoder, held against the first.", show_default=False)
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(help="Texts to test with, of the same format.", show_default="a third of the texts, by the seed"),
    ] = None,
    format: Annotated[
        Literal["auto", "jsonl", "trex", "docred", "fewrel", "semeval"],
        typer.Option(help="How relations are written: ours, jsonl, or that of a data set."),
    ] = "auto",
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Names of relations: id<TAB>name, or .json.", show_default=False),
    ] = None,
    relations: Annotated[
        str | None, typer.Option(metavar="ID,ID,...", help="Only these relations.", show_default="all")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=2, help="So many triples of each relation at most, to be quick.", show_default="all"),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="Also score every relation and entity, for infuser select --known FILE; stricter with --pairs.",
            show_default=False,
        ),
    ] = None,
    ids: Annotated[
        bool, typer.Option("--ids", help="Entities in --scores go by their ids, not by their words.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Decides all that is drawn.")] = 0,
    features: Annotated[
        Literal["attention", "embeddings"], _of_reading(help="Attention between the spans, or their states.")
    ] = "attention",
    pooling: Annotated[
        Literal["sum", "mean"], _of_reading(help="How attention between words becomes one number.")
    ] = "sum",
    pairs: Annotated[
        bool, _of_reading("--pairs", help="Look at head and tail alone, not at the words that say the relation.")
    ] = False,
    no_curve: Annotated[bool, _of_reading("--no-curve", help="Do not ask each layer alone; much faster.")] = False,
    strength: Annotated[float, _of_reading(min=0.0, help="How freely classifiers may fit (scikit-learn's C).")] = 1.0,
) -> None:
    """Tell what an encoder knows about relations, and in which layers and heads.

    A linear classifier learns from the attention between two things in a
    text whether they are related, and how. What it reaches on other texts
    stands beside two controls: the same encoder with random weights, and
    shuffled labels. Only what lies above both is knowledge of the encoder.

    A line of the data, with places in characters ("trigger" if known):
      {"text": "Bern is the capital of Switzerland.", "triples":
       [{"head": [23, 34], "tail": [0, 4], "relation": "P36"}]}

    Examples:
      infuser probe train.jsonl --test test.jsonl --out probe
      infuser probe train.csv --encoder minilm --compare runs/mine/model
        --relations P36,P17,P31 --out probe
      infuser probe train.jsonl --out probe --scores known.json
    """
    told, console = Console(stderr=True), Console()
    _check_places(out, scores)
    from infuser.hosts.checkpoints import is_infused

    if scores is not None and is_infused(encoder):
        raise InputError(
            f"--scores tells what the plain encoder knows, and {encoder!r} is infused. Give the plain one as "
            "--encoder; the infused one may be --compare."
        )
    if strength <= 0:
        raise InputError(f"--strength {strength:g}: give a number above 0.")
    from infuser.sources.lists import read_aliases

    names = None if labels is None else {id: of_id[0] for id, of_id in read_aliases([labels]).items()}
    train, tested, notes = _read(data, test, format, names, seed, told)
    given = [encoder, *([compare] if compare else [])]
    opened = [_open(name, told) for name in given]  # both at once: a wrong name is known before an hour of work
    from infuser.analysis.probe.relations import ProbeSettings, probe_report
    from infuser.reports.probe_page import write_probe

    settings = ProbeSettings(
        kind=features,
        pooling=pooling,
        trigger=False if pairs else None,
        relations=None if relations is None else {id.strip() for id in relations.split(",") if id.strip()},
        per_relation=sample,
        curve=not no_curve,
        scores=scores is not None,
        by_id=ids,
        strength=strength,
        seed=seed,
    )
    asked = [settings, replace(settings, scores=False)]  # of the second nobody wants scores
    probed = [_probe(one, train, tested, how, told) for one, how in zip(opened, asked, strict=False)]
    facts = {
        "Encoders": ", ".join(given),
        "Training texts": f"{len(train):,}, {data.name}",
        "Test texts": f"{len(tested):,}, {test.name if test else f'held out of {data.name}'}",
    }
    report = probe_report(probed, facts=facts, notes=notes)
    page = write_probe(report, out)
    _tell(console, report)
    console.print(f"\nPage: {page}", markup=False, highlight=False, soft_wrap=True)
    if scores is not None:
        _write_scores(scores, probed[0], encoder, [*train, *tested], settings)
    _tell_next(console, encoder, compare, scores, probed[0].reading, pairs)


def _check_places(out: Path, scores: Path | None) -> None:
    """Refuse places that cannot be written to before an hour of work, not after it."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {str(out)!r} is a file. Name a folder.")
    if scores is not None and scores.is_dir():
        raise InputError(f"--scores {str(scores)!r} is a folder. Name a file.")
    for flag, folder in (("--out", out), ("--scores", out if scores is None else scores.parent)):
        there = next(one for one in (folder.resolve(), *folder.resolve().parents) if one.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise InputError(f"{flag}: nothing can be written in {str(there)!r}. Choose a folder you may write to.")


def _read(
    data: Path, test: Path | None, format: Format, names: dict[str, str] | None, seed: int, told: Console
) -> tuple[list[RelationText], list[RelationText], list[str]]:
    """Return the training texts, the test texts, and what could not be read."""
    from infuser.analysis.probe.relation_rows import split_texts
    from infuser.relations.readers import read_relations
    from infuser.tables.skipped import Skipped

    skipped = Skipped()
    with told.status("Reading the texts"):
        texts = [
            read_relations(path, format, skipped=skipped, labels=names) for path in (data, test) if path is not None
        ]
    notes = []
    if skipped.n:
        notes.append(f"{counted(skipped.n, 'row or triple', 'rows or triples')} could not be read: {skipped.first[0]}")
    train, tested = texts if test is not None else split_texts(texts[0], seed=seed)
    return train, tested, notes


def _open(name: str, told: Console) -> _Encoder:
    """Return an encoder on the fastest device."""
    with loading(told, name) as progress:
        import torch

        import infuser
        from infuser.hosts.checkpoints import find_checkpoint, is_infused
        from infuser.hosts.loading import load_model, load_tokenizer

        folder = find_checkpoint(name, progress)
        if is_infused(name):
            infused: Any = infuser.load(name)
            opened = _Encoder(_called(name), infused.model, infused.tokenizer, infused.sources)
        else:
            opened = _Encoder(_called(name), load_model(folder, "encoder"), load_tokenizer(folder), ())
        if torch.cuda.is_available():
            opened.model.to("cuda")  # type: ignore[arg-type]
    return opened


def _called(name: str) -> str:
    """Return a short name: that of a folder, with the run's for RUN/model, or the hub id or asset as it is."""
    path = Path(name).resolve()
    if not path.exists():
        return name
    return f"{path.parent.name}/{path.name}" if path.name == "model" else path.name


def _probe(
    encoder: _Encoder,
    train: Sequence[RelationText],
    tested: Sequence[RelationText],
    settings: ProbeSettings,
    told: Console,
) -> ProbedEncoder:
    from infuser.analysis.probe.relations import probe_relations

    return probe_relations(
        encoder.model,
        encoder.tokenizer,
        train,
        tested,
        sources=encoder.sources,
        name=encoder.name,
        settings=settings,
        progress=told.is_terminal,
    )


def _write_scores(
    path: Path, probed: ProbedEncoder, encoder: str, texts: Sequence[RelationText], settings: ProbeSettings
) -> None:
    from infuser.analysis.probe.relation_knowledge import HOW
    from infuser.files import nan_to_null
    from infuser.knowledge.entity_scores import digest_of_texts, write_scores

    reading = probed.reading
    about = {
        "checkpoint": encoder,
        "measure": HOW,
        "texts": digest_of_texts(text.text for text in texts),
        "features": reading.features,
        "seed": settings.seed,
        "held_out_by": probed.knowledge.held_out_by,
        "verdict": reading.verdict,
        "accuracy": reading.scores.accuracy,
        "controls": {name: scores.accuracy for name, scores in reading.controls.items()},
    }
    write_scores(path, probed.entity_scores, nan_to_null(about), probed.relation_scores)


def _tell(console: Console, report: ProbeReport) -> None:
    console.print(f"\n{report.sentence}", style="bold", markup=False, highlight=False)
    for note in report.notes:
        console.print(f"  {note}", style="yellow", markup=False, highlight=False)
    table = Table(caption=Text("share of right answers; F1 is the mean over relations"))
    table.add_column("encoder")
    for column in ("related or not", "which relation", "F1"):
        table.add_column(column, justify="right")
    for name, reading in zip(report.names, report.readings, strict=True):
        lines = {name: reading.scores, **reading.controls, "chance": reading.chance}
        for title, scores in lines.items():
            cells = (scores.binary, scores.accuracy, scores.f1)
            table.add_row(Text(title if title == name else f"  {title}"), *(f"{value:.3f}" for value in cells))
    console.print(table)


def _tell_next(
    console: Console, encoder: str, compare: str | None, scores: Path | None, reading: EncoderReading, pairs: bool
) -> None:
    steps = []
    if scores is not None:
        console.print(f"Scores: {scores}", markup=False, highlight=False, soft_wrap=True)
    if reading.verdict != "knows":
        if scores is not None:
            told = f"These scores do not show that {encoder} knows anything: a control does as well."
            console.print(told, style="yellow", markup=False, highlight=False)
        if not pairs:
            steps.append("the same command with --pairs: without the words that say the relation controls fall")
    elif scores is not None:
        steps.append(
            f"infuser select TEXTS --graph GRAPH --known {scores} --explain: leave out what {encoder} knows already"
        )
    else:
        steps.append("the same command with --scores FILE: a list of what it knows, for infuser select --known FILE")
    if compare is None:
        steps.append("the same command with --compare RUN/model: what training or knowledge changed")
    if steps:
        console.print("\n[b]What to try next[/b]")
    for step in steps:
        console.print(f"  {step}", markup=False, highlight=False, soft_wrap=True)
