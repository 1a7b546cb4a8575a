"""Term correlation: ties co-occurring words, in the text and just outside it.

The table is a few scores of yours, or a folder that `infuser correlation build` made from a corpus; both are read in
the same way. How scores are computed is explained in `knowledge/correlation/scores.py`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from infuser.errors import SourceError
from infuser.registry import SOURCES
from infuser.sources.storage import FolderSource
from infuser.types import PAIR_BREAK, Annotations, Link, Span, Term
from infuser.words import Word, find_words, readable

if TYPE_CHECKING:
    from infuser.knowledge.correlation.table import TextTies, TextWords, TieTable


@SOURCES.register("correlation")
@dataclass(frozen=True)
class Correlation(FolderSource):
    """Ties every two words of a text that the table knows as a pair, and adds terms that are close to the text.

    A tie weighs between 0 and 1: the score itself if it is normalised PMI, as in a folder unless built otherwise; any
    other score is divided by Z, the largest one of the table. A score that is not positive is no tie. In a folder a
    word holds its strongest ties (100 unless built otherwise); two words are tied if either holds the other.

    Words are compared folded (see `words.py`). The table is symmetric; a pair that is listed twice, in whatever
    order or case, has its larger score. Two occurrences of one word are tied only if the table pairs it with itself.

    Only a folder built from pairs of texts (queries and ads) distinguishes left from right: there ties lead from a word
    of one side to a word of the other, and terms are words of the other side. The left side ends at the first paragraph
    break of a text: what people look for is short, what they find may have paragraphs. A text without a break is a left
    side.
    """

    folder: ClassVar[tuple[str, str]] = ("scores", "correlation")

    scores: Mapping[tuple[str, str], float] | Iterable[tuple[str, str, float]] | str | Path
    """{("cat", "mouse"): 3.1}, or rows ("cat", "mouse", 3.1); or the folder of a table."""
    n_terms: int = 0
    """How many terms that are not in the text are added: those with the highest average weight over its distinct
    words, where a word that does not hold the term counts 0; equals in alphabetical order."""
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
        if isinstance(self.scores, str | Path):
            object.__setattr__(self, "scores", Path(os.path.abspath(self.scores)))
            self._table  # raises at once if there is none  # noqa: B018
        else:
            object.__setattr__(self, "scores", _table(self.scores))

    @classmethod
    def load(cls, folder: str | Path, *, n_terms: int = 0, minimum: float = 0.0, n_words: int = 512) -> Self:
        """Return the source of a folder that `infuser correlation build` made."""
        return cls(Path(folder), n_terms=n_terms, minimum=minimum, n_words=n_words)

    @classmethod
    def from_texts(
        cls, texts: Iterable[str], *, min_count: int = 2, n_terms: int = 0, minimum: float = 0.0, n_words: int = 512
    ) -> Self:
        """Return the table of a small corpus: log2 p(x, y) / (p(x) p(y)) over texts, where it is positive.

        Words and pairs in fewer than `min_count` texts are left out: what was seen once scores high by accident. For a
        large corpus, or other units and scores, build a folder: `infuser correlation build`.
        """
        from infuser.knowledge.correlation.scores import Scorer, Scoring
        from infuser.knowledge.counting import Counting, count_texts

        if isinstance(texts, str):
            raise SourceError("from_texts takes a list of texts, not one string.")
        settings = Counting(unit="document", min_count=min_count, min_pairs=min_count)
        counts = count_texts(texts, settings)
        first, second = np.divmod(np.asarray(counts.keys), max(len(counts.words), 1))
        score = Scorer(Scoring("pmi"), settings, counts.left, counts.right, counts.n_units)
        scores = score(first, second, np.asarray(counts.pair_counts))
        words, rows = counts.words.to_pylist(), zip(first.tolist(), second.tolist(), scores.tolist(), strict=True)
        positive = [(words[one], words[other], score) for one, other, score in rows if score > 0]
        return cls(positive, n_terms=n_terms, minimum=minimum, n_words=n_words)

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return the tied words of each text, and the terms added to it."""
        from infuser.knowledge.correlation.table import find_ties

        readings = [self._read(text) for text in texts]
        found = find_ties(self._table, [reading.asked for reading in readings], self.n_terms)
        return [reading.annotations(ties, self._table) for reading, ties in zip(readings, found, strict=True)]

    @property
    def span_types(self) -> tuple[str, ...]:
        """All spans are words."""
        return ("word",)

    @property
    def relation_types(self) -> tuple[str, ...]:
        """The one relation without a name, which ties two words, or a term to a word."""
        return ("",)

    def _read(self, text: str) -> _TextWords:
        words = find_words(text)
        nodes = np.array(self._table.nodes_of([word.folded for word in words]), np.int64)
        if self._table.n_sides == 2:
            place = text.find(PAIR_BREAK)
            right = place >= 0 and np.array([word.start for word in words]) > place
            nodes += np.where(nodes >= 0, right, 0)
        kept = np.array(readable(text, [word.start for word in words], self.n_words), np.int64)
        return _TextWords(text, words, nodes, kept)

    @cached_property
    def _table(self) -> TieTable:
        """The table, opened or built when first needed; only what is tied is in it."""
        if isinstance(self.scores, Path):
            from infuser.knowledge.correlation.store import CorrelationStore

            store = CorrelationStore.open(self.scores)
            scale = 1.0 if store.scoring.score == "npmi" else store.about["largest"]
            return store.table.above(self.minimum / scale) if self.minimum and scale else store.table
        from infuser.knowledge.correlation.build import make_table

        scores: Any = self.scores
        tied = [(one, other, score) for (one, other), score in scores.items() if score > self.minimum]
        words = sorted({word for one, other, _ in tied for word in (one, other)})
        number = {word: place for place, word in enumerate(words)}
        first, second = (np.array([number[row[side]] for row in tied], np.int64) for side in (0, 1))
        largest = max(scores.values(), default=0.0)
        return make_table(words, first, second, np.array([score / largest for *_, score in tied], np.float64))

    @classmethod
    def tiny(cls) -> Self:
        """Return a table of four pairs that adds one term."""
        pairs = {("buy", "shop"): 2.0, ("near", "shop"): 1.0, ("shop", "store"): 4.0, ("buy", "sleep"): -1.0}
        return cls(pairs, n_terms=1)


