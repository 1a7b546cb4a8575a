"""What tasks share in which two mentions of a text are given and their relation is asked for.

One file each: `tacred`, `semeval_2010_8`, `fewrel`. The mentions are marked in the text, see `entity_markers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from infuser.errors import InputError
from infuser.relations.examples import RelationText
from infuser.tables.files import BadRow, Place
from infuser.tables.skipped import Skipped
from infuser.tasks.base import Example, Split, Task, class_options
from infuser.tasks.entity_markers import Markers, mark

_SEED = 13


@dataclass(frozen=True)
class RelationClassification(Task):
    """Which relation two marked mentions have; a kind says where its texts come from and which labels there are."""

    markers: Markers = "typed"
    """How the two mentions are marked: "typed" with their types, where the data have them, "plain", or "none"."""

    def texts(self, split: Split) -> Iterator[RelationText]:
        """Yield the texts of a split, each with one triple; its relation is the label."""
        raise NotImplementedError

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes."""
        raise NotImplementedError

    def read(self, split: Split) -> list[Example]:
        """Return the examples of a split, with their marks."""
        places = {label: at for at, label in enumerate(self.labels)}
        return [self._example(text, places, split) for text in self.texts(split)]

    def head_options(self) -> dict[str, Any]:
        """Return the options of a head with one class per label."""
        return class_options(self.labels)

    def _example(self, text: RelationText, places: dict[str, int], split: Split) -> Example:
        [triple] = text.triples
        if triple.relation not in places:
            known = ", ".join(self.labels[:5])
            raise InputError(
                f"{self.data}: example {text.name or text.text[:60]!r} of the {split} part has the relation "
                f"{triple.relation!r}, which is none of the {len(places)} known ones ({known}, ...). Mend it, or check "
                "that all parts are of the same release."
            )
        marked = mark(text.text, triple.head, triple.tail, self.markers)
        return {"text": marked, "label": places[triple.relation], "id": text.name}


class Refusing(Skipped):
    """Makes a reader that skips bad rows stop at the first: a benchmark with rows left out is another one."""

    def add(self, path: str | Path, number: int, why: str, row: object, *, unit: str = "line") -> None:
        """Raise the row as an error."""
        raise BadRow(
            Place(Path(path), number, unit), f"cannot be read: {why}", row, advice="Mend it or fetch it again."
        )


def parted(labels: Sequence[str], held_out: Sequence[Split]) -> list[Split]:
    """Return which part each example belongs to: of every label a tenth goes to each part held out, the rest to train.

    Which ones is drawn once and for all: it depends on the label and the number of its examples alone. Of a label with
    so few examples that none would be left to train, none is held out.
    """
    parts: list[Split] = ["train"] * len(labels)
    places: dict[str, list[int]] = {}
    for place, label in enumerate(labels):
        places.setdefault(label, []).append(place)
    for label, of_label in places.items():
        n_held = max(1, len(of_label) // 10)
        if len(of_label) <= n_held * len(held_out):
            continue
        Random(f"{_SEED} {label}").shuffle(of_label)
        for number, split in enumerate(held_out):
            for place in of_label[number * n_held : (number + 1) * n_held]:
                parts[place] = split
    return parts


def of_part(texts: Iterable[RelationText], split: Split, held_out: Sequence[Split]) -> list[RelationText]:
    """Return the texts that `parted` puts into a split."""
    every = list(texts)
    parts = parted([text.triples[0].relation for text in every], held_out)
    return [text for text, part in zip(every, parts, strict=True) if part == split]
