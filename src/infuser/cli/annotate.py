"""`infuser annotate`: what sources find in every text of a file, asked once and kept on disk.

DIR/shard-*.arrow       texts and annotations, in the order of the input
DIR/frequencies.arrow   in how many texts each entity is mentioned
DIR/about.json          what it was made with, sizes and digests
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from infuser.cli.examples import PairColumn, TextColumn
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
from infuser.cli.telling import counting
from infuser.errors import InputError
from infuser.tables.blocks import STDIN
from infuser.tables.examples import Columns, read_examples
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.sources.annotating import Annotated as AnnotatedFolder
    from infuser.tables.skipped import Skipped

_MOST_FREQUENT = 5


def annotate(
    data: Annotated[
        Path, typer.Argument(help="Texts: .csv, .tsv, .jsonl, .json, .txt (also packed, .csv.gz), or .parquet.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the annotations.", show_default=False)],
    text_column: TextColumn = "text",
    pair_column: PairColumn = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes that annotate; 0 works in this one.")] = 0,
    engine: Annotated[
        Literal["local", "spark"],
        typer.Option(help="local: this machine, see --workers. spark: a Spark cluster. Both write the same bytes."),
    ] = "local",
    master: Annotated[
        str | None,
        typer.Option(
            help="Where Spark runs: spark://HOST:7077, yarn, k8s://..., sc://HOST or local[4]. Else what Spark's own "
            "settings say, or all cores of this machine.",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start anew instead of going on where a run was stopped.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first row that cannot be read instead of skipping it.")
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
) -> None:
    """Ask sources about every text once, and keep what they found.

    Writes Arrow files that training maps from disk, and in how many texts
    each entity is mentioned. A command that was stopped goes on where it
    stopped when it is run again. Answers are also kept by the content of the
    text, for other files with the same texts and for infuser train.

    Examples:
      infuser annotate train.csv --source spacy-entities --out notes --workers 4
      infuser annotate texts.jsonl --source graph=triples.tsv,hops=2 --out notes
      infuser annotate big.parquet --source DIR --out notes --engine spark
    """
    if data == STDIN:
        raise InputError("annotate reads its input twice, so it cannot be standard input. Give a file.")
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
    if not named:
        raise InputError("No knowledge was named. Give --source, --entities, --phrases, --correlation or --graph.")
    from infuser.sources.annotating import annotate as annotate_texts
    from infuser.tables.skipped import Skipped

    console, told = Console(), Console(stderr=True)
    texts = _Texts(data, Columns(text_column, pair_column), Skipped(strict=strict))
    about: dict[str, Any] = {"data": data.name}
    with counting(told, "annotating") as show:

        def progress(n_done: int, n_texts: int) -> None:
            if "skipped" not in about:  # the first look is over
                about["skipped"] = {"rows": texts.skipped.n, "first": list(texts.skipped.first)}
                _tell_skipped(told, texts.skipped)
            show(n_done, n_texts)

        try:
            annotated = annotate_texts(
                texts,
                named,
                out,
                workers=workers,
                engine=engine,
                master=master,
                cache=chosen_cache(cache, no_cache),
                restart=restart,
                progress=progress,
                about=about,
            )
        except KeyboardInterrupt as error:
            told.print("\nStopped. The same command goes on from here.")
            raise typer.Exit(130) from error
    _tell_result(console, annotated)


@dataclass
class _Texts:
    """The texts of a file, which can be read again and again; skipped rows are counted the first time."""

    path: Path
    columns: Columns
    skipped: Skipped
    _looked: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        from infuser.tables.skipped import Skipped

        skipped, self._looked = Skipped() if self._looked else self.skipped, True
        n_texts = 0
        for _, example in read_examples(self.path, self.columns, skipped):
            n_texts += 1
            yield example
        if not n_texts:
            first = f" {counted(skipped.n, 'row')} cannot be read: {skipped.first[0]}." if skipped.n else ""
            raise InputError(
                f"{self.path} holds no texts.{first} Give at least one; --text-column NAME says where texts stand."
            )


def _tell_skipped(told: Console, skipped: Skipped) -> None:
    if not skipped.n:
        return
    are = "is" if skipped.n == 1 else "are"
    told.print(f"{counted(skipped.n, 'row')} cannot be read and {are} skipped; --strict would stop:", style="yellow")
    for row in skipped.first:
        told.print(f"  {row}", markup=False, highlight=False, soft_wrap=True)


def _tell_result(console: Console, annotated: AnnotatedFolder) -> None:
    """Print how much was found, by which source, and the entities of most texts."""
    size = sum(shard["bytes"] for shard in annotated.about["shards"])
    console.print(
        f"{counted(len(annotated), 'text')} in {annotated.folder}: {size / 1e6:,.1f} MB, "
        f"{size / len(annotated):,.0f} bytes per text",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    table = Table("source", "texts", "spans", "links", "terms", "entities")
    for column in table.columns[1:]:
        column.justify = "right"
    n_spans = n_terms = 0
    for place, name in enumerate(annotated.source_names):
        found = [shard["found"][place] for shard in annotated.about["shards"]]
        counts = {what: sum(one[what] for one in found) for what in ("texts", "spans", "links", "terms")}
        n_spans, n_terms = n_spans + counts["spans"], n_terms + counts["terms"]
        entities = len(annotated.frequencies(place))
        table.add_row(name, *(f"{count:,}" for count in (*counts.values(), entities)))
    console.print(table)
    often = annotated.frequencies().most_frequent(_MOST_FREQUENT)
    if often:
        listed = ", ".join(f"{one.id} ({counted(one.n_texts, 'text')})" for one in often)
        console.print(f"Most frequent: {listed}", markup=False, highlight=False, soft_wrap=True)
    elif n_spans:
        console.print(
            f"{counted(n_spans, 'span')}, none with an entity id, so there are no entity frequencies.",
            highlight=False,
            soft_wrap=True,
        )
    elif not n_terms:
        console.print("Nothing was found. Are names spelled as in these texts?", style="yellow")
