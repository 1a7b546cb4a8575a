"""`infuser link`: the entities that the mentions of texts mean, for every text of files or for one text."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from infuser.cli.console import loading
from infuser.cli.examples import TextColumn
from infuser.cli.telling import beside_texts, counting
from infuser.errors import CheckpointError, InputError
from infuser.files import whole_file
from infuser.tables.blocks import STDIN, suffix_of
from infuser.tables.examples import Columns, read_examples
from infuser.tables.rows import read_lines
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.infused import Infused
    from infuser.linking.mentions import Mention, ScoredCandidate

_DIGITS = 4
"""Of scores and priors in files."""


def link(
    model: Annotated[str, typer.Argument(help="Folder with a linker: RUN/model of `infuser linker train`.")],
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
    everything: Annotated[
        bool, typer.Option("--all", help="Write mentions too that are linked to nothing: their id is null.")
    ] = False,
    candidates: Annotated[int, typer.Option(min=0, help="Candidates to write for each mention; 0 writes none.")] = 5,
    threshold: Annotated[
        float | None,
        typer.Option(help="Link mentions whose best score is at least this.", show_default="the model's own"),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR|FILE",
            help="What entities are called: a folder of `infuser graph build`, or a table of id and label.",
            show_default=False,
        ),
    ] = None,
    no_text: Annotated[bool, typer.Option("--no-text", help="Leave the texts themselves out of the file.")] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts that are read at once.")] = 32,
) -> None:
    """Link the mentions in texts to the entities they mean.

    Prints a table for --text. For files it writes one JSON object per text
    (to --out, or to the terminal), in order: the text and its mentions,
    each with its place, its entity, its score and the best candidates. A
    text of any length is read whole.

    Examples:
      infuser link RUN/model --text "Jordan played in Chicago." --labels graph
      infuser link RUN/model news.jsonl --out links.jsonl
      infuser link RUN/model a.txt b.txt --all --candidates 0 > links.jsonl
    """
    if bool(files) == (text is not None):
        raise InputError("Give either files (or - for standard input) or --text TEXT.")
    files = files or []
    if out is not None and any(out.exists() and path.exists() and out.samefile(path) for path in files):
        raise InputError(f"--out {str(out)!r} is a file that is read. Choose another name.")
    told = Console(stderr=True)
    # a first look at all files: a broken line should be known before an hour of work, not after it
    n_texts = None if STDIN in files else sum(1 for path in files for _ in read_texts(path, text_column))
    name_of = _namer(labels)
    infused = open_linker(model, told)
    if text is not None:
        from infuser.linking.inference import find_mentions

        [mentions] = find_mentions(infused, [text], threshold=threshold)
        _show(mentions, name_of, everything=everything, several=len(infused.sources) > 1)
        return
    writer = _Writer(name_of, candidates, everything, not no_text, len(files) > 1, len(infused.sources) > 1)
    texts = ((path, one) for path in files for one in read_texts(path, text_column))
    with whole_file(out) if out is not None else nullcontext(sys.stdout) as file, counting(told, "linking") as show:
        counts = _link_all(infused, texts, writer, file, show, n_texts, batch_size=batch_size, threshold=threshold)
    _tell(told, counts, out)


def read_texts(path: Path, column: str = "text") -> Iterator[str]:
    """Yield the texts of a file: every line of a .txt as it is, else the rows of a table."""
    if path != STDIN and suffix_of(path) == ".txt":
        yield from (line for _, line in read_lines(path))
        return
    for _, example in read_examples(path, Columns(column)):
        # on standard input, a tab would part a text from its pair; here it is a space like any other
        both = path == STDIN and example["pair"] is not None
        yield f"{example['text']}\t{example['pair']}" if both else example["text"]


def open_linker(name: str, console: Console) -> Infused:
    """Return a saved model that can link, on the fastest device, or say why it cannot; a run's folder will do, too."""
    from infuser.hosts.checkpoints import CARD

    folder = Path(name) / "model" if (Path(name) / "model" / CARD).exists() else Path(name)
    if not (folder / CARD).exists():
        raise CheckpointError(
            f"{name!r} is no folder with a linker: it has no {CARD}. Train one: infuser linker train CHECKPOINT "
            "--candidates DIR --vectors DIR --links FILE --out RUN"
        )
    with loading(console, "the model"):
        import torch

        import infuser
        from infuser.linking.inference import check_linker

        infused = infuser.load(folder)
        check_linker(infused)
        if torch.cuda.is_available():
            infused.model.to("cuda")  # type: ignore[arg-type]
    return infused


