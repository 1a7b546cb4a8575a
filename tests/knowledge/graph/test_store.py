from __future__ import annotations

import random
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from knowledge.small_graphs import entities, hub_graph, swiss, triples

from infuser.errors import InputError, SourceError, UnknownNameError
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.find_entity import find_entities
from infuser.knowledge.graph.store import EntityTie, GraphEntity, GraphStore, describe, save_graph


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_graph(build_graph(hub_graph(), n_landmarks=4), tmp_path / "graph")


def answers(store: GraphStore) -> list[Any]:
    """Ask for everything, in small bites as sources do, then in large ones."""
    few = list(range(0, store.n_entities, 37))
    return [
        store.n_entities,
        store.n_edges,
        store.distances(few, 6).tolist(),
        store.within(few, 3).tolist(),
        store.ties(few, 4, 0.5),
        [store.number_of(f"e{number}") for number in range(0, 400, 7)],
        [store.entity(number) for number in range(store.n_entities)],
        [store.edges_of(number) for number in range(store.n_entities)],
        store.names.find(["name 7 name 12 and name 299, e3"]),
        store.owners[:].tolist(),
        store.relations,
        {key: value for key, value in describe(store).items() if key != "digest"},
    ]


def test_a_graph_on_disk_answers_as_the_one_in_memory(folder: Path) -> None:
    assert answers(GraphStore.open(folder)) == answers(build_graph(hub_graph(), n_landmarks=4))


def test_a_saved_graph_can_be_saved_again_to_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = save_graph(GraphStore.open(folder), tmp_path / "again")
    assert {file.name: file.read_bytes() for file in again.iterdir()} == {
        file.name: file.read_bytes() for file in folder.iterdir()
    }
    assert GraphStore.open(again).digest == GraphStore.open(folder).digest != ""


def test_damage_is_an_error_that_names_the_file_and_never_another_answer(folder: Path, tmp_path: Path) -> None:
    intact = answers(GraphStore.open(folder))
    chance = random.Random(0)
    n_noticed = 0
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        for turn in range(4):
            copy = tmp_path / "copy"
            shutil.copytree(folder, copy)
            damaged = bytearray(content)
            if turn:
                damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            else:
                del damaged[chance.randrange(len(damaged)) :]
            (copy / file.name).write_bytes(damaged)
            said = ""
            try:
                same = answers(GraphStore.open(copy)) == intact
            except SourceError as error:
                said = str(error)
            assert file.name in said or (not said and same), (file.name, turn, said)
            n_noticed += bool(said)
            shutil.rmtree(copy)
    assert n_noticed >= 3 * len(list(folder.iterdir()))


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "edges.neighbours.npy").unlink()
    with pytest.raises(SourceError, match=r"edges\.neighbours\.npy is missing"):
        GraphStore.open(folder)


def test_opening_reads_next_to_nothing(folder: Path) -> None:
    store = GraphStore.open(folder)
    assert store.parts._opened == {}  # type: ignore[attr-defined]
    store.within([0, 1, 2], 6)
    assert "ids" not in store.parts._opened  # type: ignore[attr-defined]
    assert "names.edges" not in store.parts._opened  # type: ignore[attr-defined]


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(InputError, match="left alone"):
        save_graph(build_graph(swiss()), tmp_path / "mine")
    with pytest.raises(SourceError, match="no graph folder"):
        GraphStore.open(tmp_path / "mine")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_ties_follow_the_order_of_the_question_and_take_the_heaviest_edge() -> None:
    store = build_graph(swiss())
    numbers = store.numbers_of(["Q39", "Aare_river", "Q70", "Q99", "Q72"]).tolist()
    assert store.ties(numbers, 2, 0.5) == [
        EntityTie(0, 0, 0.75, "has part"),
        EntityTie(0, 2, 1.0, "capital of"),
        EntityTie(0, 4, 0.5, "located in"),
        EntityTie(1, 2, 0.5, "flows through"),
        EntityTie(0, 1, 0.25, ""),
        EntityTie(2, 4, 0.25, ""),
    ]
    assert store.ties(numbers, 1, 0.5) == store.ties(numbers, 2, 0.5)[:4]


