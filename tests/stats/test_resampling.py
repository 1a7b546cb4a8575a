from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import infuser.tasks.catalogue  # noqa: F401  # enters the tasks into the registry
from infuser.registry import TASKS
from infuser.stats.intervals import bootstrap_values
from infuser.stats.metrics import get_metric
from infuser.stats.resampling import SLOW_ROUNDS, find_way, resampled_scores, slow_way

N = 60


@dataclass(frozen=True)
class ByMetric:
    """Judges logits by one of our metrics, as most tasks do."""

    metric: str

    def score(self, golds: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        return {self.metric: get_metric(self.metric)(np.asarray(predictions), np.asarray(golds))}


class Overlap:
    """Judges written answers one by one, as question answering does."""

    def score(self, golds: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        pairs = zip(golds, predictions, strict=True)
        return {"f1": float(np.mean([len({*gold} & {*said}) / len({*gold} | {*said}) for gold, said in pairs]))}


class Longest:
    """A metric that nobody has a fast way for."""

    def score(self, golds: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        return {"longest": float(np.percentile([len(one) for one in predictions], 90))}


def some(n_classes: int, *, n: int = N, seed: int = 0) -> tuple[list[Any], list[list[Any]]]:
    """Return golds and three runs: logits of so many classes, or of one number."""
    random = np.random.default_rng(seed)
    if n_classes == 1:
        golds = random.integers(0, 11, n) / 2
        return golds.tolist(), [(golds[:, None] + random.normal(size=(n, 1))).round(1).tolist() for _ in range(3)]
    golds = random.integers(0, n_classes, n)
    runs = [random.normal(size=(n, n_classes)) + 1.2 * np.eye(n_classes)[golds] for _ in range(3)]
    return golds.tolist(), [run.tolist() for run in runs]


def slowly(task: Any, metric: str, golds: list[Any], runs: list[list[Any]], rounds: int) -> np.ndarray:
    way = slow_way(task, metric, golds, runs)
    return bootstrap_values(way.labels, [[run] for run in way.runs], metric=way.metric, rounds=rounds)


@pytest.mark.parametrize(
    ("metric", "n_classes"),
    [
        ("accuracy", 2),
        ("accuracy", 5),
        ("f1", 2),
        ("f1", 4),
        ("macro-f1", 3),
        ("matthews", 2),
        ("matthews", 4),
        ("auc", 2),
        ("pearson", 1),
        ("spearman", 1),
        ("mse", 1),
        ("relation-f1", 5),
        ("relation-precision", 5),
        ("relation-recall", 5),
    ],
)
def test_all_rounds_at_once_are_what_the_task_says_round_by_round(metric: str, n_classes: int) -> None:
    golds, runs = some(n_classes)
    task = ByMetric(metric)
    assert find_way(task, metric, golds, runs).is_fast
    fast = resampled_scores(task, metric, golds, runs, rounds=12)
    np.testing.assert_allclose(fast, slowly(task, metric, golds, runs, 12), rtol=0, atol=1e-12)


def test_undefined_rounds_and_answers_that_are_all_the_same_agree_too() -> None:
    golds, runs = (
        [0, 0, 1, 0, 0, 0],
        [[[0.1, 0.2]] * 6, [[0.3, 0.1], [0.1, 0.9], [0.4, 0.5], [0.2, 0.1]] + [[1.0, 0.0]] * 2],
    )
    for metric in ("auc", "f1", "matthews"):
        assert find_way(ByMetric(metric), metric, golds, runs).is_fast
        fast = resampled_scores(ByMetric(metric), metric, golds, runs, rounds=24)
        np.testing.assert_allclose(fast, slowly(ByMetric(metric), metric, golds, runs, 24), atol=1e-12)
        assert np.isnan(fast).any() == (metric == "auc")  # about every third resample lacks class 1
    numbers, level = [1.0, 1.0, 2.0, 1.0], [[[3.0]] * 4, [[1.0], [2.0], [2.0], [2.0]]]
    for metric in ("pearson", "spearman"):
        assert find_way(ByMetric(metric), metric, numbers, level).is_fast
        fast = resampled_scores(ByMetric(metric), metric, numbers, level, rounds=24)
        np.testing.assert_allclose(fast, slowly(ByMetric(metric), metric, numbers, level, 24), atol=1e-12)
        assert (fast[:, 0][np.isfinite(fast[:, 0])] == 0).all() and np.isnan(fast).any()


def test_a_mean_over_examples_is_found_by_judging_them_one_by_one() -> None:
    random = np.random.default_rng(0)
    golds = [list("abc"[: 1 + at % 3]) for at in range(N)]
    runs = [[random.choice(list("abcd"), 2).tolist() for _ in range(N)] for _ in range(2)]
    assert find_way(Overlap(), "f1", golds, runs).is_fast
    fast = resampled_scores(Overlap(), "f1", golds, runs, rounds=12)
    np.testing.assert_allclose(fast, slowly(Overlap(), "f1", golds, runs, 12), atol=1e-12)


def test_examples_that_a_task_leaves_out_and_means_over_relations_are_fast_too() -> None:
    task = TASKS["lama"](data="")
    random = np.random.default_rng(1)
    golds = [{"relation": f"P{at % 4}", "object": str(at)} for at in range(N)]
    ranks = [[int(random.integers(1, 4 + at % 4)) if at % 7 else None for at in range(N)] for _ in range(2)]
    runs = [[{"rank": rank, "words": 9} for rank in run] for run in ranks]
    for metric in task.metrics:
        assert find_way(task, metric, golds, runs).is_fast
        fast = resampled_scores(task, metric, golds, runs, rounds=12)
        np.testing.assert_allclose(fast, slowly(task, metric, golds, runs, 12), atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "metric"), [("open-entity", "typing-micro-f1"), ("open-entity", "typing-precision"), ("figer", "")]
)
def test_several_labels_at_once_are_counted(kind: str, metric: str) -> None:
    task = TASKS[kind](data="")
    metric = metric or task.metrics[-1]
    random = np.random.default_rng(2)
    golds = random.integers(0, 2, (N, 4))
    runs = [(random.normal(size=(N, 4)) + golds - 1).tolist() for _ in range(2)]
    assert find_way(task, metric, golds.tolist(), runs).is_fast
    fast = resampled_scores(task, metric, golds.tolist(), runs, rounds=4)
    np.testing.assert_allclose(fast, slowly(task, metric, golds.tolist(), runs, 4), atol=1e-12)


def test_texts_of_one_query_are_drawn_together() -> None:
    golds = [{"label": at % 3 == 0, "group": f"query {at // 6}"} for at in range(N)]
    golds = [{**gold, "label": int(gold["label"])} for gold in golds]
    sizes: list[int] = []

    class Counting:
        def score(self, golds: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
            sizes.append(len(golds) % 6)
            return {"odd": float(len({gold["group"] for gold in golds}))}

    resampled_scores(Counting(), "odd", golds, [[[0.1, 0.2]] * N, [[0.2, 0.1]] * N], rounds=20)
    assert len(sizes) > 40 and set(sizes[-40:]) == {0}
    random = np.random.default_rng(1)
    logits = [random.normal(size=(N, 2)).tolist() for _ in range(2)]
    assert find_way(TASKS["relevance"](data="", k=0), "auc", golds, logits).is_fast


def test_labels_that_are_words_are_classes() -> None:
    class ByWord:
        def score(self, golds: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
            from sklearn.metrics import matthews_corrcoef

            return {"matthews": float(matthews_corrcoef(golds, predictions))}

    random = np.random.default_rng(3)
    golds = random.choice(["bird", "cat", "dog"], N).tolist()
    runs = [[gold if random.random() < 0.6 else "cat" for gold in golds] for _ in range(2)]
    assert find_way(ByWord(), "matthews", golds, runs).is_fast
    fast = resampled_scores(ByWord(), "matthews", golds, runs, rounds=20)
    np.testing.assert_allclose(fast, slowly(ByWord(), "matthews", golds, runs, 20), atol=1e-12)


def test_what_only_the_task_can_compute_is_asked_in_fewer_rounds() -> None:
    runs = [["x" * (at * 7 % 11) for at in range(N)] for _ in range(2)]
    assert not find_way(Longest(), "longest", [0] * N, runs).is_fast
    values = resampled_scores(Longest(), "longest", [0] * N, runs, rounds=5000)
    assert values.shape == (SLOW_ROUNDS, 2) and np.ptp(values) > 0


def test_scores_that_a_task_refuses_are_no_part_of_an_interval() -> None:
    class Picky:
        def score(self, golds: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
            if 0 not in [gold["at"] for gold in golds]:
                raise ZeroDivisionError
            return {"odd": float(np.percentile([len(one) for one in predictions], 90))}

    golds = [{"at": at, "name": f"name {at}"} for at in range(400)]  # names that are no groups
    values = resampled_scores(Picky(), "odd", golds, [["x" * (at % 11) for at in range(400)]] * 2, rounds=40)
    assert 0.2 < np.isnan(values[:, 0]).mean() < 0.6  # 1/e of all resamples lack any one example


def test_a_name_alone_does_not_make_a_metric_fast() -> None:
    class Other:
        def score(self, golds: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
            hits = np.asarray(predictions).argmax(axis=1) == golds
            return {"accuracy": float(np.mean(hits)) ** 2}

    golds, runs = some(2)
    assert not find_way(Other(), "accuracy", golds, runs).is_fast
    assert resampled_scores(Other(), "accuracy", golds, runs, rounds=20)[:, 0] == pytest.approx(
        resampled_scores(ByMetric("accuracy"), "accuracy", golds, runs, rounds=20)[:, 0] ** 2
    )


def test_a_thousand_rounds_of_a_real_dev_set_take_seconds() -> None:
    golds, runs = some(2, n=1043)
    began = time.process_time()
    values = resampled_scores(ByMetric("matthews"), "matthews", golds, runs * 3, rounds=1000)
    assert values.shape == (1000, 9) and time.process_time() - began < 10  # about one on a quiet core
