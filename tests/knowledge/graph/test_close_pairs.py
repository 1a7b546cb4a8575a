"""ClosePairs for many texts, held against a breadth-first search from every entity."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knowledge.graph.test_distances import FREEBASE, distances_of, parts_of, random_graph
from numpy.typing import NDArray

from infuser.knowledge.graph import close_pairs
from infuser.knowledge.graph.close_pairs import ClosePairs


def reached(heads: list[int], tails: list[int], n: int) -> list[list[int]]:
    near: list[list[int]] = [[] for _ in range(n)]
    for head, tail in zip(heads, tails, strict=True):
        near[head].append(tail)
        near[tail].append(head)
    return near


def hop_set(near: list[list[int]], start: int, hops: int) -> set[int]:
    """Return all nodes at most so many edges away, by brute force."""
    found, queue = {start}, deque([(start, 0)])
    while queue:
        node, distance = queue.popleft()
        if distance == hops:
            continue
        for other in near[node]:
            if other not in found:
                found.add(other)
                queue.append((other, distance + 1))
    return found


def check(
    heads: NDArray[np.int64], tails: NDArray[np.int64], n: int, n_landmarks: int, hops: Sequence[int], sizes: list[int]
) -> None:
    distances = distances_of(parts_of([(*pair, 1.0) for pair in zip(heads, tails, strict=True)], n, n_landmarks))
    near = reached(heads.tolist(), tails.tolist(), n)
    chance = np.random.default_rng(0)
    for most in hops:
        known = ClosePairs(distances, most)
        for size in sizes:
            nodes = chance.choice(n, size, replace=False)
            sets = [hop_set(near, int(node), most) for node in nodes]
            expected = [[int(other) in one for other in nodes] for one in sets]
            assert known.within(nodes).tolist() == expected
            assert known.n_near(nodes).tolist() == [sum(row) - 1 for row in expected]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=1, max_size=30),
    st.integers(0, 4),
    st.integers(1, 7),
)
def test_hop_sets_are_those_of_a_breadth_first_search(
    edges: list[tuple[int, int]], n_landmarks: int, hops: int
) -> None:
    heads, tails = np.array(edges).T
    check(heads, tails, 16, n_landmarks, [hops], [1, 5, 16])


@pytest.mark.parametrize("largest", [50_000, 40])
def test_texts_of_many_entities_and_surroundings_too_large_to_keep_change_nothing(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(close_pairs, "_LARGEST", largest)
    monkeypatch.setattr(close_pairs, "_MOST_KEPT", 2_000)
    heads, tails = random_graph(4000, 8000)
    check(heads, tails, 5000, 2, (3, 4), [10, 150, 10])


@pytest.mark.shared
def test_hop_sets_in_freebase_are_those_of_a_breadth_first_search() -> None:
    if not FREEBASE.is_file():
        pytest.skip(f"needs {FREEBASE}")
    rows = [line.split("\t") for line in FREEBASE.read_text(encoding="utf-8").splitlines()]
    ids, codes = np.unique([[row[0], row[2]] for row in rows], return_inverse=True)
    heads, tails = codes.reshape(-1, 2).T
    distances = distances_of(parts_of([(*pair, 1.0) for pair in zip(heads, tails, strict=True)], len(ids), 8))
    near = reached(heads.tolist(), tails.tolist(), len(ids))
    # half of them with few edges, which are far from each other
    few = np.argsort([len(of_node) for of_node in near], kind="stable")[:200]
    chance = np.random.default_rng(0)
    nodes = np.unique(np.concatenate([chance.choice(few, 12, replace=False), chance.choice(len(ids), 12)]))
    sets = {(int(node), hops): hop_set(near, int(node), hops) for node in nodes for hops in (1, 2, 3, 4, 6)}
    for hops in (1, 2, 3, 4, 6):
        known = ClosePairs(distances, hops)
        for size in (2, 5, 9, 15, len(nodes)):
            asked = chance.choice(nodes, size, replace=False)
            expected = [[int(other) in sets[int(one), hops] for other in asked] for one in asked]
            assert known.within(asked).tolist() == expected
