"""How far apart the entities of a text are: exact, for all pairs, in milliseconds.

A path through a landmark is as long as both distances to it together, so the nearest landmark gives an upper bound;
two entities whose distances to one landmark differ by d are at least d apart, a lower bound. Where the bounds leave a
choice, a search settles it, from several entities at once, until the fronts of the wanted pairs meet.

Every entity has a front: what lies exactly so many steps away from it. In each round the cheapest fronts move one
step on, and the pairs whose fronts then share an entity have met. All fronts lie in one array each for owner and
node, so that a round costs the same few calls whether it moves two fronts or two hundred.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuser.errors import SourceError
from infuser.knowledge.arrays import join_ranges
from infuser.knowledge.artifact import Parts
from infuser.knowledge.graph.adjacency import Adjacency, Numbers
from infuser.knowledge.graph.landmarks import FAR, portions

_AT_ONCE = 1 << 18  # numbers per step, so that they stay in the cache
_CHEAP = 20_000  # edges; a front with so few moves along with the cheapest
_MEETINGS_AT_ONCE = 1 << 20
_NEVER = np.iinfo(np.int16).max


class Distances:
    """Answers how far entities are apart, by the parts that `lay_out` and `measure` made."""

    def __init__(self, adjacency: Adjacency, parts: Parts) -> None:
        self.adjacency = adjacency
        self._components, self._near = parts["components"], parts["landmarks.near"]
        self.landmarks = parts["landmarks"]

    def between(self, numbers: NDArray[Any], hops: int) -> NDArray[Any]:
        """Return the distances between any two of the entities; hops + 1 stands for all that are larger."""
        nodes, places = _checked(numbers, hops, len(self.adjacency))
        lower, upper = self.bounds(nodes)
        near = self.adjacency.among(nodes)
        upper[near.one, near.other] = upper[near.other, near.one] = 1
        np.fill_diagonal(upper, 0)
        lower = np.maximum(lower, np.minimum(upper, 2))  # 1 and 0 are known by now
        distances = np.minimum(upper, hops + 1)
        found = self._search(nodes, np.where(lower < distances, distances - 1, 0))
        distances = np.where(found > 0, found, distances).astype(np.min_scalar_type(hops + 1))
        return distances[np.ix_(places, places)]

    def within(self, numbers: NDArray[Any], hops: int) -> NDArray[np.bool_]:
        """Return which two of the entities are at most so many edges apart."""
        nodes, places = _checked(numbers, hops, len(self.adjacency))
        lower, upper = self.bounds(nodes)
        np.fill_diagonal(upper, 0)
        near = upper <= hops
        near |= self._search(nodes, np.where(near | (lower > hops), 0, hops)) > 0
        return near[np.ix_(places, places)]

    def products(self, numbers: NDArray[Any], distances: NDArray[Any], hops: int) -> NDArray[np.float64]:
        """Return the largest product of edge weights over the shortest paths of 2 up to `hops` edges, else 0.

        The entities stand in ascending order, each once, and their distances are known.
        """
        most = np.where((distances > 1) & (distances <= hops), distances, 0).astype(np.int16)
        return self._run(numbers, most, weighted=True).products

    def _search(self, nodes: NDArray[Any], most: NDArray[Any]) -> NDArray[np.int16]:
        """Return how long the shortest path is, 0 if it is longer than `most` or leads through a landmark."""
        if not most.any():
            return np.zeros(most.shape, np.int16)
        return self._run(nodes, most.astype(np.int16), weighted=False).lengths

    def _run(self, nodes: NDArray[Any], most: NDArray[np.int16], *, weighted: bool) -> Search:
        # around the landmarks when no weights matter and all paths of interest through them are known
        around = self.landmarks[:] if not weighted and most.max() < FAR else self.landmarks[:0]
        search = Search(self.adjacency, self._near, nodes, most, closed=around, weighted=weighted)
        search.run()
        return search

    def bounds(self, nodes: NDArray[Any]) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
        """Return the least and the largest distance between any two of the entities that the landmarks allow."""
        near = np.ascontiguousarray(
            self._near[nodes].T, np.int16
        )  # (landmarks, nodes): quick to go through by landmark
        n_landmarks, n = near.shape
        lower, upper = np.zeros((n, n), np.int16), np.full((n, n), _NEVER)
        reaching = np.where(near < FAR, near, _NEVER // 2)
        if n_landmarks:
            step = max(1, _AT_ONCE // (n * n_landmarks + 1))
            for first in range(0, n, step):
                some = slice(first, first + step)
                lower[some] = np.abs(near[:, some, None] - near[:, None]).max(axis=0)
                upper[some] = (reaching[:, some, None] + reaching[:, None]).min(axis=0)
        components = self._components[nodes]
        apart = components[:, None] != components[None]
        lower[apart] = upper[apart] = _NEVER
        return lower, upper


def _checked(numbers: NDArray[Any], hops: int, n_entities: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the different numbers in ascending order, and the place of each given number among them."""
    if not 0 < hops < _NEVER // 2:
        raise SourceError(f"hops={hops} cannot be used; it must be 1 or more, and below {_NEVER // 2}.")
    nodes, places = np.unique(np.asarray(numbers, np.int64).ravel(), return_inverse=True)
    if len(nodes) and not 0 <= nodes[0] <= nodes[-1] < n_entities:
        raise SourceError(
            f"There is no entity number {nodes[0] if nodes[0] < 0 else nodes[-1]}; this graph has {n_entities:,}."
        )
    return nodes, places


