"""When a found triple matches a gold one: strictly by places and relation, or leniently as the paper matches.

| match    | a found triple is right if ...                                                                   |
|----------|--------------------------------------------------------------------------------------------------|
| strict   | head and tail stand exactly where the two gold entities are mentioned, and the relation is equal |
| labelled | the strings of head and tail are alike, and the relation is equal                                |
| lenient  | the strings of head and tail are alike: the paper's count                                        |

Two strings are alike if one is part of the other or the Jaccard distance between their sets of characters is below
0.4, both in lower case. What is strictly right is also right in the other two columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, get_args

from infuser.errors import InputError
from infuser.relations.examples import RelationText, Triple
from infuser.types import Span

Match: TypeAlias = Literal["strict", "labelled", "lenient"]
MATCHES: tuple[Match, ...] = get_args(Match)

_Entity: TypeAlias = str | tuple[int, int]
"""An id or, where there is none, a place."""
Item: TypeAlias = tuple[frozenset[str], bool]
"""What counts once: the relations it was found with, and whether it is right."""


def strings_alike(one: str, other: str) -> bool:
    """Return whether one string is part of the other or their sets of characters differ by a distance below 0.4.

    Both are compared in lower case and with single spaces. A blank string is like none.
    """
    one, other = _plain(one), _plain(other)
    if not one or not other:
        return False
    if one in other or other in one:
        return True
    ours, theirs = set(one), set(other)
    return 1 - len(ours & theirs) / len(ours | theirs) < 0.4


@dataclass(frozen=True, slots=True)
class Compared:
    """What a gold text holds and what was found in it, matched."""

    golden: list[set[str]]
    """The relations of each fact."""
    found: list[tuple[Hashable, str]]
    """What counts once, and its relation, of each found triple; (None, "") for one that is no statement."""
    matched: list[frozenset[int]]
    """The numbers of the facts that each found triple matches."""

    def gold_items(self) -> list[Item]:
        """Return the facts, right where something found matches them."""
        right = frozenset[int]().union(*self.matched)
        return [(frozenset(relations), number in right) for number, relations in enumerate(self.golden)]

    def found_items(self) -> list[Item]:
        """Return what was found, each once, right where it matches a fact."""
        items: dict[Hashable, tuple[set[str], bool]] = {}
        for (key, relation), facts in zip(self.found, self.matched, strict=True):
            if key is not None:
                items.setdefault(key, (set(), bool(facts)))[0].add(relation)
        return [(frozenset(relations), right) for relations, right in items.values()]


def compare(gold: RelationText, found: Sequence[Triple], match: Match) -> Compared:
    """Match the triples found in a text with its gold triples."""
    if match not in MATCHES:
        raise InputError(f"match is {match!r}. Choose one of {', '.join(MATCHES)}.")
    return _by_place(gold, found) if match == "strict" else _by_string(gold, found, labelled=match == "labelled")


class _Entities:
    """Which entities stand at a place of a gold text, and how each is written."""

    def __init__(self, gold: RelationText) -> None:
        spans = (*gold.spans, *(span for triple in gold.triples for span in (triple.head, triple.tail)))
        self._at: dict[tuple[int, int], list[str]] = {}
        self._written: dict[_Entity, set[str]] = {}
        for span in spans:
            words = _plain(gold.text[span.start : span.end])
            if words:  # a mention without words cannot be found
                ids = self._at.setdefault((span.start, span.end), [])
                if span.id and span.id not in ids:
                    ids.append(span.id)
                self._written.setdefault(span.id or (span.start, span.end), set()).add(words)

    def at(self, span: Span) -> Sequence[_Entity]:
        """Return the entities mentioned exactly there, else the place itself."""
        place = (span.start, span.end)
        return self._at.get(place) or [place]

    def meant(self, span: Span) -> _Entity:
        """Return the entity of a gold span."""
        return span.id or self.at(span)[0]

    def written(self, entity: _Entity) -> frozenset[str]:
        """Return the strings of all mentions of an entity."""
        return frozenset(self._written.get(entity, ()))


def _by_place(gold: RelationText, found: Sequence[Triple]) -> Compared:
    entities = _Entities(gold)
    numbers: dict[tuple[_Entity, _Entity, str], int] = {}
    for triple in (one for one in gold.triples if one.is_fact):
        fact = (entities.meant(triple.head), entities.meant(triple.tail), triple.relation)
        numbers.setdefault(fact, len(numbers))
    compared = Compared([{relation} for _, _, relation in numbers], [], [])
    for triple in found:
        key: Hashable = None
        facts: frozenset[int] = frozenset()
        if triple.is_fact:
            heads, tails = entities.at(triple.head), entities.at(triple.tail)
            if all(_plain(gold.text[span.start : span.end]) for span in (triple.head, triple.tail)):
                stated = [(head, tail, triple.relation) for head in heads for tail in tails]
                facts = frozenset(numbers[fact] for fact in stated if fact in numbers)
            key = facts or (tuple(heads), tuple(tails), triple.relation)
        compared.found.append((key, triple.relation if key else ""))
        compared.matched.append(facts)
    return compared


def _by_string(gold: RelationText, found: Sequence[Triple], *, labelled: bool) -> Compared:
    entities = _Entities(gold)
    golden: dict[tuple[frozenset[str], frozenset[str], str], set[str]] = {}
    for triple in (one for one in gold.triples if one.is_fact):
        heads, tails = (entities.written(entities.meant(span)) for span in (triple.head, triple.tail))
        golden.setdefault((heads, tails, triple.relation if labelled else ""), set()).add(triple.relation)
    known = {string for heads, tails, _ in golden for string in (*heads, *tails)}

    @cache
    def like(string: str) -> set[str]:
        return {other for other in known if strings_alike(string, other)}

    @cache
    def facts(head: str, tail: str, label: str) -> frozenset[int]:
        return frozenset(
            number
            for number, (heads, tails, wanted) in enumerate(golden)
            if label == wanted and not (like(head).isdisjoint(heads) or like(tail).isdisjoint(tails))
        )

    compared = Compared(list(golden.values()), [], [])
    for triple in found:
        head, tail = (_plain(gold.text[span.start : span.end]) for span in (triple.head, triple.tail))
        key = (head, tail, triple.relation if labelled else "")
        compared.found.append((key, triple.relation) if triple.is_fact else (None, ""))
        compared.matched.append(facts(*key) if triple.is_fact else frozenset())
    return compared


def _plain(string: str) -> str:
    return " ".join(string.casefold().split())
