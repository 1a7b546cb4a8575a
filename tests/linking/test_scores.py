"""Strict scores of linking, worked out by hand, and the baselines that read no text."""

from __future__ import annotations

import json

import pytest

from infuser.errors import InputError
from infuser.knowledge.candidates.store import build_candidates, mentions_of
from infuser.linking.evaluation import entity_totals, most_frequent, prior_only
from infuser.linking.examples import LinkedText
from infuser.linking.mentions import Mention, ScoredCandidate
from infuser.linking.scores import LinkCounts, score_links
from infuser.sources.candidates import Candidates
from infuser.types import Span

KNOWN = {
    "Bern": {"Q70": 3, "Q1": 1},
    "York": {"Q42462": 9, "Q60": 1},
    "New York": {"Q60": 6, "Q1384": 4},
    "New York City": {"Q60": 50},
    "NY": {"Q1384": 1},
}
BASE = Candidates(KNOWN)


def said(start: int, end: int, id: str | None, *candidates: tuple[str, float]) -> Mention:
    scored = tuple(ScoredCandidate(one, 0.1, score) for one, score in candidates)
    return Mention(start, end, "", id, max((score for _, score in candidates), default=float("-inf")), scored)


GOLD = LinkedText("x" * 100, tuple(Span(10 * i, 10 * i + 5, id=f"Q{i}") for i in range(6)))
FOUND = [
    said(0, 5, "Q0", ("Q0", 2.0), ("Q9", 1.0)),  # right
    said(10, 15, "Q9", ("Q9", 2.0), ("Q1", 1.0)),  # wrong, though the right one was offered
    said(20, 25, None, ("Q2", -1.0), ("Q9", -2.0)),  # not linked, though the right one is first
    said(30, 35, "Q9", ("Q9", 1.0)),  # the right one was not offered
    said(40, 46, "Q4", ("Q4", 1.0)),  # the span is not exact
    said(70, 75, "Q9", ("Q9", 1.0)),  # nothing is meant there
]


def test_every_gold_mention_counts_and_only_exact_spans_with_the_right_entity_are_right():
    counts = score_links([GOLD], [FOUND]).total
    assert counts == LinkCounts(gold=6, linked=5, right=1, found=4, offered=3, first=2)
    assert (counts.precision, counts.recall) == (1 / 5, 1 / 6)
    assert counts.f1 == pytest.approx(2 * (1 / 5) * (1 / 6) / (1 / 5 + 1 / 6))
    assert (counts.ceiling, counts.in_candidate_accuracy) == (3 / 6, 2 / 3)


def test_what_lies_outside_the_labelled_part_does_not_count():
    part = LinkedText(GOLD.text, GOLD.spans, labelled=(8, 43))
    assert score_links([part], [FOUND]).total == LinkCounts(gold=3, linked=2, right=0, found=3, offered=2, first=1)


def test_a_mention_said_twice_counts_once_and_candidates_of_several_bases_are_joined():
    gold = LinkedText("Bern", (Span(0, 4, id="Q1"),))
    twice = [said(0, 4, "Q1", ("Q1", 1.0)), said(0, 4, "Q1", ("Q2", 3.0))]
    assert score_links([gold], [twice]).total == LinkCounts(gold=1, linked=1, right=1, found=1, offered=1, first=0)


def test_nothing_gold_and_nothing_said_gives_zeros():
    counts = score_links([LinkedText("Bern")], [[]]).total
    assert (counts.precision, counts.recall, counts.f1, counts.ceiling, counts.in_candidate_accuracy) == (0,) * 5
    assert score_links([], []).total == LinkCounts()


def test_texts_and_answers_must_be_as_many():
    with pytest.raises(InputError, match="1 gold texts but the mentions of 2"):
        score_links([GOLD], [[], []])


def test_intervals_draw_whole_documents_and_hold_the_score():
    right, wrong = [said(0, 5, "Q0", ("Q0", 1.0))], [said(0, 5, "Q9", ("Q9", 1.0), ("Q0", 0.0))]
    scores = score_links([LinkedText("Berne", (Span(0, 5, id="Q0"),))] * 20, [right] * 10 + [wrong] * 10)
    low, high = scores.intervals(rounds=400)["f1"]
    assert low < scores.total.f1 == 0.5 < high
    assert (low, high) == pytest.approx((0.5 - 0.22, 0.5 + 0.22), abs=0.06)  # 1.96 * sqrt(.25 / 20)
    assert scores.intervals(rounds=400)["f1"] == (low, high)
    assert scores.intervals(rounds=400)["ceiling"] == (1, 1)
    assert score_links([GOLD], [FOUND]).intervals()["f1"] is None


def test_scores_written_as_json_hold_all_counts():
    written = json.loads(json.dumps(score_links([GOLD, LinkedText("x")], [FOUND, []]).to_json()))
    assert written["counts"] == {"gold": 6, "linked": 5, "right": 1, "found": 4, "offered": 3, "first": 2}
    assert written["documents"]["rows"] == [[6, 5, 1, 4, 3, 2], [0] * 6]
    assert written["measures"]["ceiling"] == 0.5
    assert set(written["intervals"]) == set(written["measures"])


def test_prior_only_links_the_most_probable_meaning_and_lets_the_surest_of_overlapping_mentions_win():
    [found] = prior_only(["Bern, New York"], BASE)
    assert [(one.text, one.id, one.score) for one in found] == [
        ("Bern", "Q70", 0.75),
        ("New York", None, 0.6),
        ("York", "Q42462", 0.9),
    ]
    assert [(one.id, one.weight) for one in found[0].candidates] == [("Q70", 0.75), ("Q1", 0.25)]


def test_below_the_threshold_nothing_is_linked():
    [found] = prior_only(["Bern, New York"], BASE, threshold=0.8)
    assert [(one.text, one.id) for one in found] == [("Bern", None), ("New York", None), ("York", "Q42462")]
    assert [one.weight for one in found[0].candidates] == [0, 0]


def test_totals_are_summed_over_all_mentions_of_a_store(tmp_path):
    store = build_candidates(mentions_of(KNOWN))
    assert entity_totals(store) == {"Q70": 3, "Q1": 1, "Q42462": 9, "Q60": 57, "Q1384": 5}
    opened = Candidates(store.save(tmp_path / "known")).finder.store
    assert entity_totals(opened) == entity_totals(store)


def test_most_frequent_links_what_is_meant_most_often_overall():
    [found] = most_frequent(["York, NY"], BASE, entity_totals(BASE.finder.store))
    assert [(one.text, one.id, one.score) for one in found] == [("York", "Q60", 57), ("NY", "Q1384", 5)]
    assert [one.id for one in found[0].candidates] == ["Q60", "Q42462"]
    [unknown] = most_frequent(["York"], BASE, {})
    assert (unknown[0].id, unknown[0].score) == ("Q42462", 0)  # of equals the more probable


def test_a_baseline_scored_on_its_own_text():
    text = "Bern, New York"
    gold = [LinkedText(text, (Span(0, 4, id="Q70"), Span(6, 14, id="Q60")))]
    counts = score_links(gold, prior_only([text], BASE)).total
    assert counts == LinkCounts(gold=2, linked=2, right=1, found=2, offered=2, first=2)
