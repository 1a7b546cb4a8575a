"""What a selection keeps and drops on a corpus, and why: the numbers behind `infuser select --explain`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infuser.analysis.diagnose.buckets import EDGES, bucket_name
from infuser.errors import InputError
from infuser.sources.sampling import Sampling
from infuser.sources.selective import ExplainedStrategy, Selective
from infuser.types import Annotations, Span, entity_key


@dataclass(frozen=True)
class EntityFate:
    """What happens to one entity."""

    key: str
    name: str
    """As it stands in a text."""
    n_texts: int
    """Texts of this corpus in which it was found."""
    frequency: int
    """Texts that mention it, by the counts that the selection goes by."""
    kept: float
    """Share of these texts, over all draws, in which it is injected."""
    why: str
    """Why it is dropped as often as it is."""


@dataclass(frozen=True)
class FrequencyBucket:
    """Entities of about the same frequency."""

    name: str
    n_entities: int
    n_texts: int
    """How often an entity of this bucket stands in a text."""
    kept: float
    """Share of these that is injected."""


@dataclass(frozen=True)
class RelationFate:
    """A relation whose links are left out."""

    relation: str
    n_links: int
    """Links of it that were found."""
    why: str


@dataclass(frozen=True)
class SelectionReport:
    """What a selection does to a corpus."""

    entities: Sequence[EntityFate]
    """Those that are dropped most often first."""
    buckets: Sequence[FrequencyBucket]
    n_texts: int
    n_draws: int
    relations: Sequence[RelationFate] = ()
    """Relations whose links are left out, those with the most links first."""

    @property
    def kept(self) -> float:
        """Share of all that was found which is injected."""
        total = sum(one.n_texts for one in self.entities)
        return sum(one.kept * one.n_texts for one in self.entities) / total if total else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "texts": self.n_texts,
            "draws": self.n_draws,
            "kept": self.kept,
            "buckets": [vars(one) for one in self.buckets],
            "entities": [vars(one) for one in self.entities],
            "relations": [vars(one) for one in self.relations],
        }


def explain_selection(
    selective: Selective,
    found: Sequence[Annotations],
    *,
    n_draws: int = 10,
    seed: int = 0,
    reasons: bool = True,
    frequencies: Mapping[str, int] | None = None,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> SelectionReport:
    """Return what a selection makes of these annotations of its wrapped source, over the draws of some epochs.

    Without `reasons` it takes half of the time, and nobody says why. `frequencies` are for the buckets, where the
    strategy itself has none. `tell` hears how many texts are done.
    """
    if n_draws < 1:
        raise InputError(f"n_draws={n_draws}; an explanation looks at one draw or more.")
    stood: Counter[str] = Counter()
    stayed: Counter[str] = Counter()
    linked: Counter[str] = Counter()
    names: dict[str, str] = {}
    told = _Reasons(selective)
    for done, one in enumerate(found, start=1):
        keys = dict.fromkeys(entity_key(one.text, span) for span in one.spans)
        for span in one.spans:
            names.setdefault(entity_key(one.text, span), " ".join(one.text[span.start : span.end].split()))
        (left,) = selective.strategy.select([one], selective.source)
        left_keys = [entity_key(left.text, span) for span in left.spans]
        for epoch in range(n_draws):
            drawn = selective.drawn(left, seed=seed, epoch=epoch)
            stayed.update({key for key, stays in zip(left_keys, drawn, strict=True) if stays})
        stood.update(list(keys))
        linked.update(link.relation for link in one.links)
        if reasons:
            told.look(one, list(keys))
        tell(done, len(found))
    counted = {key: told.frequency(key) if frequencies is None else frequencies.get(key, 0) for key in stood}
    fates = [
        EntityFate(key, names[key], n, counted[key], stayed[key] / (n * n_draws), told.why(key) if reasons else "")
        for key, n in stood.items()
    ]
    fates.sort(key=lambda one: (-(1 - one.kept) * one.n_texts, one.key))
    return SelectionReport(fates, _buckets(fates), len(found), n_draws, told.known_relations(linked))


class _Reasons:
    """Remembers what decides on each entity, for people."""

    def __init__(self, selective: Selective) -> None:
        self._strategy: Any = selective.strategy
        self._statistics = None
        if isinstance(selective.strategy, Sampling):
            self._statistics = selective.strategy.statistics(selective.source)
        self._near: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])  # texts, near, others
        self._dropped: dict[str, str] = {}

    def look(self, found: Annotations, entities: list[str]) -> None:
        """Note why mentions of one text are left out, or how connected its entities are."""
        if isinstance(self._strategy, ExplainedStrategy):
            for span in found.spans:  # two mentions of an entity may differ in their words
                key = entity_key(found.text, span)
                why = self._strategy.why(key, entity_key(found.text, Span(span.start, span.end)))
                if why is not None:
                    self._dropped.setdefault(key, why)
        if self._statistics is None:
            return
        for key, n_near in zip(entities, self._statistics.n_near(entities, self._strategy.hops), strict=True):
            noted = self._near[key]
            noted[0], noted[1], noted[2] = noted[0] + 1, noted[1] + n_near, noted[2] + len(entities) - 1

    def frequency(self, key: str) -> int:
        return 0 if self._statistics is None else self._statistics.count(key)

    def known_relations(self, linked: Mapping[str, int]) -> list[RelationFate]:
        """Return the relations whose links the strategy leaves out, of those that were found."""
        if not isinstance(self._strategy, ExplainedStrategy):
            return []
        fates = [
            RelationFate(relation, n, self._strategy.why_relation(relation) or "") for relation, n in linked.items()
        ]
        return sorted((one for one in fates if one.why), key=lambda one: (-one.n_links, one.relation))

    def why(self, key: str) -> str:
        if self._statistics is None:
            return self._dropped.get(key, "kept") if isinstance(self._strategy, ExplainedStrategy) else ""
        count, rare = self.frequency(key), self._strategy.rare
        n_texts, n_near, n_others = self._near[key]
        often = f"frequent, in {count:,} texts" if count >= rare else f"rare, in {count:,} texts"
        if self._statistics.graph is None:
            return often
        return f"{often}; {n_near / n_texts:.1f} of {n_others / n_texts:.1f} others within {self._strategy.hops} hops"


def _buckets(fates: Sequence[EntityFate]) -> list[FrequencyBucket]:
    found = []
    for low, high in zip(EDGES, [*EDGES[1:], None], strict=True):
        inside = [one for one in fates if one.frequency >= low and (high is None or one.frequency < high)]
        n_texts = sum(one.n_texts for one in inside)
        if inside:
            kept = sum(one.kept * one.n_texts for one in inside) / n_texts
            found.append(FrequencyBucket(bucket_name(low, high), len(inside), n_texts, kept))
    return found
