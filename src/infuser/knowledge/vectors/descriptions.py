"""Descriptions of entities: read from a graph or a table, and joined into the text that an encoder reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from infuser.errors import InputError
from infuser.knowledge.arrays import Strings
from infuser.knowledge.artifact import kind_of, whole
from infuser.knowledge.facts import ENTITIES
from infuser.knowledge.graph.store import KIND as GRAPH
from infuser.knowledge.graph.store import GraphStore
from infuser.tables.skipped import Skipped

Missing = Literal["error", "label", "skip"]
"""An entity without a description is an error, read by its label alone, or left out."""


class Described(NamedTuple):
    """An entity with its label and description."""

    id: str
    label: str = ""
    description: str = ""


def read_described(path: str | Path, skipped: Skipped | None = None) -> list[Described]:
    """Return the entities of a graph folder or of a table (id, label, description).

    An entity without a label is called by its first alias, if it has one.
    """
    if kind_of(path) == GRAPH:
        return list(_of_graph(GraphStore.open(path)))
    return list(_of_table(path, Skipped() if skipped is None else skipped))


def texts_of(
    entities: Iterable[Described], *, with_label: bool = True, missing: Missing = "error"
) -> list[tuple[str, str]]:
    """Return entities, by id, and the text of each: "label: description", or what the settings say.

    An entity with neither is read by its id, underscores as spaces, where labels are read for want of descriptions.
    """
    listed = list(entities)
    bare = [one.id for one in listed if not one.description]
    if bare and (missing == "error" or (missing == "skip" and len(bare) == len(listed))):
        raise _nothing_said(bare, len(listed))
    texts = []
    for id, label, description in listed:
        if description:
            texts.append((id, f"{label}: {description}" if label and with_label else description))
        elif missing == "label":
            texts.append((id, label or id.replace("_", " ")))
    if not texts:
        raise InputError("There is not one entity to encode. Check that this is the right file or folder.")
    return texts


def _nothing_said(bare: list[str], n_entities: int) -> InputError:
    if len(bare) == n_entities:
        return InputError(
            f"None of the {n_entities:,} entities has a description, so there is nothing to encode. Give a table with "
            "the columns id, label, description; or encode their labels with missing='label' (--label-when-missing); "
            "or train vectors on triples (infuser vectors build --train)."
        )
    return InputError(
        f"{len(bare):,} of {n_entities:,} entities have no description; the first is {bare[0]!r}. Encode the labels of "
        "these with missing='label' (--label-when-missing), or leave them out with missing='skip' (--skip-missing)."
    )


def _of_graph(graph: GraphStore) -> Iterator[Described]:
    called, descriptions = (
        Strings(whole(graph.parts[f"{name}.offsets"]), whole(graph.parts[f"{name}.bytes"]))
        for name in ("called", "descriptions")
    )
    for number, (first, last) in enumerate(pairwise(whole(graph.parts["called.begins"]).tolist())):
        label = called[first] if first < last else ""
        yield Described(graph.id_of(number), label, descriptions[number])


def _of_table(path: str | Path, skipped: Skipped) -> Iterator[Described]:
    from infuser.knowledge.readers import guess_format, read_facts

    known: dict[str, Described] = {}
    kind = {"kind": "entities"} if guess_format(path) == "table" else {}
    for batch in read_facts(path, skipped, **kind):
        if batch.schema.names != ENTITIES.names:
            continue
        columns = (batch.column(name).to_pylist() for name in ("id", "label", "aliases", "description"))
        for id, label, aliases, description in zip(*columns, strict=True):
            before = known.get(id, Described(id))  # the first label and the first description win
            name = before.label or _stripped(label) or next(filter(None, map(_stripped, aliases or ())), "")
            known[id] = Described(id, name, before.description or _stripped(description))
    yield from known.values()


def _stripped(text: str | None) -> str:
    return (text or "").strip()
