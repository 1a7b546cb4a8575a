"""The parts of an explanation: which there are, what they say, and that any page can hold them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pytest
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, infuse_tiny

from infuser.analysis.explain import explain as explain_text
from infuser.analysis.explanation import Explanation
from infuser.linking.mentions import Mention, ScoredCandidate
from infuser.reports.explanation_page import explanation_parts, explanation_section
from infuser.reports.figures import COLOURS
from infuser.types import Annotations, Link, Span, Term, join_pair

Explain = Callable[..., Explanation]
ValuesOf = Callable[[Mapping[str, str]], np.ndarray]

PARTS = [
    "warning",
    "answer",
    "entities",
    "found",
    "triples",
    "mentions",
    "gates",
    "maps",
    "heads",
    "attention",
    "changes",
]
TEXT, PAIR = "buy glipizide", "pharmacy near me"
FOUND = Annotations(
    join_pair(TEXT, PAIR),
    (Span(4, 13, "drug"), Span(15, 23)),
    (Link(0, 1, 0.8, "sold at"),),
    (Term("shop", ((1, 0.5),)),),
)
MENTIONS = (
    Mention(4, 13, "glipizide", "Q9", 1.5, (ScoredCandidate("Q9", 0.75, 1.5, 1.0), ScoredCandidate("Q10", 0.25, -0.5))),
    Mention(15, 23, "pharmacy", None, -math.inf, (ScoredCandidate("Q13", 1.0, -math.inf),)),
)
TRIPLES = (
    {
        "head": {"start": 4, "end": 13, "text": "glipizide", "id": "Q9"},
        "tail": {"start": 15, "end": 23, "text": "pharmacy"},
        "relation": "P1",
        "label": "sold at",
        "probability": 0.912345,
        "negated": False,
        "heads": [{"layer": 3, "head": 7, "weight": 0.53}, {"layer": 0, "head": 2, "weight": -0.1}],
    },
    {
        "head": {"start": 15, "end": 23, "text": "pharmacy"},
        "tail": {"start": 29, "end": 31, "text": "me"},
        "relation": "near",
        "label": "",
        "probability": 0.5,
        "negated": True,
        "heads": [],
    },
)
EVERYTHING: dict[str, Any] = {
    "head": 1,
    "answer_plain": {"no": 0.69, "yes": 0.31},
    "answer_infused": {"no": 0.16, "yes": 0.84},
    "answers_without": {"graph": {"no": 0.6, "yes": 0.4}},
    "found": {"entities": Annotations(FOUND.text, FOUND.spans), "graph": FOUND},
    "off": ("entities",),
    "entities_plain": ((4, 13, "City", 0.4),),
    "entities_infused": ((4, 13, "Drug", 0.91),),
    "entities_without": {"graph": ((4, 13, "Drug", 0.6),)},
    "gates": {"bottom": [None, None, 0.5, 1.25] + [None] * 6, "top": [1.0, None, 0.25, 0.5] + [None] * 6},
    "runaway": ((3, 2, 0.93), (0, 1, 0.51)),
    "changes": np.arange(12.0).reshape(4, 3) / 100,
    "mentions": MENTIONS,
    "triples": TRIPLES,
}


def read(part: str) -> Element:
    """Return a part as the live page reads it."""
    return fromstring(f'<div xmlns="http://www.w3.org/1999/xhtml">{part}</div>')


def told(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def rows(part: str) -> list[list[str]]:
    return [[told(cell) for cell in row] for row in read(part).iterfind(".//{*}tr")]


def grids(part: str) -> list[Element]:
    return [svg for svg in read(part).iterfind(".//{*}svg") if svg.get("data-values")]


def test_all_parts_are_there_in_order_each_under_its_own_heading(explain: Explain) -> None:
    explanation = explain(**EVERYTHING)
    parts = explanation_parts(explanation)
    assert list(parts) == PARTS
    assert all(part.startswith("<h3>") and part.count("<h3>") == 1 for part in parts.values())
    section = explanation_section(explanation)
    quotes = [told(quote) for quote in read(section).iterfind(".//{*}blockquote")]
    assert quotes == [TEXT, PAIR] and section.endswith("".join(parts.values()) + "</section>")


def test_a_plain_encoder_has_one_attention_and_nothing_else(explain: Explain) -> None:
    plain = explain().plain
    parts = explanation_parts(explain(maps={}, plain=plain, infused=plain))
    assert [name for name, part in parts.items() if part] == ["attention"]
    assert len(grids(parts["attention"])) == 1 and "difference" not in parts["attention"]
    # spans that a relation model relates are not read by its encoder, whether some of them are left out or not
    related = explain(maps={}, plain=plain, infused=plain, found={"a": FOUND, "b": FOUND}, off=("b",), triples=TRIPLES)
    parts = explanation_parts(related)
    assert [name for name, part in parts.items() if part] == ["found", "triples", "attention"]
    assert len(grids(parts["attention"])) == 1


def test_knowledge_that_is_all_switched_off_is_still_compared(explain: Explain) -> None:
    plain = explain().plain
    parts = explanation_parts(explain(maps={}, plain=plain, infused=plain, found={"graph": FOUND}, off=("graph",)))
    assert len(grids(parts["attention"])) == 3 and "did not change this attention" in parts["changes"]
    assert parts["maps"] == ""


def test_answers_are_told_without_knowledge_with_it_and_without_each_source(explain: Explain) -> None:
    part = explanation_parts(explain(**EVERYTHING))["answer"]
    assert rows(part) == [
        ["", "without knowledge", "with knowledge", "change", "without graph"],
        ["no", "0.690", "0.160", "-0.530", "0.600"],
        ["yes", "0.310", "0.840", "+0.530", "0.400"],
    ]
    assert [told(strong) for strong in read(part).iterfind(".//{*}strong")] == ["0.690", "0.600", "0.840"]
    bars = [svg.findall("{*}rect")[-1] for svg in read(part).iterfind(".//{*}svg")]
    lengths = [float(bar.get("width", 0)) for bar in bars]
    assert lengths[0] / lengths[2] == pytest.approx(0.69 / 0.6, rel=0.01)


def test_heads_that_run_away_are_named_in_a_note(explain: Explain) -> None:
    note = read(explanation_parts(explain(**EVERYTHING))["warning"]).find("{*}p")
    assert note is not None and note.get("class") == "caution"
    assert "layer 3 head 2 (93%), layer 0 head 1 (51%). They no longer attend as they did after pretraining" in told(
        note
    )
    many = explain(runaway=tuple((0, head, 0.9) for head in range(20))).warning or ""
    assert "layer 0 head 5 (90%), 14 more." in many and "head 6" not in many
    assert explain().warning is None and explanation_parts(explain())["warning"] == ""


def test_entities_are_marked_in_the_text_and_those_that_differ_are_framed(explain: Explain) -> None:
    part = read(explanation_parts(explain(**EVERYTHING))["entities"])
    marks = [(told(mark), mark.get("class")) for mark in part.iterfind(".//{*}mark")]
    assert marks == [
        ("glipizideCity 0.40, differs", "type-0 differs"),
        ("glipizideDrug 0.91, differs", "type-1 differs"),
        ("glipizideDrug 0.60", "type-1"),
    ]
    names = [told(line[0]) for line in part.iterfind("{*}p")]
    assert names == ["without knowledge", "with knowledge", "without graph"]
    nothing = explanation_parts(explain(found={"graph": FOUND}, entities_plain=(), entities_infused=()))["entities"]
    assert "with knowledge: none" in nothing and TEXT in told(read(nothing))


def test_gates_of_types_are_listed_for_tokens_that_have_some(explain: Explain) -> None:
    assert rows(explanation_parts(explain(**EVERYTHING))["gates"]) == [
        ["", "before the first block", "behind the last block"],
        ["[CLS]", "", "1.00"],
        ["gli", "0.50", "0.25"],
        ["##piz", "1.25", "0.50"],
    ]


def test_methods_that_are_left_out_are_named(explain: Explain) -> None:
    several = EVERYTHING | {"off": ("entities", "kam"), "answers_without": {"types": {"no": 0.6, "yes": 0.4}}}
    part = explanation_parts(explain(**several))["answer"]
    assert "without types" in part and "Without a method: the others" in part and "Switched off: kam." in part
    assert "Without a method" not in explanation_parts(explain(**EVERYTHING))["answer"]


def test_a_score_that_is_no_share_has_no_bar(explain: Explain) -> None:
    part = explanation_parts(explain(answer_plain={"score": 3.25}, answer_infused={"score": -0.5}))["answer"]
    assert rows(part)[1] == ["score", "3.250", "-0.500", "-3.750"] and "<svg" not in part and "<strong>" not in part


def test_of_many_labels_the_most_probable_are_told(explain: Explain) -> None:
    answer = {f"label {at}": at / 100 for at in range(30)}
    part = explanation_parts(explain(answer_infused=answer))["answer"]
    assert [row[0] for row in rows(part)[1:]] == [
        f"label {at}" for at in range(10, 30)
    ] and "And 10 labels more" in part


def test_every_source_has_its_colour_and_those_that_are_off_are_named(explain: Explain) -> None:
    part = read(explanation_parts(explain(**EVERYTHING))["found"])
    figures = part.findall(".//{*}figure")
    assert [told(figure.find("{*}figcaption")) for figure in figures] == [
        "entities (off) 2 spans",
        "graph 2 spans, 1 link, 1 term",
    ]
    for at, figure in enumerate(figures):
        colours = {group.get("stroke") for group in figure.iterfind(".//{*}g") if group.get("stroke")}
        assert colours == {COLOURS[at]}
    lists = [told(item) for item in part.iterfind(".//{*}li")]
    assert "glipizide -- sold at -- pharmacy 0.80" in lists and "+ shop, not in the text: pharmacy 0.50" in lists


def test_with_every_source_off_the_page_says_why_numbers_still_differ(explain: Explain) -> None:
    answers = {"answer_plain": {"yes": 0.3, "no": 0.7}, "answer_infused": {"yes": 0.2, "no": 0.8}}
    off = explanation_parts(explain(maps={}, found={"graph": FOUND}, off=("graph",), **answers))
    assert "Every source is off" in off["answer"] and len(grids(off["attention"])) == 3
    on = explanation_parts(
        explain(found={"graph": FOUND}, answers_without={"graph": {"yes": 0.2, "no": 0.8}}, **answers)
    )
    assert "Every source is off" not in on["answer"] and "its method switched off" in on["answer"]
    plain = np.full((5, 5), 0.2)
    related = explain(
        words=list("abcde"), maps={}, plain=plain, infused=plain, found={"a": FOUND}, off=("a",), triples=()
    )
    parts = explanation_parts(related)  # the sources of a relation model change no attention
    assert len(grids(parts["attention"])) == 1 and not parts["heads"] and not parts["changes"]


def test_equal_words_are_told_apart_in_the_largest_changes() -> None:
    plain = np.full((3, 3), 1 / 3)
    infused = plain.copy()
    infused[2] = [1 / 3, 0.0, 2 / 3]
    told = Explanation(words=["and", "b", "and"], plain=plain, infused=infused)
    rows = explanation_parts(told)["changes"]
    assert "and (2) → b<" in rows and "and (2) → and (2)<" in rows and "and (1)" not in rows


def test_a_model_of_relations_that_found_none_says_so(explain: Explain) -> None:
    assert "no two spans of this text are related" in explanation_parts(explain(triples=()))["triples"]
    assert explanation_parts(explain())["triples"] == ""
    assert Explanation.from_dict(explain(triples=()).to_dict()).triples == ()
    assert Explanation.from_dict(explain().to_dict()).triples is None


def test_triples_are_told_with_the_heads_that_decided(explain: Explain) -> None:
    part = explanation_parts(explain(**EVERYTHING))["triples"]
    assert rows(part)[1:] == [
        ["glipizide", "sold at", "pharmacy", "0.912", "layer 3 head 7 +0.53 layer 0 head 2 -0.10"],
        ["pharmacy", "not: near", "me", "0.500", ""],
    ]
    assert '<button type="button" class="head" data-layer="3" data-head="7">layer 3 head 7</button>' in part
    drawn = [path.findtext("{*}title") for path in read(part).iterfind(".//{*}path") if path.get("class") == "tie"]
    assert drawn == ["glipizide - sold at - pharmacy 0.91", "pharmacy - not: near - me 0.50"]


def test_mentions_are_told_with_their_candidates_and_the_chosen_one_is_marked(explain: Explain) -> None:
    part = explanation_parts(explain(**EVERYTHING))["mentions"]
    assert rows(part)[1:] == [
        ["glipizide", "Q9 chosen", "0.750", "1.50", "1.000"],
        ["Q10", "0.250", "-0.50", ""],
        ["pharmacylinked to nothing", "Q13", "1.000", "", ""],
    ]
    (chosen,) = (row for row in read(part).iterfind(".//{*}tr") if row.get("class") == "chosen")
    assert "Q9" in told(chosen) and "inf" not in part


def test_a_mention_of_many_things_and_one_of_nothing_are_told_in_short(explain: Explain) -> None:
    many = Mention(
        0, 3, "buy", "Q0", 1.0, tuple(ScoredCandidate(f"Q{at}", 0.05, 1.0 - at) for at in range(20)), "one base"
    )
    none = Mention(4, 13, "glipizide", None, -math.inf, (), "other base")
    part = explanation_parts(explain(mentions=(many, none)))["mentions"]
    assert len(rows(part)) == 1 + 8 + 1 and "and 12 more that it may mean" in part
    assert rows(part)[-1] == ["glipizideother baselinked to nothing", "nothing that is known"]


def test_maps_are_those_of_the_sources_and_empty_ones_take_no_room(explain: Explain, values_of: ValuesOf) -> None:
    graph = explain(n_terms=1).maps["graph"]
    explanation = explain(n_terms=1, maps={"graph": graph, "base": np.zeros_like(graph)})
    part = explanation_parts(explanation)["maps"]
    (grid,) = grids(part)
    np.testing.assert_allclose(values_of(grid.attrib), graph.ravel(), atol=5.1e-5)
    assert "base ties no words of this text" in told(read(part)) and "Columns in italics" in part


def test_the_heads_that_changed_are_a_map_to_choose_from(explain: Explain, values_of: ValuesOf) -> None:
    part = explanation_parts(explain(**EVERYTHING))["heads"]
    (figure,) = read(part).iterfind(".//{*}figure")
    assert figure.get("data-kind") == "heads" and "heads" in str(figure.get("class")).split()
    (grid,) = grids(part)
    np.testing.assert_allclose(values_of(grid.attrib), np.arange(12) / 100)
    frame = next(rect for rect in grid.iterfind(".//{*}rect") if rect.get("class") == "chosen")
    picture = grid.find("{*}image")
    cell = float(grid.get("data-cell", 0))
    assert picture is not None and [
        (float(frame.get(axis, 0)) - float(picture.get(axis, 0))) / cell for axis in ("y", "x")
    ] == [3, 1]
    mean = explanation_parts(explain(**EVERYTHING | {"head": None}))["heads"]
    assert 'class="chosen"' not in mean  # of the mean over heads none is the chosen one
    assert explanation_parts(explain())["heads"] == ""


def test_an_explanation_that_was_read_back_shows_the_same(explain: Explain) -> None:
    explanation = explain(**EVERYTHING)
    parts, again = explanation_parts(explanation), explanation_parts(Explanation.from_dict(explanation.to_dict()))
    same = [
        "warning",
        "answer",
        "entities",
        "gates",
        "found",
        "triples",
        "mentions",
        "heads",
        "changes",
    ]  # attention is kept with six decimals
    assert [name for name in PARTS if parts[name] != again[name] and name in same] == []


@pytest.mark.parametrize(
    "odd", ["evil", "\x00\x0b\ud800\ufffe", "👩\u200d👩\u200d👧 中文 e\u0301", "שלום \u202eעולם", ""]
)
def test_every_part_is_xml_whatever_a_user_or_a_source_wrote(explain: Explain, evil: str, odd: str) -> None:
    odd = evil if odd == "evil" else odd
    text = join_pair(odd, odd)
    spans = (Span(0, len(odd), odd, odd), Span(len(odd) // 2, len(text)))
    end = {"start": 0, "end": len(odd), "text": odd, "type": odd}
    explanation = explain(
        n_terms=1,
        words=[odd] * 10,
        terms=[odd],
        maps={odd: np.ones((10, 11))},
        text=odd,
        pair=odd,
        changes=np.ones((2, 2)),
        answer_plain={odd: 0.2},
        answer_infused={odd: 0.9},
        answers_without={odd: {odd: 0.5}},
        found={
            odd: Annotations(text, spans, (Link(0, 1, 1.0, odd),), (Term(odd, ((0, 1.0),)),)),
            "": Annotations(text),
        },
        off=(odd,),
        mentions=(Mention(0, len(odd), odd, odd, 1.0, (ScoredCandidate(odd, 1.0, 1.0),), odd),),
        triples=({"head": end, "tail": end, "relation": odd, "label": odd, "probability": 1.0, "negated": True},),
    )
    for part in [*explanation_parts(explanation).values(), explanation_section(explanation)]:
        elements = list(read(part).iter())
        assert not [element for element in elements if element.get("style") or "script" in element.tag]
        assert not [name for element in elements for name in element.attrib if name.startswith("on")]
        pictures = [element.tag for element in elements if element.tag.endswith("svg")]
        assert set(pictures) <= {"{http://www.w3.org/2000/svg}svg"}


@pytest.mark.parametrize("method", ["kam", "kar", "ernie"])
def test_what_a_model_explains_is_shown(method: str) -> None:
    infused = infuse_tiny("bert", "sequence-classification", method, num_hidden_layers=3)
    parts = explanation_parts(explain_text(infused, KNOWN_TEXT, "the old river", layer="strongest"))
    empty = {"entities", "gates", "triples", "mentions" if method == "kam" else "maps"}
    assert {name for name, part in parts.items() if not part} - {"warning"} == empty
    read("".join(parts.values()))
    drawn = read(parts["found"]).findall(".//{*}figure")
    assert len(drawn) == 2 and all(figure.find(".//{*}rect") is not None for figure in drawn)
    assert bool(grids(parts["maps"])) == (method == "kam")


def test_a_plain_model_is_shown_without_a_comparison() -> None:
    plain = SimpleNamespace(model=tiny_host("bert"), tokenizer=tiny_tokenizer("bert"), sources=())
    parts = explanation_parts(explain_text(plain, KNOWN_TEXT, layer=0, head=1))
    assert [name for name, part in parts.items() if part] == ["attention"]
