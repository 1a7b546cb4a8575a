from __future__ import annotations

import json
import math
from collections.abc import Mapping
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.cli.knowledge_options import SourceOptions
from infuser.errors import SourceError
from infuser.knowledge.correlation.scores import Scoring
from infuser.knowledge.correlation.store import save_correlation
from infuser.knowledge.counting import Counting, count_texts
from infuser.sources import Correlation
from infuser.sources.naming import read_named
from infuser.sources.storage import load_source, save_source
from infuser.types import Annotations, Link, Span, Term, join_pair
from infuser.words import find_words

WORDS = st.sampled_from(["a", "b", "c", "d", "e", "f"])
TABLES = st.dictionaries(st.tuples(WORDS, WORDS), st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0]), max_size=12)


def slow_answer(table: Mapping[tuple[str, str], float], text: str, n_terms: int, minimum: float) -> Annotations:
    """All pairs of places and all words of the table, one after the other."""

    def score(one: str, other: str) -> float:
        given = [table[pair] for pair in ((one, other), (other, one)) if pair in table]
        return max(given) if given and max(given) > minimum else 0.0

    largest = max(table.values(), default=1.0) or 1.0
    words = find_words(text)
    in_text = sorted({word.folded for word in words})
    averages = {
        term: sum(score(term, word) / largest for word in in_text) / len(in_text)
        for term in sorted({word for pair in table for word in pair} - set(in_text))
        if in_text
    }
    terms = [
        term for term in sorted(averages, key=lambda term: (-round(averages[term], 9), term)) if averages[term] > 0
    ]
    terms = terms[:n_terms]
    links = [
        (one, other, score(words[one].folded, words[other].folded) / largest)
        for one in range(len(words))
        for other in range(one + 1, len(words))
        if score(words[one].folded, words[other].folded) > 0
    ]
    kept = [
        number
        for number, word in enumerate(words)
        if any(number in link[:2] for link in links) or any(score(term, word.folded) > 0 for term in terms)
    ]
    return Annotations(
        text,
        tuple(Span(words[number].start, words[number].end, "word", words[number].folded) for number in kept),
        tuple(Link(kept.index(one), kept.index(other), weight) for one, other, weight in links),
        tuple(
            Term(
                term,
                tuple(
                    (place, score(term, words[number].folded) / largest)
                    for place, number in enumerate(kept)
                    if score(term, words[number].folded) > 0
                ),
            )
            for term in terms
        ),
    )


@settings(max_examples=300, deadline=None)
@given(TABLES, st.lists(WORDS, max_size=7), st.integers(0, 3), st.sampled_from([0.0, 0.7]))
def test_answers_are_those_of_trying_every_pair(
    table: dict[tuple[str, str], float], words: list[str], n_terms: int, minimum: float
) -> None:
    text = " ".join(words).upper()
    [found] = Correlation(table, n_terms=n_terms, minimum=minimum).annotate([text])
    assert found == slow_answer(table, text, n_terms, minimum)


def test_weights_are_scores_divided_by_the_largest() -> None:
    source = Correlation({("glipizide", "pharmacy"): 4.0, ("buy", "pharmacy"): 1.0, ("buy", "me"): -2.0})
    text = "Buy glipizide\n\nPharmacy near me"
    assert source.annotate([text]) == [
        Annotations(
            text,
            (Span(0, 3, "word", "buy"), Span(4, 13, "word", "glipizide"), Span(15, 23, "word", "pharmacy")),
            (Link(0, 2, 0.25), Link(1, 2, 1.0)),
        )
    ]


def test_the_term_with_the_highest_average_is_added_and_tied_to_its_words() -> None:
    # over the two words of the text: diabetes (3 + 1) / 2, insulin 3 / 2, shop 2 / 2
    scores = {
        ("glipizide", "diabetes"): 3.0,
        ("buy", "diabetes"): 1.0,
        ("insulin", "glipizide"): 3.0,
        ("buy", "shop"): 2.0,
        ("shop", "store"): 4.0,
    }
    [found] = Correlation(scores, n_terms=2).annotate(["buy glipizide, buy"])
    assert found.links == ()
    assert [span.id for span in found.spans] == ["buy", "glipizide", "buy"]
    assert found.terms == (Term("diabetes", ((0, 0.25), (1, 0.75), (2, 0.25))), Term("insulin", ((1, 0.75),)))


def test_equal_terms_come_in_alphabetical_order() -> None:
    scores = {("x", "b"): 1.0, ("x", "a"): 1.0, ("x", "c"): 1.0}
    assert [term.text for term in Correlation(scores, n_terms=2).annotate(["x"])[0].terms] == ["a", "b"]


