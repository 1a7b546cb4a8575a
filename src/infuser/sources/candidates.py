"""Candidates: what the mentions of a text may mean, and how probable each meaning is before the text is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import ClassVar, Self

from infuser.errors import SourceError
from infuser.knowledge.artifact import Folder
from infuser.knowledge.candidates.mention_rule import MentionRule
from infuser.knowledge.candidates.store import KIND, CandidateStore, MentionFinder, build_candidates, mentions_of
from infuser.registry import SOURCES
from infuser.sources.storage import FolderSource
from infuser.types import Annotations, Span


@SOURCES.register("candidates")
@dataclass(frozen=True)
class Candidates(MentionRule, FolderSource):
    """Finds mentions and offers for each the entities it may mean, with priors that sum to 1.

    A span's id is its most probable entity. There are no links: a guess among several meanings is no tie.
    """

    folder: ClassVar[tuple[str, str]] = ("mentions", KIND)

    mentions: str | Path | Mapping[str, Mapping[str, float]]
    """A folder that `infuser candidates build` made, or {mention: {entity id: how often it is meant}}."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.mentions, str | Path):
            folder = Path(self.mentions).expanduser().absolute()
            Folder(folder, KIND)  # raises at once if there is none
            object.__setattr__(self, "mentions", str(folder))
        elif isinstance(self.mentions, Mapping):
            object.__setattr__(self, "mentions", _checked(self.mentions))
        else:
            raise SourceError(
                f"mentions is a {type(self.mentions).__name__}; give the folder that `infuser candidates build` made, "
                "or {mention: {entity: count}}."
            )

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return the mentions in each text and what they may mean."""
        return [
            Annotations(
                text,
                tuple([Span(start, end, label="mention", id=best[0].id) for start, end, best in found]),
                candidates=tuple([candidates for _, _, candidates in found]),
            )
            for text, found in zip(texts, self.finder.find(texts), strict=True)
        ]

    @property
    def span_types(self) -> tuple[str, ...]:
        """All spans are mentions."""
        return ("mention",)

    @property
    def relation_types(self) -> tuple[str, ...]:
        """None: there are no links."""
        return ()

    @cached_property
    def finder(self) -> MentionFinder:
        """The store, open, and the rule to find its mentions; it can also look up a single mention."""
        if isinstance(self.mentions, Mapping):
            return MentionFinder(build_candidates(mentions_of(self.mentions)), self)
        return MentionFinder(CandidateStore.open(self.mentions), self)

    def with_mentions(self, mentions: Mapping[str, Mapping[str, float]], out: str | Path | None = None) -> Self:
        """Return candidates that know these mentions too; counts of mentions known already are added up.

        Candidates from a folder need a new folder, `out`, to write all of them into.
        """
        if not isinstance(self.mentions, Mapping):
            if out is None:
                raise SourceError(f"These candidates lie in {str(self.mentions)!r}; name a folder for the larger ones.")
            rows = chain(self.finder.store.rows(), mentions_of(_checked(mentions)))
            return replace(self, mentions=build_candidates(rows).save(out))
        merged = {mention: dict(entities) for mention, entities in self.mentions.items()}
        for mention, entities in _checked(mentions).items():
            known = merged.setdefault(mention, {})
            for entity, count in entities.items():
                known[entity] = known.get(entity, 0) + count
        return replace(self, mentions=merged)

    @classmethod
    def tiny(cls) -> Self:
        """Return a few names with two meanings each."""
        return cls(
            {
                "Bern": {"Q70": 90, "Q1029394": 2},
                "New York": {"Q60": 60, "Q1384": 40},
                "New York Times": {"Q9684": 30},
                "shop": {"Q213441": 5, "Q7501119": 1},
            }
        )


def _checked(mentions: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the counts as plain dicts; raise for a malformed one."""
    for mention, entities in mentions.items():
        if not isinstance(mention, str) or not mention.strip() or "\0" in mention:
            raise SourceError(f"A mention is {mention!r}; it must be a text that is not blank, without nulls.")
        if not isinstance(entities, Mapping) or not entities:
            raise SourceError(f"The mention {mention!r} has {entities!r}; give its meanings as {{entity id: count}}.")
        for entity, count in entities.items():
            if not isinstance(entity, str) or not entity.strip():
                raise SourceError(f"An entity of {mention!r} is {entity!r}; it must be an id that is not blank.")
            if isinstance(count, bool) or not isinstance(count, int | float) or not 0 < count < float("inf"):
                raise SourceError(f"{mention!r} means {entity!r} {count!r} times; a count is a number above 0.")
    return {mention: dict(entities) for mention, entities in mentions.items()}
