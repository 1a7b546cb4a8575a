from __future__ import annotations

import re
import time
import tracemalloc
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import SourceError
from infuser.knowledge.names.gazetteer import Gazetteer, NameMatch, clean_names
from infuser.types import PAIR_BREAK

MARK = "\u0301"
ALPHABET = st.sampled_from(["a", "A", "b", "ß", "s", "İ", "-", MARK, " ", " ", "\t", "\n"])
CHARACTERS = st.text(ALPHABET, max_size=14)
NAMES = st.text(ALPHABET, min_size=1, max_size=5).filter(lambda name: bool(name.strip()))


def begins_token(text: str, place: int) -> bool:
    """Whether a word or sign begins here, or the text ends: by a walk from the left, one character at a time."""
    kind = "space"
    for number, char in enumerate(text):
        before, kind = (
            kind,
            "space" if char.isspace() else "word" if char.isalnum() else "mark" if char == MARK else "sign",
        )
        attached = (kind == "word" and before == "word") or (kind == "mark" and before != "space")
        if number == place:
            return not attached and kind != "space"
        if kind == "mark":
            kind = before if attached else "sign"
    return place == len(text)


def normal(text: str) -> str:
    joined = re.sub(r"\s+", " ", text.strip())
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", joined).casefold())


def all_places(text: str, name: str) -> set[tuple[int, int]]:
    """Every place where a name is written, by trying every stretch of the text."""
    return {
        (start, end)
        for start in range(len(text))
        for end in range(start + 1, len(text) + 1)
        if begins_token(text, start)
        and (begins_token(text, end) or text[end].isspace())
        and not text[end - 1].isspace()
        and not any(gap.count("\n") > 1 for gap in re.findall(r"\s+", text[start:end]))
        and normal(text[start:end]) == normal(name)
    }


def slow_find(text: str, names: list[str], *, overlaps: bool) -> list[NameMatch]:
    places: dict[tuple[int, int], list[int]] = {}
    for number, name in enumerate(names):
        for place in all_places(text, name):
            places.setdefault(place, []).append(number)
    found = [NameMatch(start, end, tuple(numbers)) for (start, end), numbers in sorted(places.items())]
    if overlaps:
        return found
    apart: list[NameMatch] = []
    for mention in sorted(found, key=lambda mention: (mention.start, -mention.end)):
        if not apart or mention.start >= apart[-1].end:
            apart.append(mention)
    return apart


@settings(max_examples=400, deadline=None)
@given(CHARACTERS, st.lists(NAMES, min_size=1, max_size=5), st.booleans())
def test_gazetteer_finds_what_trying_every_stretch_finds(text: str, names: list[str], overlaps: bool) -> None:
    assert Gazetteer.build(names).find([text], overlaps=overlaps)[0] == slow_find(text, names, overlaps=overlaps)


@settings(deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=4), st.lists(st.sampled_from([" ", ", ", "\n", PAIR_BREAK]), min_size=5))
def test_names_put_into_a_text_are_found_there(names: list[str], gaps: list[str]) -> None:
    text = "".join(name.strip() + gap for name, gap in zip(names, gaps, strict=False))
    found = Gazetteer.build(names).find([text], overlaps=True)[0]
    assert {number for mention in found for number in mention.names} == {
        number for number, name in enumerate(names) if all_places(text, name)
    }


def places(names: list[str], text: str, **settings: bool) -> list[str]:
    return [text[mention.start : mention.end] for mention in Gazetteer.build(names, **settings).find([text])[0]]


def test_the_leftmost_longest_name_wins() -> None:
    assert places(["new york", "york times", "new york times"], "the New York Times of York") == ["New York Times"]
    assert places(["a b", "b c d"], "a b c d") == ["a b"]


def test_a_long_name_that_breaks_off_gives_way_to_the_short_one() -> None:
    assert places(["new york", "new york times square"], "New York Times") == ["New York"]


def test_names_are_whole_words() -> None:
    assert places(["cat", "cafe"], "concat cats cat_ cafe\u0301 cat's") == ["cat"]


