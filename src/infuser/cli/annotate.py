"""`infuser annotate`: annotate every text of a file once and store the annotations on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from infuser.cli.console import print_skipped, print_table, resumable, say, warn
from infuser.cli.knowledge_options import CacheOptions, EngineOptions, SourceOptions
from infuser.cli.options import Strict, TextColumnOptions, Texts, option, option_groups
from infuser.progress import progress_bar
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.sources.annotating import Annotated as AnnotatedFolder

_MOST_FREQUENT = 5


@option_groups
def annotate(
    data: Texts,
    out: Annotated[Path, option("Folder for the annotations.")],
    columns: TextColumnOptions,
    workers: Annotated[int, option("Processes that annotate; 0 works in this one.", min=0)] = 0,
    strict: Strict = False,
    *,
    engine: EngineOptions,
    sources: SourceOptions,
    cache: CacheOptions,
) -> None:
    """Annotate every text once, and store what the sources found.

    Writes Arrow files that training maps from disk, and in how many texts
    each entity is mentioned. A command that was stopped is resumed when it
    is run again. Annotations are also cached by the content of the text, for
    other files with the same texts and for infuser train.

    Examples:
      infuser annotate train.csv --source spacy-entities --out notes --workers 4
      infuser annotate texts.jsonl --source graph=triples.tsv,hops=2 --out notes
      infuser annotate big.parquet --source DIR --out notes --engine spark
    """
    named = sources.read(needed=True)
    from infuser.sources.annotating.run import annotate_file
    from infuser.tables.skipped import Skipped

    skipped, printed = Skipped(strict), False
    with (
        resumable("The same command resumes from here."),
        progress_bar("annotating", unit="texts", last_line=True) as bar,
    ):

        def report(n_done: int, n_texts: int) -> None:
            nonlocal printed
            if not printed:  # all rows are read once before the work begins
                print_skipped(skipped)
            printed = True
            bar.report("annotating", n_done, n_texts)

        annotated = annotate_file(
            data,
            columns.columns(),
            named,
            out,
            skipped=skipped,
            workers=workers,
            engine=engine.engine,
            master=engine.master,
            cache=cache.folder(),
            restart=engine.restart,
            progress=report,
        )
    _print_found(annotated)


def _print_found(annotated: AnnotatedFolder) -> None:
    """Print how much was found, by which source, and the entities of most texts."""
    from infuser.sources.annotating.folder import counts_by_source

    size = sum(shard["bytes"] for shard in annotated.about["shards"])
    say(
        f"{counted(len(annotated), 'text')} in {annotated.folder}: {size / 1e6:,.1f} MB, "
        f"{size / len(annotated):,.0f} bytes per text"
    )
    counts = counts_by_source(annotated.about)
    print_table(
        ("source", "texts", "spans", "links", "terms", "entities"),
        [
            (name, *(f"{n:,}" for n in (*found.values(), len(annotated.frequencies(place)))))
            for place, (name, found) in enumerate(zip(annotated.source_names, counts, strict=True))
        ],
    )
    n_spans = sum(found["spans"] for found in counts)
    if often := annotated.frequencies().most_frequent(_MOST_FREQUENT):
        listed = ", ".join(f"{one.id} ({counted(one.n_texts, 'text')})" for one in often)
        say(f"Most frequent: {listed}")
    elif n_spans:
        say(f"{counted(n_spans, 'span')}, none with an entity id, so there are no entity frequencies.")
    elif not any(found["terms"] for found in counts):
        warn("Nothing was found. Are names spelled as in these texts?")
