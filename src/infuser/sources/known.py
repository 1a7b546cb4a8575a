"""Measured redundancy: what the plain encoder predicts by itself is not injected.

The scores come from `infuser.probes`, or from any other measure that gives a number between 0 and 1 for an entity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from infuser.errors import SourceError
from infuser.knowledge.entity_scores import check_score, read_scores
from infuser.types import Annotations, Source, entity_key, keep_spans


@dataclass(frozen=True)
class Known:
    """Leaves out every entity that has a score of at least the threshold, in training and in answering alike.

    An entity without a score is kept: nobody has seen that the encoder knows it.
    """

    scores: Mapping[str, float] | str | Path = field(repr=False)
    """How well the encoder knows each entity, by its key (`entity_key`); or the file that `write_scores` wrote."""
    threshold: float = 0.5
    """An entity with this score or a higher one is left out."""

    def __post_init__(self) -> None:
        given = self.scores
        if isinstance(given, str | Path):
            scores = read_scores(given)
        elif isinstance(given, Mapping):
            scores = {str(key): check_score(key, score) for key, score in given.items()}
        else:
            raise SourceError(
                f"Scores were given as {type(given).__name__}. Give a mapping, {{'Q70': 0.83}}, or the file of scores."
            )
        try:
            check_score("the threshold", self.threshold)
        except ValueError as error:
            raise SourceError(f"threshold is {self.threshold!r}; it lies between 0 and 1, as the scores do.") from error
        # read once: a file that changes later must not change what a model in use injects
        object.__setattr__(self, "scores", scores)

    def select(self, found: Sequence[Annotations], source: Source) -> list[Annotations]:
        """Return the annotations without the entities that the encoder knows; links and candidates go with them."""
        return [keep_spans(one, [not self._knows(entity_key(one.text, span)) for span in one.spans]) for one in found]

    def why(self, key: str) -> str | None:
        """Return why an entity is left out, for people; None if it is kept."""
        if not self._knows(key):
            return None
        return f"the encoder predicts it: {self._scores[key]:.3g} >= {self.threshold:g}"

    def to_json(self) -> dict[str, Any]:
        """Return the strategy as JSON data, all scores in it, so that a saved model needs no other file."""
        return {"scores": dict(self._scores), "threshold": self.threshold}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the strategy that `to_json` described."""
        return cls(**data)

    @property
    def _scores(self) -> Mapping[str, float]:
        assert isinstance(self.scores, Mapping)  # whatever was given
        return self.scores

    def _knows(self, key: str) -> bool:
        return self._scores.get(key, -1.0) >= self.threshold
