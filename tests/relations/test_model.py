"""AttentionRelations: scikit-learn's conventions, what it learns, and a file that is the same every time."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import numpy as np
import pytest
from miniatures import tiny_host, tiny_tokenizer
from relations.small_relations import small_data, small_encoder
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import infuser
from infuser import Entities, Kam
from infuser.errors import CheckpointError, InputError
from infuser.relations.candidates import CandidateRule
from infuser.relations.classifier import Thresholds
from infuser.relations.encoders import Encoder, digest_of_encoder, open_encoder
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.relations.extraction import propose_all
from infuser.relations.model import AttentionRelations
from infuser.relations.scores import score_relations
from infuser.types import Span

TRAIN, DEV, TEST = small_data()
FEW = TRAIN[::3]


@pytest.fixture(scope="module")
def encoder():
    return small_encoder()


@pytest.fixture(scope="module")
def fitted(encoder):
    return AttentionRelations(encoder, negatives=2).fit(TRAIN)


@pytest.fixture(scope="module")
def checkpoint(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    encoder.model.save_pretrained(folder)
    encoder.tokenizer.save_pretrained(folder)
    return folder


def truth_of(texts):
    return [triple.relation for text in texts for triple in text.triples]


def with_others(texts):
    """Return texts with a second triple each: from the tail to the third thing, which is no relation."""
    return [
        replace(
            text,
            triples=(
                *text.triples,
                replace(text.triples[0], head=text.triples[0].tail, tail=text.spans[0], relation=NO_RELATION),
            ),
        )
        for text in texts
    ]


# --- scikit-learn's conventions --------------------------------------------------------------------------------------


def test_settings_are_parameters_that_can_be_read_changed_and_cloned():
    model = AttentionRelations("somewhere", relations=["P1"], strength=0.5, rule=CandidateRule(max_pairs=7))
    parameters = model.get_params()
    assert (parameters["encoder"], parameters["relations"], parameters["strength"]) == ("somewhere", ["P1"], 0.5)
    twin = clone(model)
    assert twin is not model and twin.get_params() == parameters
    assert twin.set_params(strength=2.0, kind="embeddings") is twin
    assert (twin.strength, twin.kind, model.strength) == (2.0, "embeddings", 0.5)
    with pytest.raises(ValueError, match="wieght"):
        twin.set_params(wieght=1)


def test_a_clone_of_a_fitted_model_knows_nothing_and_learns_the_same(fitted):
    twin = clone(fitted)
    with pytest.raises(NotFittedError):
        check_is_fitted(twin)
    check_is_fitted(fitted)
    np.testing.assert_array_equal(twin.fit(TRAIN).predict_proba(TEST), fitted.predict_proba(TEST))


@pytest.mark.parametrize("asked", ["predict", "predict_proba", "score", "decide"])
def test_nothing_is_answered_before_anything_was_learned(encoder, asked):
    with pytest.raises(NotFittedError, match="fit"):
        getattr(AttentionRelations(encoder), asked)(TEST)
    assert not hasattr(AttentionRelations(encoder), "classes_")
    assert not hasattr(AttentionRelations(encoder), "n_features_in_")


def test_probabilities_are_one_column_per_class_and_sum_to_one(fitted):
    texts = with_others(TEST)
    answers = fitted.predict_proba(texts)
    assert fitted.classes_.tolist() == [NO_RELATION, "P1", "P2"]
    assert answers.shape == (2 * len(TEST), 3)
    np.testing.assert_allclose(answers.sum(axis=1), 1, atol=1e-12)
    assert (answers > -1e-12).all()
    decided, readable = fitted.decide(texts)
    assert readable.all()
    np.testing.assert_allclose(answers[:, 1:], decided.gate[:, None] * decided.each)


@pytest.mark.parametrize(("gate", "best"), [(0.7, 0.2), (0.3, 0.9), (0.99, 0.99)])
def test_an_answer_is_the_best_relation_if_both_probabilities_pass(fitted, gate, best):
    model = clone(fitted)
    model.__dict__.update(fitted.__dict__ | {"model_": replace(fitted.model_, thresholds=Thresholds(gate, best))})
    texts = with_others(TEST)
    decided, _ = model.decide(texts)
    expected = [
        model.classes_[1 + each.argmax()] if sure > gate and each.max() > best else NO_RELATION
        for sure, each in zip(decided.gate, decided.each, strict=True)
    ]
    assert model.predict(texts).tolist() == expected
    right = np.array(expected) == truth_of(texts)
    assert model.score(texts) == pytest.approx(right.mean())
    weights = np.arange(len(right)) + 1.0
    assert model.score(texts, sample_weight=weights) == pytest.approx((right * weights).sum() / weights.sum())


def test_the_number_of_features_is_said(encoder, fitted):
    assert fitted.n_features_in_ == 3 * 8 * 6
    assert AttentionRelations(encoder, trigger=False).fit(FEW).n_features_in_ == 3 * 8 * 2
    assert AttentionRelations(encoder, kind="embeddings").fit(FEW).n_features_in_ == 4 * 3 * 32


# --- what is learned -----------------------------------------------------------------------------------------------


def test_relations_of_texts_that_were_not_seen_are_told(fitted):
    assert fitted.score(TEST) > 0.8  # a third of it would be chance
    assert fitted.score(with_others(TEST)) > 0.8
    assert fitted.labels_ == {"P1": "location", "P2": "sells"}
    assert fitted.predict([]).shape == (0,) and fitted.predict_proba([RelationText("no triples")]).shape == (0, 3)


def test_relations_that_are_not_wanted_are_none(encoder):
    model = AttentionRelations(encoder, relations=["P2"], negatives=1).fit(TRAIN)
    assert model.classes_.tolist() == [NO_RELATION, "P2"]
    assert set(model.labels_) == {"P2"}
    answers = model.predict(TEST)
    expected = [relation if relation == "P2" else NO_RELATION for relation in truth_of(TEST)]
    assert (answers == expected).mean() > 0.9
    assert model.score(TEST) == pytest.approx((answers == expected).mean())


def test_relations_can_be_given_beside_the_texts(encoder, fitted):
    blank = [replace(text, triples=tuple(replace(one, relation="?") for one in text.triples)) for text in TRAIN]
    model = AttentionRelations(encoder, negatives=2).fit(blank, truth_of(TRAIN))
    np.testing.assert_array_equal(model.predict_proba(TEST), fitted.predict_proba(TEST))
    assert model.score(blank, truth_of(TRAIN)) == fitted.score(TRAIN)
    swapped = [{"P1": "P2", "P2": "P1"}[relation] for relation in truth_of(TEST)]
    assert fitted.score(TEST, swapped) < 0.1
    with pytest.raises(InputError, match="3 relations were given for 108 triples"):
        AttentionRelations(encoder).fit(TRAIN, ["P1"] * 3)


def test_data_without_a_relation_is_refused(encoder):
    with pytest.raises(InputError, match="no triple with a relation in 1 texts"):
        AttentionRelations(encoder).fit([RelationText("the river")])
    with pytest.raises(InputError, match="P8, P9"):
        AttentionRelations(encoder, relations=["P8", "P9"]).fit(TRAIN)
    denied = [replace(text, triples=tuple(replace(one, negated=True) for one in text.triples)) for text in TRAIN]
    with pytest.raises(InputError, match="no triple with a relation"):
        AttentionRelations(encoder).fit(denied)
    with pytest.raises(InputError, match="RelationText"):
        AttentionRelations(encoder).fit(["the river lies on the city"])
    with pytest.raises(InputError, match="RelationText"):
        AttentionRelations(encoder).fit(TRAIN[0])


def test_what_is_set_after_learning_changes_no_answer(encoder):
    model = AttentionRelations(encoder, negatives=1).fit(FEW)
    answers = model.predict_proba(TEST)
    model.set_params(pooling="mean", kind="embeddings", trigger=False)
    np.testing.assert_array_equal(model.predict_proba(TEST), answers)


def test_another_encoder_is_read_when_it_is_set(encoder):
    model = AttentionRelations(encoder, negatives=1).fit(FEW)
    other = small_encoder(num_hidden_layers=2)
    assert model.set_params(encoder=other).fit(FEW).n_features_in_ == 2 * 8 * 6


def test_one_relation_by_name_and_texts_without_triples_are_refused(encoder, fitted):
    with pytest.raises(InputError, match="Give a list of ids"):
        AttentionRelations(encoder, relations="P1").fit(FEW)
    with pytest.raises(InputError, match="no triple to score"):
        fitted.score([RelationText("the river")])


def test_triggers_are_read_if_every_triple_has_one(encoder, fitted):
    assert fitted.trigger_
    assert set(fitted.triggers_.phrases) == {"lies on", "sell"}
    pairs = AttentionRelations(encoder).fit(small_data(triggers=False)[0][::3])
    assert not pairs.trigger_ and pairs.n_features_in_ == 3 * 8 * 2
    assert len(set(pairs.predict(TEST))) > 1
    mixed = AttentionRelations(encoder).fit([*FEW, small_data(triggers=False)[0][0]])
    assert not mixed.trigger_


def test_a_denied_triple_teaches_nothing(encoder, fitted):
    denied = [
        replace(text, triples=(*text.triples, replace(text.triples[0], relation="P9", negated=True))) for text in FEW
    ]
    assert AttentionRelations(encoder).fit(denied).classes_.tolist() == fitted.classes_.tolist()


def test_one_relation_alone_is_learned(encoder, tmp_path):
    only = [text for text in TRAIN if text.triples[0].relation == "P1"]
    for none_class in (True, False):
        model = AttentionRelations(encoder, none_class=none_class).fit(only[::3])
        assert model.classes_.tolist() == [NO_RELATION, "P1"]
        model.save(tmp_path / "model")
        again = AttentionRelations.load(tmp_path / "model", encoder=encoder)
        np.testing.assert_array_equal(again.predict_proba(TEST), model.predict_proba(TEST))


def test_triples_that_cannot_be_read_are_left_out_and_answered_with_none(encoder, caplog):
    text = f"the river lies on the {'big ' * 80}city"
    start = len(text) - 4
    cut = RelationText(text, (Triple(Span(4, 9), Span(start, start + 4), "P1", Span(10, 17)),))
    with caplog.at_level(logging.WARNING, logger="infuser"):
        model = AttentionRelations(encoder, gate=0.0, best=0.0).fit([*FEW, cut])  # it tells whatever it reads
    assert model.n_unread_ >= 1 and "cannot be read" in caplog.text
    assert model.predict([cut, TEST[0]])[0] == NO_RELATION != model.predict([cut, TEST[0]])[1]
    assert model.predict_proba([cut]).tolist() == [[1, 0, 0]]


def test_too_many_triples_are_drawn_from_by_the_seed(encoder, caplog):
    with caplog.at_level(logging.WARNING, logger="infuser"):
        one, same, other = (
            AttentionRelations(encoder, negatives=1, most_triples=20, seed=seed).fit(FEW).predict_proba(TEST)
            for seed in (0, 0, 1)
        )
    assert "10 of 36 texts are used" in caplog.text
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_thresholds_are_set_where_dev_texts_score_best(encoder):
    model = AttentionRelations(encoder, gate=0.9, best=0.9, negatives=2).fit(TRAIN, dev=DEV)
    untuned = AttentionRelations(encoder, gate=0.9, best=0.9, negatives=2).fit(TRAIN)
    assert untuned.thresholds_ == Thresholds(0.9, 0.9)
    np.testing.assert_array_equal(model.model_.which.weights, untuned.model_.which.weights)
    proposals = [of_text for of_text, _ in propose_all(model, DEV)]

    def f1(thresholds):
        told = [[one.found.triple for one in of_text if one.accepted(thresholds)] for of_text in proposals]
        return score_relations(DEV, told).total.f1

    tuned = f1(model.thresholds_)
    grid = [Thresholds(gate, best) for gate in (0.05, 0.3, 0.5, 0.7, 0.8, 0.95) for best in (0.05, 0.2, 0.5, 0.8, 0.95)]
    assert tuned >= max(f1(one) for one in grid) - 1e-12
    assert tuned > 0.7 and tuned > f1(Thresholds(0.0, 0.0))


# --- files ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "relations"
    model = AttentionRelations(checkpoint, rule=CandidateRule(max_pairs=50)).fit(FEW, dev=DEV[::3])
    model.save(folder)
    return model, folder


def test_a_saved_model_answers_bit_for_bit_as_before(saved):
    model, folder = saved
    again = AttentionRelations.load(folder)
    np.testing.assert_array_equal(again.predict_proba(TEST), model.predict_proba(TEST))
    np.testing.assert_array_equal(again.predict(TEST), model.predict(TEST))
    assert again.thresholds_ == model.thresholds_
    assert (again.labels_, again.triggers_, again.trigger_) == (model.labels_, model.triggers_, model.trigger_)
    wanted = model.get_params() | {"encoder": str(model.encoder)}
    assert again.get_params() == wanted
    again.save(folder.parent / "again")
    assert files_of(folder.parent / "again") == files_of(folder)


def files_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_the_same_data_and_seed_give_the_same_bytes(saved, checkpoint, tmp_path):
    model = AttentionRelations(checkpoint, rule=CandidateRule(max_pairs=50)).fit(FEW, dev=DEV[::3])
    model.save(tmp_path / "twin")
    assert files_of(tmp_path / "twin") == files_of(saved[1])


def test_files_are_json_and_safetensors_and_no_pickle(saved):
    files = files_of(saved[1])
    assert set(files) == {"relations.json", "relations.safetensors", "digests.json"}
    assert json.loads(files["relations.json"])["kind"] == "infuser relations"
    length = int.from_bytes(files["relations.safetensors"][:8], "little")
    assert "gate.weights" in json.loads(files["relations.safetensors"][8 : 8 + length])


def test_an_encoder_with_a_head_or_elsewhere_is_the_same_encoder(saved, checkpoint, encoder, tmp_path):
    with_head = tiny_host(
        "bert", "sequence-classification", hidden_size=32, num_attention_heads=8, num_hidden_layers=3, seed=5
    )
    with_head.base_model.load_state_dict(encoder.model.state_dict())
    for same in (encoder, Encoder(with_head, tiny_tokenizer("bert"))):
        again = AttentionRelations.load(saved[1], encoder=same)
        np.testing.assert_allclose(again.predict_proba(TEST), saved[0].predict_proba(TEST), atol=1e-6)


def test_a_checkpoint_without_a_pooler_is_the_same_encoder_every_time(tmp_path):
    tiny_host("bert", "masked-lm").save_pretrained(tmp_path)  # its pooler is drawn anew with every load
    tiny_tokenizer("bert").save_pretrained(tmp_path)
    first, second = open_encoder(tmp_path), open_encoder(tmp_path)
    assert not (first.model.pooler.dense.weight == second.model.pooler.dense.weight).all()
    assert digest_of_encoder(first) == digest_of_encoder(second)


def test_use_does_not_make_another_encoder(encoder):
    mark = digest_of_encoder(encoder)
    encoder.tokenizer(["a", "the river"], padding=True, truncation=True, max_length=9)
    assert digest_of_encoder(encoder) == mark
    encoder.tokenizer("a")
    assert digest_of_encoder(encoder) == mark


def other_tokenizer():
    tokenizer = tiny_tokenizer("bert")
    tokenizer.add_tokens(["glipizide"])
    return tokenizer


@pytest.mark.parametrize(
    "make",
    [
        lambda given: replace(small_encoder(seed=1), base="the other one"),
        lambda given: replace(given, tokenizer=other_tokenizer(), base="the other one"),
        lambda given: replace(small_encoder(num_attention_heads=4), base="the other one"),
    ],
    ids=["weights", "tokenizer", "heads"],
)
def test_another_encoder_is_refused_and_both_are_named(saved, encoder, checkpoint, make):
    other = make(encoder)
    with pytest.raises(CheckpointError, match="another encoder") as refused:
        AttentionRelations.load(saved[1], encoder=other)
    message = str(refused.value)
    assert str(checkpoint) in message and "the other one" in message
    assert digest_of_encoder(encoder)[:12] in message and digest_of_encoder(other)[:12] in message
    assert len(message) < 600


def test_layers_that_share_weights_are_counted():
    encoders = [Encoder(tiny_host("albert", num_hidden_layers=n), tiny_tokenizer("albert")) for n in (2, 3)]
    assert digest_of_encoder(encoders[0]) != digest_of_encoder(encoders[1])


def infused_with(*names):
    model = small_encoder().model
    return infuser.infuse(
        model, Kam(), sources=[Entities(dict.fromkeys(names, "thing"))], tokenizer=tiny_tokenizer("bert")
    )


def test_an_infused_model_is_read_with_its_knowledge_and_other_knowledge_is_refused(tmp_path):
    infused = infused_with("river", "the city")
    model = AttentionRelations(infused).fit(FEW)
    assert model.reader().sources == infused.sources
    model.save(tmp_path / "relations")
    with pytest.raises(CheckpointError, match=r"live model.*encoder="):
        AttentionRelations.load(tmp_path / "relations")
    infused.save(tmp_path / "infused")
    for same in (infused, tmp_path / "infused"):
        again = AttentionRelations.load(tmp_path / "relations", encoder=same)
        np.testing.assert_array_equal(again.predict_proba(TEST), model.predict_proba(TEST))
    for other in (infused_with("lake"), replace(small_encoder(), base="plain")):
        with pytest.raises(CheckpointError, match=r"live model.*other knowledge") as refused:
            AttentionRelations.load(tmp_path / "relations", encoder=other)
        assert len(str(refused.value)) < 600


def broken(part, change):
    def damage(folder):
        card = json.loads((folder / "relations.json").read_text())
        change(card)
        (folder / "relations.json").write_text(json.dumps(card))

    damage.__name__ = part
    return damage


DAMAGES = [
    lambda folder: (folder / "relations.json").write_text("{"),
    lambda folder: (folder / "relations.json").write_text("[]"),
    lambda folder: (folder / "relations.json").unlink(),
    lambda folder: (folder / "relations.safetensors").unlink(),
    lambda folder: (folder / "relations.safetensors").write_bytes(b"nothing"),
    lambda folder: (folder / "relations.safetensors").write_bytes((folder / "relations.safetensors").read_bytes()[:-9]),
    broken("version", lambda card: card.update(version=99)),
    broken("encoder", lambda card: card.pop("encoder")),
    broken("encoder", lambda card: card.update(encoder="bert")),
    broken("shape", lambda card: card.update(shape=[3, 8, 2])),
    broken("classes", lambda card: card["classes"].pop()),
    broken("classes", lambda card: card.update(classes=None)),
    broken("thresholds", lambda card: card["thresholds"].update(gate=7)),
    broken("settings", lambda card: card["settings"].update(colour="red")),
    broken("rule", lambda card: card["rule"].update(max_pairs=-1)),
    broken("trigger words", lambda card: card.update(trigger_words=[])),
    broken("converged", lambda card: card.pop("converged")),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused(saved, encoder, damage, tmp_path):
    folder = tmp_path / "relations"
    folder.mkdir()
    for name, content in files_of(saved[1]).items():
        (folder / name).write_bytes(content)
    damage(folder)
    with pytest.raises(CheckpointError, match="relations"):
        AttentionRelations.load(folder, encoder=encoder)


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
def test_a_model_that_did_not_converge_says_so_after_loading_too(encoder, tmp_path):
    model = AttentionRelations(encoder, max_iter=2).fit(FEW)
    model.save(tmp_path / "model")
    again = AttentionRelations.load(tmp_path / "model", encoder=encoder)
    assert not model.model_.gate.converged
    assert (again.model_.gate.converged, again.model_.which.converged) == (False, model.model_.which.converged)
