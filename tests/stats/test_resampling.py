from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import infuser.tasks.catalogue  # noqa: F401  # enters the tasks into the registry
from infuser.registry import TASKS
from infuser.stats.intervals import RECOMPUTED_ROUNDS, bootstrap, resamples
from infuser.stats.metrics import METRICS, Metric, get_metric, mean_metric
from infuser.tasks.base import Task

N = 60


class Overlap(Task):
    """Judges written answers one by one, as question answering does."""

    metrics = ("f1",)

    def get_metric(self, name: str) -> Metric:
        def values(predictions: Sequence[Any], golds: Sequence[Any]) -> list[float]:
            pairs = zip(golds, predictions, strict=True)
            return [len({*gold} & {*given}) / len({*gold} | {*given}) for gold, given in pairs]

        return mean_metric(name, values)


class Longest(Task):
    """Has a score of its own and does not declare how it is resampled."""

    metrics = ("longest",)

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


def recomputed(metric: Metric) -> Metric:
    """Return the same metric without its weighted form, so that every round is computed from the examples drawn."""
    return replace(metric, weighted=None)


def assert_agree(metric: Metric, golds: Any, runs: Any, rounds: int) -> NDArray[np.float64]:
    """Check that all rounds at once are what the metric is of the examples drawn, and return them."""
    assert metric.weighted is not None
    fast = bootstrap(metric, runs, golds, rounds=rounds)
    np.testing.assert_allclose(fast, bootstrap(recomputed(metric), runs, golds, rounds=rounds), rtol=0, atol=1e-12)
    return fast


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
        ("auc", 1),
        ("auc", 2),
        ("auc", 4),
        ("pearson", 1),
        ("spearman", 1),
        ("mse", 1),
        ("semeval-f1", 7),
        ("relation-f1", 5),
        ("relation-macro-f1", 5),
        ("detection-f1", 5),
        ("micro-f1", 5),
        ("relation-precision", 5),
        ("relation-recall", 5),
    ],
)
def test_all_rounds_at_once_are_what_the_metric_is_round_by_round(metric: str, n_classes: int) -> None:
    golds, runs = some(n_classes)
    if metric == "auc" and n_classes == 1:
        golds = [int(gold > 2) for gold in golds]
    assert_agree(get_metric(metric), golds, runs, 12)


def test_every_metric_declares_how_it_is_resampled() -> None:
    assert [name for name, metric in METRICS.items() if metric.weighted is None] == ["ndcg"]


def test_undefined_rounds_and_answers_that_are_all_the_same_agree_too() -> None:
    golds, runs = (
        [0, 0, 1, 0, 0, 0],
        [[[0.1, 0.2]] * 6, [[0.3, 0.1], [0.1, 0.9], [0.4, 0.5], [0.2, 0.1]] + [[1.0, 0.0]] * 2],
    )
    for metric in ("auc", "f1", "matthews"):
        fast = assert_agree(get_metric(metric), golds, runs, 24)
        assert np.isnan(fast).any() == (metric == "auc")  # about every third resample lacks class 1
    numbers, level = [1.0, 1.0, 2.0, 1.0], [[[3.0]] * 4, [[1.0], [2.0], [2.0], [2.0]]]
    for metric in ("pearson", "spearman"):
        fast = assert_agree(get_metric(metric), numbers, level, 24)
        assert (fast[:, 0][np.isfinite(fast[:, 0])] == 0).all() and np.isnan(fast).any()


def test_a_mean_over_examples_is_declared_by_their_values() -> None:
    random = np.random.default_rng(0)
    golds = [list("abc"[: 1 + at % 3]) for at in range(N)]
    runs = [[random.choice(list("abcd"), 2).tolist() for _ in range(N)] for _ in range(2)]
    assert_agree(Overlap("").get_metric("f1"), golds, runs, 12)
    questions = TASKS["quasar-t"](data="")
    answers = [["the red cat" if at % 2 else "a dog"] for at in range(N)]
    given = [[str(random.choice(["red cat", "cat", "dog"])) for _ in range(N)] for _ in range(2)]
    for name in questions.metrics:
        assert 0 < assert_agree(questions.get_metric(name), answers, given, 12).mean() < 1


def test_examples_that_a_task_leaves_out_and_means_over_relations_are_fast_too() -> None:
    task = TASKS["lama"](data="")
    random = np.random.default_rng(1)
    golds = [{"relation": f"P{at % 4}", "object": str(at)} for at in range(N)]
    ranks = [[int(random.integers(1, 4 + at % 4)) if at % 7 else None for at in range(N)] for _ in range(2)]
    runs = [[{"rank": rank, "words": 9} for rank in run] for run in ranks]
    for metric in task.metrics:
        assert_agree(task.get_metric(metric), golds, runs, 12)
    choice = TASKS["lama-choice"](data="")
    golds = [{"relation": f"P{at % 4}", "label": at % 3} for at in range(N)]
    runs = [[{"answer": at % 2 if at % 5 else None} for at in range(N)], [{"answer": 1} for _ in range(N)]]
    for metric in choice.metrics:
        assert_agree(choice.get_metric(metric), golds, runs, 12)


