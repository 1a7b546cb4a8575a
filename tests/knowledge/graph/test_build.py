from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knowledge.small_graphs import Row, entities, hub_graph, swiss, triples

from infuser.errors import SourceError
from infuser.knowledge.facts import TRIPLES, pack_other_ids
from infuser.knowledge.graph.build import build_graph, facts_of
from infuser.knowledge.graph.store import Edge, GraphEntity, GraphStore, save_graph

IDS = st.sampled_from(["a", "b", "c_d", "Zürich", "東京", "e f"])
NAMES = st.sampled_from(["Bern", "bern", " ", "", "New York", "Zürich", None])
ENTITY_ROWS = st.fixed_dictionaries(
    {"id": IDS},
    optional={
        "label": NAMES,
        "aliases": st.lists(NAMES, max_size=3),
        "description": NAMES,
        "types": st.lists(NAMES, max_size=3),
        "count": st.integers(0, 9),
    },
)
TRIPLE_ROWS = st.tuples(IDS, st.sampled_from(["r", "s"]), IDS, st.sampled_from([0.25, 0.5, 1.0]))


def digest_of(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def test_rows_of_one_entity_are_merged() -> None:
    store = build_graph(swiss())
    number = store.number_of("Q70")
    assert number == 0
    assert store.entity(number) == GraphEntity(
        id="Q70",
        label="Bern",
        aliases=("Berne", "Berna", "Bärn"),
        description="seat",
        types=("city", "capital"),
        count=100,
        degree=3,
    )
    assert store.entity(5) == GraphEntity("Q99", "", ("lonely",), "", ("city", "town"), 0, 0)


def test_an_entity_is_found_by_its_further_ids(tmp_path) -> None:
    others = [("geo:1", "Q70"), ("geo:2", "Q70"), ("Q39", "Q70"), ("geo:1", "Q72")]  # Q39 is an entity's own
    store = build_graph([*swiss(), *pack_other_ids(others)])
    assert store.entity(0) == build_graph(swiss()).entity(0)
    for one in (store, GraphStore.open(save_graph(store, tmp_path / "kg"))):
        assert [one.number_of(id) for id in ("Q70", "geo:1", "geo:2", "geo:3")] == [0, 0, 0, None]
        assert one.id_of(0) == "Q70" and one.other_ids_of(0) == ["geo:1", "geo:2"]
        assert one.number_of("Q39") == build_graph(swiss()).number_of("Q39") != 0
        assert [one.id_of(number) for number in range(one.n_entities)] == [
            build_graph(swiss()).id_of(number) for number in range(one.n_entities)
        ]
    with pytest.raises(SourceError, match="'geo:9' is a further id of 'Q0', but there is no such entity"):
        build_graph([*swiss(), *pack_other_ids([("geo:9", "Q0")])])


def test_every_edge_is_seen_from_both_ends_and_a_loop_once() -> None:
    store = build_graph(swiss())
    capital, country = (store.number_of(id) for id in ("Q70", "Q39"))
    assert capital is not None and country is not None
    assert store.edges_of(capital) == [
        Edge("Q70", "capital of", "Q39", 1.0),
        Edge("Q70", "located in", "Q39", 0.25),
        Edge("Aare_river", "flows through", "Q70", 0.5),
    ]
    assert store.edges_of(country) == [
        Edge("Q70", "capital of", "Q39", 1.0),
        Edge("Q70", "located in", "Q39", 0.25),
        Edge("Q39", "has part", "Q39", 0.75),
        Edge("Q72", "located in", "Q39", 0.5),
    ]
    assert store.edges_of(country, limit=1) == [Edge("Q70", "capital of", "Q39", 1.0)]
    assert store.relations == ("capital of", "located in", "has part", "flows through")
    assert (store.n_entities, store.n_edges) == (6, 5)


def test_entities_are_found_by_label_and_alias_and_without_either_by_id() -> None:
    store = build_graph(swiss())
    text = "berne, Aare river, lonely, BERN and zürich but not zurich's Q70"
    found = [
        (text[mention.start : mention.end], [store.id_of(int(store.owners[name])) for name in mention.names])
        for mention in store.names.find([text])[0]
    ]
    assert found == [
        ("berne", ["Q70"]),
        ("Aare river", ["Aare_river"]),
        ("lonely", ["Q99"]),
        ("BERN", ["Q70", "Q12"]),
        ("zürich", ["Q72"]),
        ("zurich", ["Q72"]),
    ]


def merged(rows: list[Row], given: list[tuple[str, str, str, float]]) -> dict[str, Row]:
    """Merge rows one by one, as the schema says."""
    known: dict[str, Row] = {}

    def meet(id: str) -> Row:
        return known.setdefault(
            id, {"label": "", "aliases": [], "description": "", "types": [], "count": 0, "edges": []}
        )

    for row in rows:
        one = meet(row["id"])
        one["label"] = one["label"] or (row.get("label") or "").strip()
        one["description"] = one["description"] or (row.get("description") or "").strip()
        one["count"] += row.get("count") or 0
        for many in ("aliases", "types"):
            one[many] += [name.strip() for name in row.get(many) or () if name and name.strip()]
    for head, relation, tail, weight in given:
        for end in dict.fromkeys([head, tail]):
            meet(end)["edges"].append((head, relation, tail, weight))
    for one in known.values():
        one["types"] = list(dict.fromkeys(one["types"]))
        one["aliases"] = [name for name in dict.fromkeys(one["aliases"]) if name != one["label"]]
    return known


@settings(max_examples=200, deadline=None)
@given(st.lists(ENTITY_ROWS, max_size=8), st.lists(TRIPLE_ROWS, max_size=8), st.integers(1, 4))
def test_a_graph_holds_what_merging_row_by_row_gives(
    rows: list[Row], given: list[tuple[str, str, str, float]], size: int
) -> None:
    batches = [entities(*rows[first : first + size]) for first in range(0, len(rows), size)]
    batches += [triples(*given[first : first + size]) for first in range(0, len(given), size)]
    store = build_graph(batches, n_landmarks=2)
    expected = merged(rows, given)
    assert [store.id_of(number) for number in range(store.n_entities)] == list(expected)
    for number, (id, wanted) in enumerate(expected.items()):
        assert store.number_of(id) == number
        entity = store.entity(number)
        assert entity.id == id
        assert (entity.label, list(entity.aliases)) == (wanted["label"], wanted["aliases"])
        assert (entity.description, list(entity.types)) == (wanted["description"], wanted["types"])
        assert (entity.count, entity.degree) == (wanted["count"], len(wanted["edges"]))
        assert sorted(store.edges_of(number)) == sorted(wanted["edges"])


def test_the_same_facts_give_the_same_bytes_in_any_process_and_any_batches(tmp_path: Path) -> None:
    batches = hub_graph()
    cut = [part for batch in batches for part in (batch[:7], batch[7:])]
    save_graph(build_graph(batches), tmp_path / "one")
    save_graph(build_graph(cut), tmp_path / "two")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from knowledge.small_graphs import hub_graph\n"
        "from infuser.knowledge.graph.build import build_graph\n"
        "from infuser.knowledge.graph.store import save_graph\n"
        "save_graph(build_graph(hub_graph()), sys.argv[2])"
    )
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parents[2]), str(tmp_path / seed)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
        )
    assert digest_of(tmp_path / "one") == digest_of(tmp_path / "two") == digest_of(tmp_path / "1")
    assert digest_of(tmp_path / "1") == digest_of(tmp_path / "2")


