"""Where the thresholds of the decision stand best: those of the highest F1 of an extraction from dev texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from infuser.relations.classifier import Thresholds
from infuser.relations.examples import RelationText
from infuser.relations.extracting import Proposal, propose_all
from infuser.relations.scores import Match, matched_facts
from infuser.types import Source

if TYPE_CHECKING:
    from infuser.relations.model import AttentionRelations

_GATES = np.concatenate([np.arange(0.0, 0.95, 0.05), [0.95, 0.97, 0.98, 0.99, 0.995, 0.998]])
_BESTS = np.concatenate([np.arange(0.0, 0.95, 0.05), [0.95, 0.97, 0.98, 0.99]])


def tuned_thresholds(
    model: AttentionRelations,
    dev: Sequence[RelationText],
    spans: Sequence[Source] = (),
    *,
    match: Match = "strict",
    progress: bool = False,
) -> Thresholds:
    """Return the thresholds with the highest F1 on dev texts, the model's own if nothing it proposes there is right.

    Of equally good ones the highest are taken, which tell least.
    """
    proposals = propose_all(model, dev, spans, progress=progress)
    return best_thresholds(dev, proposals, match=match) or model.thresholds_


def best_thresholds(
    gold: Sequence[RelationText], proposals: Sequence[Sequence[Proposal]], *, match: Match = "strict"
) -> Thresholds | None:
    """Return the thresholds with the highest F1, given what a model proposed; None if nothing proposed is right."""
    gates, bests, owners, facts = [], [], [], []  # the last two: which proposal matches which fact
    n_facts = n_proposals = 0
    for text, of_text in zip(gold, proposals, strict=True):
        n_gold, matched = matched_facts(text, [one.found.triple for one in of_text], match)
        for one, its_facts in zip(of_text, matched, strict=True):
            gates.append(one.gate)
            bests.append(one.best)
            owners += [n_proposals] * len(its_facts)
            facts += [n_facts + fact for fact in sorted(its_facts)]
            n_proposals += 1
        n_facts += n_gold
    if not owners:
        return None
    gate, best = np.array(gates), np.array(bests)
    owner, fact = np.array(owners), np.array(facts)
    reached = [
        (_f1(accepted, owner, fact, n_facts), float(low), float(least))
        for low in _GATES
        for least in _BESTS
        if (accepted := (gate > low) & (best > least)).any()
    ]
    if not reached:
        return None
    _, low, least = max(reached)
    return Thresholds(low, least)


def _f1(accepted: NDArray[np.bool_], owner: NDArray[np.int64], fact: NDArray[np.int64], n_facts: int) -> float:
    right = accepted[owner]
    precision = len(np.unique(owner[right])) / accepted.sum()
    recall = len(np.unique(fact[right])) / n_facts
    return float(2 * precision * recall / (precision + recall)) if precision + recall else 0.0
