from __future__ import annotations

import time
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, roc_auc_score

from infuser.errors import InputError
from infuser.stats import weighted
from infuser.stats.intervals import bootstrap, mean_per_arm, paired_p_value, percentile_interval, t_interval
from infuser.stats.metrics import Metric, get_metric, mean_metric

AUC = get_metric("auc")


def test_an_interval_of_three_values_agrees_with_the_table_of_student() -> None:
    low, high = t_interval([1.0, 2.0, 3.0])  # mean 2, deviation 1, t = 4.303 for two degrees of freedom
    assert (low, high) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), rel=1e-6)


@pytest.mark.parametrize("values", [[0.79, 0.81], [0.9, 0.91, 0.88], [0.1, 0.5, 0.2, 0.9, 0.4]])
def test_t_interval_agrees_with_scipy(values: list[float]) -> None:
    expected = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert t_interval(values) == pytest.approx(expected)


def test_one_seed_and_seeds_that_are_alike_have_no_interval_and_no_p_value() -> None:
    equal_but_for_rounding = [0.3 - 0.2, 0.4 - 0.3, 0.8 - 0.7]
    assert len(set(equal_but_for_rounding)) > 1
    for values in ([], [0.8], [0.0, 0.0], [0.5, 0.5, 0.5], equal_but_for_rounding):
        assert t_interval(values) is None and paired_p_value(values) is None
    assert t_interval([0.5, 0.5, 0.5 + 1e-6]) is not None and paired_p_value([0.5, 0.5, 0.5 + 1e-6]) is not None


def test_p_value_of_differences_agrees_with_scipy() -> None:
    one, other = [0.81, 0.84, 0.80, 0.86], [0.79, 0.80, 0.81, 0.82]
    expected = stats.ttest_rel(one, other).pvalue
    assert paired_p_value(np.subtract(one, other).tolist()) == pytest.approx(expected)


@pytest.mark.parametrize("n_levels", [2, 5, 1000])
def test_auc_agrees_with_sklearn_also_with_ties(n_levels: int) -> None:
    random = np.random.default_rng(n_levels)
    labels = random.integers(0, 2, 300)
    scores = random.integers(0, n_levels, 300) / n_levels + (labels * 0.3).round(1)
    assert AUC(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    alone = weighted.auc(scores, labels == 1, np.ones((1, 300)))
    assert alone == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def test_constant_scores_have_an_auc_of_one_half() -> None:
    assert AUC([0.3, 0.3, 0.3, 0.3], [0, 1, 1, 0]) == 0.5


def test_weighted_auc_agrees_with_sklearn_on_the_examples_drawn() -> None:
    random = np.random.default_rng(1)
    labels, scores = random.integers(0, 2, 60), random.integers(0, 9, 60).astype(float)
    weights = random.integers(0, 4, (20, 60)).astype(float)
    expected = [roc_auc_score(labels, scores, sample_weight=row) for row in weights]
    np.testing.assert_allclose(weighted.auc(scores, labels == 1, weights), expected, atol=1e-12)


def test_rounds_without_one_of_the_classes_are_left_out() -> None:
    values = weighted.auc(np.array([0.1, 0.9]), np.array([False, True]), np.array([[1.0, 1.0], [2.0, 0.0]]))
    assert values[0] == 1.0 and np.isnan(values[1])
    assert percentile_interval(np.concatenate([np.full(200, 0.7), [np.nan]])) == pytest.approx((0.7, 0.7))
    assert percentile_interval(np.full(2000, np.nan)) is None


def test_bootstrap_interval_covers_the_true_difference_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], 100)
    truth = NormalDist().cdf(1.5 / 2**0.5) - NormalDist().cdf(1.0 / 2**0.5)
    n_trials, n_covered = 200, 0
    for trial in range(n_trials):
        shared = random.normal(size=200)  # both arms see the same hard examples, as real arms do
        # variance 1 within each class, for which the true AUC is known
        scores = [gain * labels + 0.6 * shared + 0.8 * random.normal(size=200) for gain in (1.0, 1.5)]
        values = bootstrap(AUC, scores, labels, rounds=300, seed=trial)
        interval = percentile_interval(values[:, 1] - values[:, 0])
        assert interval is not None
        n_covered += interval[0] <= truth <= interval[1]
    assert 0.90 <= n_covered / n_trials <= 0.99


