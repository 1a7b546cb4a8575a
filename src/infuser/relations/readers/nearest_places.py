"""Where the parts of a triple stand: of all the places each of them may have, those nearest together.

Data says which entity is meant, not always which of its mentions: T-REx gives strings, DocRED every mention of an
entity. A relation is most likely said where the mentions stand closest, and two things do not stand on the same words.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations, product

from infuser.types import Span

Place = tuple[int, int]
"""Start and end, in characters."""

_FEW = 8
"""Where nothing but overlapping places is left, so many of each part are tried, from the left."""


def nearest_places(parts: Sequence[Sequence[Place]]) -> tuple[Place, ...]:
    """Return one place of each part, so that none overlap and all lie within the shortest stretch of text.

    Of equals the leftmost are taken. A part's places are ascending and equally long: they are one string's. Where no
    choice is free of overlaps ("Turin" is only said within "University of Turin"), the fewest overlaps are. The work
    grows with the number of places, not with its cube: see `_in_a_row`.
    """
    apart = min(_in_a_row(parts), key=closeness, default=None)
    return apart or min(product(*(places[:_FEW] for places in parts)), key=closeness)


def nearest_pair(pairs: Iterable[tuple[Span, Span]]) -> tuple[Span, Span]:
    """Return the two mentions that lie nearest together; such as do not overlap come first, of equals the leftmost."""
    return min(pairs, key=lambda pair: closeness([(span.start, span.end) for span in pair]))


def closeness(places: Sequence[Place]) -> tuple[int, int, int, list[int]]:
    """Return what orders choices of places, best first: the number of overlaps, the stretch, how far left."""
    ordered = sorted(places)
    n_overlaps = sum(first[1] > second[0] for first, second in combinations(ordered, 2))
    begin, end = ordered[0][0], max(end for _, end in places)
    return n_overlaps, end - begin, begin, [start for start, _ in places]


def _in_a_row(parts: Sequence[Sequence[Place]]) -> Iterator[tuple[Place, ...]]:
    """Yield choices without overlaps, the nearest among them.

    For every order of the parts and every place of the first, each further part stands at its next place behind the one
    before it. To go further right would only stretch the choice, so no other needs to be looked at.
    """
    starts = [[start for start, _ in places] for places in parts]
    for order in permutations(range(len(parts))):
        for first in parts[order[0]]:
            chosen = {order[0]: first}
            end = first[1]
            for part in order[1:]:
                next_one = bisect_left(starts[part], end)
                if next_one == len(starts[part]):
                    break
                chosen[part] = parts[part][next_one]
                end = chosen[part][1]
            else:
                yield tuple(chosen[part] for part in range(len(parts)))
