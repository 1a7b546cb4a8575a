"""How right an extractor is: precision, recall and F1, and when a found triple matches a gold one.

| match    | a found triple is right if ...                                                                   |
|----------|--------------------------------------------------------------------------------------------------|
| strict   | head and tail stand exactly where the two gold entities are mentioned, and the relation is equal |
| labelled | the strings of head and tail are alike, and the relation is equal                                |
| lenient  | the strings of head and tail are alike: the paper's count                                        |

Two strings are alike if one is part of the other or the Jaccard distance between their sets of characters is below
0.4, both in lower case. What is strictly right is also right in the other two columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from infuser.errors import InputError
from infuser.relations.examples import RelationText, Triple
from infuser.stats.counts import CountedDocuments, Counts, share
from infuser.types import Span

Match: TypeAlias = Literal["strict", "labelled", "lenient"]
MATCHES: tuple[Match, ...] = get_args(Match)

_Entity: TypeAlias = str | tuple[int, int]
"""An id or, where there is none, a place."""
Item: TypeAlias = tuple[frozenset[str], bool]
"""What counts once: the relations it was found with, and whether it is right."""


@dataclass(frozen=True, slots=True)
class RelationCounts(Counts):
    """What was counted in one document, in all of them or for one relation."""

    gold: int = 0
    """Gold facts; leniently gold pairs."""
    found: int = 0
    """Facts that the extractor stated; leniently pairs."""
    right_found: int = 0
    """Those of the found that match something gold."""
    right_gold: int = 0
    """Those of the gold that something found matches; strictly `right_found`, unless entities share a place."""

    @property
    def precision(self) -> float:
        """The share of what was found that is right; 0 if nothing was found."""
        return share(self.right_found, self.found)

    @property
    def recall(self) -> float:
        """The share of what is gold that was found."""
        return share(self.right_gold, self.gold)


@dataclass(frozen=True)
class RelationScores(CountedDocuments[RelationCounts]):
    """The counts of every document and of every relation, and over all documents (micro)."""

    counts_type = RelationCounts

    match: Match
    relations: Mapping[str, RelationCounts]
    """By relation id. Leniently a pair counts for every relation that it was stated with, on its own side."""

    def to_json(self) -> dict[str, Any]:
        """Return counts, measures, intervals and the counts of each relation and document."""
        rows = {relation: list(astuple(one)) for relation, one in self.relations.items()}
        columns = [field.name for field in fields(RelationCounts)]
        return {"match": self.match, **super().to_json(), "relations": {"columns": columns, "rows": rows}}


def score_relations(
    gold: Sequence[RelationText], found: Sequence[Sequence[Triple]], *, match: Match = "strict"
) -> RelationScores:
    """Compare the triples found in texts with their gold triples.

    On both sides negated triples and NO_RELATION are no statements and do not count, and what is said several times
    in a document counts once. A gold entity is the id of its span; without one, its place. Triggers, and the ids of
    found spans, are not looked at.

    strict: a gold fact is (head entity, tail entity, relation). A found triple states it if its head and tail have
    the same start and end as any mention of the two entities and its relation is equal.

    labelled and lenient: a found (head string, tail string), labelled also its relation, is right if it is like some
    gold pair in the strings of any of its mentions; a gold pair is found if some found pair is like it. One found
    pair may match several gold pairs and one gold pair may be matched by several found ones, so this flatters: many
    guesses around one fact are all right, and short strings, being part of many others, match nearly everywhere.
    """
    if len(gold) != len(found):
        raise InputError(f"{len(gold)} gold texts but the triples of {len(found)}. Give the triples of each text.")
    compared = [match_triples(text, triples, match) for text, triples in zip(gold, found, strict=True)]
    sides = [(one.gold_items(), one.found_items()) for one in compared]
    names = {name for side in sides for items in side for relations, _ in items for name in relations}
    by_relation = {name: np.zeros(len(fields(RelationCounts)), np.int64) for name in sorted(names)}
    for golden, stated in sides:
        for items, whole, part in ((golden, 0, 3), (stated, 1, 2)):  # columns of RelationCounts
            for stated_with, right in items:
                for name in stated_with:
                    by_relation[name][[whole, part]] += 1, right
    documents = [
        RelationCounts(len(golden), len(stated), sum(right for _, right in stated), sum(right for _, right in golden))
        for golden, stated in sides
    ]
    relations = {name: RelationCounts(*counts.tolist()) for name, counts in by_relation.items()}
    return RelationScores(tuple(documents), match, relations)


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


def match_triples(gold: RelationText, found: Sequence[Triple], match: Match) -> Compared:
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
