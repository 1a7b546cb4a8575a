"""Entities of a list (a gazetteer): the words of one mention belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, Self

from infuser.errors import SourceError
from infuser.knowledge.artifact import kind_of
from infuser.knowledge.names.gazetteer import clean_names
from infuser.knowledge.names.name_rule import NameRule
from infuser.knowledge.names.store import KIND, Name, NameStore
from infuser.registry import SOURCES
from infuser.sources.fitting import FitsNames
from infuser.sources.mentions import ABBREVIATION, MentionFilter, TextMentions
from infuser.sources.storage import FolderSource
from infuser.sources.terms import TYPE, check_terms, keep_new, relations_of_terms, say_type, tie_terms
from infuser.types import Annotations, Link, Span, Term


@SOURCES.register("entities")
@dataclass(frozen=True)
class Entities(NameRule, FitsNames, FolderSource):
    """Finds the names of a list and ties the words of each mention to each other.

    A span carries the label of its name and, as id, the name as it is written in the list or the id that a built
    gazetteer has for it. Names that are the same after folding are merged: the one spelled like the text wins,
    otherwise the first of the list.
    """

    folder: ClassVar[tuple[str, str]] = ("names", KIND)

    names: Mapping[str, str] | Sequence[str] | str | Path
    """Name to label, {"Bern": "city"}; or only names, whose label is "entity"; or the folder of a gazetteer that
    `infuser gazetteer build` made, for millions of them."""
    fold_case: bool = True
    """Whether "BERN" is a mention of "Bern". A folder was built with its own setting, which then holds."""
    fold_accents: bool = False
    """Whether "Zurich" is a mention of "Zürich"; likewise."""
    overlaps: Literal["longest", "keep"] = "longest"
    """Keep the leftmost longest of mentions that overlap, or keep them all, one inside another too."""
    n_terms: int = 0
    """How many terms each mention may have, words that are not in the text; 0 for none."""
    terms: Sequence[str] = (TYPE,)
    """Which terms: "type", the label; all that a list knows. "entity", the label of bare names, is none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.overlaps not in ("longest", "keep"):
            raise SourceError(f"overlaps is {self.overlaps!r}; it can be 'longest' or 'keep'.")
        object.__setattr__(self, "terms", check_terms(self.n_terms, self.terms, (TYPE,)))
        given = self.names
        if isinstance(given, Path) or (isinstance(given, str) and kind_of(given) is not None):
            folder = Path(given).absolute()
            self.__dict__["_store"] = store = NameStore.open(folder)  # opened once; see the cached property below
            object.__setattr__(self, "names", str(folder))
            object.__setattr__(self, "fold_case", store.gazetteer.fold_case)
            object.__setattr__(self, "fold_accents", store.gazetteer.fold_accents)
        elif isinstance(given, str):
            raise SourceError(
                f"Entities were given as one string, {given[:60]!r}, and there is no {KIND} folder of that name. Give "
                f"a list, [{given[:60]!r}], or a folder that `infuser gazetteer build` made."
            )
        else:
            object.__setattr__(self, "names", _labels(given))

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return the mentions in each text."""
        found = self._filter.find(texts, overlaps=self.overlaps == "keep")
        return [self._annotations(text, mentions) for text, mentions in zip(texts, found, strict=True)]

    @cached_property
    def span_types(self) -> tuple[str, ...]:
        """The labels of the names, those of most names first."""
        return self._store.labels_by_count()

    @property
    def relation_types(self) -> tuple[str, ...]:
        """The one without a name, which ties the words of a mention, those of terms, and that of abbreviations."""
        own = ("", *relations_of_terms(self.n_terms, self.terms))
        return (*own, ABBREVIATION) if self.abbreviations else own

    def _annotations(self, text: str, found: TextMentions) -> Annotations:
        spans: list[Span] = []
        for place, (start, end, numbers) in enumerate(found.mentions):
            spelled = found.mentions[found.long_forms.get(place, place)]
            name = self._named(numbers, text[spelled.start : spelled.end])
            spans.append(Span(start, end, label=name.label, id=name.id))
        links = [Link(place, place) for place in range(len(spans))]
        if found.long_forms:
            links += [Link(long, short, relation=ABBREVIATION) for short, long in found.long_forms.items()]
        return Annotations(text, tuple(spans), tuple(links), self._terms_of(text, spans) if self.n_terms else ())

    def _terms_of(self, text: str, spans: Sequence[Span]) -> tuple[Term, ...]:
        return tie_terms(
            (place, keep_new(say_type(span.label), text[span.start : span.end], self.n_terms))
            for place, span in enumerate(spans)
            if TYPE in self.terms
        )

    def _named(self, numbers: tuple[int, ...], written: str) -> Name:
        """Return the name among several alike that is spelled like the text, otherwise the first."""
        names = [self._store.name(number) for number in numbers]
        return next((name for name in names if name.written == written), names[0])

    @cached_property
    def _filter(self) -> MentionFilter:
        return MentionFilter(self._store.gazetteer, self, self._spellings)

    def _spellings(self, numbers: tuple[int, ...]) -> list[str]:
        return [self._store.name(number).written for number in numbers]

    @cached_property
    def _store(self) -> NameStore:
        if isinstance(self.names, str | Path):
            return NameStore.open(self.names)
        labels = _labels(self.names)
        return NameStore.build(
            list(labels), list(labels.values()), fold_case=self.fold_case, fold_accents=self.fold_accents
        )

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
