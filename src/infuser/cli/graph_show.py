"""`infuser graph info` and `infuser graph show`: what is in a graph, and one of its entities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from infuser.cli.console import print_fields, print_json, print_table, say, size_of
from infuser.cli.options import AsJson, argument, option
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.knowledge.graph.store import GraphEntity

_MOST_RELATIONS = 15

Folder = Annotated[Path, argument("A folder that `infuser graph build` wrote.", metavar="DIR")]


def info(folder: Folder, as_json: AsJson = False) -> None:
    """Print what is in a graph: entities, edges, relations, degrees, names, components.

    Example: infuser graph info kg
    """
    from infuser.knowledge.graph.store import GraphStore, describe

    facts = {"folder": str(folder), "size": size_of(folder), **describe(GraphStore.open(folder))}
    if as_json:
        print_json(facts)
        return
    n, relations = facts["entities"], facts["relations"]
    how = [*(["any case"] if facts["fold_case"] else []), *(["without accents"] if facts["fold_accents"] else [])]
    hubs = ", ".join(f"{hub['degree']:,} ({hub['id']})" for hub in facts["hubs"])
    print_fields(
        {
            "entities": f"{n:,}: {facts['labelled']:,} with a label, {facts['described']:,} with a description, "
            f"{facts['typed']:,} with types, {facts['counted']:,} with a count",
            "edges": f"{facts['edges']:,} of {counted(len(relations), 'relation')}",
            "names": f"{facts['names']:,}, found in {' and '.join(how) or 'exactly their own spelling'}",
            "degrees": f"median {facts['median_degree']:g}, largest {hubs}",
            "components": f"{facts['components']:,}, the largest with {_entities(facts['largest_component'])}",
            "landmarks": f"{facts['landmarks']:,}, in the components of {_entities(facts['reached_by_landmarks'])} "
            f"({facts['reached_by_landmarks'] / max(n, 1):.1%})",
            "size": facts["size"],
            "digest": facts["digest"],
        },
        title=facts["folder"],
    )
    more = len(relations) - _MOST_RELATIONS
    rows = [(relation, f"{count:,}") for relation, count in list(relations.items())[:_MOST_RELATIONS]]
    rows += [(f"... {more:,} more, see --json", "")] if more > 0 else []
    print_table(("relation", "edges"), rows, title="relations")
    rows = [
        (f"{row['from']:,}" + ("" if row["from"] == row["to"] else f" to {row['to']:,}"), row["entities"])
        for row in facts["degrees"]
    ]
    print_table(
        ("edges", "entities", "share"), [(span, f"{of:,}", f"{of / n:.1%}") for span, of in rows], title="degrees"
    )


def show(
    folder: Folder,
    entity: Annotated[str, argument("Its id or one of its names.", metavar="ENTITY")],
    edges: Annotated[int, option("How many edges to show.", min=0)] = 20,
    as_json: AsJson = False,
) -> None:
    """Show an entity: label, aliases, description, types, edges.

    A name may stand for several entities: the most frequent is shown, the
    others are listed.

    Examples:
      infuser graph show kg Q70
      infuser graph show kg "New York" --edges 50
    """
    from dataclasses import asdict

    from infuser.knowledge.graph.find_entity import find_entities
    from infuser.knowledge.graph.store import GraphStore

    store = GraphStore.open(folder)
    known, *also = (store.entity(number) for number in find_entities(store, entity))
    number = store.numbers_of([known.id])[0]
    around, other_ids = store.edges_of(number, edges), store.other_ids_of(number)
    if as_json:
        shown = {"edges": [edge._asdict() for edge in around], "also": [asdict(one) for one in also]}
        print_json({**asdict(known), "other_ids": other_ids, **shown})
        return
    fields = {
        "other ids": ", ".join(other_ids),
        "aliases": ", ".join(known.aliases),
        "types": ", ".join(known.types),
        "description": known.description,
        "count": f"{known.count:,}" if known.count else "",
        "edges": f"{known.degree:,}" + (f", the first {len(around):,}:" if len(around) < known.degree else ""),
    }
    print_fields({name: value for name, value in fields.items() if value}, title=_title(known))
    for edge in around:
        head, tail = (_title(store.entity(number)) for number in store.numbers_of([edge.head, edge.tail]))
        say(f"  {head} -- {edge.relation} -> {tail}{'' if edge.weight == 1 else f'  {edge.weight:.3g}'}")
    if also:
        say("also called so:")
    for other in also:
        about = other.description or ", ".join(other.types)
        say(f"  {_title(other)}, {counted(other.degree, 'edge')}{': ' + about if about else ''}")


def _entities(n: int) -> str:
    return counted(n, "entity", "entities")


def _title(entity: GraphEntity) -> str:
    return f"{entity.label} ({entity.id})" if entity.label else entity.id
