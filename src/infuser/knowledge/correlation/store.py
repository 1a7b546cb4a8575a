"""A table of correlation built from a corpus, as a folder: its counts, its scores, the ties that maps draw.

Opening it takes milliseconds; arrays are mapped from disk and checked when first touched. The counts are all
there, so another score can be computed without the corpus: save_correlation(store.counts(), scoring, out).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from infuser.errors import InputError, SourceError
from infuser.knowledge.artifact import Folder, whole
from infuser.knowledge.correlation.build import KIND, SHAPE, save_correlation
from infuser.knowledge.correlation.scores import Scorer, Scoring
from infuser.knowledge.correlation.table import Correlated, TieTable
from infuser.knowledge.counting.settings import Counting
from infuser.knowledge.counting.shapes import Chained, CorpusCounts, RowKeys
from infuser.tables.skipped import Skipped
from infuser.words import find_words

__all__ = ["KIND", "CorrelationStore", "Neighbour", "PairFacts", "Points", "save_correlation"]


class PairFacts(NamedTuple):
    """What is known about two words."""

    first: str
    second: str
    together: int
    """How often they were seen together; 0 also if that was too rarely to be kept."""
    first_count: int
    second_count: int
    score: float | None
    """None if they were not seen together."""
    weight: float
    """Of the tie in maps; 0 if there is none."""


class Neighbour(NamedTuple):
    """A word that another one is tied to."""

    word: str
    score: float
    together: int
    """How often the two were seen together."""
    count: int  # type: ignore[assignment]  # hides tuple.count
    """How often the word was seen."""


class Points(NamedTuple):
    """Some counted pairs, to be drawn."""

    together: NDArray[np.int64]
    """How often the two words of a pair were seen together."""
    rarer: NDArray[np.int64]
    """How often the rarer of the two was seen."""
    scores: NDArray[np.float64]


class CorrelationStore:
    """A folder that `save_correlation` wrote."""

    def __init__(self, parts: Folder) -> None:
        self._parts, self.about = parts, parts.about
        self.counting = Counting.from_json(self.about["counting"])
        self.scoring = Scoring.from_json(self.about["scoring"])
        if self.about["shape"] != SHAPE:
            raise SourceError(
                f"{str(parts.path)!r} was built by another version of infuser, which lays ties out differently. Build "
                "it again."
            )
        self.table = TieTable(parts, n_sides=self.counting.n_sides)
        self.n_units: int = self.about["n_units"]
        self.n_words: int = self.about["n_words"]
        self.n_pairs: int = self.about["n_pairs"]
        self.n_ties: int = self.about["n_ties"]

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open a folder."""
        return cls(Folder(folder, KIND))

    @property
    def skipped(self) -> Skipped:
        """Rows of the corpus that could not be read."""
        found = self.about.get("skipped", {"rows": 0, "first": []})
        return Skipped(n=found["rows"], first=list(found["first"]))

    def correlate(self, texts: Sequence[Sequence[Sequence[str]]], n_terms: int = 0) -> list[Correlated]:
        """Return the ties and terms of texts, each given as the folded words of its one or two sides."""
        return self.table.correlate(texts, n_terms)

    def counts(self) -> CorpusCounts:
        """Return what was counted, as it was given to `save_correlation`; the pairs are read when they are needed."""
        words = pa.array([self.table.word(number) for number in range(self.n_words)], pa.string())
        keys = RowKeys(self._begins, self._parts["pairs.seconds"])
        together = Chained([self._parts["pairs.counts"]])
        told = {name: self.about[name] for name in self.about["told"]}
        return CorpusCounts(self.counting, words, self._seen(0), self._seen(1), self.n_units, keys, together, told)

    def count(self, word: str, *, side: int | None = None) -> int:
        """Return how often a word was seen; of a table of pairs, on the side where that was more often."""
        number = self._number(word)
        return int(self._seen(self._side(number, side))[number])

    def side_of(self, word: str, side: int | None = None) -> int:
        """Return the given side, or the one on which a word was seen more often."""
        return self._side(self._number(word), side)

    def pair(self, first: str, second: str) -> PairFacts:
        """Return what is known about two words; of a table of pairs, a left and a right one."""
        return self._facts(self._number(first), self._number(second))

    def neighbours(self, word: str, n: int = 20, *, side: int | None = None) -> list[Neighbour]:
        """Return the words that a word is most strongly tied to, the closest first.

        Of a table of pairs they are words of the other side; without `side` (0 or 1) the word stands on the one where
        it was seen more often.
        """
        number = self._number(word)
        side = self._side(number, side)
        columns, weights = self.table.row(number * self.counting.n_sides + side)
        best = np.lexsort((self.table.place_of[columns], -weights))[:n]
        found = []
        for other in columns[best].tolist():
            facts = self._facts(other, number) if side == 1 else self._facts(number, other)
            count = facts.first_count if side == 1 else facts.second_count
            found.append(Neighbour(self.table.word(other), facts.score or 0.0, facts.together, count))
        return found

    def points(self, n: int = 10_000) -> Points:
        """Return at most `n` pairs, evenly spread over all that were counted."""
        places = np.unique(np.linspace(0, max(self.n_pairs - 1, 0), min(n, self.n_pairs), dtype=np.int64))
        first = np.searchsorted(self._begins, places, side="right") - 1
        second = self._parts["pairs.seconds"][places].astype(np.int64)
        together = self._parts["pairs.counts"][places].astype(np.int64)
        rarer = np.minimum(self._seen(0)[first], self._seen(1)[second])
        return Points(together, rarer, self._score(first, second, together))

    def _facts(self, first: int, second: int) -> PairFacts:
        one, other = (first, second) if self.counting.n_sides == 2 else sorted((first, second))
        begin, end = self._begins[one : one + 2].tolist()
        place = begin + int(np.searchsorted(self._parts["pairs.seconds"][begin:end], other))
        score, weight, together = None, 0.0, 0
        if place < end and int(self._parts["pairs.seconds"][place]) == other:
            together = int(self._parts["pairs.counts"][place])
            scores = self._score(np.array([one]), np.array([other]), np.array([together]))
            score, weight = float(scores[0]), self._weight(one, other)
        return PairFacts(
            first=self.table.word(first),
            second=self.table.word(second),
            together=together,
            first_count=int(self._seen(0)[first]),
            second_count=int(self._seen(1)[second]),
            score=score,
            weight=weight,
        )

    def _weight(self, first: int, second: int) -> float:
        """Return the weight of the tie of two words, which either of them holds; 0 if none does."""
        n_sides = self.counting.n_sides
        weights = [0.0]
        for node, word in ((first * n_sides, second), (second * n_sides + n_sides - 1, first)):
            columns, held = self.table.row(node)
            weights += held[columns == word].tolist()
        return max(weights)

    def _number(self, word: str) -> int:
        found = find_words(word)
        number = self.table.look_up(found[0].folded) if len(found) == 1 else -1
        if number < 0:
            rare = f"seen fewer than {self.counting.min_count} times" if self.counting.min_count > 1 else "never seen"
            why = f"it was {rare}, or left out" if len(found) == 1 else "it is not one word"
            raise InputError(
                f"{word!r} is none of the {self.n_words:,} words of the table: {why}. Ask for another one."
            )
        return number

    def _side(self, number: int, side: int | None) -> int:
        if self.counting.n_sides == 1:
            return 0
        if side not in (None, 0, 1):
            raise InputError(f"side is {side!r}; it can be 0, the left one, or 1.")
        return int(self._seen(1)[number] > self._seen(0)[number]) if side is None else side

    @cached_property
    def _score(self) -> Scorer:
        return Scorer(self.scoring, self.counting, self._seen(0), self._seen(1), self.n_units)

    @cached_property
    def _begins(self) -> NDArray[np.int64]:
        return whole(self._parts["pairs.begins"])

    def _seen(self, side: int) -> NDArray[np.int64]:
        """Return how often each word was seen, on a side of pairs."""
        return whole(self._parts["right" if side == 1 and self.counting.n_sides == 2 else "left"])
