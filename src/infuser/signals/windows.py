"""Long texts cut into windows that an encoder can read whole, at the ends of paragraphs and sentences if possible."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from infuser.errors import InputError
from infuser.signals.tags import FoundEntity, TokenWord
from infuser.words import find_tokens

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


def read_in_windows(
    documents: Sequence[Mapping[str, Any]],
    read: Callable[[Sequence[Mapping[str, Any]]], Sequence[tuple[list[FoundEntity], bool]]],
) -> list[list[FoundEntity]]:
    """Return the entities in examples with texts of any length.

    `read` returns the entities of each of some examples, and whether its text was cut. What was cut is read again in
    windows that end with a paragraph or a sentence if possible.
    """
    found: list[list[FoundEntity]] = [[] for _ in documents]
    waiting: list[tuple[int, int, Mapping[str, Any]]] = [(row, 0, example) for row, example in enumerate(documents)]
    while waiting:
        answers = read([example for *_, example in waiting])
        longer: list[tuple[int, int, Mapping[str, Any]]] = []
        for (row, start, example), (entities, cut) in zip(waiting, answers, strict=True):
            text = example["text"]
            n_words = min(MAX_WORDS, len(find_tokens(text, case=False)) // 2) if cut else 0
            parts = cut_windows(text, n_words) if n_words else []
            if len(parts) > 1:
                beside = {"pair": example["pair"]} if example.get("pair") is not None else {}
                longer += [(row, start + first, {"text": text[first:end], **beside}) for first, end in parts]
            else:
                found[row] += [[start + first, start + end, *more] for first, end, *more in entities]
        waiting = longer
    return [sorted(of_text) for of_text in found]


def is_cut(text: str, words: Sequence[TokenWord]) -> bool:
    """Return whether letters or digits stand behind the last word that was read."""
    return any(sign.isalnum() for sign in text[words[-1].end if words else 0 :])


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