def test_a_tie_of_hubs_is_found_as_one_of_leaves() -> None:
    n = 3000
    rows = [(f"hub{hub}", "r", f"leaf{leaf}") for hub in range(3) for leaf in range(hub, n)]
    store = build_graph([triples(*rows, ("hub0", "knows", "hub1"), ("hub2", "is", "hub2"))], n_landmarks=2)
    numbers = store.numbers_of(["hub0", "hub1", "hub2", "leaf0", "leaf2999"]).tolist()
    ties = {(tie.one, tie.other): (tie.weight, tie.relation) for tie in store.ties(numbers, 2, 0.5)}
    assert ties == {
        (0, 1): (1.0, "knows"),
        (2, 2): (1.0, "is"),
        (0, 3): (1.0, "r"),
        **{(hub, 4): (1.0, "r") for hub in range(3)},
        **dict.fromkeys([(0, 2), (1, 2), (1, 3), (3, 4)], (0.5, "")),
    }


def test_unknown_ids_have_no_number_and_unknown_numbers_no_entity() -> None:
    store = build_graph(swiss())
    assert store.numbers_of(["Q39", "Q1", "\ud83d"]).tolist() == [1, -1, -1]
    for ask in (store.id_of, store.entity, store.edges_of):
        for number in (-1, 6):
            with pytest.raises(SourceError, match=f"no entity number {number}; this graph has 6"):
                ask(number)


def test_distances_are_symmetric_and_capped() -> None:
    store = build_graph(hub_graph())
    numbers = np.random.default_rng(0).choice(store.n_entities, 40, replace=False)
    far, near = store.distances(numbers, 6), store.distances(numbers, 2)
    assert (far == far.T).all() and (np.diag(far) == 0).all() and far.dtype == np.uint8
    assert (near == np.minimum(far, 3)).all()
    assert (store.within(numbers, 2) == (far <= 2)).all()
    for one, middle, other in combinations(range(12), 3):
        assert far[one, other] <= far[one, middle] + far[middle, other]


def test_an_entity_is_found_by_id_or_name_and_the_most_frequent_comes_first() -> None:
    store = build_graph(swiss())
    assert find_entities(store, "Q12") == store.numbers_of(["Q12"]).tolist()
    assert find_entities(store, " bern ") == store.numbers_of(["Q70", "Q12"]).tolist()
    many = build_graph([entities({"id": "a", "label": "x"}, {"id": "b", "label": "x", "count": 1})])
    assert find_entities(many, "X") == [1, 0]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("Q709", "Did you mean 'Q70'"),
        ("zürrich", r"Did you mean 'Zürich' \(Q72\)\?"),
        ("Swizerland", r"Did you mean 'Switzerland' \(Q39\)\?"),
        ("city of Bern", r"Did you mean 'Bern' \(Q70\) or 'Bern' \(Q12\)\?"),
        ("???", "among the 6 of this graph.$"),
        ("", "No entity has the id or the name ''"),
    ],
)
def test_an_unknown_entity_is_answered_with_what_is_spelled_nearly_so(wanted: str, says: str) -> None:
    with pytest.raises(UnknownNameError, match=says):
        find_entities(build_graph(swiss()), wanted)


def test_the_figures_of_a_graph_add_up() -> None:
    facts = describe(build_graph(swiss(), n_landmarks=1))
    assert (facts["entities"], facts["edges"], facts["names"]) == (6, 5, 10)
    assert facts["relations"] == {"located in": 2, "capital of": 1, "has part": 1, "flows through": 1}
    assert facts["degrees"] == [
        {"from": 0, "to": 0, "entities": 2},
        {"from": 1, "to": 1, "entities": 2},
        {"from": 2, "to": 2, "entities": 0},
        {"from": 3, "to": 4, "entities": 2},
    ]
    assert (facts["components"], facts["largest_component"], facts["reached_by_landmarks"]) == (3, 4, 4)
    assert facts["hubs"][0] == {"id": "Q39", "degree": 4}
    assert (facts["labelled"], facts["described"], facts["typed"], facts["counted"]) == (4, 3, 4, 2)


def test_an_entity_says_what_it_is() -> None:
    assert build_graph([entities({"id": "x"})]).entity(0) == GraphEntity("x", "", (), "", (), 0, 0)
