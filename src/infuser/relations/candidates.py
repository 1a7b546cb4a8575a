"""Which triples of a text are candidates: near pairs of spans with near relation words, never all of them.

Distances are counted in words (`infuser.words`): those that begin between the end of one span and the start of the
other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.progress import progress_bar
from infuser.relations.examples import RelationText, Triple
from infuser.relations.trigger_words import TriggerWords
from infuser.types import Source, Span
from infuser.words import find_words, word_borders

_ARTICLES = ("a", "an", "the")
_POINTERS = ("this", "that", "these", "those", "some", "any", "each", "every", "both", "all", "another")
_OWNERS = ("my", "your", "his", "her", "its", "our", "their")
DETERMINERS = frozenset((*_ARTICLES, *_POINTERS, *_OWNERS))
"""English words that a noun chunk may begin with and its name does not need. "No" is missing on purpose: it denies."""

_TEXTS_AT_ONCE = 256  # that sources annotate in one call
_CELLS_AT_ONCE = 1_000_000  # pairs x triggers compared at one moment: some 20 MB
_Numbers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CandidateRule:
    """How many triples of one text are candidates, and how far apart their spans may stand."""

    max_spans: int = 400
    """Spans of a window that are paired at all: the first ones; more than 200 words are read in several windows."""
    max_pairs: int = 1000
    """Ordered pairs of spans: the nearest ones; "A, B" and "B, A" are two."""
    max_triggers: int = 3
    """Triggers tried for each pair."""
    max_distance: int = 60
    """Words between the two spans of a pair."""
    max_outside: int = 20
    """Words between a pair and a trigger that stands before or behind both of its spans."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name in ("max_distance", "max_outside") else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{field.name} is {value!r}. Give a whole number, {least} or more.")


def find_spans(texts: Sequence[str], sources: Sequence[Source]) -> list[tuple[Span, ...]]:
    """Return all spans that the sources find in each text, each place once; "a commune" also as "commune"."""
    found = [source.annotate(texts) for source in sources]
    return [
        without_determiners(text, [span for of_source in found for span in of_source[place].spans])
        for place, text in enumerate(texts)
    ]


def find_candidates(
    texts: Sequence[RelationText],
    sources: Sequence[Source],
    words: TriggerWords | None,
    rule: CandidateRule,
    *,
    progress: bool = False,
) -> list[list[Triple]]:
    """Return the candidates of each text; without sources, between its known mentions.

    `words` are the triggers to look for; None for pairs without a trigger.
    """
    candidates: list[list[Triple]] = []
    with progress_bar("finding candidates", len(texts), unit="texts", shown=progress) as bar:
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            some = texts[first : first + _TEXTS_AT_ONCE]
            strings = [text.text for text in some]
            spans = find_spans(strings, sources) if sources else [text.mentions() for text in some]
            triggers = [None] * len(some) if words is None else words.find_each(strings)
            candidates += [make_candidates(*one, rule) for one in zip(strings, spans, triggers, strict=True)]
            bar.advance(len(some))
    return candidates


def make_candidates(
    text: str, spans: Sequence[Span], triggers: Sequence[Span] | None = None, rule: CandidateRule | None = None
) -> list[Triple]:
    """Return the candidates of a text, in the order of the text: by head, then tail, then trigger.

    Every ordered pair of spans that do not overlap and do not mean the same entity (by their ids, where both have
    one) is a candidate, with each of its nearest triggers that overlap neither span: first those between the two,
    by the words to the nearer span, then those outside, by the words to the pair. A pair with no trigger in reach is
    no candidate. Without triggers (None) every pair is one candidate.

    It takes time in the order of spans * (spans in reach) + pairs * triggers, where spans and pairs are bounded by
    the rule; never spans * spans * triggers.
    """
    rule = rule or CandidateRule()
    kept = tidy_spans(text, spans)[: rule.max_spans]
    if len(kept) < 2:
        return []
    starts = np.array([start for start, _ in word_borders(text)], np.int64)
    places = _Places(kept, starts)
    heads, tails = _near_pairs(kept, places, rule)
    if triggers is None:
        return [Triple(kept[head], kept[tail]) for head, tail in zip(heads.tolist(), tails.tolist(), strict=True)]
    words = tidy_spans(text, triggers)
    chosen = _near_triggers(places, heads, tails, _Places(words, starts), rule)
    return [Triple(kept[head], kept[tail], trigger=words[trigger]) for head, tail, trigger in chosen]


