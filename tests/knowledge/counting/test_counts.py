"""Counts of a corpus in memory: the same as by hand, as NLTK's, and as find_words sees words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from knowledge.counting.by_hand import as_plain, counted_by_hand, words_of

from infuser.errors import InputError
from infuser.knowledge.counting import Counting, count_texts, pairs
from infuser.knowledge.counting.pairs import add_pairs, count_pairs, cut_range, slice_pairs
from infuser.knowledge.counting.settings import UNITS
from infuser.knowledge.counting.shapes import Pairs, Texts
from infuser.knowledge.counting.tokens import encode
from infuser.knowledge.counting.words import WORDS, choose_words, count_words

SHARED = Path(__file__).parents[4] / "shared" / "data" / "corpora"
ALL = {"min_count": 1, "min_pairs": 1}

few_words = st.lists(
    st.sampled_from(["a", "B", "cé", "dog.", "Dog", "e!", "f?) ", "東京。", "x-y", "z\n"]), max_size=12
)
texts = few_words.map(" ".join)
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def sentence(text: str) -> list[str]:
    (side,) = encode([Texts.of([text])], Counting(unit="window"))
    return side.words.take(pa.array(side.ids)).to_pylist()


@given(any_text)
def test_words_are_those_of_find_words_for_any_text(text: str) -> None:
    assert sentence(text) == words_of(text)


@given(st.lists(st.sampled_from("aA ß-_'’é́\u200d東ไ🙂\0\r.1"), max_size=12).map("".join))
def test_words_are_those_of_find_words_for_nasty_texts(text: str) -> None:
    assert sentence(text) == words_of(text)


@given(st.lists(texts, max_size=8), st.sampled_from(["sentence", "document", "window"]), st.integers(2, 4))
def test_counts_are_those_of_counting_by_hand(corpus: list[str], unit: str, window: int) -> None:
    settings = Counting(unit=unit, window=window, **ALL)
    assert as_plain(count_texts(corpus, settings)) == counted_by_hand(corpus, settings)


@given(st.lists(st.tuples(texts, texts), max_size=8))
def test_pairs_across_two_sides_are_those_of_counting_by_hand(corpus: list[tuple[str, str]]) -> None:
    settings = Counting(unit="pair", **ALL)
    assert as_plain(count_texts(corpus, settings)) == counted_by_hand(corpus, settings)


@given(st.lists(texts, max_size=8), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_rare_words_rare_pairs_stop_words_and_the_cap_are_left_out(
    corpus: list[str], min_count: int, min_pairs: int, cap: int
) -> None:
    settings = Counting("document", min_count=min_count, min_pairs=min_pairs, max_words=cap, stop_words=["DOG"])
    assert as_plain(count_texts(corpus, settings)) == counted_by_hand(corpus, settings)


@pytest.mark.parametrize("frequent", [1, 2, 4])
@pytest.mark.parametrize("unit", UNITS)
def test_rare_words_beyond_16_bits_are_counted_too(unit: str, frequent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "FREQUENT", frequent)
    corpus = [("a b c d e", "c d e f"), ("a b c a", "a f"), ("a b", "b a g"), ("g f e d", "a")] * 2
    rows = corpus if unit == "pair" else [left for left, _ in corpus]
    settings = Counting(unit=unit, window=3, **ALL)
    assert as_plain(count_texts(rows, settings)) == counted_by_hand(rows, settings)


def test_a_window_wider_than_any_text_costs_nothing_more() -> None:
    wide, wider = (as_plain(count_texts(["a b c", "d"], Counting("window", window=w, **ALL))) for w in (4, 10**6))
    assert wide == wider


def test_a_word_that_is_left_out_holds_its_place_in_a_window() -> None:
    settings = Counting(unit="window", window=2, stop_words=["the"], **ALL)
    assert as_plain(count_texts(["see the dog run"], settings))["pairs"] == {("dog", "run"): 1}


def test_windows_end_with_their_text() -> None:
    settings = Counting(unit="window", window=3, **ALL)
    assert as_plain(count_texts(["a b", "c"], settings))["pairs"] == {("a", "b"): 1}


def test_sentences_end_at_signs_before_white_space() -> None:
    settings = Counting(unit="sentence", **ALL)
    found = as_plain(count_texts(['One two. "Three!" four 5.5\nsix。seven'], settings))
    assert found["n_units"] == 5
    assert set(found["pairs"]) == {("one", "two"), ("5", "four")}


@given(st.lists(texts, min_size=1, max_size=6), st.sampled_from(UNITS[:3]), st.integers(1, 9))
def test_how_many_pairs_are_held_at_once_changes_nothing(corpus: list[str], unit: str, room: int) -> None:
    settings = Counting(unit=unit, **ALL)
    sides = encode([Texts.of(corpus)], settings)
    vocabulary = choose_words(lambda: [count_words(sides)], settings, 1 << 20)
    wide, narrow = (count_pairs(sides, vocabulary, settings, size) for size in (1 << 20, room))
    np.testing.assert_array_equal(wide.keys, narrow.keys)
    np.testing.assert_array_equal(wide.counts, narrow.counts)


@given(st.lists(st.lists(st.sampled_from("abcdefgß東"), max_size=20), max_size=5), st.integers(1, 5))
def test_words_chosen_part_by_part_are_the_same(tables: list[list[str]], room: int) -> None:
    made = [pa.table([words, [1] * len(words), [1] * len(words)], schema=WORDS) for words in tables]
    settings = Counting(min_count=2, max_words=4)
    whole, parted = (choose_words(lambda: made, settings, size) for size in (1 << 20, room))
    assert whole.words == parted.words
    np.testing.assert_array_equal(whole.left, parted.left)


runs = st.lists(st.dictionaries(st.integers(0, 50), st.integers(1, 9)), max_size=6)


@given(runs, st.integers(1, 20))
def test_runs_added_up_range_by_range_are_their_sum(given_runs: list[dict[int, int]], room: int) -> None:
    made = [
        Pairs(np.array(sorted(run), np.int64), np.array([run[key] for key in sorted(run)], np.int64))
        for run in given_runs
    ]
    expected: dict[int, int] = {}
    for run in given_runs:
        for key, n in run.items():
            expected[key] = expected.get(key, 0) + n
    found: dict[int, int] = {}
    for ends in cut_range(made, 51, room):
        added = add_pairs([slice_pairs(run, *ends) for run in made])
        found |= dict(zip(added.keys.tolist(), added.counts.tolist(), strict=True))
    assert found == expected
    assert list(found) == sorted(expected)


def test_a_long_document_is_counted_in_little_room() -> None:
    words = [f"w{number}" for number in range(300)]
    settings = Counting(unit="document", **ALL)
    sides = encode([Texts.of([" ".join(words)])], settings)
    vocabulary = choose_words(lambda: [count_words(sides)], settings, 1 << 20)
    assert len(count_pairs(sides, vocabulary, settings, 1000).keys) == 300 * 299 // 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"unit": "page"}, "sentence, document, window, pair"),
        ({"window": 1}, "window=1"),
        ({"min_count": 0}, "min_count=0"),
        ({"stop_words": "the"}, "not one string"),
    ],
)
def test_settings_that_cannot_be_used_are_named(settings: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Counting(**settings)


def test_rows_must_have_as_many_texts_as_the_unit_reads() -> None:
    with pytest.raises(InputError, match="two texts"):
        count_texts(["alone"], Counting(unit="pair"))
    with pytest.raises(InputError, match="not one string"):
        count_texts("a text")


def real_sentences() -> list[str]:
    path = SHARED / "trex_evidence_sentences.txt"
    if not path.is_file():
        pytest.skip("needs ../shared/data/corpora")
    return path.read_text(encoding="utf-8").split("\n")[:3000]


@pytest.mark.shared
@pytest.mark.parametrize("window", [2, 5])
def test_windows_of_real_text_are_those_of_nltk(window: int) -> None:
    nltk = pytest.importorskip("nltk.collocations")
    corpus = real_sentences()
    finder_class = nltk.BigramCollocationFinder
    documents = [words_of(text) for text in corpus]
    padded = finder_class._build_new_documents(documents, window, pad_right=True)
    finder = finder_class.from_words(padded, window_size=window)
    found = as_plain(count_texts(corpus, Counting(unit="window", window=window, **ALL)))
    assert dict(zip(found["words"], found["left"], strict=True)) == dict(finder.word_fd)
    both = {}
    for (one, other), n in finder.ngram_fd.items():
        pair = tuple(sorted((one, other)))
        both[pair] = both.get(pair, 0) + n
    assert found["pairs"] == both
    assert found["n_units"] == finder.N


@pytest.mark.shared
@pytest.mark.parametrize("unit", UNITS[:3])
def test_real_text_is_counted_as_by_hand(unit: str) -> None:
    corpus = real_sentences()
    settings = Counting(unit=unit, min_count=2)
    assert as_plain(count_texts(corpus, settings)) == counted_by_hand(corpus, settings)
