"""How right a linker is, beside linkers that read no text: by priors, and by the most frequent entity.

Scores are strict: every gold mention counts, also those that the linker had no candidates for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from infuser.errors import InputError
from infuser.infused import Infused
from infuser.knowledge.candidates.store import CandidateStore
from infuser.linking.examples import LinkedText, check_found
from infuser.linking.inference import find_mentions
from infuser.linking.mentions import Mention, ScoredCandidate, decide, without_overlaps
from infuser.sources import Candidates, KnowledgeBase
from infuser.stats.counts import CountedDocuments, Counts, share
from infuser.types import Candidate, HasEntityVectors, Source, innermost


@dataclass(frozen=True, slots=True)
class LinkCounts(Counts):
    """What was counted in one document, or in all, within the labelled part."""

    measures: ClassVar[tuple[str, ...]] = ("precision", "recall", "f1", "ceiling", "in_candidate_accuracy")

    gold: int = 0
    """Gold mentions: different (start, end, entity)."""
    linked: int = 0
    """Mentions that the linker gave an entity: different (start, end, entity)."""
    right: int = 0
    """Those of them that are gold."""
    found: int = 0
    """Gold mentions whose exact span the linker found, linked or not."""
    offered: int = 0
    """Those of them whose entity is among the candidates."""
    first: int = 0
    """Those of them whose entity has the highest score there."""

    @property
    def precision(self) -> float:
        """The share of the linked mentions that is right; 0 if nothing was linked."""
        return share(self.right, self.linked)

    @property
    def recall(self) -> float:
        """The share of all gold mentions that was linked rightly."""
        return share(self.right, self.gold)

    @property
    def ceiling(self) -> float:
        """The highest recall that the candidates allow: the share of gold mentions found with their entity."""
        return share(self.offered, self.gold)

    @property
    def in_candidate_accuracy(self) -> float:
        """How often the right entity has the highest score where it is among the candidates."""
        return share(self.first, self.offered)


class LinkScores(CountedDocuments[LinkCounts]):
    """The counts of every document, and over all of them (micro)."""

    counts_type = LinkCounts


def score_links(gold: Sequence[LinkedText], found: Sequence[Sequence[Mention]]) -> LinkScores:
    """Compare the mentions that a linker found in texts with their gold mentions.

    What lies outside a text's labelled part, wholly or partly, does not count, be it gold or found. Where two gold
    entities stand on one span both count, so one of them is missed.
    """
    if len(gold) != len(found):
        raise InputError(f"{len(gold)} gold texts but the mentions of {len(found)}. Give the mentions of each text.")
    return LinkScores(tuple(_count(one, mentions) for one, mentions in zip(gold, found, strict=True)))


def _count(gold: LinkedText, found: Sequence[Mention]) -> LinkCounts:
    first, last = gold.region
    inside = [mention for mention in found if first <= mention.start and mention.end <= last]
    meant = {(span.start, span.end, span.id) for span in gold.spans if first <= span.start and span.end <= last}
    linked = {(mention.start, mention.end, mention.id) for mention in inside if mention.id is not None}
    at: dict[tuple[int, int], list[ScoredCandidate]] = {}  # several knowledge bases may have found the same span
    for mention in inside:
        at.setdefault((mention.start, mention.end), []).extend(mention.candidates)
    n_found = n_offered = n_first = 0
    for start, end, entity in meant:
        if (start, end) not in at:
            continue
        candidates = at[start, end]
        n_found += 1
        if any(candidate.id == entity for candidate in candidates):
            n_offered += 1
            n_first += max(candidates, key=lambda candidate: candidate.score).id == entity
    return LinkCounts(len(meant), len(linked), len(linked & meant), n_found, n_offered, n_first)


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
