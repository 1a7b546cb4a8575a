"""Terms of mentions: which, in which order, and tied to what."""

from __future__ import annotations

from pathlib import Path

import pytest
from knowledge.small_graphs import entities, swiss, triples

from infuser.errors import SourceError
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import save_graph
from infuser.sources import Candidates, Entities, Graph, KnowledgeBase
from infuser.sources.terms import first_words
from infuser.types import Term, Vocabulary


@pytest.fixture
def drugs(tmp_path: Path) -> Path:
    """A graph with types, descriptions and weights."""
    facts = [
        entities(
            {
                "id": "D1",
                "label": "glipizide",
                "types": ["drug"],
                "description": "medicine that lowers the sugar in the blood of people",
            },
            {"id": "D2", "label": "blood_sugar", "types": ["measure"]},
            {"id": "D3", "label": "type 2 diabetes", "types": ["disease"]},
            {"id": "D4", "label": "drug"},
            {"id": "D5", "label": "insulin secretagogue"},
            {"id": "D6", "label": "glipizide tablet"},
        ),
        triples(
            ("D6", "contains", "D1", 0.5),
            ("D1", "lowers", "D2", 0.5),
            ("D1", "treats", "D3"),
            ("D1", "is_a", "D4"),
            ("D1", "has_role", "D5", 0.25),
            ("D1", "likes", "D1"),
        ),
    ]
    return save_graph(build_graph(facts), tmp_path / "drugs")


def terms_of(source: Graph | Entities | KnowledgeBase, text: str) -> list[tuple[str, str, float]]:
    [found] = source.annotate([text])
    return [(term.text, term.relation, weight) for term in found.terms for _, weight in term.ties]


def test_type_comes_first_then_the_neighbours_that_edges_lead_to_by_weight(drugs: Path) -> None:
    assert terms_of(Graph(drugs, n_terms=9), "glipizide") == [
        ("drug", "type", 1.0),  # and so the neighbour "drug" says nothing new
        ("type 2 diabetes", "treats", 1.0),
        ("blood sugar", "lowers", 0.5),
        ("insulin secretagogue", "has_role", 0.25),
    ]
    assert terms_of(Graph(drugs, n_terms=2), "glipizide") == [
        ("drug", "type", 1.0),
        ("type 2 diabetes", "treats", 1.0),
    ]
    assert Graph(drugs).annotate(["glipizide"])[0].terms == ()


def test_terms_follow_chosen_relations_in_their_order(drugs: Path) -> None:
    graph = Graph(drugs, n_terms=9, terms=("has role", "description", "lowers"))
    assert terms_of(graph, "Glipizide") == [
        ("insulin secretagogue", "has_role", 0.25),
        ("medicine that lowers the sugar in the blood", "description", 1.0),
        ("blood sugar", "lowers", 0.5),
    ]
    assert set(graph.relation_types) >= {"description", "has_role", "lowers"} and "type" not in graph.relation_types


def test_a_neighbour_whose_words_stand_in_the_mention_is_no_term(drugs: Path) -> None:
    assert terms_of(Graph(drugs, n_terms=9, terms=("neighbours",)), "glipizide tablet") == []


def test_the_type_is_a_term_also_where_its_name_stands_in_the_mention() -> None:
    source = Entities({"Parkinson's disease": "disease"}, n_terms=1)
    assert terms_of(source, "Parkinson ' s disease (PD)") == [("disease", "type", 1.0)] * 2


def test_mentions_share_a_term_and_have_no_terms_of_others(drugs: Path) -> None:
    [found] = Graph(drugs, n_terms=1).annotate(["glipizide against type 2 diabetes, then Glipizide again"])
    assert found.terms == (Term("drug", ((0, 1.0), (2, 1.0)), "type"), Term("disease", ((1, 1.0),), "type"))


def test_the_first_term_of_every_mention_comes_before_the_second_of_any(drugs: Path) -> None:
    [found] = Graph(drugs, n_terms=2).annotate(["glipizide against type 2 diabetes"])
    first_ties = [term.ties[0][0] for term in found.terms]
    assert first_ties[:2] == [0, 1] and len(found.terms) > 2


def test_an_entity_without_a_type_has_no_term_of_its_type() -> None:
    graph = Graph([("a_b", "likes", "c_d")], n_terms=3)
    assert terms_of(graph, "a b") == [("c d", "likes", 1.0)]
    assert terms_of(Entities(["Bern"], n_terms=3), "Bern") == []
    assert terms_of(Entities({"Bern": "capital_city"}, n_terms=3), "Bern") == [("capital city", "type", 1.0)]


def test_kinds_of_terms_that_nobody_knows_are_named() -> None:
    with pytest.raises(SourceError, match=r"'neighbors'.*Did you mean 'neighbours'"):
        Graph([("a", "likes", "b")], n_terms=1, terms=("neighbors",))
    with pytest.raises(SourceError, match=r"'neighbours'.*Known: type"):
        Entities(["Bern"], n_terms=1, terms=("neighbours",))
    with pytest.raises(SourceError, match="n_terms is -1"):
        Graph([("a", "likes", "b")], n_terms=-1)


def test_a_knowledge_base_takes_terms_of_the_most_probable_entity_from_its_graph(tmp_path: Path) -> None:
    folder = save_graph(build_graph(swiss()), tmp_path / "swiss")
    tiny = KnowledgeBase.tiny()
    base = KnowledgeBase(tiny.candidates, tiny.store, graph=folder, n_terms=2)
    assert terms_of(base, "Bern and New York") == [("city", "type", 1.0), ("Switzerland", "capital of", 1.0)]
    with pytest.raises(SourceError, match="graph=FOLDER"):
        KnowledgeBase(Candidates.tiny(), tiny.store, n_terms=2)


def test_a_vocabulary_knows_that_sources_add_terms() -> None:
    tiny = Graph.tiny()
    assert not Vocabulary.of([tiny]).with_terms
    assert Vocabulary.of([Graph(tiny.triples, tiny.aliases, n_terms=1)]).with_terms


@pytest.mark.parametrize(
    ("description", "begins"),
    [
        (
            "feline mammal usually having thick soft fur and no ability to roar",
            "feline mammal usually having thick soft fur",
        ),
        ("a small town.", "a small town"),
        ("", ""),
    ],
)
def test_a_description_is_cut_behind_a_word_that_says_something(description: str, begins: str) -> None:
    assert first_words(description) == begins