def test_drawing_whole_groups_widens_the_interval_when_examples_repeat_each_other() -> None:
    random = np.random.default_rng(0)
    terms = np.arange(60)
    labels, scores = np.repeat(terms % 2, 8), np.repeat(terms % 2 + random.normal(size=60), 8)
    alone = percentile_interval(bootstrap(AUC, [scores], labels, rounds=500)[:, 0])
    whole = percentile_interval(bootstrap(AUC, [scores], labels, rounds=500, groups=np.repeat(terms, 8))[:, 0])
    assert alone is not None and whole is not None
    assert whole[1] - whole[0] > 2 * (alone[1] - alone[0])  # sqrt(8) in theory


def test_examples_of_one_group_are_drawn_together() -> None:
    groups = np.array(["a", "b", "b", "c", "c", "c"])
    drawn: list[tuple[int, ...]] = []

    def counts(scores: np.ndarray, labels: np.ndarray) -> float:
        drawn.append(tuple(np.bincount(labels, minlength=6)))
        return 0.0

    bootstrap(Metric("counts", counts, kind="own"), [np.zeros(6)], np.arange(6), groups=groups, rounds=50)
    assert len(set(drawn)) > 5
    assert all(one[1] == one[2] and one[3] == one[4] == one[5] and one[0] + one[1] + one[3] == 3 for one in drawn)


def test_any_metric_is_bootstrapped_on_the_same_resamples_as_auc() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 80)
    scores = [labels * 0.5 + random.random(80) for _ in range(2)]
    recomputed = Metric("by hand", lambda given, truth: float(roc_auc_score(truth, given)), kind="own")
    np.testing.assert_allclose(
        bootstrap(recomputed, scores, labels, rounds=30), bootstrap(AUC, scores, labels, rounds=30), atol=1e-12
    )
    exact = bootstrap(Metric("hits", accuracy_score, kind="own"), [labels], labels, rounds=30)
    assert (exact == 1.0).all()


def test_a_metric_that_weighs_examples_is_asked_for_all_rounds_at_once() -> None:
    asked = []

    def one_at_a_time(scores: np.ndarray, labels: np.ndarray) -> float:
        raise AssertionError("one round at a time")

    def all_at_once(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        asked.append(len(weights))
        return weights @ (labels == scores) / weights.sum(axis=1)

    labels, runs = np.arange(40) % 2, [np.ones(40, int)]
    fast = bootstrap(Metric("hits", one_at_a_time, all_at_once, kind="own"), runs, labels, rounds=30)
    slow = bootstrap(Metric("hits", accuracy_score, kind="own"), runs, labels, rounds=30)
    np.testing.assert_allclose(fast, slow)
    assert asked == [30]
    mean = mean_metric("hits", lambda scores, labels: scores == labels)
    np.testing.assert_allclose(bootstrap(mean, runs, labels, rounds=30), slow)


def test_same_seed_gives_the_same_rounds_and_pieces_of_memory_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 50)
    scores = [random.random(50)]
    first = bootstrap(AUC, scores, labels, rounds=40, seed=3)
    assert not np.array_equal(first, bootstrap(AUC, scores, labels, rounds=40, seed=4))
    monkeypatch.setattr("infuser.stats.intervals._CELLS_AT_ONCE", 350)  # seven rounds at a time
    np.testing.assert_array_equal(first, bootstrap(AUC, scores, labels, rounds=40, seed=3))


def test_two_thousand_rounds_of_a_demo_take_seconds() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 1000)
    scores = [labels + random.normal(size=1000) for _ in range(9)]
    began = time.process_time()
    assert mean_per_arm(bootstrap(AUC, scores, labels, rounds=2000), [3, 3, 3]).shape == (2000, 3)
    assert time.process_time() - began < 15  # about one on a quiet core


def test_group_ids_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="3 group ids for 2 test examples"):
        bootstrap(AUC, [np.array([0.1, 0.9])], np.array([0, 1]), groups=[1, 2, 3], rounds=5)
