"""T-REx as the authors of "Attention Understands Semantic Relations" split it: CSV, with strings in place of offsets.

    text,target,target_len,num_rels,rel
    Bern is the capital of Switzerland.,"[('Switzerland', 'Bern', 'capital of', 'P36')]",1,1,P36

A target is a Python list of (head, tail, words that say the relation, relation). A string is looked for as whole words
first, and an entity outside of longer entities first. Where it still stands more than once, the places of one triple
that lie nearest together are taken; all of them are spans whose id is the string, so that a scorer can accept any.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.relations.examples import RelationText, Triple
from infuser.relations.readers.common import Place, Unreadable, nearest_places, read_each, relation_id
from infuser.tables.blocks import split_record
from infuser.tables.rows import filled_lines
from infuser.tables.skipped import Skipped
from infuser.tables.values import is_text
from infuser.types import Span
from infuser.words import WordBorders


def read_trex(path: str | Path, skipped: Skipped) -> Iterator[RelationText]:
    """Yield the texts of the CSV file; a triple whose strings are not in its text is added to `skipped`."""
    columns: list[str] = []
    for number, line in filled_lines(path, skipped):
        try:
            cells = split_record(line, ",")  # a cell holds no line break: an open quote spoils one line only
        except InputError as error:
            skipped.add(path, number, str(error), line)
            continue
        if not columns:
            if not {"text", "target"} <= set(cells):
                raise InputError(
                    f"{path} begins with the columns {', '.join(cells)[:80]!r}; a T-REx file names 'text' and 'target' "
                    "there."
                )
            columns = cells
            continue
        try:
            if len(cells) != len(columns):
                raise Unreadable(f"{len(cells)} cells under {len(columns)} column names")
            row = dict(zip(columns, cells, strict=True))
            if not is_text(row["text"]):
                raise Unreadable("no text")
            value = _read_target(row["target"])
        except Unreadable as error:
            skipped.add(path, number, str(error), line)
            continue
        yield _located(path, number, row["text"], value, skipped)


def _read_target(target: str) -> list[Any]:
    try:
        value = ast.literal_eval(target.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise Unreadable(f"the target is no Python list ({error})") from None
    if not isinstance(value, list):
        raise Unreadable("the target is no Python list")
    return value


def _located(path: str | Path, number: int, text: str, value: list[Any], skipped: Skipped) -> RelationText:
    """Return the text with the triples whose strings stand in it, at their places."""
    asked = read_each(value, _checked, skipped, path, number)
    borders = WordBorders(text)
    found = {string: _find(string, text, borders) for string in {string for one in asked for string in one[:3]}}
    entities = {string: _free(string, found, asked) for one in asked for string in one[:2]}
    triples: dict[Triple, None] = {}
    for one in asked:
        head, tail, words, relation = one
        parts = [entities[head], entities[tail], *([found[words]] if words else [])]
        if not all(parts):
            missing = [string for string, places in zip(one, parts, strict=False) if not places]
            skipped.add(path, number, f"not in the text: {missing}", one)
            continue
        places = nearest_places(parts)
        trigger = Span(*places[2]) if words else None
        triples[Triple(Span(*places[0], id=head), Span(*places[1], id=tail), relation, trigger)] = None
    spans = [Span(*place, id=entity) for entity, places in entities.items() for place in places]
    return RelationText(text, tuple(triples), tuple(sorted(spans, key=lambda span: (span.start, span.end))))


def _checked(value: Any) -> tuple[str, str, str, str]:
    if not isinstance(value, tuple | list) or len(value) != 4 or not all(isinstance(part, str) for part in value):
        raise Unreadable("not (head, tail, words, relation)")
    head, tail, words = (part.strip() for part in value[:3])
    if not head or not tail:
        raise Unreadable("the head or the tail is empty")
    return head, tail, words, relation_id(value[3])


def _find(string: str, text: str, borders: WordBorders) -> list[Place]:
    """Return where a string stands as whole words or, where it never does, at all."""
    found: list[Place] = []
    start = text.find(string) if string else -1
    while start >= 0:
        found.append((start, start + len(string)))
        start = text.find(string, start + 1)  # one that begins inside this one may be the one of whole words
    return [place for place in found if borders.widen(*place) == place] or found


def _free(string: str, found: dict[str, list[Place]], asked: Iterable[tuple[str, ...]]) -> list[Place]:
    """Return the places of an entity; those inside a longer one only where it has no other.

    "Seine" is not meant in "Seine-et-Marne" where "the river Seine" follows.
    """
    longer = {entity for one in asked for entity in one[:2] if len(entity) > len(string) and string in entity}
    free = [place for place in found[string] if not any(_covers(found[entity], place) for entity in longer)]
    return free or found[string]


def _covers(places: list[Place], inner: Place) -> bool:
    """Return whether one of these places of equal length holds another one."""
    if not places:
        return False
    length = places[0][1] - places[0][0]
    first = bisect_left(places, (inner[1] - length,))  # those further left end before it does
    return first < len(places) and places[first][0] <= inner[0]
