"""How right a linker is, strictly: every gold mention counts, also those that it had no candidates for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.linking.examples import LinkedText
from infuser.linking.mentions import Mention, Scored
from infuser.stats.intervals import Interval, bootstrap_values, percentile_interval


@dataclass(frozen=True, slots=True)
class LinkCounts:
    """What was counted in one document, or in all, within the labelled part."""

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
        """Which share of the linked mentions is right; 0 if nothing was linked."""
        return _share(self.right, self.linked)

    @property
    def recall(self) -> float:
        """Which share of all gold mentions was linked rightly."""
        return _share(self.right, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return _share(2 * self.right, self.gold + self.linked)

    @property
    def ceiling(self) -> float:
        """The highest recall that the candidates allow: the share of gold mentions found with their entity."""
        return _share(self.offered, self.gold)

    @property
    def in_candidate_accuracy(self) -> float:
        """How often the right entity has the highest score where it is among the candidates."""
        return _share(self.first, self.offered)


MEASURES = ("precision", "recall", "f1", "ceiling", "in_candidate_accuracy")
"""Of `LinkCounts`, all between 0 and 1."""


@dataclass(frozen=True, slots=True)
class LinkScores:
    """The counts of every document, and over all of them (micro)."""

    documents: tuple[LinkCounts, ...]
    """In the order of the texts."""

    @property
    def total(self) -> LinkCounts:
        """The sums over the documents."""
        return _summed(self._table())

    def intervals(self, *, rounds: int = 2000, confidence: float = 0.95, seed: int = 0) -> dict[str, Interval | None]:
        """Return for each measure its interval by a bootstrap that draws whole documents; None for too few."""
        if len(self.documents) < 2:
            return dict.fromkeys(MEASURES)
        table = self._table()
        everyone = np.arange(len(table))
        arms: list[list[NDArray[Any]]] = [[table]]
        return {
            name: percentile_interval(
                bootstrap_values(everyone, arms, metric=_metric(name), rounds=rounds, seed=seed)[:, 0], confidence
            )
            for name in MEASURES
        }

    def to_json(self) -> dict[str, Any]:
        """Return counts, measures, intervals and the counts of each document, so that tables can be drawn anew."""
        total, names = self.total, [field.name for field in fields(LinkCounts)]
        return {
            "counts": dict(zip(names, astuple(total), strict=True)),
            "measures": {name: getattr(total, name) for name in MEASURES},
            "intervals": {name: list(ends) if ends else None for name, ends in self.intervals().items()},
            "documents": {"columns": names, "rows": [list(astuple(one)) for one in self.documents]},
        }

    def _table(self) -> NDArray[np.int64]:
        return np.array([astuple(one) for one in self.documents], np.int64).reshape(-1, len(fields(LinkCounts)))


def score_links(gold: Sequence[LinkedText], found: Sequence[Sequence[Mention]]) -> LinkScores:
    """Compare what a linker said about texts with their gold mentions.

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
    at: dict[tuple[int, int], list[Scored]] = {}  # several knowledge bases may have found the same span
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


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _summed(table: NDArray[np.int64]) -> LinkCounts:
    return LinkCounts(*table.sum(axis=0).tolist())


def _metric(name: str) -> Callable[[NDArray[Any], NDArray[Any]], float]:
    return lambda _, drawn: float(getattr(_summed(drawn), name))
