"""The two linear models: scikit-learn's answers from a few arrays, and what each feature added to them."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from infuser.errors import CheckpointError, InputError
from infuser.relations import classifier
from infuser.relations.classifier import Decided, Linear, Thresholds, TwoStage
from infuser.relations.examples import NO_RELATION


def made_up(n_classes, n_rows=60, *, seed=0):
    """Return features (one of them always the same) and classes that they tell, more or less."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_rows)
    features = rng.normal(size=(n_rows, 5)).astype(np.float32) * [1, 10, 0.01, 1, 1] + 3
    features[:, 0] += truth
    features[:, 1] += 5 * (truth == 1)
    features[:, 4] = 7
    return features.astype(np.float32), [f"P{number}" for number in truth]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("strength", [0.1, 10])
def test_probabilities_are_those_of_scikit_learn(n_classes, strength, monkeypatch):
    features, truth = made_up(n_classes)
    ours = Linear.fitted(features, truth, strength=strength)
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000)).fit(
        features.astype(np.float64), truth
    )
    others = made_up(n_classes, 33, seed=1)[0]
    assert ours.classes == tuple(theirs.classes_)
    assert ours.weights.shape == (1 if n_classes == 2 else n_classes, 5)
    expected = theirs.predict_proba(others.astype(np.float64))
    np.testing.assert_allclose(ours.probabilities(others), expected, rtol=0, atol=1e-9)
    monkeypatch.setattr(classifier, "_ROWS", 7)  # portions change nothing
    np.testing.assert_allclose(ours.probabilities(others), expected, rtol=0, atol=1e-9)


def test_one_class_is_certain():
    features, _ = made_up(2)
    model = Linear.fitted(features, ["P1"] * len(features))
    assert model.classes == ("P1",)
    assert (model.probabilities(features) == 1).all()
    assert model.probabilities(features).shape == (60, 1)
    assert not model.centred().any() and model.centred().shape == (1, 5)


def test_no_rows_have_no_probabilities():
    model = Linear.fitted(*made_up(3))
    assert model.probabilities(np.zeros((0, 5), np.float32)).shape == (0, 3)


def test_nothing_to_learn_from_is_said():
    with pytest.raises(InputError, match="nothing to learn from"):
        Linear.fitted(np.zeros((0, 5), np.float32), [])


def test_extreme_features_stay_probabilities():
    for n_classes in (2, 3):
        model = Linear.fitted(*made_up(n_classes))
        with np.errstate(over="raise", invalid="raise"):
            answers = model.probabilities(np.array([[1e30, -1e30, 0, 0, 0]], np.float32))
        assert answers.sum() == pytest.approx(1) and np.isfinite(answers).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_relation_is_made_of_features_that_are_no_numbers(n_classes):
    features, _ = made_up(n_classes)
    features[3, 1] = np.nan
    with pytest.raises(CheckpointError, match="not a number"):
        Linear.fitted(*made_up(n_classes)).probabilities(features)


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
def test_a_fit_that_stops_too_early_is_warned_about(caplog):
    with caplog.at_level(logging.WARNING, logger="infuser"):
        stopped = Linear.fitted(*made_up(3), max_iter=2)
    assert not stopped.converged
    assert "3 classes" in caplog.text and "after 2 steps" in caplog.text and "max_iter" in caplog.text
    caplog.clear()
    assert Linear.fitted(*made_up(3)).converged
    assert not caplog.records


def two_stage(n_relations=3, **settings):
    features, relations = made_up(n_relations)
    nothing = np.random.default_rng(2).normal(size=(40, 5)).astype(np.float32)
    return TwoStage.fitted(features, relations, nothing, **settings), features, nothing


def test_the_gate_tells_relations_from_none_and_has_its_own_strength():
    model, features, nothing = two_stage()
    assert model.gate.classes == ("no", "yes")
    assert model.decide(features).gate.mean() > 0.8 > 0.2 > model.decide(nothing).gate.mean()
    tamed = two_stage(gate_strength=1e-4)[0]
    assert np.abs(tamed.gate.weights).max() < np.abs(model.gate.weights).max() / 10
    np.testing.assert_array_equal(tamed.which.weights, model.which.weights)


@pytest.mark.parametrize("none_class", [True, False])
@pytest.mark.parametrize("n_relations", [1, 2, 3])
def test_what_features_add_sums_to_the_score_of_the_decision(n_relations, none_class):
    model, features, _ = two_stage(n_relations, none_class=none_class)
    decided, classes = model.decide(features), model.which.classes
    told = model.contributions(features, decided.best)
    assert told.shape == features.shape
    logits = np.log(model.which.probabilities(features))  # up to a constant, which the average takes away
    biases = {1: np.zeros(1), 2: np.array([-1, 1]) * model.which.bias.sum() / 2}.get(len(classes), model.which.bias)
    for row in range(len(features)):
        p_yes = decided.gate[row]
        gate_score = np.log(p_yes / (1 - p_yes)) - model.gate.bias[0]
        scores = logits[row] - biases
        said = classes.index(decided.relations[decided.best[row]])
        assert told[row].sum() == pytest.approx(gate_score + scores[said] - scores.mean(), abs=1e-6)


