"""Shared by `tacred`, `semeval_2010_8` and `fewrel`: two marked mentions of a text, whose relation is predicted.

See `entity_markers` for the marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from infuser.errors import InputError
from infuser.relations.examples import RelationText
from infuser.relations.readers.common import Unreadable
from infuser.tables.rows import Record
from infuser.tables.skipped import BadRow, Place, Skipped
from infuser.tasks.base import Example, Split, Task, class_options
from infuser.tasks.entity_markers import Markers, mark

_SEED = 13
_ADVICE = "Correct it or download the file again."


@dataclass(frozen=True)
class RelationClassification(Task):
    """Which relation two marked mentions have; a subclass reads its texts and lists its labels."""

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
                f"{triple.relation!r}, not one of the {len(places)} known ones ({known}, ...). Correct it, or check "
                "that all parts are of the same release."
            )
        marked = mark(text.text, triple.head, triple.tail, self.markers)
        return {"text": marked, "label": places[triple.relation], "id": text.name}


class NoSkipping(Skipped):
    """Makes a reader that skips bad rows stop at the first: a benchmark with rows left out is another one."""

    def add(self, path: str | Path, number: int, why: str, row: object, *, unit: str = "line") -> None:
        """Raise the row as an error."""
        raise BadRow(Place(Path(path), number, unit), f"cannot be read: {why}", row, advice=_ADVICE)


def read_texts(
    records: Iterable[Record], read: Callable[[Place, dict[str, Any]], RelationText], *, advice: str = ""
) -> Iterator[RelationText]:
    """Yield what `read` makes of each row; one that cannot be read is an error with its place."""
    for place, row in records:
        try:
            yield read(place, row)
        except Unreadable as error:
            raise BadRow(place, f"cannot be read: {error}", row, advice=advice or _ADVICE) from error


def select_part(texts: Iterable[RelationText], split: Split, held_out: Sequence[Split]) -> list[RelationText]:
    """Return the texts of a split, where the parts in `held_out` are drawn from the training part."""
    every = list(texts)
    parts = draw_parts([text.triples[0].relation for text in every], held_out)
    return [text for text, part in zip(every, parts, strict=True) if part == split]


def draw_parts(labels: Sequence[str], held_out: Sequence[Split]) -> list[Split]:
    """Return the part of each example: of every label a tenth goes to each part held out, the rest to train.

    The draw depends on the label and the number of its examples alone. Of a label with so few examples that no
    training example would be left, none is held out.
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
