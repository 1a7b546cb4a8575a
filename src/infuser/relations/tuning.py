"""Where the thresholds of the decision stand best: those of the highest F1 of an extraction from dev texts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from infuser.relations.classifier import Thresholds
from infuser.relations.examples import RelationText
from infuser.relations.extracting import Proposal, propose_all
from infuser.relations.matching import Match, compare
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
    """Return the thresholds with the highest F1, given what a model proposed; None if nothing proposed is right.

    What a text denies counts here, too; an extraction marks it later.
    """
    gates, bests, owners, facts = [], [], [], []  # the last two: which statement matches which fact
    said: list[int] = []  # what each proposal states; two may state the same
    n_facts = n_said = 0
    for text, of_text in zip(gold, proposals, strict=True):
        compared = compare(text, [one.found.triple for one in of_text], match)
        numbers: dict[Hashable, int] = {}
        for one, (key, _), its_facts in zip(of_text, compared.found, compared.matched, strict=True):
            gates.append(one.gate)
            bests.append(one.best)
            said.append(n_said + numbers.setdefault(key, len(numbers)))
            owners += [len(said) - 1] * len(its_facts)
            facts += [n_facts + fact for fact in sorted(its_facts)]
        n_facts += len(compared.golden)
        n_said += len(numbers)
    if not owners:
        return None
    gate, best = np.array(gates), np.array(bests)
    owner, fact, stated = np.array(owners), np.array(facts), np.array(said)
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
