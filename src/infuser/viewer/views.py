"""What the page shows: models that answer a request about a text with an explanation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol, Self

from transformers import PreTrainedModel

from infuser.analysis.explain import TextReading, annotations_of, read
from infuser.analysis.explained import Explained, Switches
from infuser.analysis.explanation import Explanation
from infuser.errors import InputError
from infuser.hosts import n_blocks
from infuser.infused import Infused
from infuser.methods.together import name_of
from infuser.registry import METHODS
from infuser.sources import Entities
from infuser.sources.naming import source_names
from infuser.sources.selective import bare
from infuser.types import Annotations, Source
from infuser.viewer.request import ViewRequest

if TYPE_CHECKING:
    from infuser.relations.model import AttentionRelations

_MOST_REMEMBERED = 32
"""Texts whose annotations are kept: who switches a source on and off asks about the same text."""


@dataclass(frozen=True, slots=True)
class SampleText:
    """A text or pair that the page offers to begin with."""

    text: str
    pair: str | None = None


class View(Protocol):
    """A model that can be looked at."""

    def about(self) -> dict[str, Any]:
        """Return what the page says about the model and what it needs to draw its controls, as plain JSON values."""
        ...

    def see(self, request: ViewRequest) -> Explanation: ...


class InfusedView:
    """An infused model: what each source found, what it did to attention and answer. Or an encoder without any."""

    def __init__(self, infused: Explained, title: str, note: str = "", examples: Sequence[SampleText] = ()) -> None:
        self.infused, self.title, self.note, self.examples = infused, title, note, examples
        self._annotations = lru_cache(_MOST_REMEMBERED)(partial(annotations_of, infused))
        self._last: dict[ViewRequest, TextReading] = {}

    def about(self) -> dict[str, Any]:
        """Return what the page says about the model and what it needs to draw its controls."""
        kind = name_of(self.infused.method) if isinstance(self.infused, Infused) else "plain"
        methods = [
            {"name": name, "about": _about_method(method)} for name, method in Switches.of(self.infused).methods.items()
        ]
        return _about(self, kind, self.infused.model, self.infused.sources, methods)

    def see(self, request: ViewRequest) -> Explanation:
        """Return what knowledge does to the text; sources are asked once about each text."""
        return _reading(self._last, request, self._read).at(request.layer, request.head)

    def _read(self, request: ViewRequest, before: TextReading | None) -> TextReading:
        found = self._annotations(request.text, request.pair)
        return read(self.infused, request.text, request.pair, off=request.off, found=found, before=before)


class RelationsView:
    """A relation model: the triples it reads out of attention, and the heads that decided.

    spans: sources that find what may be related; those are what can be switched off.
    """

    def __init__(
        self,
        model: AttentionRelations,
        spans: Sequence[Source],
        title: str,
        note: str = "",
        examples: Sequence[SampleText] = (),
    ) -> None:
        self.model, self.spans, self.title, self.note, self.examples = model, spans, title, note, examples
        self._sources = dict(zip(source_names(spans), map(_AskedOnce, spans), strict=True))
        self._last: dict[ViewRequest, TextReading] = {}

    def about(self) -> dict[str, Any]:
        """Return what the page says about the model and what it needs to draw its controls."""
        return _about(self, "relations", self.model.opened().model, self.spans)

    def see(self, request: ViewRequest) -> Explanation:
        """Return the triples of the text, and the encoder's attention at the layer and head that were asked for.

        "strongest" is the head that spoke most for the most probable triple.
        """
        reading = _reading(self._last, request, self._read)
        layer, head = request.layer, request.head
        if layer == "strongest":
            triples = sorted(reading.about.triples or (), key=lambda one: -one["probability"])
            decided = [one["heads"][0] for one in triples if one["heads"]]
            layer, head = (decided[0]["layer"], decided[0]["head"]) if decided else (-1, None)
        return reading.at(layer, head)

    def _read(self, request: ViewRequest, before: TextReading | None) -> TextReading:
        from infuser.relations.extraction import extract

        if unknown := sorted(request.off - self._sources.keys()):
            raise InputError(f"There is no source {unknown[0]!r} to leave out: there are {', '.join(self._sources)}.")
        if request.pair:
            raise InputError("Relations are read within one text. Leave the second text empty.")
        on = [source for name, source in self._sources.items() if name not in request.off]
        [triples] = extract(self.model, [request.text], on) if on else [[]]
        reading = read(self.model.opened(), request.text, before=before)
        about = replace(
            reading.about,
            found={name: source.annotate([request.text])[0] for name, source in self._sources.items()},
            off=tuple(name for name in self._sources if name in request.off),
            triples=tuple(one.to_json(request.text) for one in triples),
        )
        return replace(reading, about=about)


class _AskedOnce:
    """A source that keeps its annotations of the last texts."""

    def __init__(self, source: Source) -> None:
        self._one = lru_cache(_MOST_REMEMBERED)(lambda text: source.annotate([text])[0])

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        return [self._one(text) for text in texts]

    @classmethod
    def tiny(cls) -> Self:
        return cls(Entities.tiny())


def _reading(
    last: dict[ViewRequest, TextReading],
    request: ViewRequest,
    read: Callable[[ViewRequest, TextReading | None], TextReading],
) -> TextReading:
    """Return the reading of a request; the last one is kept, so another layer or head costs next to nothing."""
    key = replace(request, layer=-1, head=None)
    if key not in last:
        reading = read(key, next(iter(last.values()), None))
        last.clear()  # a reading holds the attention of every head: one is enough
        last[key] = reading
    return last[key]


def _about(
    view: InfusedView | RelationsView,
    kind: str,
    model: PreTrainedModel,
    sources: Sequence[Source],
    methods: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    return {
        "title": view.title,
        "kind": kind,
        "note": view.note,
        "n_layers": n_blocks(model),
        "n_heads": int(model.config.num_attention_heads),
        "sources": described(sources),
        "methods": methods,
        "pairs": any(one.pair is not None for one in view.examples),
        "examples": [{"text": one.text, "pair": one.pair} for one in view.examples],
    }


def warm_up(view: View) -> None:
    """Let a view answer once, so that the knowledge it builds or opens when first asked is ready for its reader."""
    example = (view.about()["examples"] or [{"text": "Bern", "pair": None}])[0]
    view.see(ViewRequest(**example, layer="strongest"))


def described(sources: Sequence[Source]) -> list[dict[str, str]]:
    """Return the name of each source and the first sentence of what its class says about itself."""
    docs = (_first_sentence(type(bare(source))) for source in sources)
    return [{"name": name, "about": about} for name, about in zip(source_names(sources), docs, strict=True)]


def _about_method(name: str) -> str:
    """Return what a method's file says about it first, without where it comes from."""
    first = (sys.modules[METHODS[name].__module__].__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(first.split()).partition(" (")[0].rstrip(".") + "."


def _first_sentence(kind: type) -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0].replace("`", "")
