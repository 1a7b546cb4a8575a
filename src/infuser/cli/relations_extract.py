"""`infuser relations extract`: the triples of every text of files, or of one text."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from infuser.cli.examples import TextColumn
from infuser.cli.link import read_texts
from infuser.cli.relations_data import Best, EncoderNow, FittedModel, Gate, open_fitted, sources_of
from infuser.cli.sources import (
    AliasFiles,
    CorrelationFiles,
    EntityFiles,
    GraphFiles,
    NamedSources,
    PhraseFiles,
    SourcesFile,
    read_sources,
)
from infuser.cli.telling import beside_texts, counting
from infuser.errors import InputError
from infuser.files import whole_file
from infuser.tables.files import STDIN
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.relations.extracting import Found
    from infuser.relations.model import AttentionRelations
    from infuser.types import Source

Negated = Literal["mark", "drop", "only"]


def extract(
    model: FittedModel,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE...|-]",
            help="Texts: .txt (a text per line), .csv, .tsv, .jsonl, .json or .parquet; - reads standard input.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="JSON-lines file to write. [default: standard output]", show_default=False)
    ] = None,
    text: Annotated[str | None, typer.Option(help="One text instead of files.", show_default=False)] = None,
    text_column: TextColumn = "text",
    flat: Annotated[bool, typer.Option("--flat", help="Write a line per triple instead of a line per text.")] = False,
    no_text: Annotated[bool, typer.Option("--no-text", help="Leave the texts themselves out of the file.")] = False,
    negated: Annotated[
        Negated,
        typer.Option(help="What the text denies: mark it as negated, drop it, or write it only."),
    ] = "mark",
    heads: Annotated[int, typer.Option(min=0, help="Attention heads to name for each triple, as a reason.")] = 3,
    gate: Gate = None,
    best: Best = None,
    encoder: EncoderNow = None,
    source: NamedSources = None,
    sources: SourcesFile = None,
    entities: EntityFiles = None,
    phrases: PhraseFiles = None,
    correlation: CorrelationFiles = None,
    graph: GraphFiles = None,
    aliases: AliasFiles = None,
) -> None:
    """Extract triples from texts with a fitted model.

    Prints a table for --text. For files it writes one JSON object per text
    (to --out, or to the terminal), in order: the text and its triples, each
    with its places, its relation, its probability and the heads that
    decided. Spans are found by the sources saved with the model; sources
    named here take their place. A text of any length is read whole.

    Examples:
      infuser relations extract MODEL --text "Bern is the capital of Switzerland."
      infuser relations extract MODEL news.jsonl --out triples.jsonl
      infuser relations extract MODEL a.txt b.txt --gate 0.9 --negated drop
      cat news.txt | infuser relations extract MODEL - --flat > triples.jsonl
    """
    if bool(files) == (text is not None):
        raise InputError("Give either files (or - for standard input) or --text TEXT.")
    files = files or []
    if out is not None and any(out.exists() and path.exists() and out.samefile(path) for path in files):
        raise InputError(f"--out {str(out)!r} is a file that is read. Choose another name.")
    told = Console(stderr=True)
    given = read_sources(
        sources,
        named=source,
        entities=entities,
        phrases=phrases,
        correlation=correlation,
        graph=graph,
        aliases=aliases,
    )
    # a first look at all files: a broken line should be known before an hour of work, not after it
    n_texts = None if STDIN in files else sum(1 for path in files for _ in read_texts(path, text_column))
    fitted = open_fitted(model, encoder, told, gate=gate, best=best)
    spans = sources_of(model, given)
    if text is not None:
        from infuser.relations.extracting import extract as extract_from

        [found] = extract_from(fitted, [text], spans, n_heads=heads)
        _show(text, _kept(found, negated))
        return
    writer = _Writer(negated, flat, not no_text, len(files) > 1)
    texts = ((path, one) for path in files for one in read_texts(path, text_column))
    with whole_file(out) if out is not None else nullcontext(sys.stdout) as file, counting(told, "extracting") as show:
        counts = _extract_all(fitted, texts, spans, writer, file, show, n_texts, n_heads=heads)
    _tell(told, counts, out)


@dataclass(slots=True)
class _Counts:
    texts: int = 0
    with_triples: int = 0
    triples: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Writer:
    """What is written of each text."""

    negated: Negated
    flat: bool
    with_text: bool
    with_file: bool

    def lines(self, number: int, path: Path, text: str, found: Sequence[Found]) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects of one text, the `number`-th of all."""
        told = [one.to_json(text) for one in found]
        place: dict[str, Any] = {"file": str(path)} if self.with_file else {}
        whole = {"text": text} if self.with_text else {}
        if self.flat:
            yield from ({**place, "number": number, **whole, **one} for one in told)
        else:
            yield {**place, **whole, "triples": told}


def _extract_all(
    model: AttentionRelations,
    texts: Iterable[tuple[Path, str]],
    spans: Sequence[Source],
    writer: _Writer,
    file: IO[str],
    show: Callable[[int, int], None],
    n_texts: int | None,
    **how: Any,
) -> _Counts:
    """Read texts as they come and write what was found, in their order."""
    from infuser.relations.extracting import extract as extract_from

    counts, started = _Counts(), time.monotonic()
    if n_texts is not None:
        show(0, n_texts)
    for path, text, found in beside_texts(texts, lambda read: extract_from(model, read, spans, **how)):
        kept = _kept(found, writer.negated)
        counts.texts += 1
        counts.triples += len(kept)
        counts.with_triples += bool(kept)
        for line in writer.lines(counts.texts, path, text, kept):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if n_texts is not None:
            show(counts.texts, n_texts)
    counts.seconds = time.monotonic() - started
    return counts


def _kept(found: Sequence[Found], negated: Negated) -> list[Found]:
    if negated == "mark":
        return list(found)
    return [one for one in found if one.triple.negated == (negated == "only")]


def _show(text: str, found: Sequence[Found]) -> None:
    """Print a table of the triples and the heads that decided."""
    if not found:
        Console().print("No triple was found. A lower --gate or --best tells more.", highlight=False)
        return
    table = Table("head", "relation", "tail", "probability", "words", "heads that decided")
    table.columns[3].justify = "right"
    for one in found:
        triple = one.triple
        parts = [text[span.start : span.end] if span else "" for span in (triple.head, triple.tail, triple.trigger)]
        named = triple.relation if triple.label in ("", triple.relation) else f"{triple.relation} ({triple.label})"
        heads = ", ".join(f"layer {head.layer} head {head.head}" for head in one.heads)
        cells = (parts[0], f"not {named}" if triple.negated else named, parts[1])
        table.add_row(*map(Text, cells), f"{one.probability:.2f}", Text(parts[2]), heads)
    Console().print(table)


def _tell(told: Console, counts: _Counts, out: Path | None) -> None:
    target = "" if out is None else f" in {out}"
    told.print(
        f"{counted(counts.texts, 'text')}, {counted(counts.triples, 'triple')} in {counts.with_triples:,} of "
        f"them{target}; {counts.texts / max(counts.seconds, 1e-9):,.0f} texts/s",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
