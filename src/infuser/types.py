"""The shared words: Span, Link, Term, Candidate, Annotations.

Everything here speaks of characters of one text. A sentence pair is one text too: its two sides joined by
`PAIR_BREAK`, so that a source needs to know nothing about pairs and a link may lead from one side to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PAIR_BREAK = "\n\n"
"""Stands between the two sides of a pair; a paragraph break, so that taggers do not read across it."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text: characters `start` up to, not including, `end`."""

    start: int
    end: int
    label: str = ""
    """What kind of thing it is, for people: "city", "noun phrase"."""
    id: str = ""
    """Which thing it is, for machines: an entity id of a knowledge base."""


@dataclass(frozen=True, slots=True)
class Link:
    """A weighted tie between two spans, by their place in `Annotations.spans`; it holds in both directions.

    A link from a span to itself ties the words of that span to each other.
    """

    source: int
    target: int
    weight: float = 1.0
    """Between 0 and 1."""
    relation: str = ""


@dataclass(frozen=True, slots=True)
class Term:
    """An auxiliary word that is not in the text, and the spans it is tied to."""

    text: str
    ties: tuple[tuple[int, float], ...]
    """(place in `Annotations.spans`, weight between 0 and 1)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that a mention may mean."""

    id: str
    prior: float
    """How probable it is before the text is read; the priors of one span sum to 1."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """What one source found in one text. Links and terms are drawn as maps; spans are what they tie."""

    text: str
    spans: tuple[Span, ...] = ()
    links: tuple[Link, ...] = ()
    terms: tuple[Term, ...] = ()
    candidates: tuple[tuple[Candidate, ...], ...] = ()
    """For each span what it may mean, most probable first; empty from sources that offer no choice."""
    odds: tuple[float, ...] = ()
    """For each span how strongly it asks to be kept when training draws what is injected; only from `Selective`."""


@runtime_checkable
class Source(Protocol):
    """Reads texts, returns what it knows: one answer per text, the same answer for the same text."""

    def annotate(self, texts: Sequence[str]) -> list[Annotations]: ...

    @classmethod
    def tiny(cls) -> Self:
        """Return a working miniature, for contract tests and docs."""
        ...


@runtime_checkable
class OffersTerms(Protocol):
    """A source that may add auxiliary words: up to `n_terms` of them per text."""

    n_terms: int


@runtime_checkable
class Method(Protocol):
    """A way to put signals inside a host."""

    def attach(self, host: PreTrainedModel, *, sources: Sequence[Source], with_terms: bool = False) -> None: ...

    def detach(self, host: PreTrainedModel) -> None: ...


def offer_terms(sources: Iterable[Source]) -> bool:
    """Return whether any source may offer auxiliary terms, so that the method makes room for them."""
    return any(isinstance(source, OffersTerms) and source.n_terms > 0 for source in sources)


def join_pair(text: str, pair: str | None) -> str:
    """Return the one text that sources read for a text or a pair."""
    return text if pair is None else text + PAIR_BREAK + pair


def entity_key(text: str, span: Span) -> str:
    """Return what tells the entity of a span from others: its id or, where there is none, its words in lower case."""
    return span.id or " ".join(text[span.start : span.end].casefold().split())


def keep_spans(found: Annotations, kept: Sequence[bool]) -> Annotations:
    """Return annotations with these spans only; links, ties and candidates of the others go with them."""
    if all(kept):
        return found
    places = [place for place, stays in enumerate(kept) if stays]
    new = {place: number for number, place in enumerate(places)}
    links = tuple(
        replace(link, source=new[link.source], target=new[link.target])
        for link in found.links
        if link.source in new and link.target in new
    )
    terms = [
        Term(term.text, tuple((new[place], weight) for place, weight in term.ties if place in new))
        for term in found.terms
    ]
    return Annotations(
        found.text,
        tuple(found.spans[place] for place in places),
        links,
        tuple(term for term in terms if term.ties),
        tuple(found.candidates[place] for place in places) if found.candidates else (),
        tuple(found.odds[place] for place in places) if found.odds else (),
    )
