"""How right an extractor is: precision, recall and F1; `matching` says when a triple is right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np

from infuser.errors import InputError
from infuser.relations.examples import RelationText, Triple
from infuser.relations.matching import MATCHES, Item, Match, compare, strings_alike
from infuser.stats.counts import CountedDocuments, Counts, share

__all__ = ["MATCHES", "Match", "RelationCounts", "RelationScores", "score_relations", "strings_alike"]


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
    compared = [compare(text, triples, match) for text, triples in zip(gold, found, strict=True)]
    sides = [(one.gold_items(), one.found_items()) for one in compared]
    names = {name for side in sides for items in side for relations, _ in items for name in relations}
    by_relation = {name: np.zeros(len(fields(RelationCounts)), np.int64) for name in sorted(names)}
    for golden, stated in sides:
        for items, whole, part in ((golden, 0, 3), (stated, 1, 2)):  # columns of RelationCounts
            for stated_with, right in items:
                for name in stated_with:
                    by_relation[name][[whole, part]] += 1, right
    documents = [
        RelationCounts(len(golden), len(stated), _n_right(stated), _n_right(golden)) for golden, stated in sides
    ]
    relations = {name: RelationCounts(*counts.tolist()) for name, counts in by_relation.items()}
    return RelationScores(tuple(documents), match, relations)


def _n_right(items: Iterable[Item]) -> int:
    return sum(right for _, right in items)