def test_a_graph_of_nothing_answers_with_nothing(tmp_path: Path) -> None:
    save_graph(build_graph([]), tmp_path / "none")
    for store in (build_graph([]), GraphStore.open(tmp_path / "none")):
        assert (store.n_entities, store.n_edges, store.relations) == (0, 0, ())
        assert store.number_of("a") is None
        assert store.names.find(["a b"]) == [[]]
        assert store.ties([], 3, 0.5) == []
        assert store.distances([], 3).shape == (0, 0)


def test_facts_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(SourceError, match="blank id"):
        build_graph([triples(("a", "r", " "))])
    with pytest.raises(SourceError, match=r"1 of 2 edges .* the first is 2.0, of edge 2"):
        build_graph([triples(("a", "r", "b"), ("a", "r", "c", 2.0))])
    with pytest.raises(SourceError, match=r"columns x\. Triples have head, relation, tail, weight"):
        build_graph([pa.record_batch({"x": [1]})])
    with pytest.raises(SourceError, match="n_landmarks=-1"):
        build_graph([], n_landmarks=-1)
    with pytest.raises(SourceError, match="half of a character"):
        list(facts_of([("a", "r", "\ud83d")]))


def test_weights_of_triples_in_memory_stay_exact() -> None:
    store = build_graph(facts_of([("a", "r", "b", 0.1), ("b", "r", "c", 0.3)]))
    assert [tie.weight for tie in store.ties([0, 1], 1, 0.5)] == [0.1]
    assert store.ties([0, 2], 2, 0.5)[0].weight == pytest.approx(0.5 * 0.1 * 0.3, rel=1e-12)


def test_progress_tells_the_phases_in_order() -> None:
    told: list[str] = []
    build_graph(hub_graph(), progress=lambda phase, done, total: told.append(phase))
    assert list(dict.fromkeys(told)) == [
        "reading",
        "numbering entities",
        "laying out edges",
        "merging entities",
        "finding components",
        "measuring distances to landmarks",
        "preparing names",
    ]


def test_edges_that_all_weigh_one_need_no_room() -> None:
    light = build_graph([triples(("a", "r", "b"))])
    assert len(light.parts["edges.weights"]) == 0
    assert light.edges_of(0) == [Edge("a", "r", "b", 1.0)]


def test_many_relations_are_kept_apart() -> None:
    rows = [(f"e{number}", f"r{number}", "hub") for number in range(40_000)]
    store = build_graph(facts_of(rows))
    assert len(store.relations) == 40_000
    assert np.asarray(store.parts["edges.kinds"]).dtype == np.uint32
    number = store.number_of("e39999")
    assert number is not None
    assert store.edges_of(number) == [Edge("e39999", "r39999", "hub", 1.0)]
    assert TRIPLES.names == ["head", "relation", "tail", "weight"]
