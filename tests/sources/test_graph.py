from __future__ import annotations

import itertools
import json
import shutil
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knowledge.small_graphs import entities, swiss, triples

from infuser.errors import SourceError
from infuser.knowledge.graph.build import build_graph, facts_of
from infuser.knowledge.graph.store import save_graph
from infuser.sources import Graph
from infuser.sources.storage import load_source, save_source
from infuser.types import Annotations, Link, Span, join_pair

NODES = ["a", "b", "c", "d", "e", "f"]
of_letters = partial(Graph, stop_words=())  # else a single letter is no mention


def test_a_rare_word_of_a_query_is_tied_to_the_ad_that_sells_it() -> None:
    graph = Graph(
        [("glipizide", "sold by", "pharmacy"), ("Fred_Meyer", "is a", "pharmacy")],
        aliases={"pharmacy": ["pharmacy", "drug store"]},
    )
    text = join_pair("buy glipizide", "Fred Meyer Pharmacy Near Me")
    assert graph.annotate([text]) == [
        Annotations(
            text,
            (
                Span(4, 13, "entity", "glipizide"),
                Span(15, 25, "entity", "Fred_Meyer"),
                Span(26, 34, "entity", "pharmacy"),
            ),
            (Link(0, 2, 1.0, "sold by"), Link(1, 2, 1.0, "is a")),
        )
    ]


def test_each_further_hop_costs_the_decay() -> None:
    chain = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d")]
    text = "a d"
    assert of_letters(chain, hops=2).annotate([text])[0].links == ()
    assert of_letters(chain, hops=3, decay=0.5).annotate([text])[0].links == (Link(0, 1, 0.25),)
    assert of_letters(chain, hops=9, decay=0.1).annotate([text])[0].links == (Link(0, 1, pytest.approx(0.01)),)


def test_edge_weights_multiply_along_the_best_shortest_path() -> None:
    triples = [
        ("a", "r", "b", 0.5),
        ("b", "r", "c", 0.5),
        ("a", "r", "x", 0.2),
        ("x", "r", "c", 1.0),
        ("a", "s", "b", 0.1),
    ]
    assert of_letters(triples).annotate(["a b"])[0].links == (Link(0, 1, 0.5, "r"),)
    for order in (triples, triples[::-1]):
        assert of_letters(order, hops=2).annotate(["a c"])[0].links == (Link(0, 1, 0.5 * 0.25),)


def test_mentions_of_one_entity_are_tied_only_by_a_loop() -> None:
    assert of_letters([("a", "r", "b")], hops=2).annotate(["a a"])[0].links == ()
    assert of_letters([("a", "again", "a")]).annotate(["a x a"])[0].links == (Link(0, 1, 1.0, "again"),)


def test_a_mention_without_ties_is_still_reported() -> None:
    found = of_letters([("a", "r", "b")], aliases={"lonely": ["lonely one"]}).annotate(["a lonely one"])[0]
    assert [span.id for span in found.spans] == ["a", "lonely"]
    assert found.links == ()


def test_an_ambiguous_name_stands_for_all_its_entities_and_the_tied_one_is_named() -> None:
    graph = Graph(
        [("jaguar_car", "has", "engine"), ("jaguar_cat", "eats", "meat")],
        aliases={"jaguar_car": ["Jaguar"], "jaguar_cat": ["jaguar"]},
    )
    answers = graph.annotate(["jaguar engine", "jaguar meat", "jaguar"])
    assert [found.spans[0].id for found in answers] == ["jaguar_car", "jaguar_cat", "jaguar_car"]
    assert [len(found.links) for found in answers] == [1, 1, 0]


def test_of_the_ties_of_an_ambiguous_name_the_strongest_counts() -> None:
    names = {"weak": ["jaguar"], "strong": ["jaguar"]}
    triples = [("weak", "near", "engine", 0.25), ("strong", "has", "engine", 0.75)]
    for order in (triples, triples[::-1]):
        for aliases in (names, dict(reversed(names.items()))):
            [found] = Graph(order, aliases=aliases).annotate(["jaguar engine"])
            assert found.links == (Link(0, 1, 0.75, "has"),)
            assert found.spans[0].id == "strong"


def test_an_id_with_names_is_not_looked_for_itself() -> None:
    assert Graph([("Q1", "r", "Q2")], aliases={"Q1": ["one"]}).annotate(["Q1 Q2"])[0].spans == (
        Span(3, 5, "entity", "Q2"),
    )