class _TextWords:
    """A text as the table sees it."""

    def __init__(self, text: str, words: list[Word], nodes: Any, kept: Any) -> None:
        from infuser.knowledge.correlation.table import TextWords

        self._text, self._words = text, words
        self._kept = kept[nodes[kept] >= 0]
        """The words that ties may reach and the table knows, by their places."""
        mine, self._node_of = np.unique(nodes[self._kept], return_inverse=True)
        others = np.setdiff1d(nodes[nodes >= 0], mine) if len(kept) < len(words) else mine[:0]
        self.asked: TextWords = TextWords(mine, others)

    def annotations(self, found: TextTies, table: TieTable) -> Annotations:
        """Return what was found in terms of the text."""
        weights = np.triu(found.weights[self._node_of[:, None], self._node_of], 1)
        ties = found.ties[self._node_of]
        tied = np.flatnonzero(weights.any(axis=0) | weights.any(axis=1) | ties.any(axis=1))
        weights, ties = weights[tied[:, None], tied], ties[tied]
        words = [self._words[place] for place in self._kept[tied].tolist()]
        one, other = np.nonzero(weights)  # in the order of the text
        links = zip(one.tolist(), other.tolist(), weights[one, other].tolist(), strict=True)
        terms = []
        for number, near in zip(found.terms.tolist(), ties.T, strict=True):
            spans = np.flatnonzero(near)
            if len(spans):
                terms.append(Term(table.word(number), tuple(zip(spans.tolist(), near[spans].tolist(), strict=True))))
        return Annotations(
            self._text,
            tuple([Span(word.start, word.end, label="word", id=word.folded) for word in words]),
            tuple([Link(*link) for link in links]),
            tuple(terms),
        )


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
