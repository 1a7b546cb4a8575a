"""Fact recall: questions from triples, fair candidates, ranks worked by hand, and a linker that learns facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import fact_questions as recall
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from miniatures import HOSTS, tiny_host, tiny_tokenizer
from tiny_infusions import tiny_base

import infuser
from infuser import Candidates, EntityVectors, KnowledgeBase, TrainSettings
from infuser.errors import InputError, SourceError
from infuser.linking.inference import find_mentions
from infuser.linking.training import train_linker
from infuser.types import Annotations, Candidate, Span

PLACES = [f"P{number}" for number in range(12)]
LABELS = {"A": "the old bridge", "B": "the blue river", "C": "a red book", "D": "the green garden"}
FACTS = [
    recall.Fact("A", "lies_in", "P0"),
    recall.Fact("A", "lies_in", "P1"),
    recall.Fact("A", "near", "P2"),
    recall.Fact("B", "lies_in", "P3"),
    recall.Fact("C", "lies_in", "P4"),
    recall.Fact("D", "near", "P0"),
]
FEW = recall.FactSettings(n_candidates=4)


def infuse(host: str = "bert", *, bases: tuple[str, ...] = ("base",)) -> infuser.Infused:
    ids = [*LABELS, *PLACES]
    vectors = EntityVectors.of(ids, np.random.default_rng(0).normal(size=(len(ids), 8)))
    model = tiny_host(host).float()
    torch.manual_seed(0)
    sources = [KnowledgeBase(Candidates({"bank": {"A": 1}}), vectors, name) for name in bases]
    return infuser.infuse(model, infuser.Kar(), sources=sources, tokenizer=tiny_tokenizer(host))


def question(n: int, right: int, asked: Any = "tail") -> recall.Question:
    fact = recall.Fact("A", "near", f"P{right}") if asked == "tail" else recall.Fact(f"P{right}", "near", "A")
    return recall.Question(fact, asked, "a [MASK]", Span(2, 8), tuple(f"P{place}" for place in range(n)))


def test_ranks_are_those_worked_by_hand_and_ties_share_their_mean() -> None:
    scores = [0.5, 0.9, 0.5, 0.1, 0.5]  # one above, three equal on ranks 2, 3, 4
    asked = [question(5, right) for right in range(5)]
    found = recall.ranks(asked, [np.array(scores)] * 5)
    assert found.tolist() == [3, 1, 3, 5, 3]
    assert recall.ranks([question(4, 0)], [np.zeros(4)]).tolist() == [2.5]
    assert recall.measures(np.array([1, 2.5, 10, 20])) == {
        "mrr": pytest.approx((1 + 0.4 + 0.1 + 0.05) / 4),
        "hits@1": 0.25,
        "hits@10": 0.75,
    }


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=12))
def test_the_ranks_of_all_candidates_sum_to_what_ranks_without_ties_do(scores: list[int]) -> None:
    n = len(scores)
    found = recall.ranks([question(n, right) for right in range(n)], [np.array(scores, float)] * n)
    assert found.sum() == n * (n + 1) / 2
    assert all((found[i] < found[j]) == (scores[i] > scores[j]) for i in range(n) for j in range(n))


def test_scores_that_are_no_numbers_or_too_few_are_refused() -> None:
    with pytest.raises(InputError, match="1 of them not a number"):
        recall.ranks([question(3, 0)], [np.array([np.nan, 0, 1])])
    with pytest.raises(InputError, match="2 scores"):
        recall.ranks([question(3, 0)], [np.zeros(2)])


def test_chance_is_the_average_over_all_orders() -> None:
    expected = recall.expected_by_chance([question(3, 0), question(12, 0)])
    drawn = np.random.default_rng(0).random((20_000, 12))
    many = np.concatenate([recall.ranks([question(n, 0)] * 20_000, drawn[:, :n]) for n in (3, 12)])  # type: ignore[arg-type]
    assert {name: pytest.approx(value, abs=0.01) for name, value in recall.measures(many).items()} == expected
    assert expected["mrr"] == pytest.approx(((1 + 1 / 2 + 1 / 3) / 3 + sum(1 / k for k in range(1, 13)) / 12) / 2)


def test_a_fact_becomes_a_text_with_a_mask_for_its_tail_or_its_head() -> None:
    templates = {"near": "near {tail} lies {head}"}
    infused = infuse()
    [one] = recall.fact_questions(infused, FACTS[2:3], LABELS, recall.FactSettings(n_candidates=4, templates=templates))
    assert (one.text, one.text[one.span.start : one.span.end]) == ("near [MASK] lies the old bridge", "[MASK]")
    assert one.answer == "P2"
    turned = recall.FactSettings("head", n_candidates=4, templates=templates)
    [one] = recall.fact_questions(infused, FACTS[2:3], {"P2": "a {tail}"}, turned)
    assert (one.text, one.text[one.span.start : one.span.end]) == ("near a {tail} lies [MASK]", "[MASK]")
    assert one.answer == "A"
    assert one.answer in one.candidates


@pytest.mark.parametrize(
    ("relation", "template"),
    [
        ("/people/person/place_of_birth", "{head} place of birth {tail}."),
        ("AtLocation", "{head} at location {tail}."),
        ("_hypernym", "{head} hypernym {tail}."),
        ("IATA code", "{head} IATA code {tail}."),
        ("http://example.org/ns#partOf", "{head} part of {tail}."),
    ],
)
def test_a_template_is_made_from_the_name_of_the_relation(relation: str, template: str) -> None:
    assert recall.template_of(relation) == template


def test_candidates_are_different_hold_the_answer_and_no_other_right_one() -> None:
    everything = recall.FactSettings(n_candidates=None)
    questions = recall.fact_questions(infuse(), FACTS[1:], LABELS, everything, known=FACTS[:1])
    assert set(questions[0].candidates) == {*LABELS, *PLACES} - {"P0"}  # which is right too, says `known`
    assert set(questions[1].candidates) == {*LABELS, *PLACES}
    raw = recall.fact_questions(
        infuse(), FACTS[1:2], LABELS, recall.FactSettings(n_candidates=None, filtered=False), known=FACTS
    )
    assert sorted(raw[0].candidates) == sorted([*LABELS, *PLACES])  # each once, the right one too
    for one in recall.fact_questions(infuse(), FACTS * 20, LABELS, FEW):
        assert len(set(one.candidates)) == 4
        assert one.answer in one.candidates
        if one.fact[:2] == ("A", "lies_in"):
            assert {"P0", "P1"} & set(one.candidates) == {one.answer}


def test_the_place_of_a_candidate_does_not_tell_which_is_right() -> None:
    places = [
        one.candidates.index(one.answer) for one in recall.fact_questions(infuse(), FACTS[3:4] * 200, LABELS, FEW)
    ]
    assert set(places) == {0, 1, 2, 3}


def test_candidates_are_drawn_as_often_as_they_are_answers_if_so_asked() -> None:
    known = [recall.Fact(f"X{number}", "near", "P5" if number < 90 else "P6") for number in range(99)]
    settings = recall.FactSettings(n_candidates=2, draw="frequency")
    questions = recall.fact_questions(infuse(), FACTS[3:4] * 300, LABELS, settings, known=known)
    drawn = [id for one in questions for id in one.candidates if id != "P3"]
    assert set(drawn) == {"P5", "P6"}
    assert 0.85 < drawn.count("P5") / len(drawn) < 0.95  # 90 of 99


def test_the_same_seed_gives_the_same_questions_and_another_one_others() -> None:
    first, again, other = (
        recall.fact_questions(infuse(), FACTS, LABELS, recall.FactSettings(n_candidates=4, seed=seed))
        for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_held_out_triples_are_never_learned_from_and_tell_nothing_about_wrong_answers() -> None:
    held_out = FACTS[:1]
    examples = recall.fact_examples(infuse(), FACTS, LABELS, recall.FactSettings(n_candidates=None), held_out=held_out)
    assert [example["gold"]["base"] for example in examples] == [(fact.tail,) for fact in FACTS[1:]]
    offered = [candidate.id for candidate in examples[0]["annotations"][0].candidates[0]]
    assert "P0" in offered  # leaving it out would tell that it is right
    with pytest.raises(InputError, match="not one triple"):
        recall.fact_examples(infuse(), held_out, LABELS, FEW, held_out=held_out)


def test_all_candidates_have_the_same_prior_and_other_sources_say_nothing() -> None:
    infused = infuse(bases=("one", "two"))
    [example] = recall.fact_examples(infused, FACTS[:1], LABELS, FEW, base="two")
    assert example["annotations"][0].spans == ()
    assert {candidate.prior for candidate in example["annotations"][1].candidates[0]} == {0.25}
    with pytest.raises(InputError, match="'one', 'two'"):
        recall.fact_examples(infused, FACTS, LABELS, FEW)


def test_triples_are_held_out_so_that_their_ends_and_relations_are_known() -> None:
    ring = [
        recall.Fact(f"E{place}", "next", f"E{(place + 1) % 12}") for place in range(12)
    ]  # each entity stands in two
    for seed in range(10):
        train, held_out = recall.hold_out([*ring, *ring[:3]], 3, seed=seed)
        assert len(held_out) == 3
        assert not set(train) & set(held_out)
        assert sorted([*train, *held_out]) == sorted(ring)
        assert {end for one in train for end in (one.head, one.tail)} == {f"E{place}" for place in range(12)}
        assert recall.hold_out(ring, 3, seed=seed) == (train, held_out)
    with pytest.raises(InputError, match="Only 1 of 3 triples"):
        recall.hold_out([("A", "r", "B"), ("B", "r", "A"), ("A", "s", "B")], 2)


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_scores_the_candidates_in_their_order_whatever_the_batch(host: str) -> None:
    infused = infuse(host)
    questions = recall.fact_questions(infused, FACTS, LABELS, recall.FactSettings(n_candidates=None))
    at_once, alone = (recall.linker_scores(infused, questions, batch_size=size) for size in (32, 1))
    assert [len(scores) for scores in at_once] == [len(one.candidates) for one in questions]
    for one, scores, same in zip(questions, at_once, alone, strict=True):
        np.testing.assert_allclose(scores, same, atol=1e-4)
        told = linked(infused, one)
        np.testing.assert_allclose(scores, [told[id] for id in one.candidates], atol=1e-4)


@dataclass(frozen=True)
class MasksMean:
    """A source that finds the mask of one question."""

    question: recall.Question

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        candidates = tuple(Candidate(id, 1 / len(self.question.candidates)) for id in self.question.candidates)
        return [Annotations(text, (self.question.span,), candidates=(candidates,)) for text in texts]

    @classmethod
    def tiny(cls) -> Self:
        return cls(question(3, 0))


def linked(infused: infuser.Infused, one: recall.Question) -> dict[str, float]:
    """Return what `find_mentions` thinks of the candidates."""
    base = infused.sources[0]
    assert isinstance(base, KnowledgeBase)
    [mention] = find_mentions(replace(infused, sources=(replace(base, candidates=MasksMean(one)),)), one.text)[0]
    return {candidate.id: candidate.score for candidate in mention.candidates}


def test_a_linker_learns_facts_and_recalls_them() -> None:
    infused = infuse()
    everything = recall.FactSettings(n_candidates=None)
    questions = recall.fact_questions(infused, FACTS, LABELS, everything)
    before = recall.measures(recall.ranks(questions, recall.linker_scores(infused, questions)))
    examples = recall.fact_examples(infused, FACTS, LABELS, everything) * 4
    settings = TrainSettings(epochs=60, batch_size=8, new_learning_rate=1e-2)
    train_linker(infused, examples, loss="softmax", settings=settings, progress=False)
    after = recall.measures(recall.ranks(questions, recall.linker_scores(infused, questions)))
    assert after["mrr"] > 0.9 > 0.6 > before["mrr"]


def test_frequency_counts_answers_of_the_same_relation_in_the_asked_place() -> None:
    train = [
        recall.Fact("B", "near", "P1"),
        recall.Fact("C", "near", "P1"),
        recall.Fact("C", "far", "P2"),
        recall.Fact("P2", "near", "C"),
    ]
    tail, head = recall.frequency_scores([question(3, 0), question(3, 0, "head")], train)
    assert tail.tolist() == [0, 2, 0]
    assert head.tolist() == [0, 0, 1]


def test_vectors_that_are_translations_answer_in_both_directions() -> None:
    vectors = EntityVectors.of(["A", "P0", "P1", "P2"], [[0, 0], [3, 4], [3, 5], [-3, -4]], scale=False)
    steps = recall.mean_translations(
        [recall.Fact("A", "near", "P0"), recall.Fact("A", "near", "P1"), recall.Fact("A", "near", "X")], vectors
    )
    assert steps["near"].tolist() == [3, 4.5]
    tail, head = recall.translation_scores([question(3, 0), question(3, 2, "head")], vectors, steps)
    np.testing.assert_allclose(tail, [-0.5, -0.5, -np.hypot(6, 8.5)])
    np.testing.assert_allclose(head, [-np.hypot(6, 8.5), -np.hypot(6, 9.5), -0.5])
    with pytest.raises(InputError, match="'near'"):
        recall.translation_scores([question(3, 0)], vectors, {})
    with pytest.raises(SourceError, match="without a vector"):
        recall.translation_scores([question(4, 0)], vectors, steps)


@pytest.mark.parametrize(
    ("triples", "labels", "settings", "said"),
    [
        ([], LABELS, FEW, "not one triple"),
        (FACTS, {}, FEW, "'A', an end of .* has no label"),
        (FACTS, {**LABELS, "A": "  "}, FEW, "has no label"),
        (FACTS, LABELS, recall.FactSettings(), "14 entities could be wrong answers .* 99 are needed"),
        (FACTS, LABELS, recall.FactSettings(draw="frequency", n_candidates=5), "3 entities could be wrong answers"),
        ([("A", "near", "Z")], LABELS, FEW, "'Z', the answer .* has no vector"),
    ],
)
def test_what_cannot_be_asked_is_told(triples: Any, labels: Any, settings: recall.FactSettings, said: str) -> None:
    with pytest.raises(InputError, match=said):
        recall.fact_questions(infuse(), triples, labels, settings)


@pytest.mark.parametrize(
    "wrong",
    [{"asked": "middle"}, {"draw": "all"}, {"n_candidates": 1}, {"templates": {"near": "{head} is near"}}],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong)).rstrip("s")):
        recall.FactSettings(**wrong)


def test_a_tokenizer_without_a_mask_and_a_model_without_a_linker_are_refused() -> None:
    infused = infuse()
    infused.tokenizer.mask_token = None
    with pytest.raises(InputError, match="no mask token"):
        recall.fact_questions(infused, FACTS, LABELS, FEW)
    plain = infuser.infuse(tiny_host("bert"), infuser.Ernie(), sources=[tiny_base()], tokenizer=tiny_tokenizer("bert"))
    with pytest.raises(InputError, match="no linker"):
        recall.fact_questions(plain, FACTS, LABELS, FEW)


def test_a_mask_that_the_encoder_does_not_come_to_is_told() -> None:
    infused = infuse()
    questions = recall.fact_questions(infused, FACTS[:1], {"A": "river " * 100}, FEW)
    with pytest.raises(InputError, match="does not come to the mask"):
        recall.linker_scores(infused, questions)
