"""What a linker finds in a text: mentions, the entity each is linked to, and all its candidates."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from infuser.types import Annotations

_DIGITS = 4
"""Of scores and priors in files."""


@dataclass(frozen=True, slots=True)
class ScoredCandidate:
    """A candidate and its score."""

    id: str
    prior: float
    """How probable it was before the text was read."""
    score: float
    """The linker's score; at the threshold or above it, the candidate counts."""
    weight: float = 0.0
    """Its share among the candidates that count; 0 for the others."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A stretch of a text that may mean something, characters `start` up to `end`."""

    start: int
    end: int
    text: str
    """The words themselves."""
    id: str | None
    """The entity it was linked to; None if no candidate counts, or if another mention took its words."""
    score: float
    """The score of its best candidate; minus infinity if it has none."""
    candidates: tuple[ScoredCandidate, ...] = ()
    """Everything it may mean, the highest score first."""
    base: str = ""
    """The knowledge base that offered them."""

    def to_json(self, n_candidates: int | None = None, *, label: str = "", with_base: bool = True) -> dict[str, Any]:
        """Return rounded plain values for a file: the label of its entity if it has one, the best candidates if any.

        JSON has no infinity: the score of a mention without candidates is None.
        """
        plain: dict[str, Any] = {"start": self.start, "end": self.end, "text": self.text, "id": self.id}
        plain |= ({"label": label} if label else {}) | ({"base": self.base} if with_base else {})
        plain["score"] = round(self.score, _DIGITS) if math.isfinite(self.score) else None
        if n_candidates != 0:
            plain["candidates"] = [
                {"id": one.id, "prior": round(one.prior, _DIGITS), "score": round(one.score, _DIGITS)}
                for one in self.candidates[:n_candidates]
            ]
        return plain


def decide(found: Annotations, place: int, scored: Iterable[ScoredCandidate], threshold: float, base: str) -> Mention:
    """Return one span of annotations as a mention, linked to its best candidate if that reaches the threshold."""
    span = found.spans[place]
    ranked = tuple(sorted(scored, key=lambda one: (-one.score, -one.prior)))
    best = ranked[0].score if ranked else -math.inf
    linked = ranked[0].id if ranked and best >= threshold else None
    return Mention(span.start, span.end, found.text[span.start : span.end], linked, best, ranked, base)


def chosen_by_weight(mention: Mention) -> Mention:
    """Return a mention linked to the candidate that has a weight, if one has: what a method without a linker chose."""
    return replace(mention, id=next((one.id for one in mention.candidates if one.weight > 0), None))


def without_overlaps(mentions: Iterable[Mention]) -> list[Mention]:
    """Return all mentions, but let only the best scored of those that share characters keep their entity."""
    mentions = list(mentions)
    linked = [place for place, mention in enumerate(mentions) if mention.id is not None]
    # the higher score first; of equals the longer, then the one further left
    linked.sort(key=lambda place: (-mentions[place].score, mentions[place].start - mentions[place].end, place))
    taken: list[tuple[int, int]] = []  # in order, and apart from each other
    for place in linked:
        mention = mentions[place]
        at = bisect_left(taken, (mention.start, mention.end))
        before, after = taken[at - 1 : at] if at else [], taken[at : at + 1]
        if any(mention.start < end and start < mention.end for start, end in (*before, *after)):
            mentions[place] = replace(mention, id=None)
        else:
            taken.insert(at, (mention.start, mention.end))
    return mentions
