"""The probe of relations: what it finds in miniatures, what its controls say, and which triples it asks about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from miniatures import Repeats, tiny_host, tiny_tokenizer
from relation_texts import SHAPES, shaped_texts
from sklearn.metrics import precision_recall_fscore_support

from infuser import infuse
from infuser.analysis.probe.relation_fits import find_confusions, find_importance, grow_tree, score_answers
from infuser.analysis.probe.relation_knowledge import score_knowledge
from infuser.analysis.probe.relation_rows import RowFeatures, TripleRows, choose_rows, split_texts
from infuser.analysis.probe.relations import (
    ProbedEncoder,
    ProbeSettings,
    probe_relations,
    probe_report,
    randomly_initialised,
)
from infuser.analysis.probe.result import ProbeReport
from infuser.errors import InputError
from infuser.hosts import is_new_weight
from infuser.relations.classifier import Linear
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.relations.features import DIRECTIONS, Features
from infuser.types import Span

TRAIN, TEST = shaped_texts(120, 0), shaped_texts(40, 1)
QUICK = ProbeSettings(curve=False, control=False, shuffled=False)


def probed(settings: ProbeSettings = QUICK, model: Any = None, **options: Any) -> ProbedEncoder:
    host = tiny_host("bert", seed=1) if model is None else model
    options = {"train": TRAIN, "test": TEST, "name": "tiny", **options}
    return probe_relations(host, tiny_tokenizer("bert"), settings=settings, **options)


@pytest.fixture(scope="module")
def whole() -> ProbedEncoder:
    return probed(ProbeSettings(scores=True, curve_rows=80))


def test_what_attention_tells_is_found_and_shuffled_labels_tell_nothing(whole: ProbedEncoder) -> None:
    reading = whole.reading
    assert reading.scores.accuracy == reading.scores.f1 == 1 and reading.scores.binary > 0.65
    assert reading.shuffled is not None
    assert reading.shuffled.accuracy < 0.45 and 0.35 < reading.shuffled.binary < 0.65
    assert [(one.relation, one.label, one.n) for one in reading.relations] == [
        (relation, f"{relation} one", 10) for relation in sorted(SHAPES)
    ]
    assert reading.confusions == () and whole.notes and "random weights names the relation" in whole.notes[0]
    assert np.shape(reading.importance_gate) == np.shape(reading.importance_relations) == (2, 2, 6)
    assert reading.directions == DIRECTIONS and reading.linked == tuple(sorted(SHAPES)) and len(reading.linkage) == 3
    negatives = choose_rows(TRAIN)  # a few texts are too small for one
    assert whole.facts["Training triples"] == (
        f"120 of 4 relations; {2 * int((~negatives.facts).sum()):,} for the gate, half of them none"
    )


def test_each_layer_alone_is_asked_and_its_curve_is_that_of_its_own_features(whole: ProbedEncoder) -> None:
    curves = whole.reading.layers
    assert {kind: [layer for layer, _, _ in curve] for kind, curve in curves.items()} == {
        "attention": [0, 1],
        "embeddings": [0, 1, 2],
    }
    assert whole.facts["Each layer alone"] == "learned from 80 facts, tested with 40"
    assert all(f1 > 0.9 for _, _, f1 in curves["attention"])
    one_layer = tiny_host("bert", seed=1)
    one_layer.encoder.layer = one_layer.encoder.layer[:1]
    one_layer.config.num_hidden_layers = 1
    alone = probed(QUICK, one_layer).reading.scores
    both = probed(replace(QUICK, curve=True)).reading  # as many rows as there are, so it learns from the same
    assert both.layers["attention"][0] == (0, alone.binary, alone.f1)


def test_the_control_is_the_same_architecture_with_random_weights(whole: ProbedEncoder) -> None:
    assert whole.reading.control == probed(model=randomly_initialised(tiny_host("bert", seed=1))).reading.scores
    # a model that was itself just drawn with this seed is its own control
    reading = probed(replace(QUICK, control=True, seed=5), tiny_host("bert", seed=5)).reading
    assert reading.control == reading.scores
    host, before = tiny_host("bert"), torch.random.get_rng_state()
    randomly_initialised(host, 3)
    assert torch.equal(before, torch.random.get_rng_state())  # nobody else's random numbers change


def test_uniform_attention_averaged_over_spans_tells_nothing_and_the_report_says_so() -> None:
    blind = tiny_host("bert", seed=1)
    for block in blind.encoder.layer:
        for part in (block.attention.self.query, block.attention.self.key):
            torch.nn.init.zeros_(part.weight)
    average = replace(QUICK, pooling="mean", shuffled=True)
    before = probed(average, blind, name="blind")
    after = probed(QUICK, name="seeing")
    assert before.reading.scores.accuracy < 0.5 and before.reading.verdict == "no evidence"
    report = probe_report([before, after], facts={"Data": "shapes"}, notes=["mind this"])
    assert report.change == "more" and report.sentence.startswith("seeing knows more")
    assert report.facts["Data"] == "shapes" and "Features, blind" in report.facts and report.facts["Seed"] == "0"
    assert report.notes[0] == "mind this" and report.labels["tail"] == "tail one" and "scikit-learn" in report.versions
    assert ProbeReport.from_json(report.to_json()).sentence == report.sentence


def test_a_fresh_infusion_is_read_as_the_plain_encoder_and_its_control_is_plain() -> None:
    infused = infuse(tiny_host("bert", seed=1), sources=[Repeats()], tokenizer=tiny_tokenizer("bert"))
    settings = replace(QUICK, control=True)
    read = probed(settings, infused.model, sources=infused.sources).reading
    assert read.scores == probed(settings).reading.scores and read.control is not None
    plain = randomly_initialised(infused.model)
    assert plain.config._attn_implementation != infused.model.config._attn_implementation
    assert not any("knowledge" in name for name, _ in plain.named_parameters())
    with torch.no_grad():
        for name, weight in infused.model.named_parameters():
            weight += is_new_weight(name)
    told = probed(settings, infused.model, sources=infused.sources).reading
    assert told.importance_gate != read.importance_gate and told.control == read.control


def test_the_same_data_and_seed_give_the_same_numbers_to_the_last_digit(whole: ProbedEncoder) -> None:
    again = probed(ProbeSettings(scores=True, curve_rows=80))
    assert probe_report([again]).to_json() == probe_report([whole]).to_json()
    assert again.knowledge == whole.knowledge
    assert probed(replace(QUICK, seed=1)).reading.importance_gate != whole.reading.importance_gate


def test_triples_that_cannot_be_read_are_counted_and_left_out() -> None:
    long = RelationText("big " * 80 + "house on river", (Triple(Span(0, 3), Span(320, 325), "short", Span(326, 328)),))
    found = probed(test=[*TEST, long])
    assert any("could not read 1 of" in note or "could not read 2 of" in note for note in found.notes)
    assert found.reading.n_triples == 40
    strange = replace(TEST[0], text=TEST[0].text + " and", triples=(replace(TEST[0].triples[0], relation="new"),))
    found = probed(test=[*TEST[1:], strange])
    assert any("1 test triples have relations that no training triple has" in note for note in found.notes)
    assert found.reading.n_triples == 39


def test_embeddings_are_read_in_place_of_attention_and_pairs_without_triggers() -> None:
    states = probed(replace(QUICK, kind="embeddings")).reading
    assert states.features == "embeddings" and states.importance_gate == [] and states.directions == ()
    texts = {"train": shaped_texts(120, 0, triggers=False), "test": TEST}
    found = probed(QUICK, **texts)
    pairs = found.reading
    assert found.notes[0] == "120 of 160 facts have no words that say the relation, so only head and tail are read."
    assert pairs.directions == DIRECTIONS[:2] and pairs.scores.accuracy < 1  # "said" and "short" look alike


def test_triples_that_are_no_facts_need_no_words_that_say_a_relation() -> None:
    none = Triple(TRAIN[0].triples[0].head, TRAIN[0].triples[0].tail)
    negated = replace(TRAIN[1].triples[0], trigger=None, negated=True)
    texts = [replace(TRAIN[0], triples=(none,)), replace(TRAIN[1], triples=(negated,)), *TRAIN[2:]]
    found = probed(train=texts)
    assert found.reading.directions == DIRECTIONS and not any("have no words" in note for note in found.notes)


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        ({"train": TRAIN[:1]}, {}, "state 1 different relations"),
        ({"train": []}, {}, "state 0 different relations"),
        ({"test": [replace(TEST[0], triples=())]}, {}, "no relation of the training texts"),
        ({}, {"relations": {"short", "tail", "P36"}}, "do not state the relations P36"),
        ({}, {"relations": {"short"}}, r"1 different relations \(of short"),
        ({"train": shaped_texts(8, 0, triggers=False)}, {"trigger": True}, "0 and 0 can be read"),
    ],
)
def test_data_that_cannot_be_probed_is_refused(options: dict[str, Any], settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        probed(replace(QUICK, **settings), **options)


TWO = "Bern is not in Peru but in Spain"
HEAD, PERU, SPAIN = Span(0, 4), Span(15, 19), Span(27, 32)


def test_none_are_what_the_data_calls_so_negated_ones_and_pairs_that_nobody_called_a_relation() -> None:
    text = RelationText(TWO, (Triple(HEAD, SPAIN, "in"), Triple(HEAD, PERU, "in", negated=True), Triple(PERU, SPAIN)))
    rows = choose_rows([text] * 3)
    assert rows.facts.sum() == 3 and (~rows.facts).sum() == 3
    for (_, triple), fact in zip(rows.asked(), rows.facts, strict=True):
        assert fact == ((triple.head, triple.tail) == (HEAD, SPAIN))
    # a fact of a relation that is left out is not none, and texts without any fact of the others are not read
    other = RelationText(TWO + " now", (Triple(HEAD, SPAIN, "near"),))
    rows = choose_rows([text, other], relations={"in"})
    assert {text.text for text in rows.texts} == {TWO} and set(rows.truth) == {"in", NO_RELATION}


def test_so_many_of_each_relation_are_chosen_and_by_rank() -> None:
    rows = choose_rows(TRAIN, per_relation=5, seed=2)
    assert {relation: int((rows.truth == relation).sum()) for relation in SHAPES} == dict.fromkeys(SHAPES, 5)
    assert (~rows.facts).sum() == 20
    some = rows.first(3)
    kept = rows.kept(some)
    assert len(kept.asked()) == len(kept.truth) == 6 and (kept.truth == rows.truth[some]).all()
    assert [triple for _, triple in kept.asked()] == [rows.asked()[place][1] for place in some]
    assert max(rows.rank[some][kept.facts]) < min(np.delete(rows.rank, some)[np.delete(rows.facts, some)])


def test_texts_are_split_by_their_words() -> None:
    train, test = split_texts([*TRAIN, *TRAIN[:30]], seed=3)
    assert len(train) + len(test) == 150 and not {one.text for one in train} & {one.text for one in test}
    assert len({one.text for one in test}) == 40 and split_texts(TRAIN, seed=3) == split_texts(TRAIN, seed=3)
    with pytest.raises(InputError, match="1 different texts"):
        split_texts([TRAIN[0], TRAIN[0]])


def test_scores_and_confusions_are_those_of_counting() -> None:
    rng = np.random.default_rng(0)
    truth, answers = (rng.choice(list("abcd"), size=60).tolist() for _ in range(2))
    answers = [one if one != "d" else "a" for one in answers]
    scores = score_answers(0.5, truth, answers)
    expected = precision_recall_fscore_support(truth, answers, average="macro", zero_division=0)
    assert (scores.precision, scores.recall, scores.f1) == pytest.approx(expected[:3])
    right = sum(one == other for one, other in zip(truth, answers, strict=True))
    assert scores.accuracy == right / 60
    confusions = find_confusions(truth, answers)
    assert sum(times for _, _, times in confusions) == 60 - right
    assert all(times == list(zip(truth, answers, strict=True)).count((one, other)) for one, other, times in confusions)
    assert [times for _, _, times in confusions] == sorted((times for _, _, times in confusions), reverse=True)


def test_importance_and_the_tree_are_those_of_the_weights() -> None:
    weights = np.array([[3.0, 0, 0], [3, 1, 0], [-3, 0, 1], [-3, 1, 1]])
    model = Linear(("a", "b", "c", "d"), np.zeros(3), np.ones(3), weights, np.zeros(4))
    assert find_importance(model, (1, 3, 1)) == [[[3.0], [0.5], [0.5]]]
    linkage, clusters = grow_tree(model)
    assert clusters == (("a", "b"), ("c", "d")) and {frozenset(row[:2]) for row in linkage[:2]} == {
        frozenset({0.0, 1.0}),
        frozenset({2.0, 3.0}),
    }
    nothing = replace(model, weights=np.zeros((4, 3)))
    assert np.isfinite(grow_tree(nothing)[0]).all() and grow_tree(replace(model, classes=("a",))) == ((), ())


def test_a_relation_or_entity_is_known_as_far_as_its_held_out_triples_are_told() -> None:
    texts = [
        RelationText(f"Aa{number} near Bb{number} of Cc", (Triple(Span(0, 3), Span(9, 12), "known"),))
        for number in range(8)
    ]
    texts += [
        RelationText(
            f"Dd{number} near Ee{number} of Cc", (Triple(Span(0, 3, id="Q1"), Span(9, 12), f"dark {number % 2}"),)
        )
        for number in range(8)
    ]
    truth = np.array([text.triples[0].relation for text in texts], dtype=object)
    values = np.zeros((16, 1, 1, 1), np.float32)
    values[:8] = 9
    seen = RowFeatures.whole(TripleRows(texts, truth, np.arange(16)), Features(values, np.ones(16, bool)))
    found = score_knowledge([seen], folds=4, seed=1)
    relations, entities = found.relations, found.entities
    assert (found.held_out_by, found.n_unlearned) == ("text and pair", 0)
    known = {one.relation: one for one in relations}
    assert known["known"].score > 0.85 and known["dark 0"].score == pytest.approx(0.5, abs=0.1)
    assert (known["known"].n_triples, known["dark 0"].n_triples) == (8, 4)
    scores = {one.key: one for one in entities}
    assert len(scores) == 32 and scores["aa3"].how == "relation-probe" and scores["aa3"].n_mentions == 1
    assert np.mean([scores[f"aa{number}"].score for number in range(8)]) == pytest.approx(known["known"].score)
    by_id = {one.key: one for one in score_knowledge([seen], folds=4, seed=1, by_id=True).entities}
    assert by_id["Q1"].n_mentions == 8 and len(by_id) == 25


def test_no_classifier_has_seen_a_pair_of_entities_or_a_text_that_it_is_asked_about() -> None:
    # each pair has a relation of its own: only who has seen the pair elsewhere could tell it
    texts = [
        RelationText(
            f"Aa{number % 4} near Bb{number % 4} {number}", (Triple(Span(0, 3), Span(9, 12), f"r{number % 4}"),)
        )
        for number in range(12)
    ]
    truth = np.array([text.triples[0].relation for text in texts], dtype=object)
    values = np.eye(4, dtype=np.float32)[np.arange(12) % 4].reshape(12, 1, 1, 4)
    seen = RowFeatures.whole(TripleRows(texts, truth, np.arange(12)), Features(values, np.ones(12, bool)))
    assert [one.score for one in score_knowledge([seen], folds=3).relations] == [0.0] * 4
    with pytest.raises(InputError, match="cannot be parted"):
        score_knowledge([seen.part(np.array([0]))])
    with pytest.raises(InputError, match="at least 2"):
        score_knowledge([seen], folds=1)


def test_scores_that_rest_on_seen_pairs_or_on_one_relation_are_told() -> None:
    texts = [RelationText(f"Aa near Bb {number}", (Triple(Span(0, 2), Span(8, 10)),)) for number in range(6)]
    # without the only "of" all others are "near": a classifier that would be sure of everything
    truth = np.array(["near"] * 5 + ["of"], dtype=object)
    values = np.arange(6, dtype=np.float32).reshape(6, 1, 1, 1)
    alone = score_knowledge(
        [RowFeatures.whole(TripleRows(texts, truth, np.arange(6)), Features(values, np.ones(6, bool)))], folds=3
    )
    assert alone.held_out_by == "text" and alone.n_unlearned == 2
    assert max(one.score for one in alone.relations) < 0.8
    tied = [
        replace(one, triples=(replace(triple, head=replace(triple.head, id="A"), tail=replace(triple.tail, id="B")),))
        for one in TRAIN
        for triple in one.triples
    ]
    found = probed(replace(QUICK, scores=True, by_id=True), train=tied)
    assert found.knowledge.held_out_by == "text" and any("by their texts alone" in note for note in found.notes)
