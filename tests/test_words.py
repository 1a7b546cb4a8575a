from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.types import PAIR_BREAK
from infuser.words import Word, WordBorders, _patterns, find_tokens, find_words, fold, readable, word_borders


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Buy 2 shoes_now!", ["buy", "2", "shoes_now"]),
        ("cafe\u0301 noir", ["café", "noir"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("Straße ΣΟΦΟΣ", ["strasse", "σοφοσ"]),
        ("東京に行く", ["東", "京", "に", "行", "く"]),
        ("tea東京", ["tea", "東", "京"]),
        ("🙂 👍🏽 \u0301 --", []),
    ],
)
def test_words_are_found_and_folded(text: str, words: list[str]) -> None:
    assert [word.folded for word in find_words(text)] == words


@given(st.text(st.characters(max_codepoint=127)))
def test_the_short_pattern_for_ascii_finds_the_same_words(text: str) -> None:
    assert list(word_borders(text)) == [match.span() for match in _patterns()[0].finditer(text)]


def test_spans_are_widened_to_the_words_they_cut() -> None:
    for text in ("the river Aare", "the river Äare"):
        assert WordBorders(text).widen(5, 12) == (4, 14)
        assert WordBorders(text).widen(4, 9) == (4, 9)


@pytest.mark.parametrize("sign", ["👨‍👩‍👧", "🇨🇭", "👍🏽", "≠", "🏴󠁧󠁢󠁳󠁣󠁴󠁿"])
def test_emoji_sequence_is_one_sign(sign: str) -> None:
    assert [(token.start, token.end) for token in find_tokens(f"a{sign}b")] == [
        (0, 1),
        (1, 1 + len(sign)),
        (1 + len(sign), 2 + len(sign)),
    ]


def test_offsets_are_those_of_the_unfolded_text() -> None:
    text = "İİ Straße x"
    assert [text[word.start : word.end] for word in find_words(text)] == ["İİ", "Straße", "x"]
    assert len(fold("İİ")) > 2


def test_folding_is_by_canonical_form_and_on_request_without_accents() -> None:
    assert fold("CAFÉ") == fold("cafe\u0301") == "café"
    assert fold("Zürich", accents=True) == "zurich"
    assert fold("Zürich", case=False) == "Zürich"
    assert fold("が", accents=True) == "が", "voicing is no accent, it makes another letter"
    assert fold("’") == "'"


@settings(deadline=None)
@given(st.text())
def test_tokens_cover_everything_but_white_space(text: str) -> None:
    tokens = find_tokens(text)
    covered = {place for token in tokens for place in range(token.start, token.end)}
    assert covered == {place for place, char in enumerate(text) if not char.isspace()}
    assert sum(token.end - token.start for token in tokens) == len(covered)
    assert all(token.folded and not token.folded[0].isspace() for token in tokens)
    assert set(find_words(text)) <= set(tokens)


@settings(deadline=None)
@given(st.text(alphabet=st.characters(categories=["L", "M", "N"])))
def test_canonically_equal_words_are_folded_alike(word: str) -> None:
    assert fold(unicodedata.normalize("NFD", word)) == fold(unicodedata.normalize("NFC", word))


@settings(deadline=None)
@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_a_text_in_ascii_has_the_same_words_on_the_short_way(text: str) -> None:
    longer = find_words(text + " \u00e9")  # one letter beyond ASCII, and the long way is taken
    assert find_words(text) == longer[:-1]
    assert longer[-1].folded == "\u00e9"
    assert all(type(word) is Word for word in find_words(text))


def test_all_of_a_short_text_is_readable() -> None:
    assert readable("a b c", [0, 2, 4], 3) == [0, 1, 2]


def test_both_sides_of_a_long_pair_are_readable_from_their_beginning() -> None:
    text = "a " * 10 + PAIR_BREAK + "b " * 10
    starts = [word.start for word in find_words(text)]
    assert readable(text, starts, 3) == [0, 1, 2, 10, 11, 12]
    assert readable(text.replace(PAIR_BREAK, " "), starts, 3) == [0, 1, 2]
