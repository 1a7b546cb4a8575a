"""Triples that are none: never a known pair, always the same ones, as many as were asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.relations.negatives import sample_negatives
from infuser.types import Span
from infuser.words import word_borders

SENTENCE = "Bern lies on the Aare and a train runs from Bern to the old town of Basel near the big river Rhine"
WORDS = SENTENCE.split()


def make_text(first=0, n_words=21, *, triggers=True, n_triples=2):
    """Return a text whose triples tie its first words to later ones."""
    text = " ".join(WORDS[first : first + n_words])
    words = [Span(start, end) for start, end in word_borders(text)]
    triples = [
        Triple(words[i], words[i + 4], f"P{i}", words[i + 2] if triggers else None, f"label {i}")
        for i in range(n_triples)
    ]
    return RelationText(text, tuple(triples), tuple(words[-3:]))


TEXTS = [make_text(first, n, n_triples=1 + first % 2) for first in range(6) for n in (9, 12, 15)]


def share(one, other):
    return one.start < other.end and other.start < one.end


def known_pair(text, triple):
    """Tell whether a triple touches one that the text knows, or one between other mentions of its entities."""
    for known in text.triples:
        heads = [one for one in text.mentions() if known.head.id and one.id == known.head.id] or [known.head]
        tails = [one for one in text.mentions() if known.tail.id and one.id == known.tail.id] or [known.tail]
        if any(share(triple.head, one) for one in heads) and any(share(triple.tail, one) for one in tails):
            return True
    return False


def test_negatives_are_separate_spans_of_whole_words_that_nobody_related():
    drawn = sample_negatives(TEXTS, per_triple=3)
    assert sum(len(one.triples) for one in drawn) > 40
    for text, none in zip(TEXTS, drawn, strict=True):
        assert (none.text, none.spans) == (text.text, text.spans)
        borders = list(word_borders(text.text))
        starts, ends = {start for start, _ in borders}, {end for _, end in borders}
        places = set()
        for triple in none.triples:
            parts = (triple.head, triple.tail, triple.trigger)
            assert not any(share(parts[i], parts[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
            assert all(part.start in starts and part.end in ends for part in parts)
            assert not known_pair(text, triple)
            assert (triple.relation, triple.label, triple.negated) == (NO_RELATION, "", False)
            places.add(tuple((part.start, part.end) for part in parts))
        assert len(places) == len(none.triples)  # none twice


def test_a_pair_that_touches_a_known_one_in_both_spans_is_never_drawn():
    text = RelationText("a commune in France", (Triple(Span(2, 9), Span(13, 19), "P17", Span(10, 12)),))
    touching = [Triple(Span(0, 9), Span(13, 19)), Triple(Span(2, 9), Span(10, 19))]
    other_way, elsewhere = Triple(Span(13, 19), Span(2, 9)), Triple(Span(0, 1), Span(13, 19))
    for seed in range(20):
        (drawn,) = sample_negatives([text], candidates=[[*touching, other_way, elsewhere]], per_triple=9, seed=seed)
        assert set(drawn.triples) == {other_way, elsewhere}


def test_other_mentions_of_the_same_entities_are_the_same_pair():
    text = "Bern lies on the Aare and Bern likes the Aare"
    bern, aare, bern_again = (Span(place, place + 4, id=name) for place, name in ((0, "Q1"), (17, "Q2"), (26, "Q1")))
    known = RelationText(text, (Triple(bern, aare, "P1"),), (bern, aare, bern_again))
    (drawn,) = sample_negatives(
        [known], candidates=[[Triple(bern_again, aare), Triple(aare, bern_again)]], per_triple=5
    )
    assert drawn.triples == (Triple(aare, bern_again),)


def test_a_denied_pair_is_no_fact_and_no_negative_either():
    text = "Lyon is not the capital of France"
    denied = Triple(Span(0, 4), Span(27, 33), "P36", Span(16, 26), negated=True)
    fact = Triple(Span(27, 33), Span(0, 4), "P17", Span(16, 26))
    known = RelationText(text, (denied, fact))
    assert not denied.is_fact and fact.is_fact
    (drawn,) = sample_negatives([known], per_triple=50)
    assert len(drawn.triples) > 5
    assert not any(known_pair(known, triple) for triple in drawn.triples)
    (no_fact,) = sample_negatives([replace(known, triples=(denied,))], per_triple=50)
    assert no_fact.triples == ()


def test_the_same_seed_draws_the_same_and_another_one_others():
    assert sample_negatives(TEXTS, seed=3) == sample_negatives(TEXTS, seed=3)
    assert sample_negatives(TEXTS, seed=3) != sample_negatives(TEXTS, seed=4)


def test_neighbours_and_order_change_nothing():
    together = sample_negatives(TEXTS)
    assert [sample_negatives([text])[0] for text in TEXTS] == together
    assert sample_negatives(TEXTS[::-1]) == together[::-1]
    long = RelationText("x " * 50, (Triple(Span(0, 41), Span(60, 91), "P1", Span(42, 45)),))
    assert sample_negatives([long, *TEXTS])[1:] == together


@pytest.mark.parametrize("per_triple", [0.25, 1.5, 2])
def test_as_many_are_drawn_as_were_asked_for_on_average(per_triple):
    texts = [replace(make_text(number % 3, 17), name=str(number)) for number in range(3)]
    texts = [replace(text, text=f"{text.text} {'a' * n}") for n in range(1, 40) for text in texts]
    n_facts = sum(len(text.triples) for text in texts)
    drawn = [len(one.triples) for one in sample_negatives(texts, per_triple=per_triple)]
    assert sum(drawn) == pytest.approx(per_triple * n_facts, rel=0.15)
    if float(2 * per_triple).is_integer():
        assert set(drawn) == {int(2 * per_triple)}


def test_what_the_data_calls_none_comes_first_and_counts():
    text = make_text(n_triples=2)
    said = Triple(text.spans[0], text.spans[1], NO_RELATION, text.spans[2])
    with_said = replace(text, triples=(*text.triples, said))
    (drawn,) = sample_negatives([with_said], per_triple=1.5)
    assert drawn.triples[0] == said and len(drawn.triples) == 3
    assert said not in drawn.triples[1:]
    (enough,) = sample_negatives([with_said], per_triple=0.5)
    assert enough.triples == (said,)
    (alone,) = sample_negatives([replace(text, triples=(said,))])
    assert alone.triples == (said,)


def test_candidates_are_what_is_drawn_from():
    text = make_text()
    offered = [
        replace(one, relation="P9", label="x") for one in sample_negatives([text], per_triple=6, seed=1)[0].triples
    ]
    (drawn,) = sample_negatives([text], candidates=[offered], per_triple=2)
    assert len(drawn.triples) == 4
    places = [(one.head, one.tail, one.trigger) for one in offered]
    assert all((one.head, one.tail, one.trigger) in places for one in drawn.triples)
    assert {(one.relation, one.label) for one in drawn.triples} == {(NO_RELATION, "")}
    (none,) = sample_negatives([text], candidates=[[]])
    assert none.triples == ()


def test_triggers_are_drawn_where_triples_have_some():
    with_triggers, without = make_text(triggers=True), make_text(triggers=False)
    drawn = [one.triples for one in sample_negatives([with_triggers, without], per_triple=3)]
    assert all(triple.trigger is not None for triple in drawn[0])
    assert all(triple.trigger is None for triple in drawn[1])
    assert len(drawn[1]) == 6


@pytest.mark.parametrize(("text", "triggers"), [("", False), ("Bern", False), ("Bern Aare", True), ("  ...  ", False)])
def test_texts_too_short_for_another_pair_draw_none(text, triggers):
    parts = Span(0, min(4, len(text))), Span(min(5, len(text)), len(text))
    known = RelationText(text, (Triple(*parts, "P1", parts[0] if triggers else None),))
    assert sample_negatives([known], per_triple=9)[0].triples == ()


def test_two_words_have_one_other_pair_the_other_way_round():
    text = RelationText("Bern Aare", (Triple(Span(0, 4), Span(5, 9), "P1"),))
    (drawn,) = sample_negatives([text], per_triple=9)
    assert [(one.head.start, one.tail.start) for one in drawn.triples] == [(5, 0)]


@pytest.mark.parametrize("per_triple", [0, -1])
def test_the_gate_needs_some(per_triple):
    with pytest.raises(InputError, match=f"per_triple={per_triple}"):
        sample_negatives(TEXTS, per_triple=per_triple)


@settings(max_examples=40)
@given(
    text=st.lists(st.sampled_from([*WORDS, "中国", "e\u0301", "👍", ",", "\n"]), max_size=15).map(" ".join),
    data=st.data(),
    seed=st.integers(0, 5),
)
def test_random_texts_never_draw_what_is_known(text, data, seed):
    spans = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(lambda both: Span(*sorted(both)))
    triples = data.draw(st.lists(st.builds(Triple, spans, spans, st.just("P1"), st.none() | spans), max_size=3))
    known = RelationText(text, tuple(triples))
    (drawn,) = sample_negatives([known], per_triple=2, seed=seed)
    assert len(drawn.triples) <= 2 * len(triples)
    for triple in drawn.triples:
        assert not known_pair(known, triple)
        assert not share(triple.head, triple.tail)
        assert min(triple.head.start, triple.tail.start) >= 0 and max(triple.head.end, triple.tail.end) <= len(text)
    assert sample_negatives([known], per_triple=2, seed=seed) == [drawn]
