"""Term correlation: words that keep each other's company are tied, in the text and just outside it.

The table holds a score for a pair of words, usually pointwise mutual information. A tie weighs score / Z, where Z is
the table's largest score, so weights lie in (0, 1]; a negative score is no tie. This table lives in memory.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Self

from infuser.errors import SourceError
from infuser.registry import SOURCES
from infuser.sources.storage import settings_of
from infuser.types import Annotations, Link, Span, Term
from infuser.words import Word, find_words, readable


@SOURCES.register("correlation")
@dataclass(frozen=True)
class Correlation:
    """Ties every two words of a text that the table knows as a pair, and adds terms that are close to the text.

    Words are compared folded (see `words.py`). The table is symmetric; a pair that is listed twice, in whatever
    order or case, has its larger score. Two occurrences of one word are tied only if the table pairs it with itself.
    """

    scores: Mapping[tuple[str, str], float] | Iterable[tuple[str, str, float]]
    """{("cat", "mouse"): 3.1}, or rows ("cat", "mouse", 3.1)."""
    n_terms: int = 0
    """How many terms that are not in the text are added: those with the highest average weight over its distinct
    words, where a word without a tie counts 0; equals in alphabetical order."""
    minimum: float = 0.0
    """A pair is tied if its score is above this."""
    n_words: int = 512
    """Ties reach the first so many words of a text and of each side of a pair; an encoder reads no further."""

    def __post_init__(self) -> None:
        if self.n_terms < 0 or self.n_words < 1 or not self.minimum >= 0:
            raise SourceError(
                f"n_terms={self.n_terms}, n_words={self.n_words}, minimum={self.minimum} cannot be used: n_terms and "
                "minimum must be 0 or more, n_words 1 or more."
            )
        object.__setattr__(self, "scores", _table(self.scores))

    @classmethod
    def from_texts(
        cls, texts: Iterable[str], *, min_count: int = 2, n_terms: int = 0, minimum: float = 0.0, n_words: int = 512
    ) -> Self:
        """Return the table of a corpus: log p(x, y) / (p(x) p(y)) over texts, where it is positive.

        Words and pairs in fewer than `min_count` texts are left out: what was seen once scores high by accident.
        """
        if isinstance(texts, str):
            raise SourceError("from_texts takes a list of texts, not one string.")
        documents = [sorted({word.folded for word in find_words(text)}) for text in texts]
        counts = Counter(word for document in documents for word in document)
        pairs = Counter(
            pair
            for document in documents
            for pair in combinations([word for word in document if counts[word] >= min_count], 2)
        )
        scores = {
            (one, other): math.log(n_both * len(documents) / (counts[one] * counts[other]))
            for (one, other), n_both in pairs.items()
            if n_both >= min_count
        }
        positive = {pair: score for pair, score in scores.items() if score > 0}
        return cls(positive, n_terms=n_terms, minimum=minimum, n_words=n_words)

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return the tied words of each text, and the terms added to it."""
        return [self._annotate(text) for text in texts]

    def _annotate(self, text: str) -> Annotations:
        words = find_words(text)
        terms = self._terms({word.folded for word in words}) if self.n_terms else []
        kept = [words[number] for number in readable(text, [word.start for word in words], self.n_words)]
        places: dict[str, list[int]] = defaultdict(list)  # word to its numbers in `kept`
        for number, word in enumerate(kept):
            places[word.folded].append(number)
        pairs = sorted(self._pairs(places))
        ties = {term: {number: self._tied[term][word] for word, number in self._beside(term, kept)} for term in terms}
        tied = {number for one, other, _ in pairs for number in (one, other)}.union(*ties.values())
        span_of = {number: place for place, number in enumerate(sorted(tied))}
        return Annotations(
            text,
            tuple(
                Span(kept[number].start, kept[number].end, label="word", id=kept[number].folded) for number in span_of
            ),
            tuple(Link(span_of[one], span_of[other], weight) for one, other, weight in pairs),
            tuple(
                Term(term, tuple((span_of[number], weight) for number, weight in sorted(near.items())))
                for term, near in ties.items()
                if near
            ),
        )

    def _pairs(self, places: Mapping[str, list[int]]) -> Iterable[tuple[int, int, float]]:
        """Yield (earlier place, later place, weight) for every two places whose words are tied."""
        for word, here in places.items():
            for other, weight in _shared(self._tied.get(word, {}), places):
                if other == word:
                    yield from ((one, two, weight) for one, two in combinations(here, 2))
                elif word < other:
                    yield from ((min(one, two), max(one, two), weight) for one in here for two in places[other])

    def _terms(self, words: set[str]) -> list[str]:
        """Return the terms outside the text with the highest sum of weights; the average differs by a constant."""
        sums: dict[str, float] = defaultdict(float)
        for word in sorted(words):
            for other, weight in self._tied.get(word, {}).items():
                if other not in words:
                    sums[other] += weight
        # rounding: sums that differ by the order of addition only are equal
        return sorted(sums, key=lambda term: (-round(sums[term], 12), term))[: self.n_terms]

    def _beside(self, term: str, words: Sequence[Word]) -> list[tuple[str, int]]:
        near = self._tied[term]
        return [(word.folded, number) for number, word in enumerate(words) if word.folded in near]

    @cached_property
    def _tied(self) -> dict[str, dict[str, float]]:
        """Word to its partners and the weights of their ties."""
        table = _table(self.scores)
        largest = max(table.values(), default=0.0)
        tied: dict[str, dict[str, float]] = defaultdict(dict)
        for (one, other), score in table.items():
            if score > self.minimum:
                tied[one][other] = tied[other][one] = score / largest
        return dict(tied)

    def __getstate__(self) -> dict[str, Any]:
        return settings_of(self)  # a worker builds its own index

    @classmethod
    def tiny(cls) -> Self:
        """Return a table of four pairs that adds one term."""
        pairs = {("buy", "shop"): 2.0, ("near", "shop"): 1.0, ("shop", "store"): 4.0, ("buy", "sleep"): -1.0}
        return cls(pairs, n_terms=1)


