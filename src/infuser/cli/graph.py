"""`infuser graph`: build a knowledge graph from files, look into it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from infuser.cli.knowledge import Strict, size_of, tell_skipped
from infuser.errors import InputError

if TYPE_CHECKING:
    from infuser.knowledge.facts import Facts, Skipped
    from infuser.knowledge.graph_build import Progress
    from infuser.knowledge.graph_store import Entity

app = typer.Typer(
    no_args_is_help=True,
    help="Build a knowledge graph from files, and look into it.\n\n"
    "A graph is built once, into a folder that opens in milliseconds and is shared by all processes. The source "
    "Graph(DIR) then ties mentions in a text whose entities are near each other in the graph.",
)

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder that `infuser graph build` wrote.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@app.command()
def build(
    out: Annotated[Path, typer.Option(help="Folder to write; an older graph there is replaced.", show_default=False)],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Triples or entities: .tsv .csv .jsonl .parquet .nt .ttl, a ConceptNet dump, WordNet's folder.",
            show_default=False,
        ),
    ] = None,
    entities: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Table of entities: id, label, aliases, description, types, count. Repeatable."
        ),
    ] = None,
    asset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Ready-made: wordnet, conceptnet, biomedical, wikidata-small. Repeatable."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(help="table, rdf, conceptnet or wordnet.", show_default="by the names of the files"),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(help="Columns of triples in tables without a header: hrt, rht, hrtw ...", show_default="hrt"),
    ] = None,
    strict: Strict = False,
    fold_case: Annotated[bool, typer.Option(help="Find names in any case.")] = True,
    fold_accents: Annotated[bool, typer.Option(help="Find names without their accents too.")] = False,
    landmarks: Annotated[
        int, typer.Option(help="Hubs to which all distances are kept: one byte per entity each.", min=0)
    ] = 32,
) -> None:
    """Build a graph from files of triples and entities, or from ready-made knowledge.

    Triples are head, relation, tail and maybe a weight above 0 and up to 1.
    Files may be packed (.gz, .zst). Rows that cannot be read are counted and
    the first are shown. The same files give the same bytes.

    Examples:
      infuser graph build triples.tsv --entities names.csv --out kg
      infuser graph build dump.nt.gz --out kg
      infuser graph build --asset wordnet --out wordnet
      infuser graph show wordnet dog
    """
    from infuser.knowledge.facts import Skipped
    from infuser.knowledge.graph_build import build_graph
    from infuser.knowledge.graph_store import save_graph

    if not (files or entities or asset):
        raise InputError("Name at least one file of triples or entities, or --asset NAME.")
    _check_place(out)
    skipped = Skipped(strict)
    with _progress() as tell:
        facts = _facts(files or [], entities or [], asset or [], skipped, tell, format=format, order=order)
        store = build_graph(facts, fold_case=fold_case, fold_accents=fold_accents, n_landmarks=landmarks, progress=tell)
        if not store.n_entities:
            tell_skipped(skipped)
            raise InputError("There is not one entity in what was given; nothing was written.")
        tell("writing", 0, None)
        save_graph(store, out)
    tell_skipped(skipped)
    typer.echo(
        f"{out}: {store.n_entities:,} entities with {store.about['n_names']:,} names, {store.n_edges:,} edges of "
        f"{len(store.relations):,} relations, {size_of(out)}"
    )


@app.command()
def info(folder: Folder, as_json: AsJson = False) -> None:
    """Tell what is in a graph: entities, edges, relations, degrees, names, components.

    Example: infuser graph info kg
    """
    from infuser.cli.graph_telling import tell_info
    from infuser.knowledge.graph_info import describe
    from infuser.knowledge.graph_store import GraphStore

    facts = {"folder": str(folder), "size": size_of(folder), **describe(GraphStore.open(folder))}
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=1))
    else:
        tell_info(Console(), facts)


@app.command()
def show(
    folder: Folder,
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="Its id or one of its names.", show_default=False)],
    edges: Annotated[int, typer.Option(help="How many edges to show.", min=0)] = 20,
    as_json: AsJson = False,
) -> None:
    """Show an entity: label, aliases, description, types, edges.

    A name may stand for several entities: the most frequent is shown, the
    others are listed.

    Examples:
      infuser graph show kg Q70
      infuser graph show kg "New York" --edges 50
    """
    from infuser.cli.graph_telling import tell_entity
    from infuser.knowledge.graph_store import GraphStore
    from infuser.knowledge.looking_up import find_entities

    store = GraphStore.open(folder)
    number, *others = find_entities(store, entity)
    known, around = store.entity(number), store.edges_of(number, edges)
    also = [store.entity(other) for other in others]
    if as_json:
        content = {**_plain(known), "edges": [edge._asdict() for edge in around], "also": [_plain(one) for one in also]}
        typer.echo(json.dumps(content, ensure_ascii=False, indent=1))
    else:
        tell_entity(Console(), store, known, around, also)


def _facts(
    files: list[Path], entities: list[Path], names: list[str], skipped: Skipped, tell: Progress, **settings: str | None
) -> Facts:
    from infuser.knowledge.readers import read_facts, read_ready

    given = {key: value for key, value in settings.items() if value is not None}
    for name in names:
        yield from read_ready(name, skipped, progress=lambda what, done, total: tell(what, done, total or None))
    for path in entities:
        yield from read_facts(path, skipped, kind="entities")
    for path in files:
        yield from read_facts(path, skipped, **given)


def _check_place(out: Path) -> None:
    """Refuse at once what would be refused after the work."""
    from infuser.knowledge.artifact import kind_of
    from infuser.knowledge.graph_store import KIND

    if out.exists() and kind_of(out) != KIND and not (out.is_dir() and not any(out.iterdir())):
        raise InputError(f"{str(out)!r} exists and is no graph; it was left alone. Choose another place.")


@contextmanager
def _progress() -> Iterator[Progress]:
    """Yield a function that shows on stderr what is done now, how much of it and how fast."""
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}{task.fields[count]}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None, count="")
        phase, began = "", 0.0

        def tell(now: str, done: int, total: int | None) -> None:
            nonlocal phase, began
            if now != phase:
                phase, began = now, bar.get_time()
            seconds = bar.get_time() - began
            rate = f", {done / seconds:,.0f}/s" if done and seconds > 0.5 else ""
            of = "" if total is None else f" of {total:,}"
            bar.update(task, description=now, count=f": {done:,}{of}{rate}" if done else "")

        yield tell


def _plain(entity: Entity) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(entity)
