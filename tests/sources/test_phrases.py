from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from infuser.errors import SourceError
from infuser.sources import Phrases
from infuser.types import PAIR_BREAK, Annotations, Link, Span


def capital_runs(text: str) -> Iterable[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"[A-Z]\w*(?:\s+[A-Z]\w*)*\s*", text)]


def test_listed_phrases_tie_their_own_words() -> None:
    text = "Natural  language processing lies near me"
    assert Phrases(["natural language processing", "near me"]).annotate([text]) == [
        Annotations(text, (Span(0, 28, label="phrase"), Span(34, 41, label="phrase")), (Link(0, 0), Link(1, 1)))
    ]


def test_a_chunker_finds_phrases_without_the_space_around_them() -> None:
    found = Phrases(chunker=capital_runs).annotate(["see Fred Meyer  now"])[0]
    assert found.spans == (Span(4, 14, label="phrase"),)
    assert found.links == (Link(0, 0),)


def test_a_chunk_across_the_break_of_a_pair_is_left_out() -> None:
    text = "Fred Meyer" + PAIR_BREAK + "Pharmacy x Near Me"
    assert [text[span.start : span.end] for span in Phrases(chunker=capital_runs).annotate([text])[0].spans] == [
        "Near Me"
    ]


def test_list_and_chunker_work_together_and_equal_phrases_count_once() -> None:
    source = Phrases(["fred meyer", "see"], chunker=capital_runs)
    assert [(span.start, span.end) for span in source.annotate(["see Fred Meyer"])[0].spans] == [(0, 3), (4, 14)]


@pytest.mark.parametrize("place", [(0, 99), (-1, 2), (3, 2)])
def test_a_chunk_outside_the_text_is_an_error(place: tuple[int, int]) -> None:
    with pytest.raises(SourceError, match=r"for a text of 5 characters.*characters of the text"):
        Phrases(chunker=lambda _: [place]).annotate(["hello"])


@pytest.mark.parametrize("place", [(0,), "ab", (0.5, 1), None])
def test_a_chunk_that_is_no_place_is_an_error(place: object) -> None:
    with pytest.raises(SourceError, match="must return"):
        Phrases(chunker=lambda _: [place]).annotate(["hello"])  # type: ignore[list-item,return-value]


def test_empty_phrases_and_a_chunker_that_is_no_function_are_refused() -> None:
    with pytest.raises(SourceError, match="1 of 2 phrases are empty"):
        Phrases(["near me", ""])
    with pytest.raises(SourceError, match="give a function"):
        Phrases(chunker="noun_chunks")  # type: ignore[arg-type]


def test_an_empty_chunk_is_left_out() -> None:
    assert Phrases(chunker=lambda _: [(1, 1), (0, 1)]).annotate([" a"]) == [Annotations(" a")]
