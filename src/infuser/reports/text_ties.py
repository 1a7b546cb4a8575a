"""Ties between places of a text as curves: arcs over a line, smooth lines from one line to another."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from infuser.reports.page import escaped
from infuser.reports.text_lines import CELL, MARGIN, MARK, Box, written
from infuser.types import Annotations, Link

_HIGHEST = 60
"""Height of the longest arc, in pixels."""
_LABEL_HEIGHT, _LABEL_CELL = 12, 6.1
_THROUGH = 10
"""More room for lines that lead from one line of the text to another."""
_MOST_LABELS = 16
"""With more ties than that, their relations are read by pointing at them only."""


@dataclass(frozen=True, slots=True)
class Tie:
    """All that ties two places of a picture, the upper or left one first."""

    one: Box
    other: Box
    weight: float
    title: str
    relation: str
    of_term: bool

    @property
    def is_arc(self) -> bool:
        """Return whether it stays within a line."""
        return self.one.line == self.other.line

    @property
    def ends(self) -> tuple[float, float]:
        """Where it begins and ends; an arc has some width even between spans in one place."""
        first, last = (MARGIN + CELL * (box.left + box.right) / 2 for box in (self.one, self.other))
        if self.is_arc and abs(last - first) < CELL:
            return (first + last - CELL) / 2, (first + last + CELL) / 2
        return first, last

    @property
    def height(self) -> float:
        """How far an arc rises: the longer, the higher, so that arcs can be distinguished."""
        first, last = self.ends
        return min(_HIGHEST, 4 + 2.3 * math.sqrt(abs(last - first)))


def strongest_ties(
    found: Annotations, spans: Sequence[Sequence[Box]], terms: Sequence[Box], most: int
) -> tuple[list[Tie], int, int]:
    """Return the `most` strongest ties between places that are drawn, how many that are, and how many there are in all.

    Several links between the same two places become one tie.
    """
    all_ties: list[tuple[float, Link | tuple[int, int]]] = [
        (link.weight, link)
        for link in found.links
        if link.source != link.target and spans[link.source] and spans[link.target]
    ]
    for number, term in enumerate(found.terms):
        all_ties += [(weight, (number, place)) for place, weight in term.ties if spans[place]]
    strongest = heapq.nlargest(most, all_ties, key=lambda tie: tie[0])
    together: dict[tuple[Box, Box, bool], list[tuple[float, str, str]]] = {}
    for weight, tie in strongest:
        if isinstance(tie, Link):
            one, other = spans[tie.source][0], spans[tie.target][0]
            names, relation = [written(found, tie.source), written(found, tie.target)], tie.relation
        else:
            number, place = tie
            one, other, relation = terms[number], spans[place][0], ""
            names = [found.terms[number].text, written(found, place)]
        title = f"{f' - {relation} - '.join(names) if relation else ' - '.join(names)} {weight:.2f}"
        key = (min(one, other), max(one, other), not isinstance(tie, Link))
        together.setdefault(key, []).append((weight, title, relation))
    ties = [
        Tie(
            one,
            other,
            weight=max(weight for weight, _, _ in group),
            title="; ".join(title for _, title, _ in group),
            relation=", ".join(dict.fromkeys(relation for _, _, relation in group if relation)),
            of_term=of_term,
        )
        for (one, other, of_term), group in together.items()
    ]
    return ties, len(strongest), len(all_ties)


def labelled_ties(ties: Sequence[Tie]) -> list[Tie]:
    """Return the ties whose relation has room on top of its arc, beside the others."""
    labelled: list[Tie] = []
    taken: list[tuple[int, float, float, float]] = []
    for tie in ties if len(ties) <= _MOST_LABELS else ():
        first, last = tie.ends
        half = _LABEL_CELL * len(tie.relation) / 2
        middle = (first + last) / 2
        crowded = any(
            line == tie.one.line
            and abs(height - tie.height) < _LABEL_HEIGHT
            and left < middle + half
            and middle - half < right
            for line, height, left, right in taken
        )
        if not tie.relation or not tie.is_arc or 2 * half > last - first or crowded:
            continue
        labelled.append(tie)
        taken.append((tie.one.line, tie.height, middle - half, middle + half))
    return labelled


def room_above(ties: Iterable[Tie], labelled: Sequence[Tie], n_lines: int) -> list[float]:
    """Return how much room each line needs for what rises above it."""
    room = [0.0] * n_lines
    for tie in ties:
        if tie.is_arc:
            needed = tie.height + (_LABEL_HEIGHT if tie in labelled else 0)
            room[tie.one.line] = max(room[tie.one.line], needed)
        for line in range(tie.one.line + 1, tie.other.line + 1):
            room[line] = max(room[line], _THROUGH)
    return room


def drawn_tie(tie: Tie, tops: Sequence[float]) -> str:
    """Return the curve of a tie; the stronger, the thicker and darker."""
    first, last = tie.ends
    top = tops[tie.other.line]
    if tie.is_arc:
        control = top - tie.height / 0.75  # a curve rises to three quarters of its control points
        path = f"M{first:.1f} {top:.1f}C{first:.1f} {control:.1f} {last:.1f} {control:.1f} {last:.1f} {top:.1f}"
    else:
        bottom = tops[tie.one.line] + MARK
        half = (bottom + top) / 2
        path = f"M{first:.1f} {bottom:.1f}C{first:.1f} {half:.1f} {last:.1f} {half:.1f} {last:.1f} {top:.1f}"
    share = min(max(tie.weight, 0.0), 1.0)
    # what leads across many lines lies behind their words, and must not drown them
    darkness = (0.3 + 0.6 * share) * (1.0 if tie.other.line - tie.one.line <= 2 else 0.6)
    dashes = ' stroke-dasharray="4 3"' if tie.of_term else ""
    return (
        f'<path class="tie"{dashes} stroke-width="{1 + 1.2 * share:.1f}" stroke-opacity="{darkness:.2f}" '
        f'd="{path}"><title>{escaped(tie.title)}</title></path>'
    )


def drawn_relation(tie: Tie, tops: Sequence[float]) -> str:
    """Return the name of a relation on top of its arc."""
    first, last = tie.ends
    y = tops[tie.one.line] - tie.height - _LABEL_HEIGHT / 2
    return f'<text class="relation" x="{(first + last) / 2:.1f}" y="{y:.1f}">{escaped(tie.relation)}</text>'
