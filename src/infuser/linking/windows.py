"""Long texts cut into windows that an encoder can read whole, at the ends of paragraphs and sentences if possible."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from infuser.errors import InputError
from infuser.linking.examples import LinkedText
from infuser.linking.mentions import Mention
from infuser.types import Span
from infuser.words import find_tokens

_Placed = TypeVar("_Placed", Span, Mention)
MAX_WORDS = 200
"""Words and signs of a window: with room to spare within the 512 tokens that most encoders read."""

_BORDERS = (  # each ends where a new window may begin, the best last
    re.compile(r"\s+"),
    re.compile(r"(?<![\W_][A-Z]\.)(?<=[.!?…])[\"'”’»)\]]*\s+(?![a-z])|(?<=[。！？])[」』]?\s*"),  # noqa: RUF001
    re.compile(r"\n\s*"),
    re.compile(r"\n[^\S\n]*\n\s*"),
)


def cut_windows(
    text: str, max_words: int = MAX_WORDS, *, keep: Iterable[tuple[int, int]] = ()
) -> list[tuple[int, int]]:
    """Return where the windows of a text begin and end: at least one, in order, with only white space between them.

    A window has up to `max_words` words and signs. It ends with a paragraph, a line or a sentence if one ends in its
    second half, otherwise between two words. The places in `keep` are not cut: a window grows where it must.
    """
    if max_words < 1:
        raise InputError(f"max_words is {max_words}; a window holds at least 1 word.")
    words = find_tokens(text, case=False)
    if len(words) <= max_words:
        return [(0, len(text))]
    starts = [word.start for word in words]
    ranks = _ranks(text, starts, keep)
    windows: list[tuple[int, int]] = []
    first = 0
    while first < len(words):
        after = _next_cut(ranks, first, max_words)
        windows.append((starts[first], words[after - 1].end))
        first = after
    return windows


def window_linked(linked: LinkedText, max_words: int = MAX_WORDS) -> list[LinkedText]:
    """Return the windows of a linked text that hold something labelled; no gold mention is cut."""
    keep = [(span.start, span.end) for span in linked.spans]
    first, last = linked.region
    windows: list[LinkedText] = []
    for start, end in cut_windows(linked.text, max_words, keep=keep):
        labelled = max(first, start) - start, min(last, end) - start
        if labelled[0] >= labelled[1]:
            continue
        spans = [moved(span, -start) for span in linked.spans if start <= span.start and span.end <= end]
        part = None if labelled == (0, end - start) else labelled
        windows.append(LinkedText(linked.text[start:end], tuple(spans), part, linked.name))
    return windows


def moved(one: _Placed, by: int) -> _Placed:
    """Return a span or mention of a window as one of the text in which the window begins at `by`."""
    return replace(one, start=one.start + by, end=one.end + by)


def _ranks(text: str, starts: Sequence[int], keep: Iterable[tuple[int, int]]) -> list[int]:
    """Return how good it is to begin a window at each word: -1 never, 0 if it must be, 4 at a new paragraph."""
    ranks = [0] * len(starts)
    for rank, pattern in enumerate(_BORDERS, start=1):
        for border in pattern.finditer(text):
            place = bisect_left(starts, border.end())
            if place < len(starts):
                ranks[place] = rank
    for start, end in keep:
        for place in range(bisect_right(starts, start), bisect_left(starts, end)):
            ranks[place] = -1
    return ranks


def _next_cut(ranks: Sequence[int], first: int, max_words: int) -> int:
    """Return the word before which the window that begins at word `first` is cut."""
    full = first + max_words
    if full >= len(ranks):
        return len(ranks)
    half = range(full, first + max(1, max_words // 2) - 1, -1)  # the last comes first, and of equals the first is taken
    best = max(half, key=ranks.__getitem__)
    if ranks[best] >= 0:
        return best
    others = chain(range(half[-1] - 1, first, -1), range(full + 1, len(ranks)))
    return next((place for place in others if ranks[place] >= 0), len(ranks))
