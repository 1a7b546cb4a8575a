"""Marks around mentions: where they stand, that they can be taken out again, and what they say about types."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.tasks.entity_markers import Markers, mark, mark_all, mark_mention
from infuser.types import Span

BORN = "Bill was born in Seattle ."
BILL, SEATTLE = Span(0, 4, "PERSON"), Span(17, 24, "STATE_OR_PROVINCE")

texts = st.text(string.ascii_letters + " .\n", min_size=1, max_size=30)


@st.composite
def marked_places(draw: st.DrawFn) -> tuple[str, Span, Span]:
    """Draw a text and two spans in it, apart, touching, overlapping or within each other; types are digits."""
    text = draw(texts)
    starts = [draw(st.integers(0, len(text) - 1)) for _ in range(2)]
    head, tail = (
        Span(start, draw(st.integers(start + 1, len(text))), label=draw(st.sampled_from(["", "1", "2_3"])))
        for start in starts
    )
    return text, head, tail


@pytest.mark.parametrize(
    ("style", "marked"),
    [
        ("none", BORN),
        ("plain", "@ Bill @ was born in # Seattle # ."),
        ("typed", "@ * person * Bill @ was born in # ^ state or province ^ Seattle # ."),
    ],
)
def test_marks_are_those_of_the_paper(style: Markers, marked: str):
    assert mark(BORN, BILL, SEATTLE, style) == marked


def test_order_in_the_text_does_not_decide_which_mention_is_the_head():
    assert mark(BORN, SEATTLE, BILL, "plain") == "# Bill # was born in @ Seattle @ ."


@pytest.mark.parametrize(
    ("head", "tail", "marked"),
    [
        ((0, 3), (3, 6), "@ abc @ # def # ghi"),
        ((3, 6), (0, 3), "# abc # @ def @ ghi"),
        ((0, 9), (3, 6), "@ abc # def # ghi @"),
        ((3, 6), (0, 9), "# abc @ def @ ghi #"),
        ((0, 3), (0, 9), "# @ abc @ defghi #"),
        ((6, 9), (0, 9), "# abcdef @ ghi @ #"),
        ((0, 9), (0, 9), "@ # abcdefghi # @"),
        ((0, 6), (3, 9), "@ abc # def @ ghi #"),
    ],
)
def test_mentions_that_touch_or_overlap_keep_their_own_marks(head: tuple[int, int], tail: tuple[int, int], marked: str):
    assert mark("abcdefghi", Span(*head), Span(*tail), "typed") == marked


@given(marked_places(), st.sampled_from(["plain", "typed"]))
def test_text_without_its_marks_is_the_text(places: tuple[str, Span, Span], style: Markers):
    text, head, tail = places
    unmarked = re.sub(r"[@#*^0-9]", "", mark(text, head, tail, style))
    assert "".join(unmarked.split()) == "".join(text.split())


@given(marked_places(), st.sampled_from(["plain", "typed"]))
def test_mentions_stand_inside_their_marks_which_are_words(places: tuple[str, Span, Span], style: Markers):
    text, head, tail = places
    marked = mark(text, head, tail, style)
    assert sum(word in "@#" for word in marked.split()) == 4
    for span, sign, around in ((head, "@", "*"), (tail, "#", "^")):
        [inside] = re.findall(rf"{sign}(?: \{around}[0-9 ]+\{around})?(.*?){sign}", marked, re.DOTALL)
        assert "".join(re.sub(r"[@#*^0-9]", "", inside).split()) == "".join(text[span.start : span.end].split())
        said = f"{sign} {around} {span.label.replace('_', ' ')} {around}" in marked
        assert said == (style == "typed" and span.label != "")


@given(texts, st.data())
def test_one_mention_has_plain_marks(text: str, data: st.DataObject):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assume(text[start:end].strip())
    before, inside, after = mark_mention(text, Span(start, end, "person")).split("@")
    assert (before.split(), inside.split(), after.split()) == tuple(
        part.split() for part in (text[:start], text[start:end], text[end:])
    )


@pytest.mark.parametrize("span", [Span(-1, 2), Span(3, 3), Span(5, 4), Span(20, 27)])
def test_mention_outside_the_text_is_an_error_with_its_place(span: Span):
    with pytest.raises(InputError, match=f"from {span.start} to {span.end} in a text of 26 characters"):
        mark(BORN, BILL, span, "plain")


def test_unknown_style_names_the_known_ones():
    with pytest.raises(InputError, match=r"No markers are called 'bold'\. Known: none, plain, typed"):
        mark(BORN, BILL, SEATTLE, "bold")  # type: ignore[arg-type]


def test_several_mentions_of_each_entity_are_marked():
    text = "Bern lies in Switzerland; Bern is its capital."
    bern = [Span(0, 4, "city"), Span(26, 30, "city")]
    marked = mark_all(text, bern, [Span(13, 24, "country")], "typed")
    assert marked.text == "@ * city * Bern @ lies in # ^ country ^ Switzerland # ; @ * city * Bern @ is its capital."
    assert [marked.text[start:end] for start, end in marked.mentions] == ["Bern", "Bern", "Switzerland"]


@given(marked_places(), st.sampled_from(["none", "plain", "typed"]))
def test_places_of_mentions_hold_their_words(drawn: tuple[str, Span, Span], style: Markers):
    text, *spans = drawn
    marked = mark_all(text, [spans[0]], [spans[1]], style)
    for (start, end), span in zip(marked.mentions, spans, strict=True):
        words = re.sub(r"[@#*^\d\s]", "", marked.text[start:end])  # marks of the other mention may stand inside
        assert words == re.sub(r"\s", "", text[span.start : span.end])
