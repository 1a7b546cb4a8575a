from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import SourceError
from infuser.knowledge.candidates.mention_rule import MentionRule
from infuser.knowledge.candidates.store import FoundMention, MentionFinder, build_candidates, mentions_of
from infuser.knowledge.facts import pack_mentions
from infuser.knowledge.names.name_rule import STOP_WORDS, spelling_of
from infuser.types import PAIR_BREAK

Counts = dict[str, dict[str, float]]
CITIES: Counts = {
    "Bern": {"Q70": 90, "Q1029394": 10},
    "bern": {"Q9": 5},
    "New York": {"Q60": 60, "Q1384": 40},
    "New York Times": {"Q9684": 30},
    "Zürich": {"Q72": 7},
}


def finder(known: Counts, **rule: object) -> MentionFinder:
    return MentionFinder(build_candidates(mentions_of(known)), MentionRule(**rule))  # type: ignore[arg-type]


def found(known: Counts, text: str, **rule: object) -> list[str]:
    [mentions] = finder(known, **rule).find([text])
    return [text[start:end] for start, end, _ in mentions]


def priors(known: Counts, mention: str, **rule: object) -> dict[str, float]:
    return {candidate.id: pytest.approx(candidate.prior) for candidate in finder(known, **rule).lookup(mention)}


def test_a_mention_has_its_entities_with_priors_that_sum_to_one() -> None:
    assert finder(CITIES).find(["to New York"]) == [[FoundMention(3, 11, finder(CITIES).lookup("New York"))]]
    assert priors(CITIES, "New York") == {"Q60": 0.6, "Q1384": 0.4}


def test_the_rows_of_one_mention_and_entity_are_summed() -> None:
    rows = [("Bern", "Q70", 1), ("Bern", "Q71", 2), ("  Bern ", "Q70", 2), ("Bern", "Q70", 1)]
    store = build_candidates(pack_mentions(rows))
    assert (len(store), len(store.ids), store.n_rows) == (1, 2, 2)
    assert [(c.id, c.prior) for c in MentionFinder(store, MentionRule()).lookup("Bern")] == [
        ("Q70", pytest.approx(4 / 6)),
        ("Q71", pytest.approx(2 / 6)),
    ]


def test_only_the_most_probable_candidates_are_kept_and_their_priors_renormalised() -> None:
    known = {"x": {f"Q{number}": float(number) for number in range(1, 101)}}
    assert len(finder(known).lookup("x")) == 30
    assert priors(known, "x", n_candidates=2) == {"Q100": 100 / 199, "Q99": 99 / 199}


def test_equals_come_in_the_order_of_their_ids_short_ones_first() -> None:
    known = {"Paris": {"Q830149": 1, "Q90": 1, "Q9": 1, "Q8": 1}}
    assert list(priors(known, "Paris")) == ["Q8", "Q9", "Q90", "Q830149"]


def test_the_spelling_of_the_text_goes_before_other_spellings() -> None:
    # by hand: 90 and 10 of 105 sightings are of "Bern", 5 of "bern"; all of them count like ten more
    all_spellings = {"Q70": 90 / 105 * 10, "Q1029394": 10 / 105 * 10, "Q9": 5 / 105 * 10}
    assert priors(CITIES, "bern") == {
        "Q70": all_spellings["Q70"] / 15,
        "Q9": (5 + all_spellings["Q9"]) / 15,
        "Q1029394": all_spellings["Q1029394"] / 15,
    }
    assert next(iter(priors(CITIES, "Bern"))) == "Q70"
    assert next(iter(priors(CITIES, "bern", spelling=1.0))) == "Q9"


def test_a_spelling_that_is_not_known_has_the_counts_of_all() -> None:
    assert priors(CITIES, "BERN") == {"Q70": 90 / 105, "Q1029394": 10 / 105, "Q9": 5 / 105}


def test_other_spellings_can_be_left_out() -> None:
    assert priors(CITIES, "bern", spelling=0.0) == {"Q9": 1.0}
    assert len(priors(CITIES, "BERN", spelling=0.0)) == 3


def test_equal_words_in_other_unicode_are_the_same_spelling() -> None:
    known: Counts = {"Z\u00fcrich's": {"Q72": 1}, "zurich's": {"Q1": 10}}
    assert next(iter(priors(known, "Zu\u0308rich\u2019s", spelling=0.5))) == "Q72"


def test_case_and_accents_are_folded_as_asked() -> None:
    text = "BERN ZURICH Zürich Zurich"
    assert found(CITIES, text) == ["BERN", "ZURICH", "Zürich", "Zurich"]
    assert found(CITIES, text, fold_accents=False) == ["BERN", "Zürich"]
    assert found(CITIES, text, fold_case=False) == ["Zürich", "Zurich"]
    assert found(CITIES, text, fold_case=False, fold_accents=False) == ["Zürich"]


def test_overlapping_mentions_are_kept_or_the_longest_of_them() -> None:
    text = "the new york times of New York"
    assert found(CITIES, text) == ["new york", "new york times", "New York"]
    assert found(CITIES, text, overlaps="longest") == ["new york times", "New York"]
    assert found(CITIES, text, overlaps="longest", max_words=2) == ["new york", "New York"]


def test_words_between_white_space_are_counted() -> None:
    known: Counts = {"U.S. Court of Jean-Claude Juncker": {"Q1": 1}, "House of Lords of the realm": {"Q2": 1}}
    text = "U.S. Court of Jean-Claude Juncker; House of Lords of the realm"
    assert found(known, text) == ["U.S. Court of Jean-Claude Juncker"]
    assert len(found(known, text, max_words=6)) == 2
    assert found(known, text, max_words=4) == []