def test_a_classifier_that_knows_none_tells_relations_only():
    paper, features, nothing = two_stage(none_class=False)
    ours = two_stage(none_class=True)[0]
    assert paper.which.classes == ("P0", "P1", "P2") == paper.relations == ours.relations
    assert ours.which.classes == ("P0", "P1", "P2", NO_RELATION)
    np.testing.assert_allclose(paper.decide(nothing).each.sum(axis=1), 1)
    assert ours.decide(nothing).each.sum(axis=1).mean() < 0.2 < 0.8 < ours.decide(features).each.sum(axis=1).mean()
    np.testing.assert_array_equal(ours.decide(features).each, ours.which.probabilities(features)[:, :3])
    np.testing.assert_array_equal(ours.gate.weights, paper.gate.weights)


def test_relations_keep_their_places_wherever_their_names_sort():
    features, relations = made_up(2)
    nothing = np.random.default_rng(2).normal(size=(40, 5)).astype(np.float32)
    names = [{"P0": "a", "P1": "z"}[one] for one in relations]  # "no_relation" sorts between them
    model = TwoStage.fitted(features, names, nothing)
    assert model.which.classes == ("a", NO_RELATION, "z") and model.relations == ("a", "z")
    decided = model.decide(features)
    np.testing.assert_array_equal(decided.each, model.which.probabilities(features)[:, [0, 2]])
    best = np.array(decided.relations)[decided.best]
    assert (best == names).mean() > 0.7
    by_hand = model.gate.scaled(features) * model.gate.weights[0]
    by_hand += model.which.scaled(features) * model.which.centred()[np.where(best == "a", 0, 2)]
    np.testing.assert_allclose(model.contributions(features, decided.best), by_hand, atol=1e-12)


def test_weights_are_told_against_the_average_of_all_classes():
    given = {"mean": np.zeros(2), "scale": np.ones(2)}
    three = Linear(("a", "b", "c"), **given, weights=np.array([[1.0, 5], [2, 5], [6, 5]]), bias=np.zeros(3))
    assert three.centred().tolist() == [[-2, 0], [-1, 0], [3, 0]]
    two = Linear(("a", "b"), **given, weights=np.array([[4.0, -2]]), bias=np.zeros(1))
    assert two.centred().tolist() == [[-2, 1], [2, -1]]


def test_a_feature_that_never_changes_adds_nothing():
    model, features, _ = two_stage(none_class=False)
    assert features[:, 4].std() == 0
    told = model.which.scaled(features) * model.which.centred()[0]
    assert not told[:, 4].any() and told[:, 0].any()


def test_a_decision_needs_both_probabilities_above_their_thresholds():
    decided = Decided(
        np.array([0.9, 0.7, 0.71, 0.9]), np.array([[0.5, 0.3], [0.5, 0.3], [0.1, 0.2], [0.19, 0.21]]), ("P1", "P2")
    )
    assert decided.best.tolist() == [0, 0, 1, 1]
    assert decided.best_probability.tolist() == [0.5, 0.5, 0.2, 0.21]
    assert decided.accepted(Thresholds()).tolist() == [True, False, False, True]  # above, not at
    assert decided.accepted(Thresholds(0.5, 0.0)).tolist() == [True] * 4
    assert decided.accepted(Thresholds(0.8, 0.4)).tolist() == [True, False, False, False]


@pytest.mark.parametrize("wrong", [{"gate": 1.0}, {"gate": -0.1}, {"best": 1.5}, {"best": float("nan")}])
def test_thresholds_lie_between_0_and_1(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        Thresholds(**wrong)


@pytest.mark.parametrize("n_relations", [1, 2, 3])
def test_arrays_give_the_same_model_back(n_relations):
    model, features, _ = two_stage(n_relations)
    model = replace(model, thresholds=Thresholds(0.6, 0.3))
    again = TwoStage.from_tensors(model.tensors(), model.which.classes, Thresholds(0.6, 0.3))
    assert set(model.tensors()) == {
        f"{part}.{name}" for part in ("gate", "which") for name in ("mean", "scale", "weights", "bias")
    }
    np.testing.assert_array_equal(again.decide(features).gate, model.decide(features).gate)
    np.testing.assert_array_equal(again.decide(features).each, model.decide(features).each)
    assert again.relations == model.relations
    assert again.thresholds == model.thresholds


@pytest.mark.parametrize(("n_relations", "n_none"), [(60, 0), (0, 40)])
def test_a_gate_without_two_sides_is_refused(n_relations, n_none):
    features, relations = made_up(2)
    nothing = np.zeros((n_none, 5), np.float32)
    with pytest.raises(InputError, match=f"there are {n_relations} and {n_none}"):
        TwoStage.fitted(features[:n_relations], relations[:n_relations], nothing)
