"""What `infuser graph` prints about a graph and about an entity."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from infuser.knowledge.graph.store import Edge, Entity, GraphStore
from infuser.words import counted

_RELATIONS = 15


def tell_info(console: Console, facts: dict[str, Any]) -> None:
    """Print the figures of a graph."""
    n = facts["entities"]
    how = [*(["any case"] if facts["fold_case"] else []), *(["without accents"] if facts["fold_accents"] else [])]
    rows = {
        "entities": f"{n:,}: {facts['labelled']:,} with a label, {facts['described']:,} with a description, "
        f"{facts['typed']:,} with types, {facts['counted']:,} with a count",
        "edges": f"{facts['edges']:,} of {counted(len(facts['relations']), 'relation')}",
        "names": f"{facts['names']:,}, found in {' and '.join(how) or 'exactly their own spelling'}",
        "degrees": f"median {facts['median_degree']:g}, largest "
        + ", ".join(f"{hub['degree']:,} ({hub['id']})" for hub in facts["hubs"]),
        "components": f"{facts['components']:,}, the largest with {_entities(facts['largest_component'])}",
        "landmarks": f"{facts['landmarks']:,}, in the components of {_entities(facts['reached_by_landmarks'])} "
        f"({facts['reached_by_landmarks'] / max(n, 1):.1%})",
        "size": facts["size"],
        "digest": facts["digest"],
    }
    _grid(console, facts["folder"], rows)
    table = Table("relation", "edges", title="relations", title_justify="left")
    for relation, count in list(facts["relations"].items())[:_RELATIONS]:
        table.add_row(relation, f"{count:,}")
    if len(facts["relations"]) > _RELATIONS:
        table.add_row(f"... {len(facts['relations']) - _RELATIONS:,} more, see --json", "")
    console.print(table, markup=False)
    table = Table("edges", "entities", "share", title="degrees", title_justify="left")
    for row in facts["degrees"]:
        span = f"{row['from']:,}" if row["from"] == row["to"] else f"{row['from']:,} to {row['to']:,}"
        table.add_row(span, f"{row['entities']:,}", f"{row['entities'] / n:.1%}")
    console.print(table)


def tell_entity(console: Console, store: GraphStore, entity: Entity, edges: list[Edge], also: list[Entity]) -> None:
    """Print an entity and its edges."""
    rows = {
        "aliases": ", ".join(entity.aliases),
        "types": ", ".join(entity.types),
        "description": entity.description,
        "count": f"{entity.count:,}" if entity.count else "",
        "edges": f"{entity.degree:,}" + (f", the first {len(edges):,}:" if len(edges) < entity.degree else ""),
    }
    _grid(console, _called(entity), {name: value for name, value in rows.items() if value})
    for edge in edges:
        head, tail = (_called(store.entity(store.numbers_of([end])[0])) for end in (edge.head, edge.tail))
        weight = "" if edge.weight == 1 else f"  {edge.weight:.3g}"
        console.print(f"  {head} -- {edge.relation} -> {tail}{weight}", markup=False, highlight=False, soft_wrap=True)
    if also:
        console.print("also called so:", highlight=False)
        for other in also:
            about = other.description or ", ".join(other.types)
            console.print(
                f"  {_called(other)}, {counted(other.degree, 'edge')}{': ' + about if about else ''}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )


def _entities(n: int) -> str:
    return counted(n, "entity", "entities")


def _called(entity: Entity) -> str:
    return f"{entity.label} ({entity.id})" if entity.label else entity.id


def _grid(console: Console, title: str, rows: dict[str, str]) -> None:
    console.print(title, style="bold", markup=False, highlight=False, soft_wrap=True)
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(f"  {name}", value)
    console.print(table, markup=False, highlight=False)
