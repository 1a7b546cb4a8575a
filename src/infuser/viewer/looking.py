"""What the page looks at: a question about a text, and models that answer it with an explanation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from infuser.analysis.explain import Explained, Layer, Reading, annotations_of, read
from infuser.analysis.explanation import Explanation
from infuser.errors import InputError
from infuser.hosts import n_blocks
from infuser.infused import Infused
from infuser.registry import METHODS
from infuser.sources.naming import source_names
from infuser.sources.selective import bare
from infuser.types import Annotations, Source

if TYPE_CHECKING:
    from infuser.relations.model import AttentionRelations

_MOST_REMEMBERED = 32
"""Texts whose annotations are kept: who switches a source on and off again asks about the same text."""


@dataclass(frozen=True, slots=True)
class Question:
    """One text or pair, and how it is looked at."""

    text: str
    pair: str | None = None
    off: frozenset[str] = frozenset()
    """Names of sources that are left out."""
    layer: Layer = -1
    head: int | None = None
    """None is the mean over heads."""


@dataclass(frozen=True, slots=True)
class Example:
    """A text or pair that the page offers to begin with."""

    text: str
    pair: str | None = None


class View(Protocol):
    """A model that can be looked at."""

    def about(self) -> dict[str, Any]:
        """Return what the page says about the model and what it needs to draw its controls, as plain JSON values."""
        ...

    def see(self, question: Question) -> Explanation: ...


@dataclass(frozen=True, slots=True)
class InfusedView:
    """An infused model: what each source found, what it did to attention and answer. Or an encoder without any."""

    infused: Explained
    title: str
    note: str = ""
    """A sentence that the reader should know."""
    examples: Sequence[Example] = ()
    _remembered: OrderedDict[Any, tuple[Annotations, ...]] = field(default_factory=OrderedDict, repr=False)
    _last: dict[Question, Reading] = field(default_factory=dict, repr=False)

    def about(self) -> dict[str, Any]:
        """Return what the page says about the model and what it needs to draw its controls."""
        model = self.infused.model
        return {
            "title": self.title,
            "kind": METHODS.name_of(self.infused.method) if isinstance(self.infused, Infused) else "plain",
            "note": self.note,
            "n_layers": n_blocks(model),
            "n_heads": int(model.config.num_attention_heads),
            "sources": described(self.infused.sources),
            **_offered(self.examples),
        }

    def see(self, question: Question) -> Explanation:
        """Return what knowledge does to the text; sources are asked once about each text."""
        return _reading(self._last, question, self._read).at(question.layer, question.head)

    def _read(self, question: Question, before: Reading | None) -> Reading:
        found = self._found(question.text, question.pair)
        return read(self.infused, question.text, question.pair, off=question.off, found=found, before=before)

    def _found(self, text: str, pair: str | None) -> tuple[Annotations, ...]:
        key = (text, pair)
        if key not in self._remembered:
            self._remembered[key] = annotations_of(self.infused, text, pair)
        self._remembered.move_to_end(key)
        while len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return self._remembered[key]


@dataclass(frozen=True, slots=True)
class RelationsView:
    """A relation model: the triples it reads out of attention, and the heads that decided."""

    model: AttentionRelations
    spans: Sequence[Source]
    """Sources that find what may be related; those are what can be switched off."""
    title: str
    note: str = ""
    examples: Sequence[Example] = ()
    _last: dict[Question, Reading] = field(default_factory=dict, repr=False)

    def about(self) -> dict[str, Any]:
        """Return what the page says about the model and what it needs to draw its controls."""
        encoder = self.model.opened()
        return {
            "title": self.title,
            "kind": "relations",
            "note": self.note,
            "n_layers": n_blocks(encoder.model),
            "n_heads": int(encoder.model.config.num_attention_heads),
            "sources": described(self.spans),
            **_offered(self.examples),
        }

    def see(self, question: Question) -> Explanation:
        """Return the triples of the text, and the encoder's attention at the layer and head that were asked for.

        "strongest" is the head that spoke most for the most probable triple.
        """
        reading = _reading(self._last, question, self._read)
        layer, head = question.layer, question.head
        if layer == "strongest":
            triples = sorted(reading.about.triples or (), key=lambda one: -one["probability"])
            decided = [one["heads"][0] for one in triples if one["heads"]]
            layer, head = (decided[0]["layer"], decided[0]["head"]) if decided else (-1, None)
        return reading.at(layer, head)

    def _read(self, question: Question, before: Reading | None) -> Reading:
        from infuser.relations.extracting import extract

        names = source_names(self.spans)
        if unknown := sorted(question.off - set(names)):
            raise InputError(f"There is no source {unknown[0]!r} to leave out: there are {', '.join(names)}.")
        if question.pair:
            raise InputError("Relations are read within one text. Leave the second text empty.")
        on = [source for name, source in zip(names, self.spans, strict=True) if name not in question.off]
        [triples] = extract(self.model, [question.text], on) if on else [[]]
        found = [source.annotate([question.text])[0] for source in self.spans]
        reading = read(self.model.opened(), question.text, before=before)
        about = replace(
            reading.about,
            found=dict(zip(names, found, strict=True)),
            off=tuple(name for name in names if name in question.off),
            triples=tuple(one.to_json(question.text) for one in triples),
        )
        return replace(reading, about=about)


def _reading(
    last: dict[Question, Reading], question: Question, read: Callable[[Question, Reading | None], Reading]
) -> Reading:
    """Return the reading of a question; the last one is remembered, so another layer or head costs next to nothing."""
    asked = replace(question, layer=-1, head=None)
    if asked not in last:
        reading = read(asked, next(iter(last.values()), None))
        last.clear()  # a reading holds the attention of every head: one is enough
        last[asked] = reading
    return last[asked]


def warm_up(view: View) -> None:
    """Let a view answer once, so that the knowledge it builds or opens when first asked is ready for its reader."""
    example = (view.about()["examples"] or [{"text": "Bern", "pair": None}])[0]
    view.see(Question(**example, layer="strongest"))


def described(sources: Sequence[Source]) -> list[dict[str, str]]:
    """Return the name of each source and the first sentence of what its class says about itself."""
    told = ((type(bare(source)).__doc__ or "").strip().partition("\n")[0].replace("`", "") for source in sources)
    return [{"name": name, "about": about} for name, about in zip(source_names(sources), told, strict=True)]


def _offered(examples: Sequence[Example]) -> dict[str, Any]:
    return {
        "pairs": any(one.pair is not None for one in examples),
        "examples": [{"text": one.text, "pair": one.pair} for one in examples],
    }