def test_counts_of_texts_are_summed_before_they_are_divided() -> None:
    task = TASKS["attention-extraction"](data="")
    random = np.random.default_rng(3)
    runs = [random.integers(0, 5, (N, 4)).tolist() for _ in range(2)]
    for metric in task.metrics:
        assert_agree(task.get_metric(metric), [3] * N, runs, 12)


@pytest.mark.parametrize("kind", ["open-entity", "figer"])
def test_several_labels_at_once_are_counted(kind: str) -> None:
    task = TASKS[kind](data="")
    random = np.random.default_rng(2)
    golds = random.integers(0, 2, (N, 4))
    runs = [(random.normal(size=(N, 4)) + golds - 1).tolist() for _ in range(2)]
    for metric in task.metrics:
        assert_agree(task.get_metric(metric), golds.tolist(), runs, 4)


@pytest.mark.parametrize("kind", ["ddi", "biored-relations"])
def test_pairs_of_one_document_are_drawn_together(kind: str) -> None:
    task = TASKS[kind](data="")
    labels, runs = some(len(task.labels))
    golds = [{"label": label, "document": f"document {at // 6}"} for at, label in enumerate(labels)]
    assert task.dependent_groups(golds) == [gold["document"] for gold in golds]
    for metric in task.metrics:
        assert_agree(task.get_metric(metric), golds, runs, 12)


def test_texts_of_one_query_are_drawn_together() -> None:
    task = TASKS["relevance"](data="", k=3)
    golds = [{"label": int(at % 3 == 0), "group": f"query {at // 6}"} for at in range(N)]
    random = np.random.default_rng(1)
    logits = [random.normal(size=(N, 2)).round(1).tolist() for _ in range(2)]
    groups = task.dependent_groups(golds)
    assert groups == [gold["group"] for gold in golds]
    assert_agree(task.get_metric("auc"), golds, logits, 12)
    fast = bootstrap(task.get_metric("ndcg"), logits, golds, groups=groups, rounds=12)
    [weights] = resamples(N, groups, rounds=12)
    for run, given in enumerate(logits):
        for number, row in enumerate(weights):
            places = np.repeat(np.arange(N), row.astype(int))
            copy = np.concatenate([np.arange(times) for times in row.astype(int)])  # each draw of a query is its own
            drawn = [
                {**golds[at], "group": f"{golds[at]['group']} {one}"} for at, one in zip(places, copy, strict=True)
            ]
            expected = task.score(drawn, [given[at] for at in places])["ndcg"]
            assert fast[number, run] == pytest.approx(expected, abs=1e-12)


def test_a_score_that_a_task_does_not_declare_is_recomputed_in_fewer_rounds() -> None:
    runs = [["x" * (at * 7 % 11) for at in range(N)] for _ in range(2)]
    metric = Longest("").get_metric("longest")
    assert metric.weighted is None
    values = bootstrap(metric, runs, [0] * N, rounds=5000)
    assert values.shape == (RECOMPUTED_ROUNDS, 2) and np.ptp(values) > 0


def test_undefined_scores_are_no_part_of_an_interval() -> None:
    class Picky(Task):
        metrics = ("odd",)

        def score(self, golds: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
            if 0 not in [gold["at"] for gold in golds]:
                raise ZeroDivisionError
            return {"odd": float(np.percentile([len(one) for one in predictions], 90))}

    golds = [{"at": at} for at in range(400)]
    runs = [["x" * (at % 11) for at in range(400)]] * 2
    values = bootstrap(Picky("").get_metric("odd"), runs, golds, rounds=40)
    assert 0.2 < np.isnan(values[:, 0]).mean() < 0.6  # 1/e of all resamples lack any one example


def test_a_name_alone_does_not_make_a_metric_fast() -> None:
    class Other(Task):
        def score(self, golds: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
            hits = np.asarray(predictions).argmax(axis=1) == golds
            return {"accuracy": float(np.mean(hits)) ** 2}

    golds, runs = some(2)
    own = Other("").get_metric("accuracy")
    assert own.weighted is None
    assert bootstrap(own, runs, golds, rounds=20)[:, 0] == pytest.approx(
        bootstrap(get_metric("accuracy"), runs, golds, rounds=20)[:, 0] ** 2
    )


def test_a_thousand_rounds_of_a_real_dev_set_take_seconds() -> None:
    golds, runs = some(2, n=1043)
    began = time.process_time()
    values = bootstrap(get_metric("matthews"), runs * 3, golds, rounds=1000)
    assert values.shape == (1000, 9) and time.process_time() - began < 10  # about one on a quiet core