def tidy_spans(text: str, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return spans without the white space around them, without blank ones, each place once, in the text's order."""
    places: dict[tuple[int, int], Span] = {}
    for span in spans:
        if not 0 <= span.start <= span.end <= len(text):
            raise InputError(
                f"A span reaches from {span.start} to {span.end} in a text of {len(text)} characters. Spans are "
                "characters of the very text they are given with, not tokens and not bytes."
            )
        inside = text[span.start : span.end]
        start = span.start + len(inside) - len(inside.lstrip())
        end = span.end - (len(inside) - len(inside.rstrip()))
        if start < end:
            tidy = span if (start, end) == (span.start, span.end) else replace(span, start=start, end=end)
            places.setdefault((start, end), tidy)
    return tuple(places[place] for place in sorted(places))


def without_determiners(text: str, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return tidy spans and beside each that begins with determiners ("a commune") what follows them ("commune").

    For English: DETERMINERS lists the words. Both spans are returned, since "The Hague" is more than "Hague"; they
    overlap, so they never form a pair.
    """
    given = tidy_spans(text, spans)
    shortened = []
    for span in given:
        words = find_words(text[span.start : span.end])
        n_leading = next((n for n, word in enumerate(words) if word.folded not in DETERMINERS), 0)
        if n_leading and words[0].start == 0:
            shortened.append(replace(span, start=span.start + words[n_leading].start))
    return tidy_spans(text, [*given, *shortened])


class _Places:
    """Where spans begin and end, in characters and in words, one array each."""

    def __init__(self, spans: Sequence[Span], word_starts: _Numbers) -> None:
        self.start: _Numbers = np.array([span.start for span in spans], np.int64)
        self.end: _Numbers = np.array([span.end for span in spans], np.int64)
        self.words_to: _Numbers = np.searchsorted(word_starts, self.start)  # words that begin before the span
        self.words_past: _Numbers = np.searchsorted(word_starts, self.end)  # words that begin before its end


def _near_pairs(spans: Sequence[Span], at: _Places, rule: CandidateRule) -> tuple[_Numbers, _Numbers]:
    """Return heads and tails of the kept pairs, by their numbers in `spans`, in the order of the text."""
    everyone = np.arange(len(spans))
    stop = np.searchsorted(at.words_to, at.words_past + rule.max_distance, side="right")  # behind the last in reach
    counts = np.maximum(stop - everyone - 1, 0)
    left = np.repeat(everyone, counts)
    right = left + 1 + np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
    number: dict[str, int] = {}
    entity = np.array([number.setdefault(span.id, len(number)) if span.id else -1 for span in spans])
    apart = (at.start[right] >= at.end[left]) & ((entity[left] != entity[right]) | (entity[left] < 0))
    left, right = left[apart], right[apart]
    heads, tails = np.concatenate([left, right]), np.concatenate([right, left])
    if len(heads) > rule.max_pairs:
        gap = np.tile(at.words_to[right] - at.words_past[left], 2)
        nearest = np.lexsort((tails, heads, gap))[: rule.max_pairs]
        heads, tails = heads[nearest], tails[nearest]
    order = np.lexsort((tails, heads))
    return heads[order], tails[order]


def _near_triggers(
    spans: _Places, heads: _Numbers, tails: _Numbers, triggers: _Places, rule: CandidateRule
) -> list[tuple[int, int, int]]:
    """Return (head, tail, trigger) by their numbers, for each pair its nearest triggers in the order of the text."""
    chosen: list[tuple[int, int, int]] = []
    at_once = max(1, _CELLS_AT_ONCE // max(1, len(triggers.start)))
    for first in range(0, len(heads), at_once):
        head, tail = heads[first : first + at_once], tails[first : first + at_once]
        far = _distances(spans, np.minimum(head, tail), np.maximum(head, tail), triggers, rule)
        rank = np.argsort(far, axis=1, kind="stable")[:, : rule.max_triggers]  # of equals the first in the text
        kept = np.isfinite(np.take_along_axis(far, rank, axis=1))
        for pair, trigger in zip(np.nonzero(kept)[0].tolist(), rank[kept].tolist(), strict=True):
            chosen.append((int(head[pair]), int(tail[pair]), trigger))
    return sorted(chosen)


def _distances(
    spans: _Places, left: _Numbers, right: _Numbers, triggers: _Places, rule: CandidateRule
) -> NDArray[np.float64]:
    """Return how far each trigger stands from each pair, (pairs, triggers): outside beyond all between, else inf."""
    left, right = left[:, None], right[:, None]
    between = (triggers.start >= spans.end[left]) & (triggers.end <= spans.start[right])
    to_left = triggers.words_to - spans.words_past[left]
    to_right = spans.words_to[right] - triggers.words_past
    before = spans.words_to[left] - triggers.words_past
    behind = triggers.words_to - spans.words_past[right]
    outside = np.where(
        triggers.end <= spans.start[left], before, np.where(triggers.start >= spans.end[right], behind, -1)
    )
    reached = (outside >= 0) & (outside <= rule.max_outside)
    farther = rule.max_distance + 1 + outside
    return np.where(between, np.minimum(to_left, to_right), np.where(reached, farther, np.inf))
