"""The ties of texts, and the best terms for them: words outside a text with the largest sum of weights.

The sums are exact, yet not everything is added up: a frequent word is tied to half of the vocabulary. Sums over the
near terms (see `correlation_ties`) come first, most of them from the dense corner; the last of the best near terms is
a bar. For far terms only the rows of rarer words are added up. What the first words add at most is known (`reach`), so
few far terms can still clear the bar; if they are many, fewer first words are left out. All that may be among the best
are then compared by their exact sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from infuser.knowledge.correlation_ties import Gathered, Head, Ties

Numbers = NDArray[Any]
_N_SUMS = 1 << 21  # sums held at a time; more would not stay in the processor's cache
_N_NODES = 8192  # nodes of the texts that are asked together: bounds the memory
_N_HOPEFUL = 64  # with more far terms than that before the bar, adding up more is faster
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
        self._rows, self._begins = self._gather("tail", range(len(texts)), ties.n_inner)
        self._place = ties.scratch.room("place", (ties.n_words,), np.int32)
        self._place.fill(-1)
        self._far_terms, self._to_inner = _NONE, np.zeros((0, 0), ties.dtype)

    def find(self) -> list[Found]:
        """Return what was found in each text."""
        hopeful = self._hopeful() if self._n_terms else [_NONE] * len(self._texts)
        return [self._settle(number, terms) for number, terms in enumerate(hopeful)]

    def _gather(
        self, name: str, numbers: Sequence[int], first: int, end: int | None = None
    ) -> tuple[Gathered, Numbers]:
        """Return the rows outside the corner of nodes from `first` on of some texts, and at which row each begins."""
        texts = [self._texts[number] for number in numbers]
        chosen = [nodes[slice(*np.searchsorted(nodes, [first, end or np.inf]))] for nodes in texts]
        return self._ties.gather(np.concatenate(chosen), name), np.cumsum([0, *map(len, chosen)])

    def _add_up(self, name: str, rows: Gathered, begins: Numbers) -> Numbers:
        """Return (texts, terms): the sums of these rows, which lie outside the corner."""
        # a sparse matrix with several entries in one place adds them up when it becomes dense
        shape = (len(begins) - 1, self._ties.n_words)
        sparse = csr_array((rows.weights, rows.columns, rows.begins[begins]), shape=shape)
        sums: Numbers = sparse.toarray(out=self._ties.scratch.room(f"{name}.sums", shape, self._ties.dtype))
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
        n_near, sums = self._ties.n_near, self._add_up("tail", self._rows, self._begins)
        sums[:, :n_near] += self._add_up_corner()
        for row, nodes in zip(sums, self._texts, strict=True):
            row[nodes // self._ties.n_sides] = -np.inf  # a word of the text is no term
        bar = np.zeros(len(sums), sums.dtype)
        if self._n_terms <= n_near:
            ordered = self._ties.scratch.room("ordered", (len(sums), n_near), sums.dtype)
            np.copyto(ordered, sums[:, :n_near])
            ordered.partition(n_near - self._n_terms, axis=1)
            bar = ordered[:, n_near - self._n_terms].copy()
        # these sums are rounded in many places, and the verdict comes later
        slack = 8 * np.finfo(sums.dtype).eps * np.array([len(nodes) for nodes in self._texts])
        bar = np.maximum(bar * (1 - slack).astype(sums.dtype), np.finfo(sums.dtype).tiny)
        near = self._reaching(sums[:, :n_near], bar)
        if self._ties.n_words == n_near:
            return near
        far = self._far(sums[:, n_near:], bar)
        return [np.concatenate([some, others + n_near]) for some, others in zip(near, far, strict=True)]

    def _far(self, tail_sums: Numbers, bar: Numbers) -> list[Numbers]:
        """Return for each text the far terms that may clear the bar, given their sums over nodes without a corner."""
        found, open_ = [_NONE] * len(bar), np.arange(len(bar))
        for head in [*self._ties.heads, None]:
            rows, begins = self._gather("far", open_.tolist(), head.n_nodes if head else 0, self._ties.n_inner)
            sums = self._add_up("far", rows, begins)[:, self._ties.n_near :]
            for row, number in zip(sums, open_.tolist(), strict=True):
                row += tail_sums[number]
            hopeful = self._below(head, open_, sums, bar[open_]) if head else self._reaching(sums, bar[open_])
            settled = np.array([not head or len(terms) <= _N_HOPEFUL for terms in hopeful])
            for place in np.flatnonzero(settled).tolist():
                found[open_[place]] = hopeful[place]
            open_ = open_[~settled]
            if not len(open_):
                break
        self._far_terms = np.unique(np.concatenate(found)) + self._ties.n_near
        self._to_inner = self._from_own_rows(self._far_terms, self._ties.n_inner)
        return found

    def _below(self, head: Head, numbers: Numbers, sums: Numbers, bar: Numbers) -> list[Numbers]:
        """Return the far terms of some texts that may clear the bar, by sums that lack the first nodes."""
        sides, n_near = range(self._ties.n_sides), self._ties.n_near
        texts = [self._texts[number] for number in numbers.tolist()]
        left_out = [nodes[: np.searchsorted(nodes, head.n_nodes)] for nodes in texts]
        levels = np.searchsorted(head.levels, [np.bincount(one % len(sides), minlength=len(sides)) for one in left_out])
        highest = sum(head.highest[side, levels[:, side]] for side in sides)
        found = self._reaching(sums, np.where(highest < bar, bar - highest, np.inf))
        for place, terms in enumerate(found):
            reach = [head.reach[side, levels[place, side]] for side in sides]
            if highest[place] < bar[place]:
                found[place] = terms[sum((one[terms] for one in reach), sums[place][terms]) >= bar[place]]
            else:  # any term may clear the bar
                at_most = np.add(sums[place], reach[0], out=self._ties.scratch.room("most", reach[0].shape, sums.dtype))
                found[place] = self._reaching(sum(reach[1:], at_most)[None], bar[place : place + 1])[0]
        few = [terms if len(terms) <= _N_HOPEFUL else _NONE for terms in found]
        looked_at = np.unique(np.concatenate(few))
        to_first = self._from_own_rows(looked_at + n_near, head.n_nodes)
        for place, terms in enumerate(few):
            if len(terms):
                missing = to_first[np.searchsorted(looked_at, terms)[:, None], left_out[place]].sum(axis=1)
                found[place] = terms[sums[place][terms] + missing >= bar[place]]
        return found

    def _from_own_rows(self, terms: Numbers, n_nodes: int) -> Numbers:
        """Return (far terms, the first so many nodes): a far term's own row is short, theirs are long."""
        n_sides = self._ties.n_sides
        out = np.zeros((len(terms), n_nodes), self._ties.dtype)
        for side in range(n_sides):
            own = self._ties.gather(terms * n_sides + (n_sides - 1 - side), "own")
            here = np.flatnonzero(own.columns < n_nodes // n_sides)
            rows = np.searchsorted(own.begins, here, side="right") - 1
            out[rows, own.columns[here] * n_sides + side] = own.weights[here]
        return out

    def _reaching(self, sums: Numbers, bar: Numbers) -> list[Numbers]:
        """Return for each text the terms whose sums reach its bar."""
        reach = self._ties.scratch.room("reaching", sums.shape, bool)
        np.greater_equal(sums, bar[:, None], out=reach)
        text, term = np.divmod(np.flatnonzero(reach), max(sums.shape[1], 1))
        return np.split(term, np.searchsorted(text, np.arange(1, len(sums))))

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
        last = int(self._begins[number + 1])
        begins = self._rows.begins[last - (len(nodes) - len(inner)) : last + 1]
        begin, end = int(begins[0]), int(begins[-1])
        self._place[columns] = np.arange(len(columns))
        found = self._place.take(self._rows.columns[begin:end])
        self._place[columns] = -1
        here = np.flatnonzero(found >= 0)
        rows = np.searchsorted(begins, here + begin, side="right") - 1
        cells[len(inner) + rows, found[here]] = self._rows.weights[begin:end][here]
        far = np.flatnonzero(terms >= ties.n_near)
        if len(far):
            rows = np.searchsorted(self._far_terms, terms[far])
            cells[: len(inner), len(words) + far] = self._to_inner[rows, inner[:, None]]
        return cells
