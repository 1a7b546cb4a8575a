"""Strict, labelled and lenient scores: worked out by hand, and against a literal count."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.relations.scores import MATCHES, RelationCounts, match_triples, score_relations, strings_alike
from infuser.types import Span

TEXT = "Bern, the Swiss capital, lies on the Aare. Bern is big. Thun lies there too."
BERN, AGAIN, CAPITAL = Span(0, 4, id="Q70"), Span(43, 47, id="Q70"), Span(6, 23, id="Q70")
AARE, THUN = Span(37, 41, id="Q14"), Span(56, 60)
GOLD = RelationText(
    TEXT,
    (
        Triple(BERN, AARE, "P206"),
        Triple(THUN, AARE, "P206"),
        Triple(AARE, BERN, "P1"),
        Triple(BERN, THUN, NO_RELATION),
        Triple(THUN, BERN, "P47", negated=True),
    ),
    (BERN, AGAIN, CAPITAL, AARE, THUN),
)


def at(*place: int) -> Span:
    return Span(*place)


FOUND = [
    Triple(at(0, 4), at(37, 41), "P206"),  # right
    Triple(at(43, 47), at(37, 41), "P206"),  # the same fact, by another mention
    Triple(at(6, 23), at(37, 41), "P206"),  # and by another one
    Triple(at(56, 60), at(33, 41), "P206"),  # "the Aare": not exact, but alike
    Triple(at(56, 60), at(37, 41), "P47"),  # the wrong relation
    Triple(at(37, 41), at(48, 54), "P1"),  # "is big" is no mention and like none
    Triple(at(37, 41), at(0, 4), "P1", negated=True),  # no statement
    Triple(at(37, 41), at(0, 4), NO_RELATION),  # no statement
]


def test_the_places_are_those_meant():
    assert [TEXT[one.start : one.end] for one in (BERN, AGAIN, CAPITAL, AARE, THUN, at(33, 41), at(48, 54))] == [
        "Bern",
        "Bern",
        "the Swiss capital",
        "Aare",
        "Thun",
        "the Aare",
        "is big",
    ]


def test_a_fact_counts_once_and_only_exact_mentions_with_its_relation_state_it():
    scores = score_relations([GOLD], [FOUND], match="strict")
    assert scores.total == RelationCounts(gold=3, found=4, right_found=1, right_gold=1)
    assert (scores.total.precision, scores.total.recall) == (1 / 4, 1 / 3)
    assert scores.total.f1 == pytest.approx(2 / 7)
    assert scores.relations == {
        "P1": RelationCounts(1, 1, 0, 0),
        "P206": RelationCounts(2, 2, 1, 1),
        "P47": RelationCounts(0, 1, 0, 0),
    }


def test_labelled_strings_may_be_alike_but_the_relation_must_be_equal():
    scores = score_relations([GOLD], [FOUND], match="labelled")
    # found: (bern, aare), (the swiss capital, aare), (thun, the aare); not (thun, aare, P47) and not (aare, is big)
    assert scores.total == RelationCounts(gold=3, found=5, right_found=3, right_gold=2)
    assert scores.relations["P206"] == RelationCounts(2, 3, 3, 2)


def test_leniently_the_relation_does_not_matter():
    scores = score_relations([GOLD], [FOUND], match="lenient")
    assert scores.total == RelationCounts(gold=3, found=5, right_found=4, right_gold=2)
    assert scores.relations["P47"] == RelationCounts(0, 1, 1, 0)  # as a pair it is right
    assert scores.total.f1 == pytest.approx(2 * (4 / 5) * (2 / 3) / (4 / 5 + 2 / 3))


def test_repeated_strings_without_ids_are_different_entities_by_their_places():
    text = "Bern is in Bern."
    gold = RelationText(text, (Triple(at(0, 4), at(11, 15), "P131"),), (at(0, 4), at(11, 15)))
    turned = [Triple(at(11, 15), at(0, 4), "P131")]
    assert score_relations([gold], [turned]).total == RelationCounts(1, 1, 0, 0)
    assert score_relations([gold], [turned], match="labelled").total == RelationCounts(1, 1, 1, 1)


def test_two_entities_may_stand_at_one_place_and_an_id_may_be_told_by_the_spans_alone():
    both = (Span(0, 4, id="Q70"), Span(0, 4, id="Q11911"))
    gold = RelationText("Bern, Aare", (Triple(both[1], at(6, 10), "P1"),), (*both, Span(6, 10, id="Q14")))
    assert score_relations([gold], [[Triple(at(0, 4), at(6, 10), "P1")]]).total == RelationCounts(1, 1, 1, 1)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Bern", "canton of bern", True),
        ("Bern", "Bern", True),
        ("listen", "silent", True),  # the same characters: this match is lenient indeed
        ("abc", "abcd", True),
        ("abcxy", "abcd", False),  # 3 of 6 characters: distance 0.5
        ("abcx", "abcy", False),  # 3 of 5: distance 0.4 is not below 0.4
        ("abcdx", "abcdy", True),  # 4 of 6
        ("", "Bern", False),
        ("", "", False),
        (" ", "a b", False),
        ("New  York", "new york", True),
    ],
)
def test_strings_are_alike_in_both_directions(one, other, alike):
    assert strings_alike(one, other) == strings_alike(other, one) == alike


def test_blank_spans_are_never_right():
    gold = RelationText("a b", (Triple(Span(0, 0), Span(2, 3), "P1"),))
    for match in MATCHES:
        assert score_relations([gold], [gold.triples], match=match).total == RelationCounts(1, 1, 0, 0)


def test_nothing_gold_and_nothing_found_gives_zeros():
    for match in MATCHES:
        total = score_relations([RelationText("Bern")], [[]], match=match).total
        assert (total, total.precision, total.recall, total.f1) == (RelationCounts(), 0, 0, 0)
        assert score_relations([], [], match=match).intervals() == {"precision": None, "recall": None, "f1": None}


def test_texts_and_answers_must_be_as_many_and_the_match_a_known_one():
    with pytest.raises(InputError, match="1 gold texts but the triples of 2"):
        score_relations([GOLD], [[], []])
    with pytest.raises(InputError, match=r"match is 'loose'\. Choose one of strict, labelled, lenient"):
        score_relations([GOLD], [[]], match="loose")


def test_intervals_draw_whole_documents_and_hold_the_score():
    one = RelationText("Bern, Aare", (Triple(at(0, 4), at(6, 10), "P1"),))
    wrong = [replace(one.triples[0], relation="P2")]
    scores = score_relations([one] * 20, [one.triples] * 10 + [wrong] * 10)
    low, high = scores.intervals(rounds=400)["f1"]
    assert (low, high) == pytest.approx((0.5 - 0.22, 0.5 + 0.22), abs=0.06)  # 1.96 * sqrt(.25 / 20)
    assert low < scores.total.f1 == 0.5 < high
    assert score_relations([one] * 20, [wrong] * 20, match="lenient").intervals(rounds=100)["recall"] == (1, 1)


def test_scores_written_as_json_hold_all_counts():
    written = json.loads(json.dumps(score_relations([GOLD, RelationText("x")], [FOUND, []]).to_json()))
    assert written["match"] == "strict"
    assert written["counts"] == {"gold": 3, "found": 4, "right_found": 1, "right_gold": 1}
    assert written["documents"]["rows"] == [[3, 4, 1, 1], [0] * 4]
    assert written["relations"]["rows"]["P206"] == [2, 2, 1, 1]
    assert written["measures"]["precision"] == 0.25
    assert set(written["intervals"]) == set(written["measures"])


def literal_strict(gold: RelationText, found: list[Triple]) -> RelationCounts:
    """The definition, word by word, for texts in which no place has two ids and no span is blank."""
    ids = {(span.start, span.end): span.id for span in gold.spans}

    def entity(span: Span) -> object:
        return ids.get((span.start, span.end)) or (span.start, span.end)

    def facts(triples):
        said = [one for one in triples if not one.negated and one.relation != NO_RELATION]
        return {(entity(one.head), entity(one.tail), one.relation) for one in said}

    golden, stated = facts(gold.triples), facts(found)
    return RelationCounts(len(golden), len(stated), len(golden & stated), len(golden & stated))


def literal_alike(gold: RelationText, found: list[Triple], *, labelled: bool) -> RelationCounts:
    """The definition, word by word, for gold mentions whose strings are all different from entity to entity."""
    ids = {(span.start, span.end): span.id for span in gold.spans}

    def string(span: Span) -> str:
        return " ".join(gold.text[span.start : span.end].lower().split())

    def written(span: Span) -> list[str]:
        own = ids[span.start, span.end]
        return [string(other) for other in gold.spans if own and other.id == own] or [string(span)]

    def alike(one: Triple, fact: Triple) -> bool:
        return (not labelled or one.relation == fact.relation) and all(
            any(strings_alike(string(span), name) for name in written(meant))
            for span, meant in ((one.head, fact.head), (one.tail, fact.tail))
        )

    def key(triple: Triple, names) -> tuple[object, ...]:
        return (names(triple.head), names(triple.tail), triple.relation if labelled else "")

    golden = [one for one in gold.triples if not one.negated and one.relation != NO_RELATION]
    stated = [one for one in found if not one.negated and one.relation != NO_RELATION]
    gold_keys = {key(fact, lambda span: frozenset(written(span))) for fact in golden}
    right_gold = {
        key(fact, lambda span: frozenset(written(span))) for fact in golden if any(alike(one, fact) for one in stated)
    }
    right_found = {key(one, string) for one in stated if any(alike(one, fact) for fact in golden)}
    return RelationCounts(len(gold_keys), len({key(one, string) for one in stated}), len(right_found), len(right_gold))


WORDS = ("Bern", "Berne", "Aare", "Thun", "Lyon", "the", "of", "Biel", "x")


@st.composite
def scored(draw):
    """Draw a gold text with ids for some of its mentions, and triples said about it, some of them gold."""
    text = " ".join(draw(st.lists(st.sampled_from(WORDS), min_size=3, max_size=9)))
    ids = st.sampled_from(["", "Q1", "Q2"])
    spans = tuple(Span(*match.span(), id=draw(ids)) for match in re.finditer(r"\w+", text))
    span, relations = st.sampled_from(spans), st.sampled_from(["P1", "P2", NO_RELATION])
    triples = st.builds(Triple, span, span, relations, negated=st.booleans())
    gold = RelationText(text, tuple(draw(st.lists(triples, max_size=5))), spans)
    place = st.integers(0, len(text) - 1)
    anywhere = st.builds(lambda one, two: Span(min(one, two), max(one, two) + 1), place, place)
    kinds = [triples, st.builds(Triple, anywhere, span, relations)]
    if gold.triples:
        kinds.append(st.sampled_from(gold.triples))
    found = draw(st.lists(st.one_of(kinds), max_size=6))
    return gold, [triple for triple in found if text[triple.head.start : triple.head.end].strip()]


@given(scored())
def test_counts_are_those_of_a_literal_count(drawn):
    gold, found = drawn
    assert score_relations([gold], [found]).total == literal_strict(gold, found)
    for match in ("labelled", "lenient"):
        expected = literal_alike(gold, found, labelled=match == "labelled")
        assert score_relations([gold], [found], match=match).total == expected


@given(scored())
def test_the_facts_that_each_triple_matches_add_up_to_the_counts(drawn):
    gold, found = drawn
    for match in MATCHES:
        compared = match_triples(gold, found, match)
        n_facts, matched = len(compared.golden), compared.matched
        total = score_relations([gold], [found], match=match).total
        assert (n_facts, len(frozenset().union(*matched))) == (total.gold, total.right_gold)
        for triple, facts in zip(found, matched, strict=True):
            alone = score_relations([gold], [[triple]], match=match).total
            assert (alone.right_gold, alone.right_found) == (len(facts), bool(facts))


@given(scored())
def test_strictly_right_is_right_labelled_and_that_is_right_leniently(drawn):
    gold, found = drawn
    for triple in found:
        right = [score_relations([gold], [[triple]], match=match).total.right_found for match in MATCHES]
        assert right == sorted(right)
    for match in MATCHES:  # the order of what was found does not matter, nor do repetitions
        assert score_relations([gold], [found], match=match) == score_relations([gold], [found[::-1] * 2], match=match)


@given(st.lists(scored(), max_size=3))
def test_a_perfect_answer_is_perfect_in_all_columns_and_documents_add_up(drawn):
    texts = [gold for gold, _ in drawn]
    for match in MATCHES:
        perfect = score_relations(texts, [gold.triples for gold in texts], match=match)
        expected = 1.0 if perfect.total.gold else 0.0
        assert (perfect.total.precision, perfect.total.recall, perfect.total.f1) == (expected,) * 3
        if match != "lenient":  # there a pair with two relations counts for both
            assert sum(one.found for one in perfect.relations.values()) == perfect.total.found
        assert perfect.documents == tuple(score_relations([one], [one.triples], match=match).total for one in texts)