def test_a_word_is_tied_to_itself_only_if_the_table_says_so() -> None:
    assert Correlation({("a", "b"): 1.0}).annotate(["a a"])[0].links == ()
    assert Correlation({("a", "a"): 1.0}).annotate(["a b A"])[0].links == (Link(0, 1),)


def test_order_and_case_do_not_matter_and_the_larger_score_counts() -> None:
    assert Correlation({("Cat", "mouse"): 1.0, ("MOUSE", "cat"): 2.0}) == Correlation([("cat", "mouse", 2.0)])


def test_a_corpus_gives_its_pointwise_mutual_information() -> None:
    texts = ["cat mouse", "cat mouse", "Cat", "dog fish", "dog", "fish", "once upon"]
    # p(cat) = 3/7, p(mouse) = 2/7, p(cat, mouse) = 2/7; "dog fish" and "once upon" were met once
    assert Correlation.from_texts(texts).scores == {
        ("cat", "mouse"): pytest.approx(math.log2((2 / 7) / (3 / 7 * 2 / 7)))
    }
    assert ("dog", "fish") in Correlation.from_texts(texts, min_count=1).scores
    assert Correlation.from_texts(texts, min_count=1, n_terms=1).annotate(["upon"])[0].terms == (
        Term("once", ((0, 1.0),)),
    )


def test_words_that_avoid_each_other_are_not_in_the_table_of_a_corpus() -> None:
    texts = ["a b", "a b", "a c", "a c", "a", "b", "b"]
    assert ("a", "b") not in Correlation.from_texts(texts).scores  # 2/7 < 5/7 * 4/7
    assert ("a", "c") in Correlation.from_texts(texts).scores


def test_a_corpus_without_pairs_gives_an_empty_table() -> None:
    assert Correlation.from_texts([]).annotate(["a b"]) == [Annotations("a b")]


def test_the_second_side_of_a_long_pair_is_tied_from_its_beginning() -> None:
    source = Correlation({("query", "ad"): 1.0}, n_words=4)
    text = "query " + "x " * 50 + "query" + "\n\n" + "ad " + "y " * 50 + "ad"
    [found] = source.annotate([text])
    assert [span.start for span in found.spans] == [0, text.index("ad")]
    assert found.links == (Link(0, 1),)


def built(folder: Path, unit: str, scoring: Scoring | None = None) -> Path:
    """A folder of a few texts; of a few queries and ads for pairs."""
    texts: list[Any] = ["cat mouse", "cat mouse", "cat", "dog fish", "dog", "fish", "owl", "owl"]
    pairs: list[Any] = [("buy pills", "pharmacy"), ("buy pills", "pharmacy near"), ("news", "paper"), ("news", "paper")]
    settings = Counting(unit=unit, min_count=1, min_pairs=1)  # type: ignore[arg-type]
    return save_correlation(count_texts(pairs if unit == "pair" else texts, settings), scoring or Scoring(), folder)


def test_a_folder_ties_words_by_their_normalised_score(tmp_path: Path) -> None:
    folder = built(tmp_path / "c", "document")
    # of 8 texts 3 have cat, 2 mouse, 2 both: PMI is log2(8 / 3), NPMI divides it by log2(4); dog and fish: log2(2) / 3
    [found] = Correlation.load(folder, n_terms=2).annotate(["Cat, dog and fish"])
    assert [span.id for span in found.spans] == ["cat", "dog", "fish"]
    assert found.links == (Link(1, 2, pytest.approx(1 / 3)),)
    assert found.terms == (Term("mouse", ((0, pytest.approx(math.log2(8 / 3) / 2)),)),)
    assert Correlation.load(folder) == Correlation(str(folder)) == Correlation(folder)


def test_a_folder_and_the_same_scores_in_memory_tie_the_same(tmp_path: Path) -> None:
    folder = built(tmp_path / "c", "document", Scoring("pmi"))
    in_memory = Correlation({("cat", "mouse"): math.log2(8 / 3), ("dog", "fish"): 1.0}, n_terms=3)
    texts = ["cat mouse cat", "dog", "mouse fish", "nothing known", ""]
    for found, expected in zip(Correlation(folder, n_terms=3).annotate(texts), in_memory.annotate(texts), strict=True):
        assert (found.text, found.spans) == (expected.text, expected.spans)
        assert [link.weight for link in found.links] == pytest.approx([link.weight for link in expected.links])
        assert [term.text for term in found.terms] == [term.text for term in expected.terms]


