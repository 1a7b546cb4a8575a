"""`infuser gazetteer`: millions of names as one folder that opens in milliseconds, and what it finds in a text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from infuser.cli.knowledge import Strict, counting, nothing_in, size_of, tell_skipped
from infuser.errors import InputError
from infuser.tables.rows import read_rows
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.tables.skipped import Skipped

app = typer.Typer(
    no_args_is_help=True,
    help="Names of entities, by the million.\n\n"
    "A gazetteer is a folder that `--entities DIR` (or Entities(DIR) in Python) opens in milliseconds; all worker "
    "processes share its memory.",
)

Entry = tuple[str, str, str]
"""Name, label, id."""
_FORM = "a line is name (, label (, id))"


@app.command()
def build(
    out: Annotated[Path, typer.Option(help="Folder to write.", show_default=False)],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Lists of names: name, or name<TAB>label, or name<TAB>label<TAB>id (.csv: commas).",
            show_default=False,
        ),
    ] = None,
    entities: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Table of entities with the columns id, label, aliases, types; label and aliases become names. "
            "Repeatable.",
            show_default=False,
        ),
    ] = None,
    asset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Names of ready-made knowledge: wordnet, conceptnet, biomedical, wikidata-small. Repeatable.",
            show_default=False,
        ),
    ] = None,
    fold_case: Annotated[bool, typer.Option(help="Find names in any case.")] = True,
    fold_accents: Annotated[bool, typer.Option(help="Find names without their accents too.")] = False,
    strict: Strict = False,
) -> None:
    """Build a gazetteer from lists of names, tables of entities or ready-made knowledge.

    A million names take some ten seconds and 70 MB of disk.

    Examples:
      infuser gazetteer build drugs.tsv --out drugs
      infuser gazetteer build --asset wordnet --out wordnet-names
      infuser annotate texts.txt --source drugs --out found
    """
    from infuser.knowledge.artifact import check_place
    from infuser.knowledge.names.store import KIND, NameStore
    from infuser.tables.skipped import Skipped

    if not (files or entities or asset):
        raise InputError("Name at least one FILE, --entities FILE or --asset NAME to take names from.")
    check_place(out, KIND)
    skipped = Skipped(strict)
    with counting("reading names") as count:
        entries = []
        for entry in _entries(files or [], entities or [], asset or [], skipped):
            entries.append(entry)
            count(1)
    tell_skipped(skipped)
    if not entries:
        raise nothing_in([*(files or ()), *(entities or ()), *(asset or ())], "name", "infuser gazetteer build")
    names, labels, ids = zip(*entries, strict=True)
    store = NameStore.build(names, labels, ids, fold_case=fold_case, fold_accents=fold_accents)
    store.save(out)
    of = counted(len(set(ids)), "entity", "entities")
    typer.echo(f"{out}: {counted(len(store), 'name')} of {of}, {size_of(out)}")


@app.command()
def find(
    folder: Annotated[Path, typer.Argument(help="A gazetteer.", show_default=False)],
    text: Annotated[str, typer.Argument(help="Text to search.", show_default=False)],
    overlaps: Annotated[bool, typer.Option("--overlaps", help="Show mentions inside others too.")] = False,
) -> None:
    """Show which names of a gazetteer a text mentions.

    Example: infuser gazetteer find drugs "buy glipizide 5 mg"
    """
    from infuser.knowledge.names.store import NameStore

    store = NameStore.open(folder)
    table = Table("characters", "written", "name", "label", "id")
    [mentions] = store.gazetteer.find([text], overlaps=overlaps)
    for start, end, numbers in mentions:
        for number in numbers:
            table.add_row(f"{start}-{end}", text[start:end], *store.name(number))
    Console().print(table if mentions else "No name of the gazetteer is in this text.")


def _entries(files: list[Path], entities: list[Path], assets: list[str], skipped: Skipped) -> Iterator[Entry]:
    """Yield the names of all inputs, in order."""
    from infuser.knowledge.readers import read_facts, read_ready

    for path in files:
        yield from _listed(path, skipped)
    tables = [read_facts(path, skipped) for path in entities]
    tables += [read_ready(name, skipped) for name in assets]
    for table in tables:
        for batch in table:
            if "id" not in batch.schema.names:  # triples name nothing
                continue
            for row in batch.to_pylist():
                kind = (row["types"] or ["entity"])[0]
                for name in dict.fromkeys([row["label"], *(row["aliases"] or ())]):
                    if name and name.strip():
                        yield name.strip(), kind, row["id"]


def _listed(path: Path, skipped: Skipped) -> Iterator[Entry]:
    """Yield the names of a list file."""
    for place, cells in read_rows(path, skipped):
        row = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        why = "" if 1 <= len(row) <= 3 and all(isinstance(cell, str) for cell in row) and row[0] else _FORM
        if why or any("\0" in cell for cell in row):
            skipped.add(path, place.number, why or "holds a null character", cells, unit=place.unit)
            continue
        if row[0].lower() == "name" and row[1:] in ([], ["label"], ["label", "id"]):
            continue  # the heading
        name, label, id = (*row, "", "")[:3]
        yield name, label or "entity", id or name
