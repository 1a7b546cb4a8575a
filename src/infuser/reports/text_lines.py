"""A text as lines of monospace cells: the places of words and spans, computed without a browser."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from infuser.reports.grids import columns_taken
from infuser.types import Annotations, Span

CELL = 8.4
"""Width of a cell in pixels: that of a letter in most monospace fonts of 14 pixels."""
MARK = 22
"""Height of a line with what marks its words."""
MARGIN = 6
"""Room around a text."""
LINE_WIDTH = 72
"""Cells of the longest line."""
_JOINER = "\u200d"
_NO_WIDTH = frozenset({"Mn", "Me", "Cf"})
"""Signs on or between others: accents, joiners, marks of direction."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A word, or a part of one that is longer than a line."""

    start: int
    end: int
    """Its characters of the text."""
    line: int
    column: int
    """Cells before it."""
    width: int
    leftwards: bool
    """Whether it is read from right to left."""


@dataclass(frozen=True, slots=True, order=True)
class Box:
    """The part of a span on one line, in cells."""

    line: int
    left: int
    right: int


def cells(text: str) -> int:
    """Return how many cells a text takes; accents and the parts of a joined emoji take none of their own."""
    if text.isascii():
        return len(text)
    before = [" ", *text]
    return sum(
        columns_taken(sign)
        for sign, last in zip(text, before, strict=False)
        if last != _JOINER and unicodedata.category(sign) not in _NO_WIDTH
    )


def lay_out(text: str, start: int, end: int, *, first_line: int = 0) -> list[Piece]:
    """Return the words of a stretch of text in lines; those of Hebrew or Arabic begin at the right."""
    pieces: list[Piece] = []
    line, column = first_line, 0
    for at, until in _broken(text, start, end):
        width = max(1, cells(text[at:until]))
        if column and column + width > LINE_WIDTH:
            line, column = line + 1, 0
        pieces.append(Piece(at, until, line, column, width, _is_leftwards(text[at:until])))
        # a part of a word that goes on has no blank behind it
        column += width + (until == end or text[until].isspace())
    return pieces if text.isascii() else _in_reading_order(pieces, leftwards=_is_leftwards(text[start:end]))


def boxes(text: str, pieces: Sequence[Piece], span: Span) -> list[Box]:
    """Return the places of a span, line by line; nothing if it has no word that was laid out."""
    reached: dict[int, tuple[int, int]] = {}
    first = max(0, bisect_right(pieces, span.start, key=lambda piece: piece.start) - 1)
    for piece in pieces[first:]:
        if piece.start >= span.end:
            break
        start, end = max(span.start, piece.start), min(span.end, piece.end)
        if start >= end:
            continue
        # signs that take no cell of their own in the word share that of a neighbour, be they the last ones or joined
        width = min(max(1, cells(text[start:end])), piece.width)
        before = min(cells(text[piece.start : start]), piece.width - width)
        left = piece.column + (piece.width - before - width if piece.leftwards else before)
        known = reached.get(piece.line, (left, left + width))
        reached[piece.line] = min(known[0], left), max(known[1], left + width)
    return [Box(line, left, right) for line, (left, right) in reached.items()]


def written(found: Annotations, place: int) -> str:
    """Return the words of a span in one line."""
    span = found.spans[place]
    return " ".join(found.text[span.start : span.end].split())


def _broken(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the words between two places, cut where they are longer than a line."""
    for word in re.compile(r"\S+").finditer(text, start, end):
        at = word.start()
        if word.end() - at <= LINE_WIDTH // 2:  # it fits even if every sign is wide
            yield at, word.end()
            continue
        taken = 0
        for place in range(at, word.end()):
            width = cells(text[place])
            if taken + width > LINE_WIDTH:
                yield at, place
                at, taken = place, 0
            taken += width
        yield at, word.end()


def _in_reading_order(pieces: Sequence[Piece], *, leftwards: bool) -> list[Piece]:
    """Return pieces in a text of that direction; words of the other direction keep an order of their own."""
    if leftwards:
        pieces = _flipped(pieces, 0)
    ordered: list[Piece] = []
    for (_, other), run in groupby(pieces, key=lambda one: (one.line, one.leftwards != leftwards)):
        together = list(run)
        ordered += _flipped(together, min(one.column for one in together)) if other else together
    return ordered


def _flipped(pieces: Sequence[Piece], left: int) -> list[Piece]:
    """Return pieces in the opposite order between `left` and where the last of them ends."""
    right = max((one.column + one.width for one in pieces), default=0)
    return [replace(one, column=left + right - one.column - one.width) for one in pieces]


def _is_leftwards(text: str) -> bool:
    """Return whether the first letter that has a direction is read from right to left."""
    kinds = (unicodedata.bidirectional(sign) for sign in text)
    return next((kind for kind in kinds if kind in {"L", "R", "AL"}), "L") != "L"