def test_stop_words_and_signs_are_no_mentions() -> None:
    names = ["it", "the", "of the", "It", "?!", "the ?", "Bern", "the Bern", "\U0001f30d"]
    known: Counts = {name: {"Q1": 1} for name in names}
    assert found(known, "It is of the ?! the ? \U0001f30d the Bern") == ["\U0001f30d", "the Bern", "Bern"]
    assert found(known, "It is ?!", stop_words=()) == ["It", "?!"], "without stop words every name is a mention"


def test_a_known_spelling_with_a_capital_inside_is_no_stop_word() -> None:
    known: Counts = {"US": {"Q30": 9}, "us": {"Q1": 1}, "The Who": {"Q2": 1}, "it": {"Q3": 1}, "Who": {"Q4": 1}}
    assert found(known, "Who told us? The Who of the US. The who? IT!") == ["The Who", "US"]


def test_looking_up_one_name_asks_for_no_rule_of_texts() -> None:
    known: Counts = {"the": {"Q1": 1}, "a b c d e f g": {"Q2": 1}}
    assert found(known, "the a b c d e f g") == []
    assert priors(known, "the") == {"Q1": 1.0}
    assert priors(known, " A b c d e f g ") == {"Q2": 1.0}
    assert priors(known, "unknown") == {}


def test_no_mention_crosses_a_paragraph() -> None:
    assert found(CITIES, f"New{PAIR_BREAK}York New\nYork") == ["New\nYork"]


@pytest.mark.parametrize(
    "rule", [{"max_words": 0}, {"n_candidates": 0}, {"spelling": -1.0}, {"overlaps": "all"}, {"stop_words": "the"}]
)
def test_a_rule_that_cannot_be_is_refused(rule: dict[str, object]) -> None:
    with pytest.raises(SourceError, match=next(iter(rule))):
        MentionRule(**rule)  # type: ignore[arg-type]


def test_stop_words_are_single_words_without_repeats() -> None:
    assert len(set(STOP_WORDS)) == len(STOP_WORDS)
    assert all(word.isalpha() and word.islower() for word in STOP_WORDS)


WORDS = st.sampled_from(["a", "B", "b", "é", "e", "É", "the", "US", "us", "c-d", "-", "ß", "SS"])
NAMES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
KNOWN = st.dictionaries(NAMES, st.dictionaries(st.sampled_from("pqrstu"), st.integers(1, 9), min_size=1), max_size=8)
RULES = st.builds(
    MentionRule,
    max_words=st.integers(1, 3),
    n_candidates=st.integers(1, 4),
    fold_case=st.booleans(),
    fold_accents=st.booleans(),
    spelling=st.sampled_from([0.0, 1.0, 10.0]),
)


def slowly(known: Counts, written: str, rule: MentionRule) -> dict[str, float]:
    """The rule of the guide, written once more with dicts."""
    same = [name for name in known if rule.form(name) == rule.form(written)]
    exact = [name for name in same if spelling_of(name) == spelling_of(written)]
    scores: dict[str, float] = {}
    total = sum(count for name in same for count in known[name].values())
    for name in same:
        for entity, count in known[name].items():
            if exact:
                count = (count if name in exact else 0) + rule.spelling * count / total
            scores[entity] = scores.get(entity, 0) + count
    best = sorted((entity for entity in scores if scores[entity] > 0), key=lambda e: (-round(scores[e], 9), len(e), e))
    best = best[: rule.n_candidates]
    return {entity: scores[entity] / sum(scores[other] for other in best) for entity in best}


@settings(max_examples=150, deadline=None)
@given(KNOWN, st.lists(WORDS, max_size=8).map(" ".join), RULES)
def test_every_stretch_is_a_mention_exactly_when_the_rule_says_so(known: Counts, text: str, rule: MentionRule) -> None:
    [mentions] = MentionFinder(build_candidates(mentions_of(known)), rule).find([text])
    ends = [place for place in range(len(text) + 1) if place in (0, len(text)) or " " in text[place - 1 : place + 1]]
    expected = {}
    for start in ends:
        for end in ends:
            written = text[start:end]
            if start >= end or written != written.strip() or len(written.split()) > rule.max_words:
                continue
            spelled_so = any(spelling_of(name) == spelling_of(written) for name in known)
            if rule.says_something(written, known_so=spelled_so) and (meant := slowly(known, written, rule)):
                expected[start, end] = meant
    # names of our words that end at "-" may match inside "c-d"; the stretches between spaces are what is compared
    got = {(m.start, m.end): m.candidates for m in mentions if m.start in ends and m.end in ends}
    assert set(got) == set(expected)
    for place, candidates in got.items():
        assert {c.id: pytest.approx(c.prior, abs=1e-9) for c in candidates} == expected[place]
        assert sum(c.prior for c in candidates) == pytest.approx(1)
        assert [c.prior for c in candidates] == sorted((c.prior for c in candidates), reverse=True)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip),
        st.just({"Q1": 1}),
        max_size=5,
    ),
    st.text(),
)
def test_mentions_lie_inside_any_text(known: Counts, text: str) -> None:
    texts = [text, " ".join([*known, text, *known])]
    for one, mentions in zip(texts, finder(known).find(texts), strict=True):
        for start, end, candidates in mentions:
            assert 0 <= start < end <= len(one)
            assert candidates and one[start:end] == one[start:end].strip()


def test_what_was_found_before_changes_nothing() -> None:
    store = build_candidates(mentions_of(CITIES))
    first = MentionFinder(store, MentionRule())
    texts = ["Bern", "bern", "new  york times", "BERN"]
    assert first.find(texts) == first.find(texts)
    for text in texts:
        assert first.find([text]) == MentionFinder(store, MentionRule()).find([text])
    assert MentionFinder(store, replace(MentionRule(), n_candidates=1)).find(["Bern"])[0][0].candidates[0].prior == 1
