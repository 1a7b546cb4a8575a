"""How right a linker is, beside linkers that read no text: by priors, and by the most frequent entity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from infuser.infused import Infused
from infuser.knowledge.candidates.store import CandidateStore
from infuser.linking.examples import LinkedText, check_found
from infuser.linking.inference import find_mentions
from infuser.linking.mentions import Mention, ScoredCandidate, decide, without_overlaps
from infuser.linking.scores import LinkScores, score_links
from infuser.sources import Candidates, KnowledgeBase
from infuser.types import Candidate, HasEntityVectors, Source, innermost


def evaluate_linker(
    infused: Infused,
    base: KnowledgeBase,
    gold: Sequence[LinkedText],
    *,
    threshold: float | None = None,
    batch_size: int = 32,
    progress: bool = False,
) -> dict[str, LinkScores]:
    """Return the scores of "prior only", "most frequent" and the model's "linker" for one knowledge base."""
    texts = [one.text for one in gold]
    found = prior_only(texts, base)
    check_found(sum(map(len, found)), len(texts), base)
    scores = {"prior only": score_links(gold, found)}
    if isinstance(base.candidates, Candidates):
        totals = entity_totals(base.candidates.finder.store)
        scores["most frequent"] = score_links(gold, most_frequent(texts, base, totals))
    linked = find_mentions(infused, texts, threshold=threshold, batch_size=batch_size, progress=progress)
    mentions = [[mention for mention in of_text if mention.base == base.name] for of_text in linked]
    scores["linker"] = score_links(gold, mentions)
    return scores


def prior_only(texts: Sequence[str], base: Source, *, threshold: float = 0.0) -> list[list[Mention]]:
    """Link every mention to its most probable candidate if that has at least a prior of `threshold`."""
    return _link(texts, base, lambda candidate: candidate.prior, threshold)


def most_frequent(
    texts: Sequence[str], base: Source, counts: Mapping[str, float], *, threshold: float = 0.0
) -> list[list[Mention]]:
    """Link every mention to the candidate that is meant most often overall; of equals to the more probable one.

    `counts` is how often each entity is meant (see `entity_totals`); a missing one counts 0.
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
    linked = []
    for found in base.annotate(texts):
        mentions = []
        for place, candidates in enumerate(found.candidates):
            scores = [score(candidate) for candidate in candidates]
            total = sum(value for value in scores if value >= threshold)
            scored = [
                ScoredCandidate(one.id, one.prior, value, value / total if total and value >= threshold else 0.0)
                for one, value in zip(candidates, scores, strict=True)
            ]
            mentions.append(decide(found, place, scored, threshold, name))
        linked.append(without_overlaps(mentions))
    return linked