def test_signs_count_as_written() -> None:
    assert places(["AT&T", "C++", "O'Neil"], "at&t, AT & T, C, C++; O’Neil") == ["at&t", "C++", "O’Neil"]


def test_emoji_is_found_whole_only() -> None:
    assert places(["👨", "❤"], "👨‍👩‍👧 👨 ❤️") == ["👨", "❤️"]


def test_white_space_in_a_name_is_any_gap_but_a_paragraph_break() -> None:
    text = "new york, new  \t york, new\nyork, new\r\nyork, newyork, new\n\nyork, new\n \nyork"
    assert len(places(["new york"], text)) == 4


def test_folding_can_be_switched() -> None:
    assert places(["Bern"], "BERN Bern", fold_case=False) == ["Bern"]
    assert places(["Zürich"], "Zurich") == []
    assert places(["Zürich"], "Zurich ZURICH", fold_accents=True) == ["Zurich", "ZURICH"]
    assert places(["STRASSE"], "İ Straße!") == ["Straße"]


def test_scripts_without_spaces_are_searched_too() -> None:
    assert places(["東京", "ที่นี่"], "私は東京に行く อยู่ที่นี่") == ["東京", "ที่นี่"]


def test_100k_names_and_100k_characters_take_seconds_at_most() -> None:
    names = [f"w{number % 997} x{number}" for number in range(100_000)]
    text = " ".join(f"w{number % 997} x{number * 3}" for number in range(8_000))
    began = time.perf_counter()
    found = Gazetteer.build(names).find([text])[0]
    assert time.perf_counter() - began < 20  # some 2 s; a search per name would take minutes
    assert len(found) == sum(number % 997 == number * 3 % 997 for number in range(8_000))
    assert len(text) > 80_000


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["Bern", "", " "], "2 of 3 cities are empty or blank, the first is number 2"),
        (["Bern", None], "1 of 2 cities are no text, for example None"),
        ("Bern", "given as one string"),
    ],
)
def test_what_is_no_name_is_refused_with_the_values(names: list[object], says: str) -> None:
    with pytest.raises(SourceError, match=says):
        clean_names(names, what="cities")


@pytest.mark.parametrize("name", ["a\0b", "a \ud83d"])
def test_a_name_that_is_no_proper_text_is_refused(name: str) -> None:
    with pytest.raises(SourceError, match="null character or half of a character"):
        Gazetteer.build(["Bern", name])


def test_a_gap_beside_a_sign_does_not_matter_where_loose() -> None:
    names = Gazetteer.build(["Parkinson's disease", "St. Gallen", "New York", "N-acetyl (x)"])
    text = "parkinson ' s disease in St.Gallen and St . Gallen, NewYork, N - acetyl( x )"
    assert names.find([text]) == [[]]
    [found] = names.find([text], loose=True)
    assert [text[one.start : one.end] for one in found] == [
        "parkinson ' s disease",
        "St.Gallen",
        "St . Gallen",
        "N - acetyl( x )",
    ]
    assert names.find([f"parkinson '{PAIR_BREAK}s disease"], loose=True) == [[]]


@pytest.mark.parametrize("overlaps", [False, True])
def test_names_nested_300_deep_cost_no_more_memory_than_the_text_explains(overlaps: bool) -> None:
    names = Gazetteer.build([" ".join(["a"] * n) for n in range(1, 300)])
    text = "a " * 20_000
    tracemalloc.start()
    [found] = names.find([text], overlaps=overlaps)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * len(text) * (1 + 16 * overlaps)  # 3 kB and 20 kB per character when all were kept
    if not overlaps:
        assert [len(match.names) for match in found] == [1] * 67 and found[0] == (0, 597, (298,))
        return
    of_first = [match.names[0] + 1 for match in found if match.start == 0]
    assert of_first == [*range(1, 17), 299]
    assert names.lookup("a " * 200) == (199,)


def test_words_of_megabytes_are_not_kept_after_their_text() -> None:
    names = Gazetteer.build(["a b"])
    for letter in "abcdef":
        assert names.find([letter * 1_000_000]) == [[]]
    assert sum(map(len, names._numbers)) < 1000
