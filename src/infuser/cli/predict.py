"""`infuser predict`: a label and probabilities for every text of a file, or for one text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from infuser.cli.console import loading
from infuser.cli.examples import PairColumn
from infuser.cli.examples import TextColumn as TextColumnName
from infuser.cli.sources import (
    AliasFiles,
    CorrelationFiles,
    EntityFiles,
    GraphFiles,
    NamedSources,
    PhraseFiles,
    SourcesFile,
    TermCount,
    read_sources,
)
from infuser.errors import InputError
from infuser.files import whole_file
from infuser.tables.examples import Columns, read_examples
from infuser.tables.files import STDIN

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.signals import Collator


def predict(
    model: Annotated[str, typer.Argument(help="Folder that `infuser train` wrote, or any text classifier.")],
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DATA|-]",
            help="Texts: .csv, .tsv, .jsonl, .json or .txt; - reads standard input (JSON lines, or a text per line, "
            "its pair behind a tab). Labels are not needed.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="JSON-lines file to write. [default: standard output]", show_default=False)
    ] = None,
    text: Annotated[str | None, typer.Option(help="One text instead of a file.", show_default=False)] = None,
    pair: Annotated[str | None, typer.Option(help="The other side of that text.", show_default=False)] = None,
    no_knowledge: Annotated[
        bool, typer.Option("--no-knowledge", help="Answer without the method and its knowledge: the host alone.")
    ] = False,
    text_column: TextColumnName = "text",
    pair_column: PairColumn = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts that are read at once.")] = 32,
    source: NamedSources = None,
    sources: SourcesFile = None,
    entities: EntityFiles = None,
    phrases: PhraseFiles = None,
    correlation: CorrelationFiles = None,
    graph: GraphFiles = None,
    aliases: AliasFiles = None,
    terms: TermCount = None,
) -> None:
    """Label texts with a trained model.

    Writes one JSON object per text, in order: text, pair, label and the
    probability of each label. Knowledge named here takes the place of what
    was saved with the model: a newer list of names needs no new training.

    Examples:
      infuser predict runs/mine/model new.csv --out predictions.jsonl
      infuser predict runs/mine/model --text "buy glipizide" --pair "drug store"
      cat texts.txt | infuser predict runs/mine/model - > predictions.jsonl
    """
    if (data is None) == (text is None):
        raise InputError("Give either a file (or - for standard input) or --text TEXT.")
    if pair is not None and text is None:
        raise InputError("--pair is the other side of --text; the pairs of a file stand in its own column.")
    if data is not None and out is not None and out.exists() and data.exists() and out.samefile(data):
        raise InputError(f"--out {str(out)!r} is the file that is read. Choose another name.")
    named = read_sources(
        sources,
        named=source,
        entities=entities,
        phrases=phrases,
        correlation=correlation,
        graph=graph,
        aliases=aliases,
        terms=terms,
    )
    columns, told = Columns(text_column, pair_column), Console(stderr=True)
    # a first look at the whole file: a broken line should be known before an hour of work, not after it
    n_texts = sum(1 for _ in read_examples(data, columns)) if data not in (None, STDIN) else None
    with loading(told, "the model") as progress:
        from infuser.opening import open_classifier

        classifier, collator = open_classifier(model, named, knowledge=not no_knowledge, progress=progress)
    _to_device(classifier)
    if text is not None:
        _show(classifier, collator, {"text": text, "pair": pair})
        return
    assert data is not None
    counts: dict[str, int] = {}
    with whole_file(out) if out is not None else nullcontext(sys.stdout) as file, _bar(told) as bar:
        task = bar.add_task("labelling", total=n_texts)
        examples = (example for _, example in read_examples(data, columns))
        for chunk in _chunks(examples, batch_size):
            for answer in _answers(classifier, collator, chunk):
                label = answer.get("label", "score")
                counts[label] = counts.get(label, 0) + 1
                _write(file, answer)
            bar.advance(task, len(chunk))
    n_done = sum(counts.values())
    kinds = ", ".join(f"{n:,} {label}" for label, n in sorted(counts.items(), key=lambda item: -item[1])[:10])
    target = "" if out is None else f" in {out}"
    told.print(
        f"{n_done:,} texts labelled{target}: {kinds or 'nothing'}", markup=False, highlight=False, soft_wrap=True
    )


def _chunks(examples: Iterator[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    while chunk := list(islice(examples, size)):
        yield chunk


def _answers(
    model: PreTrainedModel, collator: Collator, examples: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the examples with the model's label and probabilities, or its score if it answers with a number."""
    import torch

    from infuser.analysis.answers import label_names, probabilities

    with torch.inference_mode():
        batch = {name: tensor.to(model.device) for name, tensor in collator(examples).items()}
        rows = probabilities(model, model(**batch).logits).tolist()
    names = label_names(model)
    for example, row in zip(examples, rows, strict=True):
        given = {name: value for name, value in example.items() if value is not None}
        if len(names) == 1:
            yield {**given, "score": row[0]}
        else:
            shares = dict(zip(names, row, strict=True))
            yield {**given, "label": max(shares, key=lambda name: shares[name]), "probabilities": shares}


def _write(file: IO[str], answer: dict[str, Any]) -> None:
    file.write(json.dumps(answer, ensure_ascii=False) + "\n")


def _show(model: PreTrainedModel, collator: Collator, example: dict[str, Any]) -> None:
    """Print a table of the answer, beside it the one without knowledge if that was used."""
    (answer,) = _answers(model, collator, [example])
    if "score" in answer:
        Console().print(f"score {answer['score']:.4f}", highlight=False)
        return
    columns = [answer["probabilities"]]
    table = Table("label", "probability")
    if collator.sources:
        from infuser.opening import plain_collator

        (plain,) = _answers(model, plain_collator(model, collator.tokenizer), [example])
        columns.append(plain["probabilities"])
        table.add_column("without knowledge")
    for column in table.columns[1:]:
        column.justify = "right"
    for label in sorted(columns[0], key=lambda label: -columns[0][label]):
        style = "bold" if label == answer["label"] else None
        table.add_row(escape(label), *(f"{column[label]:.4f}" for column in columns), style=style)
    Console().print(table)


def _to_device(model: PreTrainedModel) -> None:
    import torch

    if torch.cuda.is_available():
        model.to("cuda")  # type: ignore[arg-type]


def _bar(console: Console) -> Progress:
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
