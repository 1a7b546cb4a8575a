"""What all taggers share: paragraphs, places, windows."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infuser.errors import MissingExtraError, SourceError
from infuser.sources.tagging import Finding, annotate_by_paragraph, need, owners, windows
from infuser.types import PAIR_BREAK, Annotations, Link, Span

odd_texts = st.text(st.one_of(st.characters(), st.sampled_from("\n\n ab\u0301\u200d🙂\U0001f3fd\ud83d")), max_size=40)


def every_word(pieces: list[str]) -> list[list[Finding]]:
    return [[Finding(*match.span(), "word") for match in re.finditer(r"\S+", piece)] for piece in pieces]


@given(odd_texts, st.integers(0, 40), st.integers(0, 40))
def test_spans_lie_inside_the_text_on_whole_characters_without_white_space(text: str, one: int, other: int) -> None:
    def tag(pieces: list[str]) -> list[list[Finding]]:
        for piece in pieces:
            piece.encode()  # no lone surrogates
            assert PAIR_BREAK not in piece and piece == piece.strip() and re.search(r"\w", piece)
        cut = [sorted((min(one, len(piece)), min(other, len(piece)))) for piece in pieces]
        return [[Finding(start, end, "x")] for start, end in cut]

    [found] = annotate_by_paragraph([text], tag)
    assert found.text == text
    assert found.links == tuple(Link(place, place) for place in range(len(found.spans)))
    for span in found.spans:
        inside = text[span.start : span.end]
        assert 0 <= span.start < span.end <= len(text)
        assert inside == inside.strip() and re.search(r"\w", inside) and PAIR_BREAK not in inside
        assert span.end == len(text) or text[span.end] not in "\u0301\u200d\U0001f3fd"


def test_each_paragraph_is_read_once_and_without_the_others() -> None:
    seen: list[str] = []

    def tag(pieces: list[str]) -> list[list[Finding]]:
        seen.extend(pieces)
        return every_word(pieces)

    first, second = annotate_by_paragraph(["a b\n\n c", "c\n\n\n a b\n\n..."], tag)
    assert seen == ["a b", "c"]
    assert [first.text[span.start : span.end] for span in first.spans] == ["a", "b", "c"]
    assert [second.text[span.start : span.end] for span in second.spans] == ["c", "a", "b"]


def test_a_tagger_is_not_asked_about_texts_without_words() -> None:
    def tag(pieces: list[str]) -> list[list[Finding]]:
        raise AssertionError(pieces)

    texts = ["", " \n\n ", "?!"]
    assert annotate_by_paragraph(texts, tag) == [Annotations(text) for text in texts]


def test_accents_belong_to_the_letter_before_them() -> None:
    text = "cafe\u0301 au"
    [found] = annotate_by_paragraph([text], lambda pieces: [[Finding(3, 4, "x"), Finding(4, 7, "y")]])
    assert found.spans == (Span(3, 5, "x"), Span(3, 7, "y"))


def test_long_paragraphs_are_cut_at_white_space() -> None:
    text = "word " * 10
    seen: list[str] = []

    def tag(pieces: list[str]) -> list[list[Finding]]:
        seen.extend(pieces)
        return every_word(pieces)

    [found] = annotate_by_paragraph([text], tag, longest=12)
    assert seen == ["word word"]
    assert [text[span.start : span.end] for span in found.spans] == ["word"] * 10
    [found] = annotate_by_paragraph(["x" * 30], every_word, longest=12)
    assert [(span.start, span.end) for span in found.spans] == [(0, 12), (12, 24), (24, 30)]


def test_only_the_labels_asked_for_are_kept() -> None:
    [found] = annotate_by_paragraph(["a b"], lambda _: [[Finding(0, 1, "x"), Finding(2, 3, "y")]], labels=("y",))
    assert found == Annotations("a b", (Span(2, 3, "y"),), (Link(0, 0),))


def test_places_outside_the_text_are_refused() -> None:
    with pytest.raises(SourceError, match=r"returned \(0, 9\) for a text of 3 characters"):
        annotate_by_paragraph(["a b"], lambda _: [[Finding(0, 9, "x")]])


def test_a_missing_package_is_named_with_the_command_that_brings_it() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'infuser\[spacy\]'"):
        need("no_such_package_anywhere", extra="spacy")


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 12), st.integers(0, 12), st.integers(1, 9))
def test_windows_cover_everything_and_fit(costs: list[int], room: int, overlap: int, n_longest: int) -> None:
    runs = list(windows(costs, room, overlap=overlap, n_longest=n_longest))
    owner = owners(runs)
    assert len(owner) == len(costs)
    assert all(place in runs[number] for place, number in enumerate(owner))
    assert owner == sorted(owner)
    for run in runs:
        assert 1 <= len(run) <= n_longest
        assert len(run) == 1 or sum(costs[place] for place in run) <= room


def test_where_windows_overlap_each_decides_up_to_the_middle() -> None:
    runs = list(windows([1] * 16, 10, overlap=4))
    assert runs == [range(10), range(6, 16)]
    assert owners(runs) == [0] * 8 + [1] * 8
