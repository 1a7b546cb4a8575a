"""Which triples are asked about, against a literal loop over all of them; and the words that say relations."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.relations.candidates import CandidateRule, make_candidates, tidy_spans, without_determiners
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.relations.trigger_words import TriggerWords
from infuser.types import Span
from infuser.words import word_borders

TEXT = "Paris is the capital of France, and Bern is the capital of Switzerland."
WIDE = CandidateRule(max_spans=99, max_pairs=9999, max_triggers=99, max_distance=99, max_outside=99)


def spot(part: str, text: str = TEXT, *, nth: int = 0, **more: str) -> Span:
    start = -1
    for _ in range(nth + 1):
        start = text.index(part, start + 1)
    return Span(start, start + len(part), **more)


PARIS, FRANCE, BERN, SWITZERLAND = (spot(name) for name in ("Paris", "France", "Bern", "Switzerland"))
CAPITALS = [spot("capital of"), spot("capital of", nth=1)]


def words(triples, text=TEXT):
    spans = [(triple.head, triple.tail, triple.trigger) for triple in triples]
    return [tuple(span and text[span.start : span.end] for span in triple) for triple in spans]


def test_every_ordered_pair_is_a_candidate_in_the_order_of_the_text():
    found = make_candidates(TEXT, [BERN, PARIS, FRANCE], None)
    assert words(found) == [
        ("Paris", "France", None),
        ("Paris", "Bern", None),
        ("France", "Paris", None),
        ("France", "Bern", None),
        ("Bern", "Paris", None),
        ("Bern", "France", None),
    ]
    assert {triple.relation for triple in found} == {NO_RELATION}


def test_triggers_between_the_two_come_before_triggers_outside():
    rule = CandidateRule(max_triggers=1)
    found = make_candidates(TEXT, [PARIS, FRANCE, BERN, SWITZERLAND], CAPITALS, rule)
    trigger = {(triple.head, triple.tail): triple.trigger for triple in found}
    assert trigger[PARIS, FRANCE] == trigger[FRANCE, PARIS] == CAPITALS[0]
    assert trigger[BERN, SWITZERLAND] == CAPITALS[1]
    assert trigger[FRANCE, BERN] == CAPITALS[0]  # both are outside: no word before France, two behind Bern
    assert trigger[PARIS, SWITZERLAND] == CAPITALS[1]  # both between; this one touches, the other is two words away
    assert len(found) == 12


def test_a_pair_with_no_trigger_in_reach_is_no_candidate():
    near = CandidateRule(max_outside=0)
    assert words(make_candidates(TEXT, [BERN, SWITZERLAND], CAPITALS[:1], near)) == []
    assert words(make_candidates(TEXT, [FRANCE, BERN], CAPITALS[:1], near)) == [
        ("France", "Bern", "capital of"),
        ("Bern", "France", "capital of"),
    ]
    assert make_candidates(TEXT, [PARIS, FRANCE], []) == []


def test_a_trigger_that_overlaps_head_or_tail_is_not_used():
    chunk = spot("capital of France")
    found = make_candidates(TEXT, [PARIS, chunk], [spot("capital of"), spot("France"), spot("is the")])
    assert words(found) == [("Paris", "capital of France", "is the"), ("capital of France", "Paris", "is the")]


def test_overlapping_spans_equal_places_and_mentions_of_one_entity_form_no_pair():
    assert make_candidates(TEXT, [FRANCE, spot("capital of France"), FRANCE, Span(4, 4), Span(5, 6)], None) == []
    same = [spot("capital", id="Q5119"), spot("capital", nth=1, id="Q5119")]
    assert make_candidates(TEXT, same, None) == []
    assert len(make_candidates(TEXT, [spot("capital"), spot("capital", nth=1)], None)) == 2  # two places, two spans
    assert len(make_candidates(TEXT, [same[0], spot("Bern", id="Q70")], None)) == 2


def test_the_nearest_pairs_are_kept_where_there_are_too_many():
    rule = CandidateRule(max_pairs=3)
    found = make_candidates(TEXT, [PARIS, FRANCE, BERN, SWITZERLAND], None, rule)
    assert words(found) == [("Paris", "France", None), ("France", "Bern", None), ("Bern", "France", None)]


def test_spans_far_apart_form_no_pair():
    assert make_candidates(TEXT, [PARIS, FRANCE], None, CandidateRule(max_distance=3)) == []  # is, the, capital, of
    assert len(make_candidates(TEXT, [PARIS, FRANCE], None, CandidateRule(max_distance=4))) == 2


def test_empty_texts_and_blank_spans_have_no_candidates():
    assert make_candidates("", [], None) == make_candidates("  ", [Span(0, 1), Span(1, 2)], None) == []
    assert make_candidates("a b", [Span(0, 1), Span(1, 2)], []) == []


def test_a_long_text_gives_no_more_than_the_rule_allows():
    text = "word " * 5000
    spans = [Span(5 * i, 5 * i + 4) for i in range(0, 5000, 2)]
    triggers = [Span(5 * i, 5 * i + 4) for i in range(1, 5000, 2)]
    assert len(make_candidates(text, spans, triggers)) == CandidateRule().max_pairs * 3
    wide = CandidateRule(max_spans=5000, max_pairs=2000, max_triggers=2, max_distance=10)
    found = make_candidates(text, spans, triggers, wide)
    assert len(found) == 2000 * 2
    assert all(abs(triple.head.start - triple.tail.start) == 10 for triple in found)  # the nearest: one word between


def test_settings_and_spans_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="max_pairs is 0"):
        CandidateRule(max_pairs=0)
    with pytest.raises(InputError, match="from 3 to 99 in a text of 5 characters"):
        make_candidates("short", [Span(3, 99)], None)


def literal(text: str, spans: list[Span], triggers: list[Span] | None, rule: CandidateRule) -> list[Triple]:
    """The definition, word by word: all pairs, all triggers, sorted and cut."""
    starts = [start for start, _ in word_borders(text)]

    def gap(one: Span, other: Span) -> int:
        return sum(one.end <= start < other.start for start in starts)

    def overlap(one: Span, other: Span) -> bool:
        return one.start < other.end and other.start < one.end

    def far(pair: tuple[Span, Span], trigger: Span) -> tuple[int, int, int, int]:
        left, right = sorted(pair, key=lambda span: span.start)
        if left.end <= trigger.start and trigger.end <= right.start:
            return 0, min(gap(left, trigger), gap(trigger, right)), trigger.start, trigger.end
        return 1, gap(trigger, left) if trigger.end <= left.start else gap(right, trigger), trigger.start, trigger.end

    def place(span: Span) -> tuple[int, int]:
        return span.start, span.end

    kept = tidy_spans(text, spans)[: rule.max_spans]
    pairs = [(one, two) for one in kept for two in kept if not overlap(one, two) and not (one.id and one.id == two.id)]
    apart = {pair: gap(*sorted(pair, key=place)) for pair in pairs}
    pairs = [pair for pair in pairs if apart[pair] <= rule.max_distance]
    pairs = sorted(pairs, key=lambda pair: (apart[pair], place(pair[0]), place(pair[1])))[: rule.max_pairs]
    pairs.sort(key=lambda pair: (place(pair[0]), place(pair[1])))
    if triggers is None:
        return [Triple(*pair) for pair in pairs]
    found = []
    for pair in pairs:
        free = [trigger for trigger in tidy_spans(text, triggers) if not any(overlap(trigger, one) for one in pair)]
        free = [trigger for trigger in free if far(pair, trigger)[0] == 0 or far(pair, trigger)[1] <= rule.max_outside]
        nearest = sorted(free, key=lambda trigger: far(pair, trigger))[: rule.max_triggers]
        found += [Triple(*pair, trigger=trigger) for trigger in sorted(nearest, key=place)]
    return found


TEXTS = st.lists(st.sampled_from(["ab", "c", "über", " ", ", ", "日本"]), min_size=1, max_size=12).map(" ".join)
PLACES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6), st.sampled_from(["", "", "A", "B"])), max_size=9)
RULES = st.builds(
    CandidateRule,
    max_spans=st.integers(1, 9),
    max_pairs=st.integers(1, 30),
    max_triggers=st.integers(1, 4),
    max_distance=st.integers(0, 8),
    max_outside=st.integers(0, 6),
)


def cut(text: str, places: list[tuple[int, int, str]]) -> list[Span]:
    return [Span(min(at, len(text)), min(at + length, len(text)), id=id) for at, length, id in places]


@given(TEXTS, PLACES, st.none() | PLACES, RULES)
def test_candidates_are_those_of_a_literal_loop(text, places, trigger_places, rule):
    spans = cut(text, places)
    triggers = None if trigger_places is None else cut(text, trigger_places)
    found = make_candidates(text, spans, triggers, rule)
    assert found == literal(text, spans, triggers, rule)
    assert found == make_candidates(text, tidy_spans(text, spans)[::-1], triggers, rule)


def test_tidy_spans_lose_white_space_blanks_and_repetitions():
    text = " a  bc "
    given_spans = [Span(3, 7, "x"), Span(0, 3), Span(2, 4), Span(1, 2, "y"), Span(4, 6)]
    assert tidy_spans(text, given_spans) == (Span(1, 2), Span(4, 6, "x"))


def test_a_chunk_is_also_offered_without_its_determiners():
    text = "Bern is a commune on all the Aare; The; an"
    chunks = [spot(part, text) for part in ("Bern", "a commune", "all the Aare", "The", "an")]
    found = without_determiners(text, chunks)
    assert [text[span.start : span.end] for span in found] == [
        "Bern",
        "a commune",
        "commune",
        "all the Aare",
        "Aare",
        "The",
        "an",
    ]
    assert without_determiners(text, [spot("a commune", text, label="noun", id="Q1")])[1] == spot(
        "commune", text, label="noun", id="Q1"
    )


def known(text: str, *triggers: str, relation: str = "P36", negated: bool = False) -> RelationText:
    ends = Span(0, 1), Span(1, 2)
    return RelationText(
        text, tuple(Triple(*ends, relation, spot(trigger, text), negated=negated) for trigger in triggers)
    )


def test_trigger_words_are_learned_from_the_places_of_known_triples():
    texts = [
        known("It is the Capital  of X.", "Capital  of", "Capital  of"),  # one place
        known("the capital of", "capital of", negated=True),
        known("born in", "born in"),
        known("next to, next to", "next to", relation=NO_RELATION),
        known("next to", "next to"),
        RelationText(
            "no trigger", (Triple(Span(0, 2), Span(3, 4), "P1"), Triple(Span(0, 2), Span(3, 4), "P1", Span(2, 3)))
        ),
    ]
    assert TriggerWords.learned(texts).phrases == {"capital of": 2}
    assert TriggerWords.learned(texts, fewest=1).phrases == {"capital of": 2, "born in": 1, "next to": 1}
    assert TriggerWords.learned(texts, fewest=1, most=2).phrases == {"capital of": 2, "born in": 1}


def test_trigger_words_are_found_by_whole_words_and_the_long_cover_the_short():
    triggers = TriggerWords({"capital": 1, "capital of": 2, "of the": 1, "is": 1, "of": 1})
    text = "This ISLAND is the capital\nof the Capital, capitals."
    found = triggers.find(text)
    assert [(text[span.start : span.end], span.label) for span in found] == [
        ("is", "trigger"),
        ("capital\nof", "trigger"),
        ("of the", "trigger"),  # overlaps the one before without being covered
        ("Capital", "trigger"),
    ]
    assert triggers.find("") == []
    assert triggers.find_each([text, "of"]) == [found, [Span(0, 2, "trigger")]]
    assert TriggerWords({}).find(text) == []


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(" ".join), max_size=6),
    st.lists(st.sampled_from(["a", "b", "c", "A", "x"]), max_size=15),
)
def test_trigger_words_are_the_maximal_matches_of_a_literal_search(phrases, pieces):
    text = " ".join(pieces)
    lowered = [piece.lower() for piece in pieces]
    places = {
        (2 * i, 2 * j - 1)
        for i in range(len(pieces))
        for j in range(i + 1, len(pieces) + 1)
        if " ".join(lowered[i:j]) in phrases
    }
    maximal = [
        place
        for place in sorted(places)
        if not any(other != place and other[0] <= place[0] and place[1] <= other[1] for other in places)
    ]
    found = TriggerWords(dict.fromkeys(phrases, 1)).find(text)
    assert [(span.start, span.end) for span in found] == maximal


def test_trigger_words_survive_json_and_refuse_nonsense():
    triggers = TriggerWords({"Born  in": 3, "born in": 1, "größte": 2})
    assert triggers.phrases == {"born in": 4, "grösste": 2}
    again = TriggerWords.from_json(json.loads(json.dumps(triggers.to_json())))
    assert again == triggers and again.find("BORN IN") == [Span(0, 7, "trigger")]
    assert again.find("die Größte") == [Span(4, 10, "trigger")]
    with pytest.raises(InputError, match="count of trigger phrase 'x' is '3'"):
        TriggerWords({"x": "3"})
    with pytest.raises(InputError, match="A trigger phrase is ' '"):
        TriggerWords({" ": 1})
    with pytest.raises(InputError, match="not \\{'words': \\[\\]\\}"):
        TriggerWords.from_json({"words": []})