@dataclass(slots=True)
class _Counts:
    texts: int = 0
    words: int = 0
    mentions: int = 0
    links: int = 0
    seconds: float = 0.0


def _link_all(
    infused: Infused,
    texts: Iterable[tuple[Path, str]],
    writer: _Writer,
    file: IO[str],
    show: Callable[[int, int], None],
    n_texts: int | None,
    **how: Any,
) -> _Counts:
    """Link texts as they come and write what was found, in their order."""
    from infuser.linking.inference import iter_mentions

    counts, started = _Counts(), time.monotonic()
    if n_texts is not None:
        show(0, n_texts)
    for path, text, mentions in beside_texts(texts, lambda read: iter_mentions(infused, read, **how)):
        file.write(json.dumps(writer.record(path, text, mentions), ensure_ascii=False) + "\n")
        counts.texts += 1
        counts.words += len(text.split())
        counts.mentions += len(mentions)
        counts.links += sum(mention.id is not None for mention in mentions)
        if n_texts is not None:
            show(counts.texts, n_texts)
    counts.seconds = time.monotonic() - started
    return counts


@dataclass(frozen=True, slots=True)
class _Writer:
    """What is written of each text."""

    name_of: Callable[[str], str]
    n_candidates: int
    everything: bool
    with_text: bool
    with_file: bool
    with_base: bool

    def record(self, path: Path, text: str, mentions: Iterable[Mention]) -> dict[str, Any]:
        record: dict[str, Any] = {"file": str(path)} if self.with_file else {}
        if self.with_text:
            record["text"] = text
        kept = (mention for mention in mentions if self.everything or mention.id is not None)
        return {**record, "mentions": [self._mention(mention) for mention in kept]}

    def _mention(self, mention: Mention) -> dict[str, Any]:
        plain: dict[str, Any] = {"start": mention.start, "end": mention.end, "text": mention.text, "id": mention.id}
        if mention.id is not None and (name := self.name_of(mention.id)):
            plain["label"] = name
        if self.with_base:
            plain["base"] = mention.base
        # JSON has no minus infinity, which is the score of a mention without candidates
        plain["score"] = round(mention.score, _DIGITS) if math.isfinite(mention.score) else None
        if self.n_candidates:
            plain["candidates"] = [_candidate(one) for one in mention.candidates[: self.n_candidates]]
        return plain


def _candidate(one: ScoredCandidate) -> dict[str, Any]:
    return {"id": one.id, "prior": round(one.prior, _DIGITS), "score": round(one.score, _DIGITS)}


def _namer(labels: Path | None) -> Callable[[str], str]:
    """Return a function that says what an entity is called, or nothing."""
    if labels is None:
        return lambda id: ""
    from infuser.knowledge.artifact import kind_of
    from infuser.knowledge.graph.store import KIND, GraphStore
    from infuser.knowledge.vectors.descriptions import read_described

    if kind_of(labels) == KIND:
        graph = GraphStore.open(labels)

        def of_graph(id: str) -> str:
            number = graph.number_of(id)
            return "" if number is None else graph.entity(number).label

        return of_graph
    named = {one.id: one.label for one in read_described(labels)}
    return lambda id: named.get(id, "")


def _show(mentions: Iterable[Mention], name_of: Callable[[str], str], *, everything: bool, several: bool) -> None:
    """Print a table of the mentions, their entities and what came next."""
    kept = [mention for mention in mentions if everything or mention.id is not None]
    if not kept:
        Console().print("Nothing was linked. --all shows the mentions that were found.", highlight=False)
        return
    table = Table("characters", "mention", "entity", "score", "runner-up", *(["base"] if several else []))
    table.columns[3].justify = "right"
    for mention in kept:
        rivals = [one for one in mention.candidates if one.id != mention.id]
        second = f"{_called(rivals[0].id, name_of)} {rivals[0].score:.2f}" if rivals else ""
        entity = "" if mention.id is None else _called(mention.id, name_of)
        place = f"{mention.start}-{mention.end}"
        cells = (place, mention.text, entity, f"{mention.score:.2f}", second, *([mention.base] if several else []))
        table.add_row(*cells)
    Console().print(table, markup=False)


def _called(id: str, name_of: Callable[[str], str]) -> str:
    name = name_of(id)
    return f"{id} ({name})" if name else id


def _tell(told: Console, counts: _Counts, out: Path | None) -> None:
    target = "" if out is None else f" in {out}"
    told.print(
        f"{counted(counts.texts, 'text')}, {counted(counts.mentions, 'mention')}, {counted(counts.links, 'link')}"
        f"{target}; {counts.words / max(counts.seconds, 1e-9):,.0f} words/s",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
