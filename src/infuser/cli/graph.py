"""`infuser graph`: build a knowledge graph from files, look into it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from infuser.cli.knowledge import Strict, nothing_in, size_of, tell_skipped
from infuser.errors import InputError
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.knowledge.facts import Facts
    from infuser.knowledge.graph.build import Progress
    from infuser.knowledge.graph.store import Entity
    from infuser.tables.skipped import Skipped

app = typer.Typer(
    no_args_is_help=True,
    help="Build a knowledge graph from files, and look into it.\n\n"
    "A graph is built once, into a folder that opens in milliseconds and is shared by all processes. The source "
    "Graph(DIR) then ties mentions in a text whose entities are near each other in the graph.",
)

_MANY_RELATIONS, _FEW_ENTITIES = 100, 4
"""A graph with more relations, and fewer entities for each, was probably read in the wrong order."""

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
    label_before: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="In --entities files a label ends here and its description begins: ', ' for \"saxony, an area in "
            'Germany".',
            show_default=False,
        ),
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
    from infuser.knowledge.artifact import check_place
    from infuser.knowledge.graph.build import build_graph
    from infuser.knowledge.graph.store import KIND, save_graph
    from infuser.tables.skipped import Skipped

    if not (files or entities or asset):
        raise InputError("Name at least one file of triples or entities, or --asset NAME.")
    check_place(out, KIND)
    skipped = Skipped(strict)
    with _progress() as tell:
        named = _entities(entities or [], label_before or "", skipped)
        facts = chain(_ready(asset or [], skipped, tell), named, _files(files or [], skipped, format, order))
        store = build_graph(facts, fold_case=fold_case, fold_accents=fold_accents, n_landmarks=landmarks, progress=tell)
        if not store.n_entities:
            tell_skipped(skipped)
            raise nothing_in([*(files or ()), *(entities or ()), *(asset or ())], "entity", "infuser graph build")
        tell("writing", 0, None)
        save_graph(store, out)
    tell_skipped(skipped)
    n_entities = counted(store.n_entities, "entity", "entities")
    n_relations = counted(len(store.relations), "relation")
    if len(store.relations) > _MANY_RELATIONS and _FEW_ENTITIES * len(store.relations) > store.n_entities:
        warning = f"{n_relations} for {n_entities}: are the columns of the triples in another order? See --order, "
        typer.secho(f"{warning}for example --order rht where the relation comes first.", fg="yellow", err=True)
    typer.echo(
        f"{out}: {n_entities} with {counted(store.about['n_names'], 'name')}, {counted(store.n_edges, 'edge')} of "
        f"{n_relations}, {size_of(out)}"
    )


@app.command()
def info(folder: Folder, as_json: AsJson = False) -> None:
    """Tell what is in a graph: entities, edges, relations, degrees, names, components.

    Example: infuser graph info kg
    """
    from infuser.cli.graph_telling import tell_info
    from infuser.knowledge.graph.store import GraphStore
    from infuser.knowledge.graph.summary import describe

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
    from infuser.knowledge.graph.find_entity import find_entities
    from infuser.knowledge.graph.store import GraphStore

    store = GraphStore.open(folder)
    number, *others = find_entities(store, entity)
    known, around = store.entity(number), store.edges_of(number, edges)
    also = [store.entity(other) for other in others]
    if as_json:
        content = {**_plain(known), "edges": [edge._asdict() for edge in around], "also": [_plain(one) for one in also]}
        typer.echo(json.dumps(content, ensure_ascii=False, indent=1))
    else:
        tell_entity(Console(), store, known, around, also)


def _ready(names: list[str], skipped: Skipped, tell: Progress) -> Facts:
    from infuser.knowledge.readers import read_ready

    for name in names:
        yield from read_ready(name, skipped, progress=lambda what, done, total: tell(what, done, total or None))


def _entities(paths: list[Path], label_before: str, skipped: Skipped) -> Facts:
    from infuser.knowledge.readers import read_facts

    for path in paths:
        yield from read_facts(path, skipped, kind="entities", label_before=label_before)


def _files(paths: list[Path], skipped: Skipped, format: str | None, order: str | None) -> Facts:
    from infuser.knowledge.readers import read_facts

    for path in paths:
        yield from read_facts(path, skipped, format=format, **({} if order is None else {"order": order}))


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