def slow_weight(edges: dict[tuple[str, str], float], one: str, other: str, hops: int, decay: float) -> float:
    """Try every simple path, shortest first."""
    for n_between in range(hops):
        weights = []
        for between in itertools.permutations([node for node in NODES if node not in (one, other)], n_between):
            path = [one, *between, other]
            steps = [max(edges.get(step, 0), edges.get(step[::-1], 0)) for step in itertools.pairwise(path)]
            if all(steps):
                product = 1.0
                for step in steps:
                    product *= step
                weights.append(decay**n_between * product)
        if weights:
            return max(weights)
    return 0.0


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)).filter(lambda pair: pair[0] != pair[1]),
        st.sampled_from([0.25, 0.5, 1.0]),
        min_size=3,
        max_size=12,
    ),
    st.lists(st.sampled_from(NODES), max_size=5),
    st.integers(1, 4),
)
def test_ties_are_those_of_trying_every_path(edges: dict[tuple[str, str], float], text: list[str], hops: int) -> None:
    graph = of_letters(
        [(head, "r", tail, weight) for (head, tail), weight in edges.items()], {n: [n] for n in NODES}, hops=hops
    )
    [found] = graph.annotate([" ".join(text)])
    expected = {
        (one, other): slow_weight(edges, text[one], text[other], hops, 0.5)
        for one, other in itertools.combinations(range(len(text)), 2)
        if text[one] != text[other]
    }
    assert {(link.source, link.target): link.weight for link in found.links} == pytest.approx(
        {pair: weight for pair, weight in expected.items() if weight}
    )


def test_a_hub_with_many_neighbours_is_no_burden() -> None:
    graph = Graph([("hub", "r", f"leaf{number}") for number in range(20_000)], hops=2)
    links = graph.annotate(["leaf1 leaf2 hub"])[0].links
    assert [(link.source, link.target, link.weight) for link in links] == [(0, 1, 0.5), (0, 2, 1.0), (1, 2, 1.0)]


