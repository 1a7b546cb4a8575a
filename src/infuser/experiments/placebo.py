"""The placebo of a comparison: the same links, shuffled between texts, so that they say nothing.

A gain that remains under the placebo comes from the new weights and not from the knowledge.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace

from infuser.errors import SourceError
from infuser.types import PAIR_BREAK, Annotations, Span, keep_spans
from infuser.words import Word, find_words


def shuffle(
    annotated: Sequence[Sequence[Annotations]], *, breaks: Sequence[int | None] | None = None, seed: int = 0
) -> list[tuple[Annotations, ...]]:
    """Return for each example the annotations of another one, moved onto its own words.

    `annotated` holds for each example one Annotations per source. A span that begins at word number k of a side of a
    pair comes to lie on as many words from number k (modulo the number of words) of the same side: number, kind and
    weight of links stay. Links into a side without words are dropped. A single example has no other, so it keeps no
    links. `breaks` says where the `PAIR_BREAK` of each text stands, None for a text that is no pair; without it the
    texts are pairs if every one has a break.
    """
    texts = [_text_of(example) for example in annotated]
    if len({len(example) for example in annotated}) > 1:
        raise SourceError("The examples have different numbers of sources, so their links cannot change places.")
    if breaks is None:
        paired = all(PAIR_BREAK in text for text in texts)
        breaks = [text.find(PAIR_BREAK) if paired else None for text in texts]
    if len(breaks) != len(texts):
        raise SourceError(
            f"There are {len(texts)} examples but {len(breaks)} breaks; give one for each, or none at all."
        )
    sides = [_sides(text, place) for text, place in zip(texts, breaks, strict=True)]
    donors = _cycle(len(texts), random.Random(seed))
    return [
        tuple(
            _moved(found, breaks[donor], sides[donor], text, sides[taker]) if donor != taker else Annotations(text)
            for found in annotated[donor]
        )
        for taker, (text, donor) in enumerate(zip(texts, donors, strict=True))
    ]


def _cycle(n: int, chance: random.Random) -> list[int]:
    """Return a random permutation without fixed points (Sattolo's algorithm)."""
    order = list(range(n))
    for last in range(n - 1, 0, -1):
        other = chance.randrange(last)
        order[last], order[other] = order[other], order[last]
    return order


def _text_of(example: Sequence[Annotations]) -> str:
    texts = {found.text for found in example}
    if len(texts) > 1:
        raise SourceError(f"The sources of one example read different texts: {sorted(texts)!r}.")
    return next(iter(texts), "")


def _sides(text: str, place: int | None) -> tuple[list[Word], list[Word]]:
    """Return the words before and after the break."""
    words = find_words(text)
    if place is None:
        return words, []
    if not text.startswith(PAIR_BREAK, place):
        raise SourceError(f"No pair break stands at character {place} of {text!r}.")
    first = bisect_left([word.start for word in words], place)
    return words[:first], words[first:]


def _moved(
    found: Annotations,
    place: int | None,
    sides: tuple[list[Word], list[Word]],
    text: str,
    new_sides: tuple[list[Word], list[Word]],
) -> Annotations:
    """Return annotations of one text as annotations of another."""
    side_of = [int(place is not None and span.start >= place) for span in found.spans]
    left = keep_spans(found, [bool(new_sides[side]) for side in side_of])
    kept = [side for side in side_of if new_sides[side]]
    spans = (_laid_on(span, sides[side], new_sides[side]) for span, side in zip(left.spans, kept, strict=True))
    return replace(left, text=text, spans=tuple(spans))


def _laid_on(span: Span, words: list[Word], new_words: list[Word]) -> Span:
    """Return the span over as many words, beginning at the word with the same number."""
    first = bisect_right([word.end for word in words], span.start)
    last = bisect_left([word.start for word in words], span.end)  # one after the last word that the span touches
    n_words = min(max(last - first, 1), len(new_words))  # a span of signs only, such as an emoji, takes one word
    start = min(first % len(new_words), len(new_words) - n_words)
    return replace(span, start=new_words[start].start, end=new_words[start + n_words - 1].end)
