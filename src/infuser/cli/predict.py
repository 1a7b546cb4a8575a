"""`infuser predict`: a label and probabilities for every text of a file, or for one text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from infuser.cli.console import loading, print_table, say
from infuser.cli.knowledge_options import SourceOptions
from infuser.cli.options import TextColumnOptions, argument, option, option_groups
from infuser.cli.text_files import OutFile, check_out, writing
from infuser.errors import InputError
from infuser.tables.blocks import STDIN

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.signals import Collator
    from infuser.types import Source


_BATCHES_AT_ONCE = 16
"""Batches that an exported model sorts by length before it reads them."""


@option_groups
def predict(
    model: Annotated[
        str,
        argument(
            "A run or model that `infuser train` wrote, a folder of `infuser export`, or any text classifier.",
            metavar="RUN_OR_MODEL",
        ),
    ],
    data: Annotated[
        Path | None,
        argument(
            "Texts: .csv, .tsv, .jsonl, .json or .txt; - reads standard input (JSON lines, or a text per line, "
            "its pair behind a tab). Labels are not needed.",
            metavar="[DATA|-]",
        ),
    ] = None,
    out: OutFile = None,
    text: Annotated[str | None, option("One text instead of a file.")] = None,
    pair: Annotated[str | None, option("The other side of that text.")] = None,
    no_knowledge: Annotated[bool, option("Answer without method and knowledge.", "--no-knowledge")] = False,
    batch_size: Annotated[int, option("Texts that are read at once.", min=1)] = 32,
    *,
    columns: TextColumnOptions,
    sources: SourceOptions,
) -> None:
    """Label texts, or find their entities, with a trained model.

    Writes one JSON object per text, in order: text, pair, label and the
    probability of each label; or, of a model trained with --task ner, text
    and entities with start, end, label, text and probability. Knowledge named
    here takes the place of what was saved with the model: a newer list of
    names needs no new training.

    Examples:
      infuser predict runs/mine new.csv --out predictions.jsonl
      infuser predict runs/mine --text "buy glipizide" --pair "drug store"
      cat texts.txt | infuser predict runs/mine - > predictions.jsonl
    """
    if (data is None) == (text is None):
        raise InputError("Give either a file (or - for standard input) or --text TEXT.")
    if pair is not None and text is None:
        raise InputError("--pair is the other side of --text; the pairs of a file stand in its own column.")
    check_out(out, [data] if data else [])
    from infuser.tables.examples import read_examples

    named, read = sources.read(), columns.columns()
    # a first look at the whole file: a broken line should be known before an hour of work, not after it
    n_texts = sum(1 for _ in read_examples(data, read)) if data not in (None, STDIN) else None
    from infuser.experiments.run_folder import find_model
    from infuser.runtime.card import is_export

    model = find_model(model)
    if is_export(model):
        if no_knowledge:
            raise InputError("An exported model answers with its knowledge, so --no-knowledge has no meaning for it.")
        ask = _exported(model, named, batch_size)
        if text is not None:
            _print_exported(next(ask(iter([{"text": text, "pair": pair}]))))
        else:
            assert data is not None
            _write_answers(out, n_texts, ask(example for _, example in read_examples(data, read)))
        return
    with loading("the model") as progress:
        from infuser.analysis.predict import predict as predict_texts
        from infuser.hosts.loading import to_fastest_device
        from infuser.opening import open_classifier

        classifier, collator = open_classifier(
            model, named, knowledge=not no_knowledge, taggers=True, progress=progress
        )
        to_fastest_device(classifier)
    if text is not None:
        _print_answer(classifier, collator, text, pair)
        return
    assert data is not None
    examples = (example for _, example in read_examples(data, read))
    _write_answers(out, n_texts, predict_texts(classifier, collator, examples, batch_size=batch_size))


def _write_answers(out: Path | None, n_texts: int | None, answers: Iterator[dict[str, Any]]) -> None:
    """Write answers as they come, and print how many there were of each."""
    counts, n_read = Counter[str](), 0
    with writing(out, "labelling", n_texts) as write:
        for answer in answers:
            n_read += 1
            counts.update(one["label"] for one in answer.get("entities", [{"label": answer.get("label", "score")}]))
            write([answer])
    where = "" if out is None else f" in {out}"
    labels = ", ".join(f"{n:,} {label}" for label, n in counts.most_common(10))
    say(f"{n_read:,} texts labelled{where}: {labels or 'nothing'}", err=True)


def _exported(
    folder: str, sources: Sequence[Source], batch_size: int
) -> Callable[[Iterator[Mapping[str, Any]]], Iterator[dict[str, Any]]]:
    """Return what answers a stream of examples with an exported model."""
    from infuser.runtime import load

    model = load(folder, sources=sources or None)

    def ask(examples: Iterator[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        while chunk := list(islice(examples, batch_size * _BATCHES_AT_ONCE)):
            for example, answer in zip(chunk, model.answer(chunk, batch_size=batch_size), strict=True):
                yield {**{name: value for name, value in example.items() if value is not None}, **answer}

    return ask


def _print_exported(answer: dict[str, Any]) -> None:
    """Print an exported model's answer for one text."""
    if "entities" in answer:
        _print_entities(answer["text"], answer["entities"], None)
    elif "score" in answer:
        say(f"score {answer['score']:.4f}" + (f"  {answer['answer']}" if "answer" in answer else ""))
    else:
        shares = sorted(answer["probabilities"].items(), key=lambda one: -one[1])
        print_table(["label", "probability"], [(label, f"{share:.4f}") for label, share in shares], bold=0)


def _print_answer(model: PreTrainedModel, collator: Collator, text: str, pair: str | None) -> None:
    """Print the answer for one text and, if knowledge was used, the answer without it."""
    from infuser.analysis.predict import predict as predict_texts
    from infuser.opening import plain_collator

    example = {"text": text, "pair": pair}
    (answer,) = predict_texts(model, collator, [example])
    if "entities" in answer:
        plain_model = plain_collator(model, collator.tokenizer)
        without = next(iter(predict_texts(model, plain_model, [example]))) if collator.sources else None
        _print_entities(text, answer["entities"], None if without is None else without["entities"])
        return
    if "score" in answer:
        say(f"score {answer['score']:.4f}")
        return
    columns, headers = [answer["probabilities"]], ["label", "probability"]
    if collator.sources:
        (plain,) = predict_texts(model, plain_collator(model, collator.tokenizer), [example])
        columns.append(plain["probabilities"])
        headers.append("without knowledge")
    labels = sorted(columns[0], key=lambda label: -columns[0][label])
    print_table(headers, [(label, *(f"{of[label]:.4f}" for of in columns)) for label in labels], bold=0)


def _print_entities(text: str, found: list[dict[str, Any]], without: list[dict[str, Any]] | None) -> None:
    """Print the entities of a text and, if knowledge was used, which are found without it."""
    columns = [
        {(one["start"], one["end"], one["label"]): one["probability"] for one in side}
        for side in (found, without or [])
    ]
    headers = ["entity", "type", "probability", *([] if without is None else ["without knowledge"])]
    rows = [
        (text[start:end], label, *(f"{of[key]:.4f}" if key in of else "-" for of in columns[: len(headers) - 2]))
        for key in sorted({**columns[0], **columns[1]})
        for start, end, label in [key]
    ]
    if rows:
        print_table(headers, rows)
    else:
        say("No entities.")
