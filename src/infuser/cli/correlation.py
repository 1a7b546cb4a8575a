"""`infuser correlation`: which words are seen together in a corpus; counted, scored, looked at, plotted."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from infuser.cli.console import print_skipped, resumable
from infuser.cli.correlation_show import Out, ScoringOptions, plot, print_built, score, show
from infuser.cli.knowledge_options import EngineOptions
from infuser.cli.options import Strict, argument, option, option_groups
from infuser.progress import progress_bar

app = typer.Typer(
    no_args_is_help=True,
    help="Which words of a corpus are seen together more often than by chance.\n\n"
    "A corpus is counted once, into a folder that opens in milliseconds and is shared by all processes. The source "
    "Correlation.load(DIR) then ties the words of a text that are seen together more often than by chance, and adds "
    "terms that are close to the text but not in it.",
)
app.command()(show)
app.command()(score)
app.command()(plot)


_counted = partial(option, panel="What is counted")


@app.command()
@option_groups
def build(
    corpus: Annotated[
        list[str],
        argument(
            "Files or folders: .txt (a text per line) .csv .tsv .jsonl .parquet, packed as .gz or .zst or not.",
            metavar="CORPUS",
        ),
    ],
    out: Out,
    unit: Annotated[
        Literal["sentence", "document", "window", "pair"],
        _counted(
            "Seen together means: in one sentence, in one document (line or row), within a window of words, or "
            "across the two texts of a row (query and ad)."
        ),
    ] = "sentence",
    window: Annotated[int, _counted("Words in a window.", min=2)] = 5,
    min_count: Annotated[int, _counted("Leave out words seen less often.", min=1)] = 5,
    min_pairs: Annotated[int, _counted("Leave out pairs seen less often.", min=1)] = 2,
    max_words: Annotated[int, _counted("Keep the most frequent words, so many.", min=1)] = 200_000,
    stop_words: Annotated[str | None, _counted("Words to leave out, one per line.", metavar="english|FILE")] = None,
    text_column: Annotated[str, _counted("Column of the texts; for --unit pair of the left ones.")] = "text",
    pair_column: Annotated[str, _counted("Column of the right texts of --unit pair.")] = "pair",
    format: Annotated[
        Literal["text", "csv", "tsv", "jsonl", "parquet"] | None,
        _counted("What the files are.", default="by their names"),
    ] = None,
    memory: Annotated[str, option("How much memory it may take: 500M, 4G.", metavar="SIZE")] = "2G",
    workers: Annotated[int | None, option("Processes that count.", min=0, default="as cores and memory allow")] = None,
    strict: Strict = False,
    *,
    scoring: ScoringOptions,
    engine: EngineOptions,
) -> None:
    """Count which words of a corpus are seen together, and score them.

    Words are those that the maps use. Rows that cannot be read are counted
    and the first are shown. A command that was stopped is resumed when it is
    run again.

    Examples:
      infuser correlation build corpus.txt.gz --out company
      infuser correlation build logs/ --unit pair --out company
      infuser train CHECKPOINT train.csv --correlation company --terms 5 --out run
    """
    from infuser.knowledge.candidates.mention_rule import read_stop_words
    from infuser.knowledge.counting import Counting
    from infuser.knowledge.counting.build import build_correlation, read_size

    counting = Counting(unit, window, min_count, min_pairs, max_words, read_stop_words(stop_words))
    again = "resumes from here" if engine.engine == "local" else "starts again"
    with resumable(f"The same command {again}."), progress_bar() as bar:
        store = build_correlation(
            corpus,
            out,
            counting,
            scoring.read(),
            columns=(text_column, pair_column)[: counting.n_sides],
            format=format,
            engine=engine.engine,
            master=engine.master,
            memory=read_size(memory),
            workers=workers,
            strict=strict,
            restart=engine.restart,
            progress=bar.report,
        )
    print_skipped(store.skipped)
    print_built(store, out)
