"""Distances between the entities of a text, held against searching the whole graph from each of them."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from infuser.errors import SourceError
from infuser.knowledge.graph import distances as graph_distances
from infuser.knowledge.graph.adjacency import Adjacency, lay_out
from infuser.knowledge.graph.distances import Distances
from infuser.knowledge.graph.landmarks import FAR, choose_landmarks, find_components, measure

FREEBASE = Path(__file__).parents[4] / "shared" / "data" / "kg" / "FB15k-237" / "train.tsv"
WEIGHTS = (0.25, 0.5, 1.0)

Edge = tuple[int, int, float]


def parts_of(edges: list[Edge], n: int, n_landmarks: int) -> dict[str, Any]:
    heads, tails = (np.array([edge[i] for edge in edges], np.int32) for i in (0, 1))
    parts: dict[str, Any] = lay_out(
        heads, tails, np.zeros(len(edges), np.int32), np.array([edge[2] for edge in edges], np.float64), n
    )
    adjacency = Adjacency(parts)
    parts["components"] = find_components(adjacency)
    parts["landmarks"] = choose_landmarks(np.diff(parts["edges.begins"]), parts["components"], n_landmarks)
    parts["landmarks.near"] = measure(adjacency, parts["landmarks"])
    return parts


def distances_of(parts: dict[str, Any]) -> Distances:
    return Distances(Adjacency(parts), parts)


def slow_paths(edges: list[Edge], n: int, start: int) -> tuple[list[int | None], list[float]]:
    """Return the distance of every node and the largest product of weights over its shortest paths."""
    near: list[list[tuple[int, float]]] = [[] for _ in range(n)]
    for head, tail, weight in edges:
        near[head].append((tail, weight))
        near[tail].append((head, weight))
    distance: list[int | None] = [None] * n
    product = [0.0] * n
    distance[start], product[start] = 0, 1.0
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for other, weight in near[node]:
            if distance[other] is None:
                distance[other] = distance[node] + 1  # type: ignore[operator]
                queue.append(other)
            if distance[other] == distance[node] + 1:  # type: ignore[operator]
                product[other] = max(product[other], product[node] * weight)
    return distance, product


def capped(distance: int | None, hops: int) -> int:
    return hops + 1 if distance is None else min(distance, hops + 1)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Edge], int]:
    """Random graphs with components, loops, parallel edges, hubs and long arms."""
    n = draw(st.integers(1, 24))
    node = st.integers(0, n - 1)
    edge = st.tuples(node, node, st.sampled_from(WEIGHTS))
    edges = draw(st.lists(edge, max_size=2 * n))
    arm = draw(st.lists(node, max_size=n, unique=True))
    edges += [(one, other, draw(st.sampled_from(WEIGHTS))) for one, other in pairwise(arm)]
    if draw(st.booleans()):
        hub = draw(node)
        edges += [(hub, leaf, 0.5) for leaf in draw(st.lists(node, max_size=n))]
    return edges, n


@settings(max_examples=120, deadline=None)
@given(graphs(), st.integers(0, 4), st.lists(st.integers(0, 23), max_size=10), st.integers(1, 7), st.booleans())
def test_distances_and_products_are_those_of_searching_everything(
    graph: tuple[list[Edge], int], n_landmarks: int, asked: list[int], hops: int, one_by_one: bool
) -> None:
    edges, n = graph
    numbers = np.array([number % n for number in asked], np.int64)
    known = distances_of(parts_of(edges, n, n_landmarks))
    slow = [slow_paths(edges, n, number) for number in numbers]
    expected = [[capped(distance[other], hops) for other in numbers] for distance, _ in slow]
    with pytest.MonkeyPatch.context() as patch:
        if one_by_one:  # a small graph is cheap everywhere: here only the cheapest front moves
            patch.setattr(graph_distances, "_CHEAP", 0)
            patch.setattr(graph_distances, "_MEETINGS_AT_ONCE", 2)
        assert known.between(numbers, hops).tolist() == expected
        assert known.within(numbers, hops).tolist() == [[one <= hops for one in row] for row in expected]
        nodes = np.unique(numbers)
        distances = known.between(nodes, hops)
        products = known.products(nodes, distances, hops)
    for i, node in enumerate(nodes):
        _, best = slow_paths(edges, n, int(node))
        for j, other in enumerate(nodes):
            assert products[i, j] == (best[other] if 1 < distances[i, j] <= hops else 0)


@settings(max_examples=100, deadline=None)
@given(graphs(), st.integers(1, 70))
def test_landmarks_know_their_distances_and_nobody_else_s_component(
    graph: tuple[list[Edge], int], n_landmarks: int
) -> None:
    edges, n = graph
    parts = parts_of(edges, n, n_landmarks)
    landmarks = parts["landmarks"].tolist()
    assert len(set(landmarks)) == len(landmarks) == min(n_landmarks, int((np.diff(parts["edges.begins"]) > 0).sum()))
    for place, landmark in enumerate(landmarks):
        distance, _ = slow_paths(edges, n, landmark)
        assert parts["landmarks.near"][:, place].tolist() == [FAR if one is None else one for one in distance]
    for number in range(n):
        distance, _ = slow_paths(edges, n, number)
        same = parts["components"] == parts["components"][number]
        assert same.tolist() == [one is not None for one in distance]


def test_large_components_share_the_landmarks_and_the_best_connected_come_first() -> None:
    big = [(0, leaf, 1.0) for leaf in range(1, 60)] + [(1, leaf, 1.0) for leaf in range(2, 40)]
    small = [(60, leaf, 1.0) for leaf in range(61, 90)]
    assert set(parts_of(big + small, 90, 3)["landmarks"].tolist()) == {0, 1, 60}


@pytest.mark.parametrize("n_landmarks", [0, 1, 3])
def test_distances_beyond_what_a_byte_holds_are_exact_too(n_landmarks: int) -> None:
    n = 720
    known = distances_of(parts_of([(i, i + 1, 1.0) for i in range(n - 1)], n, n_landmarks))
    numbers = np.array([0, 100, 254, 255, 256, 600, 719])
    gaps = np.abs(numbers[:, None] - numbers[None])
    for hops in (254, 255, 600, 1000):
        assert known.between(numbers, hops).tolist() == np.minimum(gaps, hops + 1).tolist()
        assert known.within(numbers, hops).tolist() == (gaps <= hops).tolist()


def test_a_wrong_number_or_reach_is_refused() -> None:
    known = distances_of(parts_of([(0, 1, 1.0)], 2, 1))
    with pytest.raises(SourceError, match="no entity number 2; this graph has 2"):
        known.between(np.array([0, 2]), 1)
    with pytest.raises(SourceError, match="no entity number -1"):
        known.within(np.array([-1]), 1)
    with pytest.raises(SourceError, match="hops=0"):
        known.within(np.array([0]), 0)


def test_entities_are_compared_as_often_as_they_are_given() -> None:
    known = distances_of(parts_of([(0, 1, 1.0), (1, 2, 1.0)], 4, 1))
    assert known.between(np.array([2, 0, 2, 3]), 3).tolist() == [[0, 2, 0, 4], [2, 0, 2, 4], [0, 2, 0, 4], [4, 4, 4, 0]]
    assert known.between(np.array([], np.int64), 3).shape == (0, 0)


def random_graph(n: int, n_edges: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Endpoints by a power law, so that there are hubs, with arms that lead far away."""
    chance = np.random.default_rng(0)
    heads, tails = (np.minimum(n * chance.random(n_edges) ** power, n - 1).astype(np.int64) for power in (1.0, 8.0))
    arms = np.arange(n, n + n // 4)
    return np.concatenate([heads, arms]), np.concatenate([tails, arms - chance.choice([1, n // 8], len(arms))])


@pytest.mark.parametrize("n_landmarks", [2, 16])
def test_distances_in_a_graph_with_hubs_are_those_of_scipy(n_landmarks: int) -> None:
    heads, tails = random_graph(4000, 8000)
    same_as_scipy(heads, tails, 5000, n_landmarks=n_landmarks, n_texts=20)


@pytest.mark.shared
def test_distances_in_freebase_are_those_of_scipy() -> None:
    if not FREEBASE.is_file():
        pytest.skip(f"needs {FREEBASE}")
    rows = [line.split("\t") for line in FREEBASE.read_text(encoding="utf-8").splitlines()]
    ids, codes = np.unique([[row[0], row[2]] for row in rows], return_inverse=True)
    heads, tails = codes.reshape(-1, 2).T
    same_as_scipy(heads, tails, len(ids), n_landmarks=8, n_texts=20)


def same_as_scipy(
    heads: NDArray[np.int64], tails: NDArray[np.int64], n: int, *, n_landmarks: int, n_texts: int
) -> None:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    known = distances_of(parts_of([(*pair, 1.0) for pair in zip(heads, tails, strict=True)], n, n_landmarks))
    matrix = coo_array((np.ones(len(heads)), (heads, tails)), shape=(n, n)).tocsr()
    chance = np.random.default_rng(1)
    for number in range(n_texts):
        nodes = chance.choice(n, 10, replace=False)
        expected = dijkstra(matrix, directed=False, unweighted=True, indices=nodes)[:, nodes]
        hops = 1 + number % 7
        assert known.between(nodes, hops).tolist() == np.minimum(expected, hops + 1).astype(int).tolist()
        assert known.within(nodes, hops).tolist() == (expected <= hops).tolist()
