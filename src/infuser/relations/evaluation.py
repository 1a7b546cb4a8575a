"""How right an extraction is, under any thresholds; and the thresholds with the highest F1."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.relations.classifier import Thresholds
from infuser.relations.examples import RelationText, Triple, count_relations
from infuser.relations.extraction import accept, propose_all
from infuser.relations.scores import MATCHES, Match, RelationScores, match_triples, score_relations
from infuser.types import Source

if TYPE_CHECKING:
    from infuser.relations.model import AttentionRelations

_GATES = np.concatenate([np.arange(0.0, 0.95, 0.05), [0.95, 0.97, 0.98, 0.99, 0.995, 0.998]])
_BESTS = np.concatenate([np.arange(0.0, 0.95, 0.05), [0.95, 0.97, 0.98, 0.99]])
_RELATED = "related"
"""The relation of every pair where it does not matter how they are related."""


class ExtractionTest:
    """What a model proposes for gold texts, read once, and its scores under any thresholds."""

    def __init__(
        self,
        model: AttentionRelations,
        gold: Sequence[RelationText],
        spans: Sequence[Source] = (),
        *,
        progress: bool = False,
    ) -> None:
        """Read the texts between spans that sources find; without sources, between the texts' own mentions."""
        self.model, self.gold = model, list(gold)
        found = propose_all(model, self.gold, spans, progress=progress)
        self.proposals = [proposals for proposals, _ in found]
        self._pairs = [[replace(one, relation=_RELATED) for one in candidates] for _, candidates in found]

    def triples(self, thresholds: Thresholds | None = None) -> list[list[Triple]]:
        """Return the triples of each text under thresholds (None: the model's); denied ones are negated."""
        chosen = thresholds or self.model.thresholds_
        return [
            [one.triple for one in accept(text.text, proposed, chosen)]
            for text, proposed in zip(self.gold, self.proposals, strict=True)
        ]

    def scores(self, match: Match = "strict", thresholds: Thresholds | None = None) -> RelationScores:
        """Return precision, recall and F1 under thresholds (None: the model's)."""
        return score_relations(self.gold, self.triples(thresholds), match=match)

    def best_thresholds(self, match: Match = "strict") -> Thresholds | None:
        """Return the thresholds with the highest F1, of equals the highest; None if nothing proposed is right.

        What a text denies counts here, too; an extraction marks it later.
        """
        gates, bests, owners, facts = [], [], [], []  # the last two: which statement matches which fact
        statements: list[int] = []  # the number of what each proposal states; two may state the same
        n_facts = n_statements = 0
        for text, of_text in zip(self.gold, self.proposals, strict=True):
            compared = match_triples(text, [one.found.triple for one in of_text], match)
            numbers: dict[Hashable, int] = {}
            for one, (key, _), its_facts in zip(of_text, compared.found, compared.matched, strict=True):
                gates.append(one.gate)
                bests.append(one.best)
                statements.append(n_statements + numbers.setdefault(key, len(numbers)))
                owners += [len(statements) - 1] * len(its_facts)
                facts += [n_facts + fact for fact in sorted(its_facts)]
            n_facts += len(compared.golden)
            n_statements += len(numbers)
        if not owners:
            return None
        gate, best = np.array(gates), np.array(bests)
        owner, fact, stated = np.array(owners), np.array(facts), np.array(statements)
        reached = [
            (_f1(accepted, stated, owner, fact, n_facts), float(low), float(least))
            for low in _GATES
            for least in _BESTS
            if (accepted := (gate > low) & (best > least)).any()
        ]
        if not reached:
            return None
        _, low, least = max(reached)
        return Thresholds(low, least)

    @cached_property
    def every_pair(self) -> RelationScores:
        """The lenient scores of calling every candidate pair related."""
        return score_relations(self._related, self._pairs, match="lenient")

    def ceiling(self, match: Match = "strict") -> float:
        """Return the share of gold pairs among the candidates: the highest recall that any thresholds reach."""
        if match == "strict":
            return score_relations(self._related, self._pairs, match="strict").total.recall
        return self.every_pair.total.recall

    def to_json(self, matches: Sequence[Match] = MATCHES) -> dict[str, Any]:
        """Return all scores and ceilings as plain values, for a file."""
        return {
            "scores": {match: self.scores(match).to_json() for match in matches},
            "every_candidate_pair": self.every_pair.to_json(),
            "ceilings": {match: self.ceiling(match) for match in matches},
        }

    @cached_property
    def _related(self) -> list[RelationText]:
        """The gold texts with "related" as the relation of every fact."""
        return [
            replace(
                text,
                triples=tuple(replace(one, relation=_RELATED) if one.is_fact else one for one in text.triples),
            )
            for text in self.gold
        ]


def unlearned_relations(model: AttentionRelations, gold: Sequence[RelationText]) -> dict[str, int]:
    """Return how often gold texts state each relation that a model has not learned; raise if it knows none of them."""
    known, stated = set(model.classes_.tolist()), count_relations(gold)
    unlearned = {relation: n for relation, n in sorted(stated.items()) if relation not in known}
    if len(unlearned) == len(stated):
        raise InputError(
            f"The model has learned none of the relations of these texts: they state {', '.join(list(stated)[:5])}, it "
            f"knows {', '.join(sorted(model.labels_)[:5])}. Name relations by the same ids in both."
        )
    return unlearned


def _f1(
    accepted: NDArray[np.bool_],
    stated: NDArray[np.int64],
    owner: NDArray[np.int64],
    fact: NDArray[np.int64],
    n_facts: int,
) -> float:
    """Return the F1 as `scores` counts it: what is stated twice counts once."""
    right = accepted[owner]
    precision = len(np.unique(stated[owner[right]])) / len(np.unique(stated[accepted]))
    recall = len(np.unique(fact[right])) / n_facts
    return float(2 * precision * recall / (precision + recall)) if precision + recall else 0.0
