"""Finds an entity by its id or name, and suggests similar spellings."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

from infuser.errors import UnknownNameError
from infuser.knowledge.graph.store import GraphStore
from infuser.words import find_pieces, fold

_COMPARED = 5000  # strings that begin alike, at most
_SPELLINGS = 64  # tried, at most


def find_entities(store: GraphStore, wanted: str) -> list[int]:
    """Return the entity with this id, or else all with this name, the most frequent first."""
    number = store.number_of(wanted)
    if number is not None:
        return [number]
    names = store.names.lookup(wanted)
    if not names:
        near = suggest(store, wanted)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UnknownNameError(
            f"No entity has the id or the name {wanted!r} among the {store.n_entities:,} of this graph.{hint}"
        )
    return store.by_frequency(list(dict.fromkeys(store.owners[list(names)].tolist())))


def suggest(store: GraphStore, wanted: str, n: int = 3) -> list[str]:
    """Return ids and names of entities that are spelled nearly like this."""
    found = [repr(id) for id in _alike(wanted, store.parts["ids"], n)]
    for name in _respelled(store, wanted):
        numbers = dict.fromkeys(store.owners[list(store.names.lookup(name))].tolist())
        for entity in map(store.entity, list(numbers)[:n]):
            found.append(f"{entity.label or next(iter(entity.aliases), entity.id)!r} ({entity.id})")
    return list(dict.fromkeys(found))[:n]


def _respelled(store: GraphStore, wanted: str) -> Iterator[str]:
    """Yield names that exist: with words spelled nearly so, and those inside the wanted name."""
    vocabulary, gazetteer = store.parts["names.vocabulary"], store.names
    choices: list[list[str]] = []
    for piece in find_pieces(wanted.strip()):
        word = piece.removeprefix(" ")
        gap = piece[: len(piece) - len(word)]
        folded = fold(word, case=gazetteer.fold_case, accents=gazetteer.fold_accents)
        choices.append(
            [piece] if piece.isspace() else [gap + near for near in (folded, *_alike(folded, vocabulary, 3))]
        )
    for pieces in islice(product(*choices), _SPELLINGS):
        name = "".join(pieces)
        if gazetteer.lookup(name):
            yield name
    for mention in gazetteer.find([wanted])[0]:
        yield wanted[mention.start : mention.end]


def _alike(wanted: str, table: Any, n: int) -> list[str]:
    """Return the strings of a table that are most like this one, of those that begin with the same characters."""
    for length in range(min(4, len(wanted)), 0, -1):
        some = list(islice(table.iterkeys(wanted[:length]), _COMPARED))
        near = difflib.get_close_matches(wanted, some, n)
        if near:
            return near
    return []
