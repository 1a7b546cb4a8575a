"""Measured redundancy: what the plain encoder predicts by itself is not injected.

The scores come from `infuser.analysis.probe`, or from any other measure: a number between 0 and 1 for an entity or a
relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from infuser.errors import SourceError
from infuser.knowledge.entity_scores import check_score, open_scores
from infuser.types import Annotations, Source, Span, entity_key, keep_spans


@dataclass(frozen=True)
class Known:
    """Leaves out every entity and every relation with a score of at least the threshold, in training and in answering.

    A mention whose id has no score goes by the score of its words, in lower case. One without any is kept: it
    was not measured. Of a relation that is known, the links are left out, and the entities that they tied
    stay.
    """

    scores: Mapping[str, float] | str | Path = field(repr=False)
    """How well the encoder knows each entity, by its key (`entity_key`); or the file that `write_scores` wrote."""
    threshold: float = 0.5
    """An entity or relation with this score or a higher one is left out."""
    relations: Mapping[str, float] | None = field(default=None, repr=False)
    """How well it knows each relation, by what `Link.relation` says; None takes those of the file, if there is one."""

    def __post_init__(self) -> None:
        given, relations = self.scores, self.relations
        if isinstance(given, str | Path):
            file = open_scores(given)
            scores = {one.key: one.score for one in file.scores}
            if relations is None:
                relations = {one.relation: one.score for one in file.relations}
        else:
            scores = _checked(given, "Scores", "{'Q70': 0.83}, or the file of scores")
        try:
            check_score("the threshold", self.threshold)
        except ValueError as error:
            raise SourceError(f"threshold is {self.threshold!r}; it lies between 0 and 1, as the scores do.") from error
        # read once: a file that changes later must not change what a model in use injects
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "relations", _checked(relations or {}, "Scores of relations", "{'P36': 0.9}"))

    def select(self, found: Sequence[Annotations], source: Source) -> list[Annotations]:
        """Return the annotations without what the encoder knows: entities with all that hangs on them, and links."""
        return [
            keep_spans(self._without_links(one), [self.why(*_names(one.text, span)) is None for span in one.spans])
            for one in found
        ]

    def scored(self, found: Iterable[Annotations]) -> tuple[set[str], set[str]]:
        """Return which of the entities and which of the relations that have a score occur in annotations."""
        keys: set[str] = set()
        relations: set[str] = set()
        for one in found:
            keys.update(self._scored_name(*_names(one.text, span)) for span in one.spans)
            relations.update(link.relation for link in one.links)
        return keys & self._scores.keys(), relations & self._relations.keys()

    def why(self, key: str, words: str | None = None) -> str | None:
        """Return why an entity, or a mention of it with these words, is left out, for people; None if it is kept."""
        name = self._scored_name(key, words)
        score = self._scores.get(name, -1.0)
        if score < self.threshold:
            return None
        by = "" if name == key else f", by the words {name!r}"
        return f"the encoder predicts it: {score:.3g} >= {self.threshold:g}{by}"

    def why_relation(self, relation: str) -> str | None:
        """Return why the links of a relation are left out, for people; None if they are kept."""
        score = self._relations.get(relation, -1.0)
        return (
            f"the encoder tells it from others: {score:.3g} >= {self.threshold:g}" if score >= self.threshold else None
        )

    def to_json(self) -> dict[str, Any]:
        """Return the strategy as JSON data, all scores in it, so that a saved model needs no other file."""
        data: dict[str, Any] = {"scores": dict(self._scores), "threshold": self.threshold}
        return {**data, "relations": dict(self._relations)} if self._relations else data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the strategy that `to_json` described."""
        return cls(**data)

    @property
    def _scores(self) -> Mapping[str, float]:
        assert isinstance(self.scores, Mapping)  # whatever was given
        return self.scores

    @property
    def _relations(self) -> Mapping[str, float]:
        assert self.relations is not None  # {} where none were given
        return self.relations

    def _scored_name(self, key: str, words: str | None) -> str:
        """Return what a mention goes by: its key if that has a score, else its words."""
        return key if words is None or key in self._scores else words

    def _without_links(self, found: Annotations) -> Annotations:
        kept = tuple(link for link in found.links if self.why_relation(link.relation) is None)
        return found if len(kept) == len(found.links) else replace(found, links=kept)


def _names(text: str, span: Span) -> tuple[str, str]:
    """Return the key of a mention, and its words."""
    return entity_key(text, span), entity_key(text, Span(span.start, span.end))


def _checked(given: object, what: str, such_as: str) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise SourceError(f"{what} were given as {type(given).__name__}. Give a mapping, {such_as}.")
    return {str(key): check_score(key, score) for key, score in given.items()}
