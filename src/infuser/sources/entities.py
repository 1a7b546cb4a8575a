"""Entities of a list (a gazetteer): the words of one mention belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

from infuser.errors import SourceError
from infuser.registry import SOURCES
from infuser.sources.matching import Matcher, clean_names
from infuser.sources.storage import settings_of
from infuser.types import Annotations, Link, Span


@SOURCES.register("entities")
@dataclass(frozen=True)
class Entities:
    """Finds the names of a list and ties the words of each mention to each other.

    A span carries the label of its name and, as id, the name as it is written in the list. Names that are the
    same after folding are merged: the one spelled like the text wins, otherwise the first of the list.
    """

    names: Mapping[str, str] | Sequence[str]
    """Name to label, {"Bern": "city"}; or only names, whose label is "entity"."""
    fold_case: bool = True
    """Whether "BERN" is a mention of "Bern"."""
    fold_accents: bool = False
    """Whether "Zurich" is a mention of "Zürich"."""
    overlaps: Literal["longest", "keep"] = "longest"
    """Keep the leftmost longest of mentions that overlap, or keep them all, one inside another too."""

    def __post_init__(self) -> None:
        if self.overlaps not in ("longest", "keep"):
            raise SourceError(f"overlaps is {self.overlaps!r}; it can be 'longest' or 'keep'.")
        object.__setattr__(self, "names", _labels(self.names))

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return the mentions in each text."""
        return [self._annotate(text) for text in texts]

    def _annotate(self, text: str) -> Annotations:
        listed, matcher = self._index
        spans: list[Span] = []
        for mention in matcher.find(text, overlaps=self.overlaps == "keep"):
            names = [listed[number] for number in mention.names]
            written = text[mention.start : mention.end]
            name, label = next((entry for entry in names if entry[0] == written), names[0])
            spans.append(Span(mention.start, mention.end, label=label, id=name))
        return Annotations(text, tuple(spans), tuple(Link(place, place) for place in range(len(spans))))

    @cached_property
    def _index(self) -> tuple[list[tuple[str, str]], Matcher]:
        labels = _labels(self.names)
        matcher = Matcher(list(labels), fold_case=self.fold_case, fold_accents=self.fold_accents)
        return list(labels.items()), matcher

    def __getstate__(self) -> dict[str, Any]:
        return settings_of(self)  # a worker builds its own index

    @classmethod
    def tiny(cls) -> Self:
        """Return a gazetteer of four names."""
        return cls({"Bern": "city", "New York": "city", "New York Times": "newspaper", "Aare": "river"})


def _labels(names: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Return name to label for either way of writing a list of names."""
    if not isinstance(names, Mapping):
        return dict.fromkeys(clean_names(names, what="entity names"), "entity")
    wrong = [label for label in names.values() if not isinstance(label, str)]
    if wrong:
        raise SourceError(f"{len(wrong)} of {len(names)} entity labels are no text, for example {wrong[0]!r}.")
    labels: dict[str, str] = {}
    for name, label in zip(clean_names(names, what="entity names"), names.values(), strict=True):
        labels.setdefault(name, label)  # "Bern" and " Bern" are one name; the first keeps its label
    return labels
