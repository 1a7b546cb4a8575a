"""Which names that are found become mentions, of Entities and of Graph alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from knowledge.small_graphs import entities, triples

from infuser.errors import SourceError
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import save_graph
from infuser.sources import Candidates, Entities, Graph
from infuser.types import Link, Source, Span, join_pair

NAMES = ["a", "cat", "IT", "us", "MG", "big cat", "5", "acute pain", "pain", "in pain"]


def written(source: Source, text: str) -> list[str]:
    return [text[span.start : span.end] for span in source.annotate([text])[0].spans]


@pytest.fixture(params=["entities", "graph", "folder"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> type:
    """Return what makes a source of the names above, with settings."""
    graph = {"triples": [], "aliases": {f"Q{place}": [name] for place, name in enumerate(NAMES)}}
    if request.param == "folder":
        rows = ({"id": f"Q{place}", "label": name} for place, name in enumerate(NAMES))
        graph = {"triples": save_graph(build_graph([entities(*rows)]), tmp_path / "graph")}
    return lambda **settings: Entities(NAMES, **settings) if request.param == "entities" else Graph(**graph, **settings)


def test_stop_words_letters_and_numbers_are_no_mentions_unless_wanted(make: type) -> None:
    text = "A cat told us 5 things about IT; it is a big cat"
    assert written(make(), text) == ["cat", "IT", "big cat"]
    assert written(make(stop_words=()), text) == ["A", "cat", "us", "5", "IT", "it", "a", "big cat"]


def test_an_abbreviation_of_the_list_needs_its_capitals_only_in_a_text_with_capitals(make: type) -> None:
    assert written(make(), "Then 5 mg against MG") == ["MG"]
    assert written(make(), "query about mg") == ["mg"]


def test_an_ignored_name_uncovers_what_stands_inside_it(make: type) -> None:
    text = "The acute pain of a cat in pain"
    assert written(make(), text) == ["acute pain", "cat", "in pain"]
    assert written(make(ignored=["Acute Pain", "in pain"]), text) == ["pain", "cat", "pain"]
    assert written(make(ignored=["acute pain", "pain", "cat", "in pain"]), text) == []


def test_a_short_form_has_label_and_id_of_its_long_form_and_is_tied_to_it() -> None:
    text = "Big cat disease (BCD) is rare. Is BCD bad?"
    [found] = Entities({"big cat disease": "disease", "BCD": "gene"}).annotate([text])
    disease = ("disease", "big cat disease")
    assert found.spans == (Span(0, 15, *disease), Span(17, 20, *disease), Span(34, 37, *disease))
    assert found.links[3:] == (Link(0, 1, 1.0, "abbreviation"), Link(0, 2, 1.0, "abbreviation"))
    source = Graph([("BCD", "is a", "gene"), ("bcd1", "makes", "rare")], aliases={"bcd1": ["big cat disease"]})
    [found] = source.annotate([text])
    assert [(span.start, span.id) for span in found.spans] == [(0, "bcd1"), (17, "bcd1"), (25, "rare"), (34, "bcd1")]
    assert Link(0, 1, 1.0, "abbreviation") in found.links and Link(0, 3, 1.0, "abbreviation") in found.links
    assert Link(1, 2, 1.0, "makes") in found.links
    assert written(Graph(source.triples, source.aliases, abbreviations=False), text) == [
        "Big cat disease",
        "BCD",
        "rare",
        "BCD",
    ]


def test_a_short_form_has_the_candidates_of_its_long_form() -> None:
    [found] = Candidates({"big cat disease": {"Q1": 3}}).annotate(["Big cat disease (BCD), BCD"])
    assert [span.id for span in found.spans] == ["Q1"] * 3
    assert not Candidates({"Bern": {"Q70": 1}}, ignored=["BERN"]).annotate(["Bern"])[0].spans


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    facts = [
        entities(
            {"id": "G1", "label": "lead", "types": ["gene"], "count": 9},
            {"id": "C1", "label": "lead", "types": ["metal", "chemical"]},
            {"id": "G2", "label": "lead acid", "types": ["gene"]},
            {"id": "X", "label": "thing"},
        ),
        triples(("G1", "r", "X"), ("G1", "r", "C1")),
    ]
    return save_graph(build_graph(facts), tmp_path / "typed")


def test_only_entities_of_wanted_types_are_mentioned_and_labelled_so(typed: Path) -> None:
    text = "lead acid, lead, thing"
    assert [span.label for span in Graph(typed).annotate([text])[0].spans] == ["gene", "gene", "entity"]
    graph = Graph(typed, types=["chemical", "entity"])
    assert graph.annotate([text])[0].spans == (
        Span(0, 4, "chemical", "C1"),
        Span(11, 15, "chemical", "C1"),
        Span(17, 22, "entity", "X"),
    )
    assert graph.span_types == ("chemical", "entity")
    with pytest.raises(SourceError, match="Did you mean 'chemical'"):
        Graph(typed, types=["chemicals"])
    with pytest.raises(SourceError, match="give a list of types"):
        Graph(typed, types="gene")


def test_no_short_form_reaches_across_the_break_of_a_pair() -> None:
    assert written(Entities(["big cat"]), join_pair("big cat", "(BC)")) == ["big cat"]
