"""Long texts are cut into windows, and what was found there goes back to its place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.linking.examples import LinkedText
from infuser.linking.mentions import Mention
from infuser.linking.windows import moved, window_linked
from infuser.signals.windows import cut_windows
from infuser.types import Span
from infuser.words import find_tokens

TEXT = "Bern is old. It lies on the Aare, said J. Smith.\nThe river is cold.\n\nZug is far away. Nobody goes there."


def parts(text: str, **how) -> list[str]:
    return [text[start:end] for start, end in cut_windows(text, **how)]


def test_a_text_that_fits_is_one_window_and_stays_as_it_is():
    assert parts(" Bern is old. ", max_words=4) == [" Bern is old. "]
    assert cut_windows("") == [(0, 0)]


def test_a_window_ends_with_a_sentence_a_line_or_better_a_paragraph():
    assert parts(TEXT, max_words=16)[0] == "Bern is old. It lies on the Aare, said J. Smith."
    assert parts(TEXT, max_words=8)[:2] == ["Bern is old.", "It lies on the Aare, said"]
    assert parts(TEXT, max_words=22) == [TEXT[: TEXT.index("\n\n")], TEXT[TEXT.index("Zug") :]]
    assert parts("河水很冷。伯尔尼很老。", max_words=8) == ["河水很冷。", "伯尔尼很老。"]


def test_without_an_end_of_a_sentence_words_are_kept_whole_and_with_their_signs():
    assert parts("one two three-four five six", max_words=4) == ["one two", "three-four five", "six"]


def test_a_kept_place_is_not_cut_even_if_it_is_longer_than_a_window():
    text = "a b c d e f g h"
    assert parts(text, max_words=3) == ["a b c", "d e f", "g h"]
    assert parts(text, max_words=3, keep=[(4, 9)]) == ["a b", "c d e", "f g h"]
    assert parts(text, max_words=3, keep=[(2, 11)]) == ["a", "b c d e f", "g h"]
    assert parts(text, max_words=3, keep=[(0, 15)]) == [text]


def test_a_window_of_no_words_is_an_error():
    with pytest.raises(InputError, match="max_words is 0"):
        cut_windows("a b", 0)


@settings(max_examples=100, deadline=None)
@given(
    text=st.text("ab Z.!?\n\"'ß河。", max_size=80),
    max_words=st.integers(1, 12),
    kept=st.lists(st.tuples(st.integers(0, 79), st.integers(1, 20)), max_size=3),
)
def test_windows_cover_all_words_in_order_and_cut_nothing_that_is_kept(text, max_words, kept):
    keep = [(start, min(len(text), start + length)) for start, length in kept if start < len(text)]
    windows = cut_windows(text, max_words, keep=keep)
    borders = [0, *(place for window in windows for place in window), len(text)]
    assert borders == sorted(borders)
    between = [text[borders[i] : borders[i + 1]] for i in range(0, len(borders), 2)]
    assert not "".join(between).strip()
    for start, end in keep:
        words = [word for word in find_tokens(text) if word.start < end and start < word.end]
        if words:
            assert any(first <= words[0].start and words[-1].end <= last for first, last in windows)
    if not keep:
        assert all(len(find_tokens(text[start:end])) <= max_words for start, end in windows)


def test_a_linked_text_is_windowed_with_its_mentions_and_goes_back():
    zug, aare = TEXT.index("Zug"), TEXT.index("Aare")
    linked = LinkedText(TEXT, (Span(0, 4, id="Q70"), Span(aare, aare + 4, id="Q2"), Span(zug, zug + 3, id="Q3")))
    back = []
    for window in window_linked(linked, 16):
        start = TEXT.index(window.text)
        assert window.labelled is None
        found = [Mention(span.start, span.end, "", span.id, 1.0) for span in window.spans]
        back += [moved(mention, start) for mention in found]
    assert [(one.start, one.end, one.id) for one in back] == [(span.start, span.end, span.id) for span in linked.spans]


def test_only_windows_with_something_labelled_are_left():
    zug = TEXT.index("Zug")
    linked = LinkedText(TEXT, (Span(zug, zug + 3, id="Q3"),), (zug, zug + 8), "about Zug")
    [window] = window_linked(linked, 22)
    assert window == LinkedText(TEXT[zug:], (Span(0, 3, id="Q3"),), (0, 8), "about Zug")
