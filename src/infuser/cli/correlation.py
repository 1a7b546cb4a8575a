"""`infuser correlation`: which words keep each other's company, counted in a corpus; looked at, scored anew, drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from infuser.cli.knowledge import Strict, size_of
from infuser.errors import InputError
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.knowledge.correlation.store import CorrelationStore
    from infuser.knowledge.counting.shapes import Progress

app = typer.Typer(
    no_args_is_help=True,
    help="Which words keep each other's company, counted in a corpus.\n\n"
    "A corpus is counted once, into a folder that opens in milliseconds and is shared by all processes. The source "
    "Correlation.load(DIR) then ties the words of a text that are seen together more often than by chance, and adds "
    "terms that are close to the text but not in it.",
)

_COUNT, _SCORE, _WORK = "What is counted", "How it is scored", "How it is done"
_SIZES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder that `infuser correlation build` wrote.", show_default=False)
]
Out = Annotated[Path, typer.Option(help="Folder to write; an older correlation there is replaced.", show_default=False)]
Score = Annotated[
    Literal["npmi", "pmi", "ppmi"],
    typer.Option(
        help="npmi: normalised PMI, the map's value where positive. pmi, ppmi: the map's value is PMI / Z, Z the "
        "largest of the table.",
        rich_help_panel=_SCORE,
    ),
]
Smoothing = Annotated[
    float,
    typer.Option(
        min=0,
        help="Added to what was seen and to what chance would give: 0.5 shrinks what was seen rarely.",
        rich_help_panel=_SCORE,
    ),
]
ContextPower = Annotated[
    float,
    typer.Option(
        min=0.01, max=1, help="Raise counts to this power for chance: 0.75 tames rare words.", rich_help_panel=_SCORE
    ),
]
MaxTies = Annotated[
    int,
    typer.Option(
        min=0, help="A word holds its strongest ties, at most so many; 0: all of them.", rich_help_panel=_SCORE
    ),
]


@app.command()
def build(
    corpus: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS",
            help="Files or folders: .txt (a text per line) .csv .tsv .jsonl .parquet, packed as .gz or .zst or not.",
            show_default=False,
        ),
    ],
    out: Out,
    unit: Annotated[
        Literal["sentence", "document", "window", "pair"],
        typer.Option(
            help="Seen together means: in one sentence, in one document (line or row), within a window of words, or "
            "across the two texts of a row (query and ad).",
            rich_help_panel=_COUNT,
        ),
    ] = "sentence",
    window: Annotated[int, typer.Option(min=2, help="Words in a window.", rich_help_panel=_COUNT)] = 5,
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words seen less often.", rich_help_panel=_COUNT)] = 5,
    min_pairs: Annotated[int, typer.Option(min=1, help="Leave out pairs seen less often.", rich_help_panel=_COUNT)] = 2,
    max_words: Annotated[
        int, typer.Option(min=1, help="Keep the most frequent words, so many.", rich_help_panel=_COUNT)
    ] = 200_000,
    stop_words: Annotated[
        str | None,
        typer.Option(
            metavar="english|FILE", help="Words to leave out: a list by name, or one per line.", rich_help_panel=_COUNT
        ),
    ] = None,
    text_column: Annotated[
        str, typer.Option(help="Column of the texts; for --unit pair of the left ones.", rich_help_panel=_COUNT)
    ] = "text",
    pair_column: Annotated[
        str, typer.Option(help="Column of the right texts of --unit pair.", rich_help_panel=_COUNT)
    ] = "pair",
    format: Annotated[
        Literal["text", "csv", "tsv", "jsonl", "parquet"] | None,
        typer.Option(help="What the files are.", show_default="by their names", rich_help_panel=_COUNT),
    ] = None,
    score: Score = "npmi",
    smoothing: Smoothing = 0.0,
    context_power: ContextPower = 1.0,
    max_ties: MaxTies = 100,
    engine: Annotated[
        Literal["local", "spark"], typer.Option(help="Count here, or on a Spark cluster.", rich_help_panel=_WORK)
    ] = "local",
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The cluster: spark://host:7077, local[4] ...", rich_help_panel=_WORK),
    ] = None,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="How much memory it may take: 500M, 4G.", rich_help_panel=_WORK)
    ] = "2G",
    workers: Annotated[
        int | None,
        typer.Option(
            min=0, help="Processes that count.", show_default="one per core that memory allows", rich_help_panel=_WORK
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start anew instead of going on.", rich_help_panel=_WORK)
    ] = False,
    strict: Strict = False,
) -> None:
    """Count which words of a corpus are seen together, and score them.

    Words are those that the maps use. Rows that cannot be read are counted
    and the first are shown. A command that was stopped goes on where it
    stopped when it is run again.

    Examples:
      infuser correlation build corpus.txt.gz --out company
      infuser correlation build logs/ --unit pair --text-column query --pair-column ad --out company
      infuser correlation show company pharmacy
      infuser train CHECKPOINT train.csv --correlation company --terms 5 --out run
    """
    from infuser.knowledge.correlation.scores import Scoring
    from infuser.knowledge.counting import Counting
    from infuser.knowledge.counting.build import build_correlation

    counting = Counting(
        unit=unit,
        window=window,
        min_count=min_count,
        min_pairs=min_pairs,
        max_words=max_words,
        stop_words=_stop_words(stop_words),
    )
    with _progress() as tell:
        try:
            store = build_correlation(
                corpus,
                out,
                counting,
                Scoring(score, smoothing, context_power, max_ties),
                columns=(text_column, pair_column)[: counting.n_sides],
                format=format,
                engine=engine,
                master=master,
                memory=_bytes(memory),
                workers=workers,
                strict=strict,
                restart=restart,
                progress=tell,
            )
        except KeyboardInterrupt as error:
            again = "goes on from here" if engine == "local" else "starts anew"
            typer.echo(f"\nStopped. The same command {again}.", err=True)
            raise typer.Exit(130) from error
    _tell_skipped(store)
    _tell_built(store, out)


@app.command()
def show(
    folder: Folder,
    term: Annotated[str, typer.Argument(metavar="TERM", help="A word.", show_default=False)],
    top: Annotated[int, typer.Option(min=1, help="How many neighbours.")] = 20,
    side: Annotated[
        Literal["left", "right"] | None,
        typer.Option(help="Of a table of pairs: the side of the word.", show_default="where it is seen more often"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show the words that keep a word's company, closest first.

    Example: infuser correlation show company pharmacy --top 50
    """
    from infuser.knowledge.correlation.store import CorrelationStore

    store = CorrelationStore.open(folder)
    number = None if side is None else ("left", "right").index(side)
    near = store.neighbours(term, top, side=number)
    n_seen = store.count(term, side=number)
    if as_json:
        said = {"term": term, "count": n_seen, "neighbours": [one._asdict() for one in near]}
        typer.echo(json.dumps(said, ensure_ascii=False, indent=1))
        return
    console = Console()
    of = "words" if store.counting.unit == "window" else f"{store.counting.unit}s"
    where = f", on the {('left', 'right')[store.side_of(term, number)]}" if store.counting.n_sides == 2 else ""
    console.print(f"{term}: {n_seen:,} of {store.n_units:,} {of}{where}", markup=False, highlight=False)
    if not near:
        console.print("No word is tied to it: none was seen with it more often than by chance.", style="yellow")
        return
    table = Table("word", store.scoring.score.upper(), "together", "seen")
    for column in table.columns[1:]:
        column.justify = "right"
    for one in near:
        table.add_row(one.word, f"{one.score:.3f}", f"{one.together:,}", f"{one.count:,}")
    console.print(table)