def _shared(near: Mapping[str, float], places: Mapping[str, list[int]]) -> Iterable[tuple[str, float]]:
    """Return the partners that are in the text, in time of the smaller of the two."""
    if len(near) <= len(places):
        return [(word, weight) for word, weight in near.items() if word in places]
    return [(word, near[word]) for word in places if word in near]


def _table(scores: Mapping[tuple[str, str], float] | Iterable[tuple[str, str, float]]) -> dict[tuple[str, str], float]:
    """Return the scores of folded words, each pair once and in alphabetical order."""
    if isinstance(scores, Mapping):
        wrong = [pair for pair in scores if not isinstance(pair, tuple)]
        if wrong:
            raise SourceError(
                f"A key of the correlation table is {wrong[0]!r}; it must be a pair of words, (word, word)."
            )
        scores = [(*pair, score) for pair, score in scores.items()]
    folded: dict[str, str] = {}
    table: dict[tuple[str, str], float] = {}
    for row in scores:
        if len(row) != 3 or not isinstance(row[2], int | float):
            raise SourceError(f"A row of the correlation table is {row!r}; it must be two words and a score.")
        one, other = (folded.get(word) or folded.setdefault(word, _one_word(word)) for word in row[:2])
        score = float(row[2])
        if not math.isfinite(score):
            raise SourceError(f"The score of {row[:2]!r} is {score}; leave out pairs without a finite score.")
        pair = (min(one, other), max(one, other))
        table[pair] = max(score, table.get(pair, score))
    return table


def _one_word(text: str) -> str:
    words = find_words(text) if isinstance(text, str) else []
    if len(words) != 1 or words[0].end - words[0].start != len(text):
        raise SourceError(
            f"{text!r} in the correlation table is not one word. Pairs are pairs of single words; leave it out, or use "
            "Graph or Phrases for names of several words."
        )
    return words[0].folded
