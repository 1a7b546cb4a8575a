"""The ties of texts, and the best terms for them: words outside a text with the largest sum of weights.

The sums are exact, yet not everything is added up: a frequent word is tied to half of the vocabulary. Sums over the
near terms (see `correlation_ties`) come first, most of them from the dense corner; the last of the best near terms is
a bar. For far terms only the rows of rarer words are added up. What the first words add at most is known (`reach`), so
few far terms can still clear the bar. All that may be among the best are then compared by their exact sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from infuser.knowledge.correlation_ties import LEVELS, N_HEAD, Gathered, Ties

Numbers = NDArray[Any]
_N_SUMS = 1 << 22  # sums held at a time; more would not stay in the processor's cache
_N_NODES = 8192  # nodes of the texts that are asked together: bounds the memory
_N_HOPEFUL = 1000  # with more far terms than that before the bar, adding up everything is faster
_DIGITS = 12  # sums that differ by the order of addition only are equal


_NONE = np.zeros(0, np.int64)


class Asked(NamedTuple):
    """The nodes of one text, ascending and each once."""

    nodes: Numbers
    """Those whose ties with each other are wanted."""
    others: Numbers
    """Those that count for the terms only."""


class Found(NamedTuple):
    """The ties of one text."""

    weights: Numbers
    """(nodes, nodes)"""
    terms: Numbers
    """Words that are not in the text, the best first."""
    ties: Numbers
    """(nodes, terms)"""


def find_ties(ties: Ties, texts: Sequence[Asked], n_terms: int) -> list[Found]:
    """Return the ties among the nodes of each text, and its best terms."""
    n_texts = max(_N_SUMS // max(ties.n_words, 1), 1)
    found: list[Found] = []
    first = n_nodes = 0
    for place, text in enumerate(texts):
        n_nodes += len(text.nodes) + len(text.others)
        if place - first == n_texts or (n_nodes > _N_NODES and place > first):
            found += _Batch(ties, texts[first:place], n_terms).find()
            first, n_nodes = place, len(text.nodes) + len(text.others)
    return found + (_Batch(ties, texts[first:], n_terms).find() if first < len(texts) else [])


class _Batch:
    """Texts that are asked together."""

    def __init__(self, ties: Ties, texts: Sequence[Asked], n_terms: int) -> None:
        self._ties, self._asked, self._n_terms = ties, texts, n_terms
        self._texts = [np.sort(np.concatenate(text)) if len(text.others) else text.nodes for text in texts]
        self._has_far = ties.n_words > ties.n_near
        # what the first words add to far terms is left out, until it can matter
        self._first = min(N_HEAD * ties.n_sides, ties.n_inner) if n_terms and self._has_far else ties.n_inner
        self._rows, self._begins = self._gather(self._texts, self._first)
        self._place = np.full(ties.n_words, -1, np.int32)
        self._far_terms, self._to_first = _NONE, np.zeros((0, 0), ties.dtype)

    def find(self) -> list[Found]:
        """Return what was found in each text."""
        hopeful = self._hopeful() if self._n_terms else [_NONE] * len(self._texts)
        return [self._settle(number, terms) for number, terms in enumerate(hopeful)]

    def _gather(self, texts: Sequence[Numbers], first: int) -> tuple[Gathered, Numbers]:
        """Return the rows outside the corner of the nodes from `first` on, and at which row each text begins."""
        chosen = [nodes[np.searchsorted(nodes, first) :] for nodes in texts]
        return self._ties.gather(np.concatenate(chosen)), np.cumsum([0, *map(len, chosen)])

    def _add_up(self, texts: Sequence[Numbers], rows: Gathered, begins: Numbers) -> Numbers:
        """Return (texts, terms): the sums of these rows, which lie outside the corner."""
        # a sparse matrix with several entries in one place adds them up when it becomes dense
        shape = (len(texts), self._ties.n_words)
        sums: Numbers = csr_array((rows.weights, rows.columns, rows.begins[begins]), shape=shape).toarray()
        for row, nodes in zip(sums, texts, strict=True):
            row[nodes // self._ties.n_sides] = -np.inf  # a word of the text is no term
        return sums

    def _add_up_corner(self) -> Numbers:
        """Return (texts, near terms): the sums inside the corner."""
        chosen = [nodes[: np.searchsorted(nodes, self._ties.n_inner)] for nodes in self._texts]
        begins = np.cumsum([0, *map(len, chosen)])
        corner = self._ties.corner
        ones = np.ones(begins[-1], corner.dtype)  # of another type, the whole corner would be copied
        sums: Numbers = csr_array((ones, np.concatenate(chosen), begins), shape=(len(chosen), len(corner))) @ corner
        return sums

    def _hopeful(self) -> list[Numbers]:
        """Return for each text all terms that can be among the best."""
        n_near, sums = self._ties.n_near, self._add_up(self._texts, self._rows, self._begins)
        sums[:, :n_near] += self._add_up_corner()
        bar = np.zeros(len(sums), sums.dtype)
        if self._n_terms <= n_near:
            bar = np.partition(sums[:, :n_near], n_near - self._n_terms, axis=1)[:, n_near - self._n_terms]
        # these sums are rounded in many places, and the verdict comes later
        slack = 8 * np.finfo(sums.dtype).eps * np.array([len(nodes) for nodes in self._texts])
        bar = np.maximum(bar * (1 - slack).astype(sums.dtype), np.finfo(sums.dtype).tiny)
        near = _split(sums[:, :n_near] >= bar[:, None])
        if not self._has_far:
            return near
        far = self._far(sums[:, n_near:], bar)
        return [np.concatenate([some, others + n_near]) for some, others in zip(near, far, strict=True)]

    def _far(self, sums: Numbers, bar: Numbers) -> list[Numbers]:
        """Return for each text the far terms that may clear the bar; the sums lack the first nodes."""
        ties, sides = self._ties, range(self._ties.n_sides)
        left_out = [nodes[: np.searchsorted(nodes, self._first)] for nodes in self._texts]
        levels = np.searchsorted(LEVELS, [np.bincount(one % len(sides), minlength=len(sides)) for one in left_out])
        highest = sum(ties.highest_reach[side, levels[:, side]] for side in sides)
        found = _split(sums >= (bar - highest)[:, None])
        for number, terms in enumerate(found):
            at_most = sums[number][terms] + sum(ties.reach[side, levels[number, side]][terms] for side in sides)
            found[number] = terms[at_most >= bar[number]]
            if len(found[number]) > _N_HOPEFUL:
                text = self._texts[number : number + 1]
                everything = self._add_up(text, *self._gather(text, 0))[0, ties.n_near :]
                found[number] = np.flatnonzero(everything >= bar[number])
        self._far_terms = np.unique(np.concatenate(found)) + ties.n_near
        self._to_first = self._weights_of_first(self._far_terms)
        for number, terms in enumerate(found):
            rows = np.searchsorted(self._far_terms, terms + ties.n_near)
            missing = self._to_first[rows[:, None], left_out[number]].sum(axis=1)
            found[number] = terms[sums[number][terms] + missing >= bar[number]]
        return found

    def _weights_of_first(self, terms: Numbers) -> Numbers:
        """Return (far terms, first nodes), from the terms' own rows: those of the first nodes are long."""
        n_sides = self._ties.n_sides
        out = np.zeros((len(terms), self._first), self._ties.dtype)
        for side in range(n_sides):
            own = self._ties.gather(terms * n_sides + (n_sides - 1 - side))
            here = np.flatnonzero(own.columns < self._first // n_sides)
            rows = np.searchsorted(own.begins, here, side="right") - 1
            out[rows, own.columns[here] * n_sides + side] = own.weights[here]
        return out

    def _settle(self, number: int, hopeful: Numbers) -> Found:
        """Return the ties of a text, and the best of its hopeful terms by their exact sums."""
        nodes, (mine, others), n_sides = self._texts[number], self._asked[number], self._ties.n_sides
        words, places = (mine, slice(None)) if n_sides == 1 else np.unique(mine // 2, return_inverse=True)
        cells = self._cells(number, words, hopeful)
        weights, ties = cells[:, : len(words)], cells[:, len(words) :]
        sums = ties.sum(axis=0, dtype=np.float64).round(_DIGITS)
        best = np.lexsort((self._ties.place_of[hopeful], -sums))[: self._n_terms]
        best = best[sums[best] > 0]
        if len(others):
            rows = np.searchsorted(nodes, mine)
            weights, ties = weights[rows], ties[rows]
        weights = weights[:, places]
        if n_sides == 2:
            weights[(mine % 2)[:, None] == mine % 2] = 0
        # a far word is in no row of the corner, but these words are in its own row
        return Found(np.maximum(weights, weights.T), hopeful[best], ties[:, best])

    def _cells(self, number: int, words: Numbers, terms: Numbers) -> Numbers:
        """Return (nodes of a text, words and terms): single weights; none of a far word to a node of the corner."""
        ties, nodes, columns = self._ties, self._texts[number], np.concatenate([words, terms])
        cells = np.zeros((len(nodes), len(columns)), ties.dtype)
        inner = nodes[: np.searchsorted(nodes, ties.n_inner)]
        near = np.flatnonzero(columns < ties.n_near)
        places = (inner * ties.n_near)[:, None] + columns[near]
        cells[: len(inner), near] = ties.corner.reshape(-1).take(places)
        first, last = self._begins[number : number + 2].tolist()
        begin, end = self._rows.begins[[first, last]].tolist()
        self._place[columns] = np.arange(len(columns))
        found = self._place.take(self._rows.columns[begin:end])
        self._place[columns] = -1
        here = np.flatnonzero(found >= 0)
        rows = np.searchsorted(self._rows.begins[first : last + 1], here + begin, side="right") - 1
        n_left_out = len(nodes) - (last - first)
        cells[n_left_out + rows, found[here]] = self._rows.weights[begin:end][here]
        far = np.flatnonzero(terms >= ties.n_near)
        if len(far) and n_left_out:
            rows = np.searchsorted(self._far_terms, terms[far])
            cells[:n_left_out, len(words) + far] = self._to_first[rows, nodes[:n_left_out, None]]
        return cells


def _split(holds: Numbers) -> list[Numbers]:
    """Return for each row of a table the columns where it is true."""
    row, column = np.divmod(np.flatnonzero(holds), max(holds.shape[1], 1))
    return np.split(column, np.searchsorted(row, np.arange(1, len(holds))))
