"""What a selection keeps and drops on a corpus, and why: the numbers behind `infuser select --explain`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infuser.analysis.diagnose.buckets import EDGES, bucket_name
from infuser.errors import InputError
from infuser.progress import track
from infuser.sources import Known, Sampling, Selective
from infuser.sources.entity_statistics import count_entities
from infuser.sources.naming import source_names
from infuser.sources.selective import ExplainedStrategy, Strategy
from infuser.types import Annotations, Source, Span, entity_key


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

    @property
    def shown(self) -> str:
        """Its name, and its key where that differs."""
        return self.name if self.name.casefold() == self.key.casefold() else f"{self.name} ({self.key})"


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


def select(
    sources: Sequence[Source],
    found: Sequence[tuple[Annotations, ...]],
    strategy: Strategy,
    *,
    n_draws: int = 10,
    reasons: bool = True,
) -> dict[str, SelectionReport]:
    """Return what a strategy keeps and drops of what each source found in a corpus, by the name of the source.

    `found` holds for each text one Annotations per source, as `annotate_cached` returns them.
    """
    frequencies = None if isinstance(strategy, Sampling) else count_entities(found)
    return {
        name: explain_selection(
            Selective(source, strategy),
            [of_text[place] for of_text in found],
            n_draws=n_draws,
            reasons=reasons,
            frequencies=frequencies,
            what=f"selecting from {name}",
        )
        for place, (name, source) in enumerate(zip(source_names(sources), sources, strict=True))
    }


def explain_selection(
    selective: Selective,
    found: Sequence[Annotations],
    *,
    n_draws: int = 10,
    seed: int = 0,
    reasons: bool = True,
    frequencies: Mapping[str, int] | None = None,
    what: str | None = None,
) -> SelectionReport:
    """Return what a selection makes of these annotations of its wrapped source, over the draws of some epochs.

    Without `reasons` it takes half of the time. `frequencies` are for the buckets, where the strategy itself has none.
    With `what`, a progress bar shows it.
    """
    if n_draws < 1:
        raise InputError(f"n_draws={n_draws}; an explanation looks at one draw or more.")
    n_texts: Counter[str] = Counter()
    n_kept: Counter[str] = Counter()
    n_links: Counter[str] = Counter()
    names: dict[str, str] = {}
    why = _Reasons(selective)
    for one in track(found, what or "", len(found), unit="texts", shown=None if what else False):
        keys = list(dict.fromkeys(entity_key(one.text, span) for span in one.spans))
        for span in one.spans:
            names.setdefault(entity_key(one.text, span), " ".join(one.text[span.start : span.end].split()))
        (left,) = selective.strategy.select([one], selective.source)
        left_keys = [entity_key(left.text, span) for span in left.spans]
        for epoch in range(n_draws):
            drawn = selective.drawn(left, seed=seed, epoch=epoch)
            n_kept.update({key for key, stays in zip(left_keys, drawn, strict=True) if stays})
        n_texts.update(keys)
        n_links.update(link.relation for link in one.links)
        if reasons:
            why.add(one, keys)
    counts = {key: why.frequency(key) if frequencies is None else frequencies.get(key, 0) for key in n_texts}
    fates = [
        EntityFate(key, names[key], n, counts[key], n_kept[key] / (n * n_draws), why.entity(key) if reasons else "")
        for key, n in n_texts.items()
    ]
    fates.sort(key=lambda one: (-(1 - one.kept) * one.n_texts, one.key))
    return SelectionReport(fates, _buckets(fates), len(found), n_draws, why.relations(n_links))


class _Reasons:
    """Collects why entities and relations are dropped: how frequent and connected they are, or their scores."""

    def __init__(self, selective: Selective) -> None:
        strategy = selective.strategy
        self._sampling = strategy if isinstance(strategy, Sampling) else None
        self._known = strategy if isinstance(strategy, ExplainedStrategy) else None
        self._statistics = None if self._sampling is None else self._sampling.statistics(selective.source)
        self._near: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])  # texts, near, others
        self._dropped: dict[str, str] = {}

    def add(self, found: Annotations, entities: Sequence[str]) -> None:
        """Note why mentions of one text are left out, or how connected its entities are."""
        if self._known is not None:
            for span in found.spans:  # two mentions of an entity may differ in their words
                key = entity_key(found.text, span)
                why = self._known.why(key, entity_key(found.text, Span(span.start, span.end)))
                if why is not None:
                    self._dropped.setdefault(key, why)
        if self._sampling is not None and self._statistics is not None:
            for key, n_near in zip(entities, self._statistics.n_near(entities, self._sampling.hops), strict=True):
                noted = self._near[key]
                noted[0], noted[1], noted[2] = noted[0] + 1, noted[1] + n_near, noted[2] + len(entities) - 1

    def frequency(self, key: str) -> int:
        return 0 if self._statistics is None else self._statistics.count(key)

    def entity(self, key: str) -> str:
        if self._sampling is None or self._statistics is None:
            return "" if self._known is None else self._dropped.get(key, "kept")
        count, hops = self.frequency(key), self._sampling.hops
        n_texts, n_near, n_others = self._near[key]
        often = f"frequent, in {count:,} texts" if count >= self._sampling.rare else f"rare, in {count:,} texts"
        if self._statistics.graph is None:
            return often
        return f"{often}; {n_near / n_texts:.1f} of {n_others / n_texts:.1f} others within {hops} hops"

    def relations(self, n_links: Mapping[str, int]) -> list[RelationFate]:
        """Return the relations whose links the strategy leaves out, of those that were found."""
        if self._known is None:
            return []
        fates = [RelationFate(relation, n, self._known.why_relation(relation) or "") for relation, n in n_links.items()]
        return sorted((one for one in fates if one.why), key=lambda one: (-one.n_links, one.relation))


def _buckets(fates: Sequence[EntityFate]) -> list[FrequencyBucket]:
    found = []
    for low, high in zip(EDGES, [*EDGES[1:], None], strict=True):
        inside = [one for one in fates if one.frequency >= low and (high is None or one.frequency < high)]
        n_texts = sum(one.n_texts for one in inside)
        if inside:
            kept = sum(one.kept * one.n_texts for one in inside) / n_texts
            found.append(FrequencyBucket(bucket_name(low, high), len(inside), n_texts, kept))
    return found


def scores_in_use(
    known: Known, about: Mapping[str, Any], found: Sequence[tuple[Annotations, ...]]
) -> tuple[str, list[str]]:
    """Return a sentence that says how many of the scores concern what the sources found, and warnings."""
    each = [one for of_text in found for one in of_text]
    of_entities, of_relations = known.to_json()["scores"], known.relations or {}
    entities, relations = known.scored(each)
    sentence = f"{len(entities):,} of {len(of_entities):,} scored entities"
    if of_relations:
        sentence += f" (and {len(relations):,} of {len(of_relations):,} relations)"
    warnings = []
    verdict = about.get("verdict", "knows")  # other measures give none
    if verdict != "knows":
        warnings.append(f"the probe's verdict was {verdict!r}, so these scores do not show what the encoder knows.")
    if of_entities and not entities:
        named = sorted({entity_key(one.text, span) for one in each for span in one.spans})
        warnings.append(_unused("entity", min(of_entities), named))
    linked = sorted({link.relation for one in each for link in one.links if link.relation})
    if of_relations and linked and not relations:  # many sources name no relations at all
        warnings.append(_unused("relation", min(of_relations), linked))
    return f"{sentence} occur in what the sources found", warnings


def _unused(what: str, scored: str, found: Sequence[str]) -> str:
    other = f"and the sources say, for one, {found[0]!r}" if found else "and the sources found nothing"
    return (
        f"no scored {what} occurs, so none is left out. The scores say, for one, {scored!r} {other}. Score the names "
        "that your sources use."
    )