@app.command()
def score(
    folder: Folder,
    out: Out,
    score: Score = "npmi",
    smoothing: Smoothing = 0.0,
    context_power: ContextPower = 1.0,
    max_ties: MaxTies = 100,
) -> None:
    """Score counted pairs in another way, without reading the corpus again.

    Example: infuser correlation score company --score pmi --smoothing 0.5 --out shrunk
    """
    from infuser.knowledge.correlation.scores import Scoring
    from infuser.knowledge.correlation.store import CorrelationStore, save_correlation

    counts = CorrelationStore.open(folder).counts()
    save_correlation(counts, Scoring(score, smoothing, context_power, max_ties), out)
    _tell_built(CorrelationStore.open(out), out)


@app.command()
def plot(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="Picture to write: .png, .svg or .pdf.")] = Path("correlation.png"),
    pairs: Annotated[int, typer.Option(min=1, help="How many pairs to draw, spread evenly over all.")] = 20_000,
) -> None:
    """Draw scores against how often words are seen: rare words score high, often by accident.

    Example: infuser correlation plot company --out company.png
    """
    from infuser.knowledge.correlation.store import CorrelationStore
    from infuser.reports.correlation import write_scores

    store = CorrelationStore.open(folder)
    points = store.points(pairs)
    write_scores(points.rarer, points.scores, store.scoring.score.upper(), out)
    typer.echo(f"{out}: {len(points.scores):,} of {counted(store.n_pairs, 'pair')}")


