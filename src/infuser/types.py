"""The shared words: Span, Link, Term, Candidate, Annotations; and the protocols of sources and methods.

Everything here speaks of characters of one text. A sentence pair is one text too: its two sides joined by
`PAIR_BREAK`, so that a source needs to know nothing about pairs and a link may lead from one side to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from infuser.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn
    from transformers import PreTrainedModel

PAIR_BREAK = "\n\n"
"""Stands between the two sides of a pair; a paragraph break, so that taggers do not read across it."""

OTHER = "other"
"""The type of spans and the relation of links that a vocabulary does not list."""
MAX_TYPES = 32
"""How many types, and how many relations, of one source a model distinguishes unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text: characters `start` up to, not including, `end`."""

    start: int
    end: int
    label: str = ""
    """Its type: "city", "noun phrase"."""
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
    """Words that are not in the text, and the spans they say something about: a type's name, a neighbour, a gloss."""

    text: str
    ties: tuple[tuple[int, float], ...]
    """(place in `Annotations.spans`, weight between 0 and 1)."""
    relation: str = ""
    """What the term is to these spans: "type", "description", or the relation of a graph."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that a mention may mean."""

    id: str
    prior: float
    """How probable it is before the text is read; the priors of one span sum to 1."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The types that a model distinguishes, numbered per source; fixed when a checkpoint is infused."""

    types: tuple[tuple[str, ...], ...]
    """Of each source the types of its spans; the last one, `OTHER`, stands for all that are not listed."""
    relations: tuple[tuple[str, ...], ...]
    """Of each source the relations of its links and terms; the last one likewise."""
    with_terms: bool = False
    """Whether any source may add terms."""

    def type_of(self, source: int, label: str) -> int:
        """Return the number of a span's type among those of its source."""
        return _number(self.types[source], label)

    def relation_of(self, source: int, relation: str) -> int:
        """Return the number of a relation among those of its source."""
        return _number(self.relations[source], relation)

    @classmethod
    def of(cls, sources: Iterable[Source], *, max_types: int = MAX_TYPES) -> Self:
        """Return what sources declare: of each at most `max_types` types and relations, the rare ones as one."""
        if max_types < 1:
            raise InputError(f"max_types is {max_types!r}; it must be 1 or more.")
        inside = [innermost(source) for source in sources]
        declared = [(s.span_types, s.relation_types) if isinstance(s, DeclaresTypes) else ((), ()) for s in inside]
        types, relations = (tuple(_with_other(names[side], max_types) for names in declared) for side in (0, 1))
        return cls(types, relations, offer_terms(inside))


def _with_other(names: Sequence[str], most: int) -> tuple[str, ...]:
    distinct = [name for name in dict.fromkeys(names) if name != OTHER]
    return (*distinct[: most - 1], OTHER)


def _number(names: tuple[str, ...], name: str) -> int:
    try:
        return names.index(name)
    except ValueError:
        return len(names) - 1


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
    """For each span its weight when training draws what is injected; only from `Selective`."""


@runtime_checkable
class Source(Protocol):
    """Reads texts, returns what it knows: one answer per text, the same answer for the same text."""

    def annotate(self, texts: Sequence[str]) -> list[Annotations]: ...


@runtime_checkable
class RegisteredSource(Source, Protocol):
    """A source in the registry, which can also build a miniature of itself."""

    @classmethod
    def tiny(cls) -> Self:
        """Return a working miniature, for contract tests and docs."""
        ...


@runtime_checkable
class WrapsSource(Source, Protocol):
    """A source that selects from, or caches, what another one finds."""

    source: Source


@runtime_checkable
class OffersTerms(Protocol):
    """A source that may add terms: none if `n_terms` is 0."""

    n_terms: int


@runtime_checkable
class DeclaresTypes(Protocol):
    """A source that knows beforehand which types and relations its annotations may have."""

    @property
    def span_types(self) -> Sequence[str]:
        """The labels of its spans, the most frequent first."""
        ...

    @property
    def relation_types(self) -> Sequence[str]:
        """The relations of its links and terms, the most frequent first."""
        ...


