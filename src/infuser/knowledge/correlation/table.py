"""Words and the ties between them, in memory or on disk, and what they say about texts: ties, and the closest terms.

The ties are one sparse matrix. A word on one side of a text is a node: number * n_sides + side. Only a table of pairs
has two sides: there the row of a left word holds right words, and the other way round.

    ties.begins    where the row of each node begins, and, last, their number
    ties.columns   the words that a node is tied to, ascending        ties.weights   how strongly, above 0 and up to 1

A row of a built table holds the strongest ties of its word only (`Scoring.max_ties`), so two words are tied if either
holds the other, and a word speaks for the terms that it holds. So what a text costs does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from infuser.errors import SourceError
from infuser.knowledge.arrays import Strings, begins_of, join_ranges, key_in, number_strings
from infuser.knowledge.artifact import Parts, whole

Numbers = NDArray[Any]
_N_ENTRIES = 1 << 21  # looked at together: bounds the memory
_DIGITS = 12  # sums that differ by the order of addition only are equal
_ROUNDING = 1e-4  # more than sums of single precision are off
_N_REMEMBERED = 500_000
_NONE = np.zeros(0, np.int64)


class TextWords(NamedTuple):
    """The nodes of one text, each once."""

    nodes: Numbers
    """Those whose ties with each other are wanted."""
    others: Numbers
    """Those that count for the terms only."""


class TextTies(NamedTuple):
    """The ties of one text."""

    weights: Numbers
    """(nodes, nodes)"""
    terms: Numbers
    """Words that are not in the text, the best first."""
    ties: Numbers
    """(nodes, terms)"""


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
    """Words by number and the other way round, and their ties; arrays are checked as a whole at their first use."""

    def __init__(self, parts: Parts, *, n_sides: int = 1) -> None:
        self._parts, self.n_sides = parts, n_sides
        words = Strings.open(parts, "words")
        self.n_words = len(words)
        self.word = lru_cache(maxsize=_N_REMEMBERED)(words.__getitem__)
        """Returns the word of a number."""
        self.look_up = lru_cache(maxsize=_N_REMEMBERED)(self._look_up)
        """Returns the number of a folded word, -1 if it is not in the table."""

    def __len__(self) -> int:
        return self.n_words

    def _look_up(self, word: str) -> int:
        key = key_in(self._parts["words.trie"], word)
        return -1 if key < 0 else int(self._number_of[key])

    @cached_property
    def _number_of(self) -> Numbers:
        return whole(self._parts["words.number"])

    @cached_property
    def begins(self) -> Numbers:
        """Where the rows begin."""
        return whole(self._parts["ties.begins"])

    @cached_property
    def columns(self) -> Numbers:
        """The words of all rows."""
        return whole(self._parts["ties.columns"])

    @cached_property
    def weights(self) -> Numbers:
        """The weights of all rows."""
        return whole(self._parts["ties.weights"])

    @cached_property
    def place_of(self) -> Numbers:
        """The place of each word in the order of the alphabet."""
        return whole(self._parts["words.place"])

    def row(self, node: int) -> tuple[Numbers, Numbers]:
        """Return the words that a node is tied to, and the weights."""
        begin, end = self.begins[node : node + 2].tolist()
        return self.columns[begin:end], self.weights[begin:end]

    def nodes_of(self, words: Sequence[str], side: int = 0) -> list[int]:
        """Return the node of each folded word on a side of a text; negative if it is not in the table."""
        look_up, n_sides = self.look_up, self.n_sides
        return [look_up(word) * n_sides + side for word in words]

    def above(self, limit: float) -> TieTable:
        """Return the table with only those ties that weigh more than `limit`, in memory."""
        keep = self.weights > limit
        parts = {name: self._parts[name] for name in self._parts if name.startswith("words.")}
        parts |= {"ties.begins": begins_of(keep)[self.begins]}
        parts |= {"ties.columns": self.columns[keep], "ties.weights": self.weights[keep]}
        return TieTable(parts, n_sides=self.n_sides)

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
            for text, found in zip(asked, find_ties(self, asked, n_terms), strict=True)
        ]


def word_parts(words: Sequence[str]) -> dict[str, Any]:
    """Return the parts of a table that hold its words, which are numbered by their places."""
    trie, _, number_of = number_strings(words)
    place_of = np.zeros(len(words), np.int32)
    place_of[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words), dtype=np.int32)
    return {
        **Strings.of(words).parts("words"),
        "words.trie": trie,
        "words.number": number_of,
        "words.place": place_of,
    }


def find_ties(table: TieTable, texts: Sequence[TextWords], n_terms: int) -> list[TextTies]:
    """Return the ties among the nodes of each text, and the terms with the largest sums of weights over all its nodes.

    Equal sums come in alphabetical order; a term without a tie is none.
    """
    return [found for some in _batches(table, texts) for found in _Batch(table, some, n_terms).find()]


def _batches(table: TieTable, texts: Sequence[TextWords]) -> Iterator[Sequence[TextWords]]:
    first = n_entries = 0
    for place, text in enumerate(texts):
        nodes = np.concatenate(text)
        n_mine = int((table.begins[nodes + 1] - table.begins[nodes]).sum())
        if place > first and n_entries + n_mine > _N_ENTRIES:
            yield texts[first:place]
            first, n_entries = place, 0
        n_entries += n_mine
    if first < len(texts):
        yield texts[first:]


class _Batch:
    """Texts of one batch: the rows of all their nodes, one after another."""

    def __init__(self, table: TieTable, texts: Sequence[TextWords], n_terms: int) -> None:
        self._table, self._texts, self._n_terms = table, texts, n_terms
        self._nodes = [np.concatenate(text) for text in texts]
        nodes = np.concatenate(self._nodes)
        self._ends = np.cumsum([0, *map(len, self._nodes)])
        begins, lengths = table.begins[nodes], table.begins[nodes + 1] - table.begins[nodes]
        self._begins, entries = begins_of(lengths), join_ranges(begins, lengths)
        self._rows = np.repeat(np.arange(len(nodes)), lengths)
        self._columns, self._weights = table.columns[entries], table.weights[entries]
        # looked up instead of searched for; a text sets its places and clears them again
        self._node_place = np.full(table.n_words * table.n_sides, -1, np.int32)
        self._word_place = self._node_place if table.n_sides == 1 else np.full(table.n_words, -1, np.int32)

    def find(self) -> list[TextTies]:
        """Return what was found in each text."""
        sums = self._add_up() if self._n_terms else None
        return [self._find(number, sums) for number in range(len(self._texts))]

    def _add_up(self) -> Any:
        """Return (texts, words): the sums of the rows of each text, sparse."""
        n_nodes, n_words = int(self._ends[-1]), self._table.n_words
        rows = csr_array((self._weights, self._columns, self._begins), shape=(n_nodes, n_words))
        ones = np.ones(n_nodes, self._weights.dtype)
        return csr_array((ones, np.arange(n_nodes), self._ends), shape=(len(self._texts), n_nodes)) @ rows

    def _find(self, number: int, sums: Any) -> TextTies:
        nodes, n_mine, n_sides = self._nodes[number], len(self._texts[number].nodes), self._table.n_sides
        first = int(self._ends[number])
        begin, end = int(self._begins[first]), int(self._begins[first + len(nodes)])
        rows, columns, weights = self._rows[begin:end] - first, self._columns[begin:end], self._weights[begin:end]
        # a left word holds right words, whose nodes these are
        others = columns if n_sides == 1 else columns * 2 + (1 - nodes % 2)[rows]
        among = _cells(self._node_place, nodes[:n_mine], rows, others, weights, len(nodes))[:n_mine]
        among = np.maximum(among, among.T)
        if sums is None:
            return TextTies(among, nodes[:0], among[:, :0])
        hopeful = self._hopeful(nodes // n_sides, *_row(sums, number))
        cells = _cells(self._word_place, hopeful, rows, columns, weights, len(nodes))
        exact = cells.sum(axis=0, dtype=np.float64).round(_DIGITS)
        best = np.lexsort((self._table.place_of[hopeful], -exact))[: self._n_terms]
        return TextTies(among, hopeful[best], cells[:n_mine, best])

    def _hopeful(self, words: Numbers, terms: Numbers, sums: Numbers) -> Numbers:
        """Return the terms that may be among the best: sums of single precision leave a little open."""
        self._word_place[words] = 0
        outside = self._word_place[terms] < 0
        self._word_place[words] = -1
        terms, sums = terms[outside], sums[outside]
        if len(terms) <= self._n_terms:
            return terms
        bar = np.partition(sums, len(sums) - self._n_terms)[len(sums) - self._n_terms]
        hopeful: Numbers = terms[sums >= bar * (1 - _ROUNDING)]
        return hopeful


def _row(matrix: Any, number: int) -> tuple[Numbers, Numbers]:
    begin, end = matrix.indptr[number : number + 2].tolist()
    return matrix.indices[begin:end], matrix.data[begin:end]


def _cells(
    place_of: Numbers, wanted: Numbers, rows: Numbers, columns: Numbers, weights: Numbers, n_rows: int
) -> Numbers:
    """Return (rows, wanted columns) of a sparse matrix, dense."""
    cells: Numbers = np.zeros((n_rows, len(wanted)), weights.dtype)
    place_of[wanted] = np.arange(len(wanted))
    places = place_of[columns]
    place_of[wanted] = -1
    here = np.flatnonzero(places >= 0)
    cells[rows[here], places[here]] = weights[here]
    return cells