def _stop_words(given: str | None) -> tuple[str, ...]:
    if given is None:
        return ()
    if given == "english":
        from infuser.knowledge.candidates.mention_rule import STOP_WORDS

        return STOP_WORDS
    try:
        return tuple(Path(given).read_text(encoding="utf-8-sig").split())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Stop words cannot be read from {given!r}: {error}. Give a file, or english.") from error


def _bytes(written: str) -> int:
    found = re.fullmatch(r"\s*([\d.]+)\s*([KMGT]?)i?B?\s*", written, re.IGNORECASE)
    try:
        return int(float(found[1]) * _SIZES[found[2].upper()])  # type: ignore[index]
    except (TypeError, ValueError) as error:
        raise InputError(f"--memory {written!r} is no size. Write it as 500M or 2G.") from error


def _tell_skipped(store: CorrelationStore) -> None:
    skipped = store.about.get("skipped", {"rows": 0})
    if skipped["rows"]:
        typer.secho(f"{counted(skipped['rows'], 'row')} could not be read. The first:", fg="yellow", err=True)
        for said in skipped["first"]:
            typer.echo(f"  {said}", err=True)


def _tell_built(store: CorrelationStore, out: Path) -> None:
    typer.echo(
        f"{out}: {counted(store.n_words, 'word')}, {counted(store.n_pairs, 'pair')} of them seen together, "
        f"{store.n_ties:,} more often than by chance; from {counted(store.about['n_tokens'], 'word')} in "
        f"{counted(store.about['n_texts'], 'text')}; {size_of(out)}"
    )
    if not store.n_ties:
        typer.secho(
            f"Nothing is tied. Words seen fewer than {store.counting.min_count} times and pairs seen fewer than "
            f"{store.counting.min_pairs} times are left out; for a small corpus lower --min-count and --min-pairs.",
            fg="yellow",
            err=True,
        )


@contextmanager
def _progress() -> Iterator[Progress]:
    """Yield a function that shows on stderr what is done now, how far and how fast."""
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None, count="")
        phase, began = "", 0.0

        def tell(now: str, done: int, total: int | None) -> None:
            nonlocal phase, began
            if now != phase:
                phase, began = now, bar.get_time()
                bar.reset(task, description=now, total=total, count="")
            seconds = bar.get_time() - began
            rate = f"{done / 1e6:,.0f} MB, {done / 1e6 / seconds:,.0f} MB/s" if now == "reading" and seconds else ""
            bar.update(task, completed=done, total=total, count=rate)

        yield tell
