"""Phrases, from a list or from a chunker: the words of one phrase belong together."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from infuser.errors import SourceError
from infuser.knowledge.names.gazetteer import Gazetteer, NameMatch, clean_names
from infuser.registry import SOURCES
from infuser.sources.storage import SettingsState
from infuser.types import PAIR_BREAK, Annotations, Link, Span


@SOURCES.register("phrases")
@dataclass(frozen=True)
class Phrases(SettingsState):
    """Finds phrases and ties the words of each to each other."""

    phrases: Sequence[str] = ()
    """Phrases to look for; of phrases that overlap the leftmost longest is kept."""
    chunker: Callable[[str], Iterable[tuple[int, int]]] | None = None
    """Takes a text and returns (start, end) in characters; its phrases may overlap. Phrases that cross the break of
    a pair are left out. A function defined in a module, not a lambda, if workers are to use it."""
    fold_case: bool = True
    """Whether listed phrases are found in any case."""
    fold_accents: bool = False
    """Whether listed phrases are found without their accents."""

    def __post_init__(self) -> None:
        listed = tuple(dict.fromkeys(clean_names(self.phrases, what="phrases")))
        object.__setattr__(self, "phrases", listed)
        if self.chunker is not None and not callable(self.chunker):
            raise SourceError(f"chunker is {self.chunker!r}; give a function from a text to (start, end) places.")

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return the phrases of each text."""
        listed = self._gazetteer.find(texts)
        return [self._annotate(text, mentions) for text, mentions in zip(texts, listed, strict=True)]

    @property
    def span_types(self) -> tuple[str, ...]:
        """All spans are phrases."""
        return ("phrase",)

    @property
    def relation_types(self) -> tuple[str, ...]:
        """The one relation without a name, which ties the words of a phrase."""
        return ("",)

    def _annotate(self, text: str, listed: list[NameMatch]) -> Annotations:
        places = {(mention.start, mention.end) for mention in listed}
        if self.chunker is not None:
            places.update(_chunks(self.chunker, text))
        spans = tuple(Span(start, end, label="phrase") for start, end in sorted(places))
        return Annotations(text, spans, tuple(Link(place, place) for place in range(len(spans))))

    @cached_property
    def _gazetteer(self) -> Gazetteer:
        return Gazetteer.build(self.phrases, fold_case=self.fold_case, fold_accents=self.fold_accents)

    @classmethod
    def tiny(cls) -> Self:
        """Return a list of three phrases."""
        return cls(("natural language processing", "lies on", "near me"))


def _chunks(chunker: Callable[[str], Iterable[tuple[int, int]]], text: str) -> Iterable[tuple[int, int]]:
    """Yield the chunker's places without the white space around them, except empty ones and those across a pair."""
    for given in chunker(text):
        try:
            start, end = (operator.index(number) for number in given)
        except (TypeError, ValueError) as error:
            raise SourceError(f"The chunker returned {given!r}; it must return (start, end) in characters.") from error
        if not 0 <= start <= end <= len(text):
            raise SourceError(
                f"The chunker returned ({start}, {end}) for a text of {len(text)} characters. Its places must be "
                "characters of the text it was given, not tokens and not bytes."
            )
        chunk = text[start:end]
        start += len(chunk) - len(chunk.lstrip())
        end -= len(chunk) - len(chunk.rstrip())
        if start < end and PAIR_BREAK not in text[start:end]:
            yield start, end
