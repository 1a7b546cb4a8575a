"""Dictionary baselines, printed beside NER results.

"Dictionary alone" takes what the sources of an arm found. A label of a source ("drug") means the type of the task
("Chemical") with which its mentions coincide most often in the training texts. "Dictionary + plain" adds to the
entities of a model what the dictionary finds elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infuser.sources.fitting import coinciding_labels
from infuser.types import Annotations

DICTIONARY = "dictionary alone"
LEAST_PRECISION = 0.5
"""Labels whose mentions are less often right in training are left out."""


@dataclass(frozen=True)
class Dictionary:
    """The types that labels of sources stand for."""

    meaning: Mapping[tuple[int, str], tuple[str, float] | None]
    """Number of the source and label, to the type and how often it is right in the training texts; None: left out."""
    by_name: Mapping[str, str]
    """The types by their names without case, for labels that the training texts do not hold."""

    @classmethod
    def fit(cls, examples: Iterable[Mapping[str, Any]], types: Sequence[str]) -> Dictionary:
        """Learn from annotated examples with entities what labels mean.

        A label means the type that most of its mentions have. It is left out if less than half of them do, unless it
        is called like the type and none of its mentions has another one.
        """
        listed = list(examples)
        gold = [example["entities"] for example in listed]
        by_name = {one.casefold(): one for one in types}
        meaning: dict[tuple[int, str], tuple[str, float] | None] = {}
        for source, found in enumerate(zip(*(example["annotations"] for example in listed), strict=True)):
            for label, counts in coinciding_labels([one.spans for one in found], gold).items():
                named = by_name.get(label.casefold())
                best = counts.best or named
                stays = counts.precision >= LEAST_PRECISION or (best == named and set(counts.n_gold) <= {named})
                meaning[source, label] = (best, counts.precision) if best is not None and stays else None
        return cls(meaning, by_name)

    def find(self, annotations: Sequence[Annotations]) -> list[list[Any]]:
        """Return the entities of one text, [start, end, type, share that was right in training]; of overlapping ones
        the longest.
        """
        spans = [
            (one.start, one.end, *meant)
            for source, found in enumerate(annotations)
            for one in found.spans
            if (meant := self._meant(source, one.label)) is not None
        ]
        kept: list[list[Any]] = []
        for start, end, label, share in sorted(spans, key=lambda one: (one[0] - one[1], one[0], -one[3], one[2])):
            if not _overlaps(start, end, kept):
                kept.append([start, end, label, share])
        return sorted(kept)

    def _meant(self, source: int, label: str) -> tuple[str, float] | None:
        if (source, label) in self.meaning:
            return self.meaning[source, label]
        named = self.by_name.get(label.casefold())
        return None if named is None else (named, LEAST_PRECISION)


def union(entities: Sequence[Sequence[Any]], more: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return entities and those of `more` that overlap none of them, in the order of the text."""
    added = [list(one) for one in more if not _overlaps(one[0], one[1], entities)]
    return sorted([*map(list, entities), *added], key=lambda one: one[:2])


def _overlaps(start: int, end: int, entities: Iterable[Sequence[Any]]) -> bool:
    return any(one[0] < end and start < one[1] for one in entities)
