from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.knowledge.correlation.scores import Scorer, Scoring
from infuser.knowledge.counting import Counting, count_texts

DOCUMENTS = Counting(unit="document")


@st.composite
def seen(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Units, how many have the one word, the other, both: numbers that a corpus can have."""
    n_units = draw(st.integers(1, 1000))
    one, other = draw(st.integers(1, n_units)), draw(st.integers(1, n_units))
    return n_units, one, other, draw(st.integers(max(1, one + other - n_units), min(one, other)))


def score(scoring: Scoring, n_units: int, one: int, other: int, both: int) -> float:
    counts, first, second = np.array([one, other]), np.array([0]), np.array([1])
    return float(Scorer(scoring, DOCUMENTS, counts, counts, n_units)(first, second, np.array([both]))[0])


def test_scores_worked_by_hand() -> None:
    # 8 units, one word in 4, the other in 2, both in 2: 2 * 8 / (4 * 2) = 2 times as often as by chance, p = 1/4
    assert score(Scoring("pmi"), 8, 4, 2, 2) == 1
    assert score(Scoring("ppmi"), 8, 4, 2, 2) == 1
    assert score(Scoring("npmi"), 8, 4, 2, 2) == 0.5
    # both in one of 8 only, where 4 * 4 / 8 = 2 are to be expected
    assert score(Scoring("pmi"), 8, 4, 4, 1) == -1
    assert score(Scoring("ppmi"), 8, 4, 4, 1) == 0
    assert score(Scoring("npmi"), 8, 4, 4, 1) == pytest.approx(-1 / 3)
    # with 1/2 added to both: (1 + 1/2) / (2 + 1/2)
    assert score(Scoring("pmi", smoothing=0.5), 8, 4, 4, 1) == pytest.approx(math.log2(0.6))


def test_normalised_pmi_at_its_ends() -> None:
    assert score(Scoring(), 10, 3, 3, 3) == 1, "always together"
    assert score(Scoring(), 10, 10, 10, 10) == 0, "what is everywhere says nothing"
    assert score(Scoring(), 16, 4, 4, 1) == 0, "as often as by chance"


@settings(deadline=None)
@given(seen())
def test_pmi_is_that_of_nltk(numbers: tuple[int, int, int, int]) -> None:
    measures = pytest.importorskip("nltk.metrics.association").BigramAssocMeasures
    n_units, one, other, both = numbers
    assert score(Scoring("pmi"), *numbers) == pytest.approx(measures.pmi(both, (one, other), n_units), abs=1e-13)


@pytest.mark.parametrize("window", [2, 3, 5])
def test_windows_score_the_mean_of_both_directions_of_nltk(window: int) -> None:
    association, collocations = (
        pytest.importorskip("nltk.metrics.association"),
        pytest.importorskip("nltk.collocations"),
    )
    text = "the cat saw the dog and the dog saw a cat a a cat and so on and on"
    finder = collocations.BigramCollocationFinder.from_words(text.split(), window_size=window)
    counting = Counting(unit="window", window=window, min_count=1, min_pairs=1)
    counts = count_texts([text], counting)
    words = counts.words.to_pylist()
    first, second = np.divmod(counts.keys, len(words))
    scores = Scorer(Scoring("pmi"), counting, counts.left, counts.right, counts.n_units)(
        first, second, counts.pair_counts
    )
    assert len(scores) == len({tuple(sorted(pair)) for pair in finder.ngram_fd})
    for one, other, found in zip(first.tolist(), second.tolist(), scores.tolist(), strict=True):
        x, y = words[one], words[other]
        both = (finder.ngram_fd[(x, y)] + finder.ngram_fd[(y, x)]) / 2 / (window - 1)
        alone = (finder.word_fd[x], finder.word_fd[y])
        assert found == pytest.approx(association.BigramAssocMeasures.pmi(both, alone, finder.N), abs=1e-12)


@settings(deadline=None)
@given(seen(), st.floats(0, 5), st.floats(0.1, 1))
def test_normalised_pmi_stays_between_its_bounds(numbers: tuple[int, int, int, int], k: float, power: float) -> None:
    assert -1 <= score(Scoring("npmi", k, power), *numbers) <= 1


@settings(deadline=None)
@given(seen(), st.sampled_from(["npmi", "pmi"]), st.floats(0.01, 10), st.floats(0.01, 10))
def test_smoothing_shrinks_and_more_of_it_shrinks_more(
    numbers: tuple[int, int, int, int], kind: str, k: float, more: float
) -> None:
    plain, less, least = (score(Scoring(kind, s), *numbers) for s in (0.0, k, k + more))  # type: ignore[arg-type]
    assert abs(least) <= abs(less) + 1e-12 <= abs(plain) + 2e-12
    assert less * plain >= -1e-12, "never to the other side of 0"


def test_smoothing_shrinks_what_was_seen_rarely_most() -> None:
    often, rarely = (1000, 100, 100, 50), (1000, 2, 2, 1)
    assert score(Scoring("pmi"), *often) < score(Scoring("pmi"), *rarely)
    assert score(Scoring("pmi", 0.5), *often) > score(Scoring("pmi", 0.5), *rarely)


def test_context_power_makes_rare_words_look_more_frequent() -> None:
    counts, numbers = np.array([64, 16]), (np.array([0, 0]), np.array([0, 1]), np.array([8, 8]))
    plain = Scorer(Scoring("pmi"), DOCUMENTS, counts, counts, 100)(*numbers)
    assert (
        Scorer(Scoring("pmi", context_power=1.0), DOCUMENTS, counts, counts, 100)(*numbers).tolist() == plain.tolist()
    )
    # by hand, a = 1/2: square roots 8 and 4 become 80 * 8/12 and 80 * 4/12; geometric means with 64 and with 16
    one, other = math.sqrt(64 * 80 * 8 / 12), math.sqrt(16 * 80 * 4 / 12)
    halved = Scorer(Scoring("pmi", context_power=0.5), DOCUMENTS, counts, counts, 100)(*numbers)
    assert halved == pytest.approx([math.log2(800 / one**2), math.log2(800 / (one * other))])
    assert other > 16 and one < 64


def test_the_weight_of_a_tie_is_its_npmi_or_its_share_of_the_largest_score() -> None:
    scores = np.array([-1.0, 0.0, 1e-15, 0.25, 0.5])
    assert Scoring("npmi").weigh(scores, 0.5).tolist() == [0, 0, 0, 0.25, 0.5]
    assert Scoring("pmi").weigh(scores, 0.5).tolist() == [0, 0, 0, 0.5, 1]
    assert Scoring("ppmi").weigh(scores[:2], 0.0).tolist() == [0, 0]


def test_no_pairs_have_no_scores() -> None:
    nothing = np.zeros(0, np.int64)
    assert Scorer(Scoring(context_power=0.75), DOCUMENTS, nothing, nothing, 0)(nothing, nothing, nothing).shape == (0,)


def test_settings_come_back_from_json_and_wrong_ones_are_refused() -> None:
    scoring = Scoring("ppmi", smoothing=0.5, context_power=0.75)
    assert Scoring.from_json(scoring.to_json()) == scoring
    with pytest.raises(InputError, match=r"score is 'pim'; it can be npmi, pmi, ppmi"):
        Scoring("pim")  # type: ignore[arg-type]
    for wrong in ({"smoothing": -1.0}, {"smoothing": math.nan}, {"context_power": 0.0}, {"context_power": 1.5}):
        with pytest.raises(InputError, match="cannot be used"):
            Scoring(**wrong)
