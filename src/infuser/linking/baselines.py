"""Linkers that read no text: the most probable meaning of a name, and the entity that is meant most often overall."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from infuser.knowledge.candidates.store import CandidateStore
from infuser.linking.mentions import Mention, ScoredCandidate, decide, without_overlaps
from infuser.types import Annotations, Candidate, HasEntityVectors, Source, innermost


def prior_only(texts: Sequence[str], base: Source, *, threshold: float = 0.0) -> list[list[Mention]]:
    """Link every mention to its most probable candidate if that has at least a prior of `threshold`."""
    return _link(texts, base, lambda candidate: candidate.prior, threshold)


def most_frequent(
    texts: Sequence[str], base: Source, counts: Mapping[str, float], *, threshold: float = 0.0
) -> list[list[Mention]]:
    """Link every mention to the candidate that is meant most often overall; of equals to the more probable one.

    `counts` says how often each entity is meant (see `entity_totals`); one that it does not know counts 0.
    """
    return _link(texts, base, lambda candidate: counts.get(candidate.id, 0.0), threshold)


def entity_totals(store: CandidateStore) -> dict[str, float]:
    """Return how often each entity of a store is meant, summed over all its mentions."""
    return {store.ids[number]: total for number, total in enumerate(store.totals().tolist())}


def _link(
    texts: Sequence[str], base: Source, score: Callable[[Candidate], float], threshold: float
) -> list[list[Mention]]:
    inside = innermost(base)
    name = inside.name if isinstance(inside, HasEntityVectors) else ""
    return [
        without_overlaps(_mention(found, place, score, threshold, name) for place in range(len(found.candidates)))
        for found in base.annotate(texts)
    ]


def _mention(
    found: Annotations, place: int, score: Callable[[Candidate], float], threshold: float, base: str
) -> Mention:
    candidates = found.candidates[place]
    scores = [score(candidate) for candidate in candidates]
    counting = sum(value for value in scores if value >= threshold)
    scored = [
        ScoredCandidate(
            candidate.id, candidate.prior, value, value / counting if counting and value >= threshold else 0.0
        )
        for candidate, value in zip(candidates, scores, strict=True)
    ]
    return decide(found, place, scored, threshold, base)