class Fronts(NamedTuple):
    """The places where the searches are, one after another: whose search, at which entity, by which best path."""

    owner: Numbers
    node: Numbers
    product: NDArray[np.float64]
    """The largest product of edge weights over the paths of this length; empty when weights do not matter."""

    def of(self, which: NDArray[Any]) -> Fronts:
        """Return some of the places."""
        return Fronts(self.owner[which], self.node[which], self.product[which] if len(self.product) else self.product)


class Search:
    """Finds for pairs of entities how long their shortest path is, up to a length of each pair's own."""

    def __init__(
        self, adjacency: Adjacency, near: Any, nodes: Numbers, most: NDArray[np.int16], *, closed: Any, weighted: bool
    ) -> None:
        """`near` has the distances of all entities to the landmarks; no path is looked for through the `closed` ones.

        `most[i, j]` for i < j is the longest path of interest between two of the nodes; 0 says none.
        """
        self._adjacency, self._all_near, self._closed, self._weighted = adjacency, near, closed, weighted
        self._most = np.triu(most, 1)
        self._most += self._most.T
        self._open = self._most > 0
        self._near = near[nodes].astype(np.int16)
        self._radius = np.zeros(len(nodes), np.int16)
        asked = np.flatnonzero(self._open.any(axis=1))
        ones = np.ones(len(asked) if weighted else 0)
        self._fronts = Fronts(asked, nodes[asked].astype(np.int64), ones)
        self._passed = self._fronts.of(np.zeros(0, np.int64))  # where the fronts were one step before
        self.lengths = np.zeros_like(self._most)
        """How long the shortest path is, 0 if there is none of interest."""
        self.products = np.zeros(most.shape)
        """The largest product of edge weights over the shortest paths, if weights matter."""

    def run(self) -> None:
        """Search until every pair has met or needs no longer to be searched for."""
        while True:
            degrees = self._adjacency.degrees(self._fronts.node)
            costs = np.bincount(self._fronts.owner, degrees, minlength=len(self._radius))
            self._open &= (costs[:, None] > 0) & (costs[None, :] > 0)  # an empty front meets no other
            one, other = np.nonzero(np.triu(self._open))
            if not len(one):
                return
            cheaper, dearer = np.where(costs[one] <= costs[other], (one, other), (other, one))
            left = self._most[one, other] - self._radius[one] - self._radius[other]
            useful = np.concatenate([cheaper, dearer[left > 1]])
            moving = np.zeros(len(self._radius), bool)
            moving[useful[costs[useful] <= max(costs[cheaper].min(), _CHEAP)]] = True
            self._move(moving)

    def _move(self, moving: NDArray[np.bool_]) -> None:
        """Move these fronts one step on."""
        goes: NDArray[np.bool_] = moving[self._fronts.owner]
        leaving = self._fronts.of(goes)
        arriving = self._neighbours(leaving)
        self._radius[moving] += 1
        both = moving[:, None] & moving[None, :]
        lengths = self._radius[:, None] + self._radius[None, :] - both  # one of two that move after the other
        self._meet(arriving, self._fronts, lengths, moving[:, None])
        arriving = self._tidy(self._still_asked(arriving), leaving, moving)
        self._meet(arriving, arriving, lengths + 1, both)
        arriving = self._still_asked(arriving)
        self._passed = _joined(leaving, self._passed.of(~moving[self._passed.owner]))
        self._fronts = _joined(self._still_asked(self._fronts.of(~goes)), arriving.of(self._may_lead(arriving)))

    def _still_asked(self, fronts: Fronts) -> Fronts:
        """Return the fronts of those that have open pairs; the others are not needed."""
        asked: NDArray[np.bool_] = np.any(self._open, axis=1)
        return fronts if asked.all() else fronts.of(asked[fronts.owner])

    def _neighbours(self, fronts: Fronts) -> Fronts:
        """Return one step beyond, a place as often as edges lead there."""
        places, owners = self._adjacency.entries(fronts.node)
        product = fronts.product
        if self._weighted:
            product = product[owners] * self._adjacency.weights_at(places)
        return Fronts(fronts.owner[owners], self._adjacency.neighbours[places], product)

    def _meet(self, fronts: Fronts, others: Fronts, lengths: NDArray[Any], which: NDArray[np.bool_]) -> None:
        """Note who of the open pairs meets where, and close the pairs for which this was the last chance."""
        which = self._open & which
        if not which.any():
            return
        here = _maybe_in(fronts.node, others.node)
        there = _maybe_in(others.node, fronts.node[here])
        fronts, others = fronts.of(here), others.of(there)
        others = others.of(np.argsort(others.node, kind="stable"))
        first, last = (np.searchsorted(others.node, fronts.node, side=side) for side in ("left", "right"))
        n_meetings = last - first
        for some in portions(n_meetings, _MEETINGS_AT_ONCE):
            mine = np.repeat(np.arange(some.start, some.stop), n_meetings[some])
            theirs = join_ranges(first[some], n_meetings[some])
            self._note(fronts.of(mine), others.of(theirs), lengths, which)
        over = which & ((self.lengths > 0) | (lengths >= self._most))
        self._open &= ~(over | over.T)

    def _note(self, mine: Fronts, theirs: Fronts, lengths: NDArray[Any], which: NDArray[np.bool_]) -> None:
        asked = which[mine.owner, theirs.owner]
        one, other = mine.owner[asked], theirs.owner[asked]
        self.lengths[one, other] = self.lengths[other, one] = lengths[one, other]
        if self._weighted:
            products = mine.product[asked] * theirs.product[asked]
            np.maximum.at(self.products, (one, other), products)
            np.maximum.at(self.products, (other, one), products)

    def _tidy(self, fronts: Fronts, leaving: Fronts, moving: NDArray[np.bool_]) -> Fronts:
        """Return each place once, without closed ones and those where the search was before."""
        fronts = fronts.of(~_maybe_in(fronts.node, self._closed, surely=True))
        n = len(self._adjacency)
        keys = fronts.owner * n + fronts.node
        if self._weighted:
            order = np.argsort(keys, kind="stable")
            keys = keys[order]
            begins = np.flatnonzero(np.diff(keys, prepend=-1))
            keys = keys[begins]
            products = np.maximum.reduceat(fronts.product[order], begins) if len(begins) else fronts.product
        else:
            keys = np.sort(keys)
            keys, products = keys[np.diff(keys, prepend=-1) > 0], fronts.product
        fresh = np.ones(len(keys), bool)
        for old in (leaving, self._passed.of(moving[self._passed.owner])):
            fresh &= ~_maybe_in(keys, old.owner * n + old.node, surely=True)
        return Fronts(keys // n, keys % n, products).of(fresh)

    def _may_lead(self, fronts: Fronts) -> NDArray[np.bool_]:
        """Return from which places, by the landmarks, an open pair may still meet; only dear places are looked at."""
        useful = np.ones(len(fronts.node), bool)
        n_landmarks = self._near.shape[1]
        dear = np.flatnonzero(self._adjacency.degrees(fronts.node) > 2 * n_landmarks)
        if not len(dear) or not n_landmarks:
            return useful
        near, owner = self._all_near[fronts.node[dear]].astype(np.int16), fronts.owner[dear]
        left = self._most - self._radius[:, None]
        leads = np.zeros(len(dear), bool)
        for partner in np.flatnonzero(self._open.any(axis=0)).tolist():
            asked = np.flatnonzero(self._open[owner, partner] & ~leads)
            leads[asked] = np.abs(near[asked] - self._near[partner]).max(axis=1) <= left[owner[asked], partner]
        useful[dear] = leads
        return useful


def _joined(one: Fronts, other: Fronts) -> Fronts:
    return Fronts(*(np.concatenate(columns) for columns in zip(one, other, strict=True)))


def _maybe_in(keys: NDArray[Any], others: NDArray[Any], *, surely: bool = False) -> NDArray[np.bool_]:
    """Return which keys are among the others; unless `surely`, a few that are not may pass.

    A small table of marks, which stays in the cache, sorts out nearly all of them.
    """
    size = 1 << max(10, int(8 * len(others)).bit_length())
    marks = np.zeros(size, bool)
    marks[others & (size - 1)] = True
    maybe: NDArray[np.bool_] = marks[keys & (size - 1)]
    if surely and maybe.any():
        doubtful = np.flatnonzero(maybe)
        maybe[doubtful] = np.isin(keys[doubtful], others)
    return maybe
