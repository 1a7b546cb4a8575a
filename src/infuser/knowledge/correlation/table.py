"""Words and the ties between them, in memory or on disk: what the `Correlation` source asks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuser.errors import SourceError
from infuser.knowledge.artifact import Parts, Strings, make_trie, whole
from infuser.knowledge.correlation.ties import TextWords, Ties, find_ties

_N_REMEMBERED = 500_000
_NONE = np.zeros(0, np.int64)


class Correlated(NamedTuple):
    """What a table knows about one text."""

    words: list[str]
    """Its words that the table knows, those of each side once."""
    sides: NDArray[np.int64]
    """On which side each of them stands: 0, or 1 for the right one."""
    weights: NDArray[Any]
    """(words, words) how strongly any two of them are tied, 0 to 1; symmetric."""
    terms: list[str]
    """Words that are not in the text with the highest average weight over its distinct words, the best first."""
    ties: NDArray[Any]
    """(words, terms)"""


class TieTable:
    """Words by number and the other way round, and their ties."""

    def __init__(self, parts: Parts, *, n_sides: int = 1) -> None:
        self._parts, self.n_sides = parts, n_sides
        self._words = Strings.open(parts, "words")
        self._numbers = _Numbers(self)
        self.word = lru_cache(maxsize=_N_REMEMBERED)(self._words.__getitem__)
        """Returns the word of a number."""
        self.ties = Ties(parts, n_words=len(self._words), n_sides=n_sides)

    def __len__(self) -> int:
        return len(self._words)

    def look_up(self, word: str) -> int:
        """Return the number of a folded word, -1 if it is not in the table."""
        trie, number_of = self._index
        try:
            place = trie.get(word)
        except UnicodeEncodeError:  # half a character is in no table
            place = None
        return -1 if place is None else int(number_of[place])

    def nodes_of(self, words: Sequence[str], side: int = 0) -> list[int]:
        """Return the node of each folded word on a side of a text; negative if it is not in the table."""
        numbers, n_sides = self._numbers, self.n_sides
        return [numbers[word] * n_sides + side for word in words]

    def above(self, limit: float) -> TieTable:
        """Return the table with only those ties that weigh more than `limit`."""
        table = TieTable(self._parts, n_sides=self.n_sides)
        table.ties = self.ties.above(limit)
        return table

    def correlate(self, texts: Sequence[Sequence[Sequence[str]]], n_terms: int = 0) -> list[Correlated]:
        """Return the ties and terms of texts, each given as the folded words of its one or two sides."""
        asked = []
        for sides in texts:
            if len(sides) > self.n_sides:
                raise SourceError(f"A text has {len(sides)} sides; this table knows {self.n_sides}.")
            nodes = {node for side, words in enumerate(sides) for node in self.nodes_of(words, side)}
            asked.append(TextWords(np.array(sorted(node for node in nodes if node >= 0), np.int64), _NONE))
        return [
            Correlated(
                [self.word(number) for number in (text.nodes // self.n_sides).tolist()],
                text.nodes % self.n_sides,
                found.weights,
                [self.word(term) for term in found.terms.tolist()],
                found.ties,
            )
            for text, found in zip(asked, find_ties(self.ties, asked, n_terms), strict=True)
        ]

    @cached_property
    def _index(self) -> tuple[Any, NDArray[Any]]:
        return self._parts["words.trie"], whole(self._parts["words.number"])


class _Numbers(dict[str, int]):
    """Cached numbers of words; most words of a text were looked up before."""

    def __init__(self, table: TieTable) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, word: str) -> int:
        if len(self) >= _N_REMEMBERED:
            self.clear()
        number = self[word] = self._table.look_up(word)
        return number


def word_parts(words: Sequence[str]) -> dict[str, Any]:
    """Return the parts of a table that hold its words, which are numbered by their places."""
    trie = make_trie(words)
    number_of = np.zeros(len(words), np.int32)
    number_of[[trie[word] for word in words]] = np.arange(len(words), dtype=np.int32)
    place_of = np.zeros(len(words), np.int32)
    place_of[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words), dtype=np.int32)
    return {
        **Strings.of(words).parts("words"),
        "words.trie": trie,
        "words.number": number_of,
        "words.place": place_of,
    }
