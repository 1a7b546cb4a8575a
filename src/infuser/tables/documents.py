"""Documents with marked mentions and stated relations, as `pubtator` and `brat` read them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from infuser.tables.skipped import BadRow, Place


@dataclass(frozen=True, slots=True)
class MarkedSpan:
    """A mention in a document: its type, and the ids by which relations refer to it."""

    place: Place
    pieces: tuple[tuple[int, int], ...]
    """Characters `start` up to, not including, `end`, in order; several where the mention has gaps."""
    label: str
    ids: tuple[str, ...] = ()
    """PubTator: the entities it means, none if the file names none. BRAT: its own id, "T1"."""

    @property
    def start(self) -> int:
        """The first character."""
        return self.pieces[0][0]

    @property
    def end(self) -> int:
        """The character behind the last one."""
        return self.pieces[-1][1]


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """A relation between two ids of a document's mentions."""

    place: Place
    head: str
    tail: str
    label: str


@dataclass(frozen=True, slots=True)
class MarkedDocument:
    """A text, its mentions in the order of the file, and its relations."""

    place: Place
    name: str
    text: str
    spans: tuple[MarkedSpan, ...] = ()
    relations: tuple[StatedRelation, ...] = ()

    def flat_spans(self) -> list[MarkedSpan]:
        """Return mentions of which no two overlap, in the order of the text, as tags of words can express them.

        A mention with gaps goes from its first to its last character. Of mentions that overlap, one without gaps is
        kept before one with gaps, then the longest, then the first.
        """
        kept: list[MarkedSpan] = []
        for span in sorted(self.spans, key=lambda one: (len(one.pieces), one.start - one.end, one.start)):
            if not any(one.start < span.end and span.start < one.end for one in kept):
                kept.append(span)
        return sorted(kept, key=lambda one: one.start)


def check_pieces(place: Place, text: str, pieces: Any, words: str) -> None:
    """Raise BadRow unless the pieces lie inside the text, in order, and hold these words; white space may differ."""
    advice = "Offsets count characters of the text from 0, and the end is the character behind the last one."
    given = ";".join(f"{start} {end}" for start, end in pieces)
    inside = all(0 <= start < end <= len(text) for start, end in pieces)
    if not inside or any(one[1] > other[0] for one, other in pairwise(pieces)):
        raise BadRow(
            place, f"has the offsets {given}, not in order inside {len(text)} characters", words, advice=advice
        )
    found = " ".join(text[start:end] for start, end in pieces)
    if found.split() != words.split():
        raise BadRow(
            place, f"has the mention {words[:60]!r}, but {found[:60]!r} stands at {given}", words, advice=advice
        )
