from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from knowledge.small_graphs import swiss

from infuser.errors import InputError, MissingExtraError, UnknownNameError
from infuser.knowledge.graph.build import build_graph, facts_of
from infuser.knowledge.graph.store import save_graph
from infuser.knowledge.vectors.store import EntityVectors
from infuser.knowledge.vectors.training import (
    TrainedVectors,
    Triples,
    number_triples,
    read_triples,
    train_vectors,
    triples_of_graph,
)

N = 12
QUICK = TrainedVectors(dim=16, epochs=30, batch_size=64, learning_rate=0.03, n_negatives=8)


@pytest.fixture(scope="module")
def two_worlds() -> Triples:
    """Two clusters of entities that know only each other, with a relation inside and one to the cluster's own group."""
    chance = np.random.default_rng(0)
    rows = []
    for world in "ab":
        for one in range(N):
            rows += [(f"{world}{one}", "likes", f"{world}{other}") for other in chance.choice(N, 4, replace=False)]
            rows.append((f"{world}{one}", "in", f"group {world}"))
    return number_triples(facts_of(rows))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def trained(two_worlds: Triples, home: Path) -> EntityVectors:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))  # PyKEEN is imported here for the first time, and would make folders
        patch.delenv("PYSTOW_HOME", raising=False)
        vectors = train_vectors(two_worlds, QUICK)
        assert "PYSTOW_HOME" not in os.environ
    return vectors


def all_of(vectors: EntityVectors) -> np.ndarray:
    return vectors.take(np.arange(len(vectors)))


def named(triples: Triples) -> set[tuple[str, str, str]]:
    return {
        (triples.ids[head], triples.relations[relation], triples.ids[tail])
        for head, relation, tail in triples.numbers.tolist()
    }


def mean_cosines(vectors: EntityVectors) -> tuple[float, float]:
    """Return the mean cosine inside the worlds and between them."""
    rows = [vectors.take(vectors.rows([f"{world}{one}" for one in range(N)])) for world in "ab"]
    a, b = (row / np.linalg.norm(row, axis=1, keepdims=True) for row in rows)
    others = ~np.eye(N, dtype=bool)
    return float(np.mean([(a @ a.T)[others], (b @ b.T)[others]])), float((a @ b.T).mean())


def test_entities_of_one_cluster_lie_nearer_to_each_other(trained: EntityVectors) -> None:
    inside, between = mean_cosines(trained)
    assert inside > between + 0.3


def test_true_triples_score_above_corrupted_ones(two_worlds: Triples, trained: EntityVectors) -> None:
    vectors, scores = all_of(trained), []
    heads, kinds, tails = two_worlds.numbers.T
    corrupted = np.random.default_rng(1).permutation(tails)
    for kind in range(len(two_worlds.relations)):
        here = kinds == kind
        step = (vectors[tails[here]] - vectors[heads[here]]).mean(axis=0)  # what TransE calls the relation
        true, false = (
            -np.linalg.norm(vectors[heads[here]] + step - vectors[ends[here]], axis=1) for ends in (tails, corrupted)
        )
        scores.append((true[:, None] > false[None, :]).mean())
    assert min(scores) > 0.7


def test_a_seed_gives_the_same_bytes_and_another_seed_other_ones(
    two_worlds: Triples, trained: EntityVectors, tmp_path: Path
) -> None:
    again = train_vectors(two_worlds, QUICK)
    other = train_vectors(two_worlds, TrainedVectors(dim=16, epochs=1, seed=1))
    assert all_of(again).tobytes() == all_of(trained).tobytes() != all_of(other).tobytes()
    assert again.save(tmp_path / "one") and trained.save(tmp_path / "two")
    assert EntityVectors.open(tmp_path / "one").digest == EntityVectors.open(tmp_path / "two").digest


def test_the_folder_says_how_they_were_trained_and_they_are_scaled(trained: EntityVectors) -> None:
    told = {"way": "triples", "model": "TransE", "epochs": 30, "seed": 0, "dim": 16, "scaled": True, "n_entities": 26}
    assert told.items() <= trained.about.items()
    assert np.allclose(np.linalg.norm(all_of(trained), axis=1), 4.0, atol=1e-4)


@pytest.mark.parametrize("model", ["complex", "RotatE"])
def test_a_complex_valued_model_gives_two_real_numbers_for_each(two_worlds: Triples, model: str) -> None:
    vectors = train_vectors(two_worlds, TrainedVectors(model=model, dim=5, epochs=2))
    assert vectors.dim == 10 and np.isfinite(all_of(vectors)).all()


def test_training_leaves_everybody_their_random_numbers(two_worlds: Triples) -> None:
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    train_vectors(two_worlds, TrainedVectors(dim=4, epochs=1))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1] and random.getstate() == states[2]  # type: ignore[index]


def test_training_writes_nothing_into_the_home_folder(home: Path, trained: EntityVectors) -> None:
    assert not list(home.iterdir())


def test_a_graph_and_a_file_give_the_same_triples_each_once(tmp_path: Path) -> None:
    rows = [("Q70", "in", "Q39"), ("Q39", "has", "Q70"), ("Q70", "in", "Q39"), ("x", "is", "x")]
    path = tmp_path / "t.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    graph = save_graph(build_graph(facts_of(rows, {"alone": ["nobody knows it"]})), tmp_path / "graph")
    assert named(read_triples(path)) == set(rows) == named(read_triples(graph))
    assert len(read_triples(graph).numbers) == 3 and set(read_triples(graph).ids) == {"Q70", "Q39", "x"}


def test_every_edge_of_a_graph_is_a_triple_by_its_own_names() -> None:
    found = triples_of_graph(build_graph(swiss()))
    assert ("Aare_river", "flows through", "Q70") in named(found) and ("Q39", "has part", "Q39") in named(found)
    assert len(found.numbers) == 5 and "Q99" not in found.ids


def test_what_cannot_be_trained_is_said(two_worlds: Triples) -> None:
    with pytest.raises(InputError, match="not one triple"):
        train_vectors(number_triples([]))
    with pytest.raises(InputError, match="dim=0"):
        train_vectors(two_worlds, TrainedVectors(dim=0))
    with pytest.raises(UnknownNameError, match="Did you mean 'TransE'"):
        train_vectors(two_worlds, TrainedVectors(model="TransEe"))
    with pytest.raises(InputError, match="Choose another model"):
        train_vectors(two_worlds, TrainedVectors(model="DistMultLiteral"))
    with pytest.raises(InputError, match="diverged"):
        train_vectors(two_worlds, TrainedVectors(model="RESCAL", dim=8, epochs=20, learning_rate=1e30))
    with pytest.raises(InputError, match="learning_rate=0"):
        train_vectors(two_worlds, TrainedVectors(learning_rate=0))


def test_without_the_extra_the_command_to_install_it_is_named(
    two_worlds: Triples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pykeen", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'infuser\[pykeen\]'"):
        train_vectors(two_worlds, QUICK)