def test_the_minimum_is_compared_with_the_score_not_with_the_weight(tmp_path: Path) -> None:
    folder = built(tmp_path / "c", "document", Scoring("pmi"))  # cat and mouse score 1.415, dog and fish 1
    for minimum, tied in ((0.0, 2), (0.99, 2), (1.2, 1), (1.5, 0)):
        assert len(Correlation(folder, minimum=minimum).annotate(["cat mouse dog fish"])[0].links) == tied


def test_a_table_of_pairs_ties_the_left_side_to_the_right_one_only(tmp_path: Path) -> None:
    source = Correlation(built(tmp_path / "c", "pair"), n_terms=2)
    [found] = source.annotate([join_pair("buy pills", "pharmacy\n\npills buy")])
    ids = [span.id for span in found.spans]
    assert ids == ["buy", "pills", "pharmacy"], "on the right, after the first break, pills and buy are not known"
    assert [(ids[link.source], ids[link.target]) for link in found.links] == [
        ("buy", "pharmacy"),
        ("pills", "pharmacy"),
    ]
    assert [term.text for term in found.terms] == ["near"]
    [alone] = source.annotate(["buy pills"])  # a left side: terms of the right vocabulary, no ties
    assert alone.links == () and [term.text for term in alone.terms] == ["pharmacy", "near"]
    [right] = source.annotate([join_pair("", "pharmacy")])
    assert [term.text for term in right.terms] == ["buy", "pills"]


def test_words_beyond_the_limit_count_for_the_terms_but_are_not_tied() -> None:
    source = Correlation({("a", "t"): 1.0, ("b", "t"): 1.0, ("a", "b"): 1.0, ("b", "u"): 1.5}, n_terms=2, n_words=1)
    [found] = source.annotate(["a b"])
    assert [span.id for span in found.spans] == ["a"] and found.links == ()
    assert found.terms == (Term("t", ((0, pytest.approx(2 / 3)),)),), "u is tied to nothing that is read"


def test_a_folder_is_saved_by_name_and_not_believed_when_it_changed(tmp_path: Path) -> None:
    source = Correlation(built(tmp_path / "c", "document"), n_terms=1, minimum=0.1)
    record = json.loads(json.dumps(save_source(source, tmp_path / "saved")))
    assert record["settings"]["scores"] == str(tmp_path / "c") and not (tmp_path / "saved").exists()
    assert load_source(record, tmp_path) == source
    built(tmp_path / "c", "sentence", Scoring("pmi"))
    with pytest.raises(SourceError, match="holds something else now"):
        load_source(record, tmp_path)


def test_a_worker_opens_the_folder_itself(tmp_path: Path) -> None:
    source = Correlation(built(tmp_path / "c", "document"), n_terms=1)
    answers = source.annotate(["cat mouse"])
    message = bytes(ForkingPickler.dumps(source))
    assert len(message) < 1000
    assert ForkingPickler.loads(message).annotate(["cat mouse"]) == answers


def test_the_command_line_takes_a_folder_by_its_flag_and_as_a_source(tmp_path: Path) -> None:
    folder = built(tmp_path / "c", "document")
    assert SourceOptions(correlation=[folder], terms=3).read() == [Correlation(folder, n_terms=3)]
    assert read_named(f"{folder},n_terms=2") == read_named(f"correlation={folder},n_terms=2")
    assert read_named(f"{folder},n_terms=2") == [Correlation(folder, n_terms=2)]


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no correlation folder at"):
        Correlation(str(tmp_path / "missing"))
    with pytest.raises(SourceError, match="is no correlation folder"):
        Correlation(tmp_path)


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ({("new york", "city"): 1.0}, "'new york' in the correlation table is not one word"),
        ({("", "city"): 1.0}, "'' in the correlation table is not one word"),
        ({("a", "b"): math.nan}, "is nan; leave out"),
        ({("a", "b"): math.inf}, "is inf; leave out"),
        ({"ab": 1.0}, "'ab'; it must be a pair"),
        ([("a", "b")], "must be two words and a score"),
        ([("a", "b", "1.0")], "must be two words and a score"),
    ],
)
def test_a_wrong_table_is_refused_with_its_values(scores: object, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        Correlation(scores)  # type: ignore[arg-type]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SourceError, match="n_terms=-1"):
        Correlation({}, n_terms=-1)
    with pytest.raises(SourceError, match=r"minimum=-0\.5"):
        Correlation({}, minimum=-0.5)
    with pytest.raises(SourceError, match="not one string"):
        Correlation.from_texts("a text")
