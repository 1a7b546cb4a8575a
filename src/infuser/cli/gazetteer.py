"""`infuser gazetteer`: millions of names as one folder that opens in milliseconds, and what it finds in a text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infuser.cli.console import print_table, say, size_of, skipping
from infuser.cli.knowledge_options import NameOptions
from infuser.cli.options import Paths, Strict, argument, option, option_groups
from infuser.progress import progress_bar
from infuser.words import counted

app = typer.Typer(
    no_args_is_help=True,
    help="Names of entities, by the million.\n\n"
    "A gazetteer is a folder that `--entities DIR` (or Entities(DIR) in Python) opens in milliseconds; all worker "
    "processes share its memory.",
)

Files = Annotated[
    Paths,
    argument("Lists of names: name, or name<TAB>label, or name<TAB>label<TAB>id (.csv: commas).", metavar="[FILE]..."),
]


@app.command()
@option_groups
def build(
    out: Annotated[Path, option("Folder to write.")], files: Files = None, strict: Strict = False, *, names: NameOptions
) -> None:
    """Build a gazetteer from lists of names, tables of entities or ready-made knowledge.

    A million names take some ten seconds and 70 MB of disk.

    Examples:
      infuser gazetteer build drugs.tsv --out drugs
      infuser gazetteer build --asset wordnet --out wordnet-names
      infuser annotate texts.txt --source drugs --out found
    """
    from infuser.knowledge.builders import build_names_from_files

    with skipping(strict) as skipped, progress_bar("reading names", unit="names") as bar:
        store = build_names_from_files(out, files or (), skipped=skipped, progress=bar.report, **names.settings())
    of = counted(store.n_entities, "entity", "entities")
    say(f"{out}: {counted(len(store), 'name')} of {of}, {size_of(out)}")


@app.command()
def find(
    folder: Annotated[Path, argument("A gazetteer.")],
    text: Annotated[str, argument("Text to search.")],
    overlaps: Annotated[bool, option("Show mentions inside others too.", "--overlaps")] = False,
) -> None:
    """Show which names of a gazetteer a text mentions.

    Example: infuser gazetteer find drugs "buy glipizide 5 mg"
    """
    from infuser.knowledge.names.store import NameStore

    store = NameStore.open(folder)
    [mentions] = store.gazetteer.find([text], overlaps=overlaps)
    rows = [
        (f"{start}-{end}", text[start:end], *store.name(number))
        for start, end, numbers in mentions
        for number in numbers
    ]
    if rows:
        print_table(("characters", "written", "name", "label", "id"), rows, left=range(5))
    else:
        say("No name of the gazetteer is in this text.")
