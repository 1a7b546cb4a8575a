"""A text with what was found in it: where marks, arcs and words stand, whatever the text."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infuser.reports.figures import COLOURS
from infuser.reports.marked_text import marked_figure, ties_as_text, ties_in_words
from infuser.reports.text_lines import CELL, LINE_WIDTH, MARGIN, cells, lay_out
from infuser.types import Annotations, Link, Span, Term, join_pair

BLUE = COLOURS[0]


def span(text: str, words: str, label: str = "", id: str = "") -> Span:
    start = text.index(words)
    return Span(start, start + len(words), label, id)


def figure(found: Annotations, *, border: int | None = None, off: bool = False) -> Element:
    drawn = marked_figure("graph", found, colour=BLUE, border=border, off=off)
    return fromstring(f"<div>{drawn}</div>")[0]


def marks(drawn: Element) -> list[Element]:
    return drawn.findall(".//{*}rect")


def ties(drawn: Element) -> list[Element]:
    return [path for path in drawn.iterfind(".//{*}path") if path.get("class") == "tie"]


def words(drawn: Element) -> dict[str, Element]:
    return {text.text or "": text for text in drawn.iterfind(".//{*}text") if text.get("textLength")}


def title(element: Element) -> str:
    return element.findtext("{*}title", "")


def numbers(path: Element) -> list[float]:
    return [float(number) for number in re.findall(r"-?[\d.]+", path.get("d", ""))]


def rise(path: Element) -> float:
    """Return how far above its ends an arc has its control points."""
    _, start, _, control, *_ = numbers(path)
    return start - control


TEXT = "buy glipizide at the pharmacy near the old town"


def test_ties_are_told_in_words_as_the_command_line_tells_them() -> None:
    spans = (
        span(TEXT, "glipizide", "drug"),
        span(TEXT, "pharmacy"),
        span(TEXT, "old town", "area"),
    )
    loose = span(TEXT, "buy", "verb")
    found = Annotations(
        TEXT,
        (*spans, loose),
        (Link(0, 0), Link(0, 1, 0.8, "sold at"), Link(1, 2, 0.25)),
        (Term("drug store", ((1, 0.5), (0, 1.0))),),
    )
    assert list(ties_as_text(found)) == [
        "glipizide (drug)",
        "glipizide -- sold at -- pharmacy   0.80",
        "pharmacy -- old town   0.25",
        "+ drug store, not in the text: pharmacy 0.50, glipizide 1.00",
        "buy (verb), tied to nothing here",
    ]


def test_a_long_list_is_folded_and_cut_and_an_empty_one_is_left_out() -> None:
    many = Annotations(TEXT, (Span(0, 3),) * 50)
    items = fromstring(ties_in_words(many)).findall(".//li")
    assert len(items) == 41 and items[-1].text == "and 10 more"
    assert ties_in_words(Annotations(TEXT)) == ""


def test_marks_lie_behind_their_words_and_say_what_they_are() -> None:
    drawn = figure(Annotations(TEXT, (span(TEXT, "glipizide", "drug", "Q1"), span(TEXT, "old town"))))
    glipizide, town = marks(drawn)
    assert title(glipizide) == "glipizide: drug, Q1" and title(town) == ""
    word = words(drawn)["glipizide"]
    assert float(word.get("x", 0)) == MARGIN + 4 * CELL and float(word.get("textLength", 0)) == round(9 * CELL, 1)
    assert float(glipizide.get("x", 0)) == pytest.approx(MARGIN + 4 * CELL - 2)
    assert float(glipizide.get("width", 0)) == pytest.approx(9 * CELL + 4)
    assert float(town.get("width", 0)) == pytest.approx(8 * CELL + 4)  # one mark for both words
    top, height = float(town.get("y", 0)), float(town.get("height", 0))
    assert top < float(words(drawn)["town"].get("y", 0)) < top + height
    assert {group.get("fill") for group in drawn.iterfind(".//{*}g") if marks(group)} == {BLUE}


def test_spans_within_spans_are_both_seen() -> None:
    inner, outer = span(TEXT, "old", "age"), span(TEXT, "the old town", "place")
    big, small = marks(figure(Annotations(TEXT, (inner, outer))))
    assert title(big) == "the old town: place" and title(small) == "old: age"
    (top, height), (inner_top, inner_height) = (
        (float(mark.get("y", 0)), float(mark.get("height", 0))) for mark in (big, small)
    )
    assert inner_top > top and inner_top + inner_height / 2 == top + height / 2  # smaller, around the same middle
    (shared,) = marks(figure(Annotations(TEXT, (inner, Span(inner.start, inner.end, "colour")))))
    assert title(shared) == "old: age; old: colour"


def test_a_span_that_nothing_ties_looks_different_unless_nothing_is_tied() -> None:
    spans = (span(TEXT, "glipizide"), span(TEXT, "pharmacy"), span(TEXT, "town"))
    assert [mark.get("stroke-dasharray") for mark in marks(figure(Annotations(TEXT, spans)))] == [None] * 3
    drawn = figure(Annotations(TEXT, spans, (Link(0, 1),)))
    assert [mark.get("stroke-dasharray") is not None for mark in marks(drawn)] == [False, False, True]


def test_links_are_arcs_that_rise_with_their_length_and_darken_with_their_weight() -> None:
    spans = (span(TEXT, "glipizide"), span(TEXT, "pharmacy"), span(TEXT, "town"))
    drawn = figure(Annotations(TEXT, spans, (Link(0, 0), Link(0, 1, 0.8, "sold at"), Link(0, 2, 0.3))))
    short, long = ties(drawn)  # a span that ties its own words has a mark only
    assert (title(short), title(long)) == ("glipizide - sold at - pharmacy 0.80", "glipizide - town 0.30")
    assert 0 < rise(short) < rise(long)
    assert float(short.get("stroke-opacity", 0)) > float(long.get("stroke-opacity", 0))
    assert numbers(short)[0] == pytest.approx(MARGIN + 8.5 * CELL, abs=0.1)  # the middle of "glipizide"
    assert numbers(short)[-2] == pytest.approx(MARGIN + 25 * CELL, abs=0.1)
    assert [text.text for text in drawn.iterfind(".//{*}text") if text.get("class") == "relation"] == ["sold at"]


def test_several_links_between_two_spans_are_one_arc_that_tells_them_all() -> None:
    spans = (span(TEXT, "glipizide"), span(TEXT, "pharmacy"))
    (tie,) = ties(figure(Annotations(TEXT, spans, (Link(0, 1, 0.5, "a"), Link(1, 0, 0.9, "b")))))
    assert title(tie) == "pharmacy - b - glipizide 0.90; glipizide - a - pharmacy 0.50"


def test_terms_stand_behind_the_text_and_are_tied_by_dashes() -> None:
    found = Annotations(TEXT, (span(TEXT, "pharmacy"),), (), (Term("drug store", ((0, 0.5),)),))
    drawn = figure(found)
    written = words(drawn)
    assert float(written["drug store"].get("y", 0)) > float(written["pharmacy"].get("y", 0))
    group = next(group for group in drawn.iterfind(".//{*}g") if group.get("class") == "term")
    assert group.get("font-style") == "italic" and [text.text for text in group] == ["drug store"]
    (tie,) = ties(drawn)
    assert tie.get("stroke-dasharray") and title(tie) == "drug store - pharmacy 0.50"
    assert drawn.findtext("figcaption/small") == "1 span, 1 term"


def test_the_sides_of_a_pair_stand_apart_and_links_lead_from_one_to_the_other() -> None:
    text = join_pair("buy glipizide", "a pharmacy")
    found = Annotations(text, (span(text, "glipizide"), span(text, "pharmacy")), (Link(0, 1, 0.8),))
    drawn = figure(found, border=len("buy glipizide"))
    (rule,) = (path for path in drawn.iterfind(".//{*}path") if path.get("class") == "rule")
    upper, lower = (float(words(drawn)[word].get("y", 0)) for word in ("glipizide", "pharmacy"))
    (tie,) = ties(drawn)
    assert upper < numbers(tie)[1] < numbers(rule)[1] < numbers(tie)[-1] < lower
    whole = figure(found)  # a paragraph break is no border of a pair
    assert not [path for path in whole.iterfind(".//{*}path") if path.get("class") == "rule"]
    assert words(whole)["glipizide"].get("y") == words(whole)["pharmacy"].get("y")


def test_an_empty_side_and_words_of_blanks_are_no_lines() -> None:
    text = join_pair("buy glipizide", "")
    drawn = figure(Annotations(text, (span(text, "glipizide"),)), border=len("buy glipizide"))
    assert len({word.get("y") for word in words(drawn).values()}) == 1
    assert not marks(figure(Annotations("  \n ", (Span(0, 3), Span(2, 2)), (Link(0, 1),))))


def test_only_the_strongest_of_many_ties_are_drawn_and_the_rest_is_counted() -> None:
    text = " ".join(f"word{at}" for at in range(40))
    spans = tuple(span(text, f"word{at}") for at in range(10, 40))
    links = tuple(Link(one, other, (one + other) / 100) for one in range(30) for other in range(one))
    drawn = figure(Annotations(text, spans, links))
    told = sorted((float(title(tie).split()[-1]) for tie in ties(drawn)), reverse=True)
    assert told == sorted((round(link.weight, 2) for link in links), reverse=True)[:60]
    assert drawn.findtext("p") == "The strongest 60 of 435 ties are drawn."
    assert len(list(drawn.iterfind(".//{*}text"))) == 40  # and no relation is written among so many


def test_a_text_of_2000_characters_makes_a_small_picture() -> None:
    text = "knowledge that is tied " * 90
    spans = tuple(Span(*match.span()) for match in re.finditer(r"\w{3,}", text))
    found = Annotations(text, spans, tuple(Link(at, at + 7, 0.5) for at in range(len(spans) - 7)))
    drawn = marked_figure("correlation", found, colour=BLUE)
    assert len(text) > 2000 and len(drawn) < 80_000
    too_long = figure(Annotations("tied " * 2000, (Span(0, 4), Span(9_000, 9_004)), (Link(0, 1),)))
    assert len(marks(too_long)) == 1 and not ties(too_long)
    assert too_long.findtext("p") == "Only the first 4,000 characters are drawn."


def test_lines_end_between_words_and_words_longer_than_a_line_are_broken() -> None:
    text = f"one {'x' * 200} two {'word ' * 30}end"
    pieces = lay_out(text, 0, len(text))
    assert "".join(text[one.start : one.end] for one in pieces) == text.replace(" ", "")
    assert max(one.column + one.width for one in pieces) <= LINE_WIDTH
    parts = [one for one in pieces if text[one.start] == "x"]
    assert [one.width for one in parts] == [72, 72, 56] and len({one.line for one in parts}) == 3
    following = pieces[pieces.index(parts[-1]) + 1]
    assert (following.line, following.column) == (parts[-1].line, 57)
    drawn = figure(Annotations(text, (Span(4 + 70, 4 + 80),)))
    assert [round(float(mark.get("width", 0)) / CELL, 1) for mark in marks(drawn)] == [2.5, 8.5]  # 2 and 8 cells


def test_wide_signs_take_two_cells_and_accents_none() -> None:
    assert [cells(text) for text in ("Bern", "中文", "e\u0301te\u0301", "👩\u200d👩\u200d👧", "Zürich")] == [
        4,
        4,
        3,
        2,
        6,
    ]
    drawn = figure(Annotations("中文 e\u0301", (Span(1, 2), Span(3, 5))))
    assert [float(mark.get("x", 0)) for mark in marks(drawn)] == pytest.approx(
        [MARGIN + 2 * CELL - 2, MARGIN + 5 * CELL - 2]
    )
    assert words(drawn)["中文"].get("lengthAdjust") == "spacingAndGlyphs"


def test_hebrew_is_read_from_the_right_and_latin_words_in_it_keep_their_order() -> None:
    text = "שלום New York עולם"
    pieces = {text[one.start : one.end]: one for one in lay_out(text, 0, len(text))}
    in_sight = sorted(pieces, key=lambda word: pieces[word].column)
    assert in_sight == ["עולם", "New", "York", "שלום"]
    start = marks(figure(Annotations(text, (Span(0, 1),))))[0]  # the first letter stands at the right end
    assert float(start.get("x", 0)) == pytest.approx(MARGIN + (len(text) - 1) * CELL - 2)
    english = "say שלום עולם twice"
    places = {english[one.start : one.end]: one.column for one in lay_out(english, 0, len(english))}
    assert places == {"say": 0, "שלום": 9, "עולם": 4, "twice": 14}


def test_a_source_that_is_off_is_faded_and_one_that_found_nothing_says_so() -> None:
    off = figure(Annotations(TEXT, (span(TEXT, "town"),)), off=True)
    assert off.get("class") == "found off" and (off.findtext("figcaption") or "").startswith("graph (off)")
    nothing = figure(Annotations(TEXT))
    assert "".join(nothing.itertext()) == "graph found nothing in this text" and not words(nothing)


def test_the_picture_says_in_a_sentence_what_was_found() -> None:
    spans = (span(TEXT, "glipizide"), span(TEXT, "old town"))
    picture = figure(Annotations(TEXT, spans, (Link(0, 1),), (Term("shop", ((0, 1.0),)),))).find(".//{*}svg")
    assert picture is not None and picture.get("role") == "img"
    assert picture.get("aria-label") == "graph found 2 spans, 1 link, 1 term: glipizide, old town"


def test_what_a_user_wrote_is_text_and_nothing_else(evil: str) -> None:
    found = Annotations(
        evil, (Span(0, 8, evil, evil), Span(9, 30)), (Link(0, 1, 1.0, evil),), (Term(evil, ((0, 1.0),)),)
    )
    drawn = marked_figure(evil, found, colour=BLUE) + ties_in_words(found)
    assert "<script" not in drawn and "<img" not in drawn
    assert "".join(words(fromstring(f"<div>{drawn}</div>"))).count("onerror='alert(1)'>&\"") >= 1


TEXTS = st.text(max_size=160) | st.text("ab 中\u0301\u200dא👩\ud800\x00\x0b\n\ufffe", max_size=160)


@st.composite
def findings(draw: st.DrawFn) -> tuple[Annotations, int | None]:
    one, other = draw(TEXTS), draw(st.none() | TEXTS)
    text = join_pair(one, other)
    ends = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(sorted)
    spans = tuple(Span(*end, label=draw(st.text(max_size=3))) for end in draw(st.lists(ends, max_size=6)))
    if not spans:
        return Annotations(text), None if other is None else len(one)
    place, weight = st.integers(0, len(spans) - 1), st.floats(0, 1)
    links = draw(st.lists(st.builds(Link, place, place, weight, st.text(max_size=12)), max_size=8))
    terms = draw(st.lists(st.builds(Term, st.text(max_size=90), st.tuples(st.tuples(place, weight))), max_size=4))
    return Annotations(text, spans, tuple(links), tuple(terms)), None if other is None else len(one)


@example((Annotations("0\u200b", (Span(1, 2),)), None))
@example((Annotations("a\u200d中", (Span(2, 3),)), None))
@given(findings())
def test_any_text_is_drawn_whole_and_within_the_picture(finding: tuple[Annotations, int | None]) -> None:
    found, border = finding
    drawn = fromstring(f"<div>{marked_figure('any', found, colour=BLUE, border=border)}{ties_in_words(found)}</div>")
    assert not [element for element in drawn.iter() if element.get("style")]
    picture = drawn.find(".//{*}svg")
    if picture is None:
        assert not found.spans and not found.terms
        return
    width, height = float(picture.get("width", 0)), float(picture.get("height", 0))
    for mark in marks(picture):
        left, top = float(mark.get("x", -1)), float(mark.get("y", -1))
        assert left >= 0 and left + float(mark.get("width", 0)) <= width + 0.6  # a picture is whole pixels wide
        assert top >= 0 and top + float(mark.get("height", 0)) <= height
    for tie in ties(picture):
        places = numbers(tie)
        assert min(places[0::2]) >= 0 and max(places[0::2]) <= width and max(places[1::2]) <= height
        # a curve rises to three quarters of its control points
        assert min(places[1], places[-1]) - 0.75 * max(0.0, rise(tie)) >= -0.1
    shown = [text.text or "" for group in picture.findall("{*}g") for text in group.findall("{*}text")]
    n_signs = sum(not sign.isspace() for sign in found.text)
    relations = [text.text or "" for text in picture.iterfind(".//{*}text") if text.get("class") == "relation"]
    assert sum(map(len, shown)) - sum(map(len, relations)) == n_signs
