"""How right a linker is, strictly: every gold mention counts, also those that it had no candidates for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from infuser.errors import InputError
from infuser.linking.examples import LinkedText
from infuser.linking.mentions import Mention, ScoredCandidate
from infuser.stats.counts import CountedDocuments, Counts, share


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