@runtime_checkable
class FitsExamples(Protocol):
    """A source that can learn from labelled texts which of its findings mislead."""

    def fit(self, examples: Sequence[Mapping[str, Any]]) -> Self:
        """Return a source fitted to {"text": ..., "entities": [(start, end, label), ...]}; of training data only."""
        ...


@runtime_checkable
class DrawsPerEpoch(Protocol):
    """A source of whose spans each epoch of training injects only some."""

    def drawn(self, found: Annotations, *, seed: int, epoch: int) -> list[bool]:
        """Return which spans of its own annotations are injected in this epoch."""
        ...


@runtime_checkable
class SavesSettings(Protocol):
    """A source that chooses which of its settings are saved as JSON data, and how they are read back."""

    def to_json(self) -> dict[str, Any]: ...

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> Self: ...


@runtime_checkable
class SavesFiles(Protocol):
    """A source that writes files of its own into a folder and reads them back."""

    def save(self, directory: Path) -> None: ...

    @classmethod
    def load(cls, directory: Path) -> Self: ...


@runtime_checkable
class FindsMentions(Protocol):
    """A source that looks mentions up in a store of candidates."""

    @property
    def finder(self) -> Any: ...


@runtime_checkable
class HasGraph(Protocol):
    """A source that knows how entities are connected."""

    @property
    def graph_store(self) -> Any: ...


@runtime_checkable
class HasEntityVectors(Protocol):
    """A knowledge base: a source that offers candidates and has a vector for each of these entities."""

    name: str
    """Tells it from other knowledge bases of the same model."""

    @property
    def dim(self) -> int:
        """How many numbers a vector has."""
        ...

    @property
    def store(self) -> Any: ...

    def look_up(self, candidates: tuple[Candidate, ...]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the rows of vectors and the priors of one span's candidates."""
        ...


@runtime_checkable
class CollatesPerEpoch(Protocol):
    """A collator whose training batches differ from epoch to epoch, because its sources draw."""

    def for_epoch(self, epoch: int, *, seed: int = 0) -> Callable[[Sequence[Any]], Mapping[str, Any]]: ...


@runtime_checkable
class Method(Protocol):
    """A way to put signals inside a host."""

    def attach(self, host: PreTrainedModel, *, sources: Sequence[Source], vocabulary: Vocabulary) -> None: ...

    def detach(self, host: PreTrainedModel) -> None: ...


@runtime_checkable
class WritesText(Protocol):
    """A method that writes knowledge behind the text."""

    share: float
    """How much of the longest input it may take."""

    def write(self, annotations: Sequence[Annotations]) -> list[str]:
        """Return what is known about a text, the most important first."""
        ...


@runtime_checkable
class HasBases(Protocol):
    """A method that adds weights for each knowledge base."""

    def bases(self, host: PreTrainedModel) -> dict[str, nn.Module]:
        """Return the new weights of each knowledge base by its name."""
        ...


@runtime_checkable
class GivesUpBases(Protocol):
    """A method that can take one knowledge base out of a host and leave the others."""

    def without(self, host: PreTrainedModel, name: str) -> Self:
        """Take a knowledge base out and return the settings of those that are left."""
        ...


@runtime_checkable
class HasLinkers(Protocol):
    """A method that scores what each mention means."""

    def linkers(self, host: PreTrainedModel) -> dict[str, Any]:
        """Return the layer that holds each knowledge base's `linker`, with its `threshold`, by the base's name."""
        ...


def innermost(source: Source) -> Source:
    """Return the source inside all wrappers."""
    while isinstance(source, WrapsSource):
        source = source.source
    return source


def offer_terms(sources: Iterable[Source]) -> bool:
    """Return whether any source may offer auxiliary terms, so that the method makes room for them."""
    inside = map(innermost, sources)
    return any(isinstance(source, OffersTerms) and source.n_terms > 0 for source in inside)


def join_pair(text: str, pair: str | None) -> str:
    """Return the one text that sources read for a text or a pair."""
    return text if pair is None else text + PAIR_BREAK + pair


def entity_key(text: str, span: Span) -> str:
    """Return the key of a span's entity: its id, else its words in lower case."""
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
        replace(term, ties=tuple((new[place], weight) for place, weight in term.ties if place in new))
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