@pytest.mark.parametrize(
    ("triple", "says"),
    [
        (("a", "b"), "must be"),
        ("abc", "must be"),
        (("a", "r", 3), "must be"),
        (("a", "r", "b", 0.0), "weight of .* is 0.0"),
        (("a", "r", "b", 2), "weight of .* is 2"),
        (("a", "r", " "), "1 of 2 entity ids are empty or blank"),
        (("a", "r", "__"), "1 of 2 entity ids are empty or blank"),
    ],
)
def test_a_wrong_triple_is_refused_with_its_values(triple: object, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        Graph([triple])  # type: ignore[list-item]


def test_wrong_aliases_and_settings_are_refused() -> None:
    with pytest.raises(SourceError, match="names of 'a' were given as one string"):
        Graph([("a", "r", "b")], aliases={"a": "alpha"})
    with pytest.raises(SourceError, match="1 of 1 names of 'a' are empty"):
        Graph([("a", "r", "b")], aliases={"a": [""]})
    with pytest.raises(SourceError, match="hops=0"):
        Graph([], hops=0)
    with pytest.raises(SourceError, match="decay=2"):
        Graph([], decay=2)


def test_an_empty_graph_knows_nothing() -> None:
    assert Graph([]).annotate(["a b"]) == [Annotations("a b")]


TINY = Graph.tiny()
TEXTS = [join_pair("buy glipizide", "Fred Meyer drug store"), "medicine of a PHARMACY, Fred Meyer", "", "\ud83d drug"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The miniature as a folder."""
    assert isinstance(TINY.triples, tuple)
    return save_graph(build_graph(facts_of(TINY.triples, TINY.aliases)), tmp_path / "graph")


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_folder_answers_as_its_triples(folder: Path, hops: int) -> None:
    in_memory = Graph(TINY.triples, TINY.aliases, hops=hops)
    for place in (folder, str(folder)):
        assert Graph(place, hops=hops).annotate(TEXTS) == in_memory.annotate(TEXTS)
    assert any(found.links for found in in_memory.annotate(TEXTS))


def test_a_span_is_labelled_with_the_first_type_of_its_entity(tmp_path: Path) -> None:
    graph = Graph(save_graph(build_graph(swiss()), tmp_path / "graph"))
    [found] = graph.annotate(["Bern in Switzerland on the Aare river"])
    assert [(span.label, span.id) for span in found.spans] == [
        ("city", "Q70"),
        ("country", "Q39"),
        ("entity", "Aare_river"),
    ]
    assert found.links == (Link(0, 1, 1.0, "capital of"), Link(0, 2, 0.5, "flows through"))


def test_a_worker_opens_the_folder_itself(folder: Path) -> None:
    graph = Graph(folder, hops=2)
    answers = graph.annotate(TEXTS)
    message = bytes(ForkingPickler.dumps(graph))
    assert len(message) < 2000
    assert ForkingPickler.loads(message).annotate(TEXTS) == answers


def test_a_saved_source_finds_its_folder_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    graph = Graph(folder.name, hops=2)
    record = json.loads(json.dumps(save_source(graph, tmp_path)))
    assert record["settings"]["triples"] == str(folder)
    monkeypatch.chdir(tmp_path.parent)
    again = load_source(record, tmp_path)
    assert again == graph
    assert again.annotate(TEXTS) == graph.annotate(TEXTS)


def test_a_folder_that_is_gone_or_another_graph_is_not_taken_for_the_saved_one(folder: Path, tmp_path: Path) -> None:
    record = save_source(Graph(folder), tmp_path)
    save_graph(build_graph([triples(("a", "r", "b"))]), folder)
    with pytest.raises(SourceError, match="holds something else now than when it was saved"):
        load_source(record, tmp_path)
    shutil.rmtree(folder)
    with pytest.raises(SourceError, match=r"There is no graph folder at .* infuser graph build"):
        load_source(record, tmp_path)


def test_a_folder_brings_its_own_names_and_rules(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="aliases cannot be given beside it"):
        Graph(folder, aliases={"a": ["b"]})
    with pytest.raises(SourceError, match=r"fold_case=False was asked for, but .* built with fold_case=True"):
        Graph(folder, fold_case=False)
    exact = save_graph(build_graph([triples(("Aa", "r", "Bb"))], fold_case=False), tmp_path / "exact")
    graph = Graph(exact)
    assert graph.fold_case is False
    assert [len(found.spans) for found in graph.annotate(["Aa", "aa"])] == [1, 0]
    assert Graph(exact, fold_case=False) == graph


def test_a_folder_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="There is no graph folder at"):
        Graph(tmp_path / "missing")
    with pytest.raises(SourceError, match="is no graph folder"):
        Graph(str(tmp_path))


def test_a_damaged_folder_is_an_error_that_names_the_file(folder: Path) -> None:
    graph = Graph(folder)
    file = folder / "edges.neighbours.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 4
    file.write_bytes(content)
    with pytest.raises(SourceError, match=r"edges\.neighbours\.npy is damaged"):
        graph.annotate(TEXTS)


def test_a_name_of_many_entities_stands_for_the_most_frequent(tmp_path: Path) -> None:
    rows = [{"id": f"smith{number}", "label": "John Smith", "count": number} for number in range(30)]
    edges = [(f"smith{number}", "lives in", f"town {number}") for number in range(30)]
    folder = save_graph(build_graph([entities(*rows), triples(*edges)]), tmp_path / "graph")
    texts = ["John Smith", "John Smith of town 25", "John Smith of town 3"]
    assert [found.spans[0].id for found in Graph(folder).annotate(texts)] == ["smith29", "smith25", "smith29"]
    assert [len(found.links) for found in Graph(folder).annotate(texts)] == [0, 1, 0]
    assert Graph(folder, n_meanings=30).annotate(texts)[2].spans[0].id == "smith3"
    with pytest.raises(SourceError, match="n_meanings=0"):
        Graph(folder, n_meanings=0)


def test_among_equally_frequent_meanings_the_better_connected_comes_first() -> None:
    names = {"small": ["Bern"], "large": ["Bern"]}
    graph = Graph([("large", "r", "x"), ("large", "r", "y"), ("small", "r", "x")], aliases=names)
    assert graph.annotate(["Bern"])[0].spans[0].id == "large"


def test_half_a_character_in_a_name_is_refused() -> None:
    with pytest.raises(SourceError, match="half of a character"):
        Graph([("a", "r", "\ud83d")]).annotate(["a"])


def test_paths_that_are_longer_than_a_byte_counts_are_found() -> None:
    chain = [(f"n{number}", "r", f"n{number + 1}") for number in range(300)]
    [found] = Graph(chain, hops=300, decay=1.0).annotate(["n0 n300"])
    assert found.links == (Link(0, 1, 1.0),)


def test_types_and_relations_are_declared_by_how_many_have_them() -> None:
    graph = Graph([("a", "is a", "b"), ("c", "has", "b"), ("d", "has", "b")])
    assert graph.span_types == ("entity",)
    assert graph.relation_types == ("has", "is a", "abbreviation")
    assert Graph(graph.triples, hops=2).relation_types[:3] == ("", "has", "is a"), "ties over two edges have no name"
