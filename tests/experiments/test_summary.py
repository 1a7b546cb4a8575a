from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from experiments.bench_results import N, all_cells, cell, settings
from scipy import stats

from infuser.errors import InputError
from infuser.experiments.bench_table import BenchTable, Entry
from infuser.experiments.summary import summarise
from infuser.registry import TASKS
from infuser.reports.bench_table import table_grid, table_verdicts
from infuser.stats.metrics import get_metric
from infuser.tasks.glue_totals import glue_average


@pytest.fixture(scope="module")
def results() -> list[dict[str, Any]]:
    return all_cells()


@pytest.fixture(scope="module")
def table(results: list[dict[str, Any]]) -> BenchTable:
    return summarise(settings(), results, rounds=300)


def entry(table: BenchTable, method: str, task: str, host: str | None = None) -> Entry:
    return next(one for one in table.row(method, host).entries if one.column == task)


def test_values_means_intervals_and_p_values_agree_with_scipy(table: BenchTable, results: list[dict[str, Any]]) -> None:
    reached = {
        method: [
            one["scores"]["matthews"]
            for one in results
            if (one["cell"]["method"], one["cell"]["task"]) == (method, "cola")
        ]
        for method in ("plain", "kam")
    }
    kam = entry(table, "kam", "cola").first
    assert kam.per_seed == pytest.approx(reached["kam"]) and kam.seeds == (0, 1, 2)
    assert kam.mean == pytest.approx(np.mean(reached["kam"]))
    test = stats.ttest_rel(reached["kam"], reached["plain"])
    assert kam.difference is not None
    assert kam.difference.p_value == pytest.approx(test.pvalue)
    ends = test.confidence_interval(0.95)
    assert kam.difference.over_seeds == pytest.approx((ends.low, ends.high))
    low, high = kam.difference.over_examples or (0, 0)
    assert low < kam.difference.mean < high


def test_verdicts_need_both_intervals(table: BenchTable) -> None:
    verdicts = {
        (row.method, one.column): one.first.difference.verdict
        for row in table.rows
        for one in row.entries
        if one.first.difference is not None
    }
    assert verdicts["kam", "cola"] == "helps" and verdicts["kam", "mrpc"] == "hurts"
    assert verdicts["placebo", "cola"] == verdicts["placebo", "mrpc"] == "no evidence"
    assert entry(table, "plain", "cola").first.difference is None


def test_every_metric_of_a_task_is_there_and_what_it_cost(table: BenchTable) -> None:
    kam = entry(table, "kam", "mrpc")
    assert [one.metric for one in kam.measures] == ["f1", "accuracy"]
    assert kam.measures[1].difference is not None and kam.measures[1].difference.over_examples is not None
    assert (kam.extra_weights, kam.seconds, kam.peak_mib, kam.n_missing) == (1234, 11.0, 802.0, 0)
    assert table.columns[0].split == "dev" and table.n_missing == 0
    assert table.notes == tuple(
        f"{task}: trained on 9,000 examples, 100 held out, {N} of dev scored." for task in ("cola", "mrpc")
    )


def test_an_unfinished_run_has_a_table_that_says_so(results: list[dict[str, Any]]) -> None:
    some = [one for one in results if (one["cell"]["method"], one["cell"]["seed"]) not in {("kam", 2), ("plain", 0)}]
    table = summarise(settings(), some, rounds=100)
    kam = entry(table, "kam", "cola")
    assert kam.first.seeds == (0, 1) and kam.n_missing == 1
    assert kam.first.difference is not None and len(kam.first.difference.per_seed) == 1  # seed 1 is all that both have
    assert kam.first.difference.over_seeds is None and kam.first.difference.verdict == "no evidence"
    assert "Not finished: 4 of 18 cells are missing." in table.notes
    nothing = summarise(settings(), [], rounds=100)
    assert nothing.n_missing == 18 and entry(nothing, "kam", "cola").first.mean is None
    json.loads(nothing.to_json())


def test_published_numbers_stand_on_our_scale_beside_the_measured_ones(results: list[dict[str, Any]]) -> None:
    published = {
        "from": "Bai et al., Table 1",
        "scale": 100,
        "minilm": {
            "plain": {"cola": 50.1, "mrpc": {"f1": 88.7, "accuracy": 84.3}, "n_weights": 1000},
            "kam": {"cola": 53.7, "mrpc": {"f1": 89.2, "accuracy": 85.0}, "n_weights": 1250},
            "ernie": {"cola": 52.3, "other-task": 1.0},
            "elsewhere": {"other-task": 1.0},
        },
        "roberta": {"plain": {"cola": 63.8}},
    }
    table = summarise(settings(published=published), results, rounds=100)
    kam = entry(table, "kam", "cola").first
    assert kam.published == pytest.approx(0.537) and kam.published_difference == pytest.approx(0.036)
    assert entry(table, "kam", "mrpc").measures[1].published == pytest.approx(0.85)
    assert [(row.host, row.method) for row in table.rows if not row.runs] == [("minilm", "ernie"), ("roberta", "plain")]
    ernie = entry(table, "ernie", "cola").first
    assert ernie.mean is None and ernie.published_difference == pytest.approx(0.022)
    assert entry(table, "plain", "cola", "roberta").first.published_difference is None
    assert table.row("kam").published_weights == 1250 and table.scale == 100
    assert "Published: Bai et al., Table 1. Of its tasks, not run here: other-task." in table.notes


def test_every_metric_of_numbers_has_a_verdict_of_its_own() -> None:
    golds = np.linspace(0, 5, 80)

    def result(method: str, seed: int, noise: float) -> dict[str, Any]:
        made = cell(method, "cola", seed)
        numbers = golds + np.random.default_rng(seed).normal(scale=noise, size=80)
        scores = {name: get_metric(name)(numbers, golds) for name in ("pearson", "spearman")}
        told = {**made["cell"], "task": "sts-b"}
        return made | {
            "cell": told,
            "golds": golds.tolist(),
            "predictions": numbers[:, None].tolist(),
            "scores": scores,
        }

    cells = [result(method, seed, noise) for method, noise in (("plain", 2.0), ("kam", 0.5)) for seed in range(3)]
    numbers = settings(task={"sts-b": {"data": "x"}}, method={"plain": {}, "kam": {}})
    table = summarise(numbers, cells, rounds=100)
    assert [one.difference.verdict for one in entry(table, "kam", "sts-b").measures if one.difference] == ["helps"] * 2


def test_an_average_is_over_tasks_and_has_both_intervals(results: list[dict[str, Any]]) -> None:
    table = summarise(settings(average=True), results, rounds=200)
    kam, plain = entry(table, "kam", "average").first, entry(table, "plain", "average").first
    scores = [
        [one["scores"][metric] for one in results if one["cell"]["method"] == "kam" and one["cell"]["task"] == task]
        for task, metric in (("cola", "matthews"), ("mrpc", "f1"))
    ]
    assert kam.per_seed == pytest.approx(np.mean(scores, axis=0))
    assert kam.difference is not None and kam.mean is not None and plain.mean is not None
    assert kam.difference.mean == pytest.approx(kam.mean - plain.mean)
    assert kam.difference.over_seeds is not None and kam.difference.over_examples is not None
    part = summarise(settings(average=True), [one for one in results if one["cell"]["task"] == "cola"], rounds=100)
    assert entry(part, "kam", "average").first.mean is None


def test_where_all_of_glue_is_there_its_own_average_is_taken_with_and_without_wnli() -> None:
    names = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "mnli-mm", "qnli", "rte", "wnli")
    kinds = {name: {"kind": "mnli" if name == "mnli-mm" else name, "data": "x"} for name in names}
    made = []
    for at, (name, table) in enumerate(kinds.items()):
        metrics = {"mrpc": ["f1", "accuracy"], "qqp": ["f1", "accuracy"], "sts-b": ["pearson", "spearman"]}
        scores = dict.fromkeys(metrics.get(table["kind"], ["accuracy"]), 0.5 + at / 50)
        scores = {"matthews": 0.4} if name == "cola" else scores
        told = {"host": "minilm", "method": "plain", "task": name, "seed": 0}
        made.append(cell("plain", "cola", 0) | {"cell": told, "scores": scores})
    table = summarise(settings(task=kinds, average=True, method={"plain": {}}, seeds=[0]), made, rounds=100)
    scored = {one["cell"]["task"]: one["scores"] for one in made}
    assert [column.name for column in table.columns[-2:]] == ["average", "average with WNLI"]
    assert entry(table, "plain", "average").first.mean == pytest.approx(glue_average(scored))
    assert entry(table, "plain", "average with WNLI").first.mean == pytest.approx(glue_average(scored, with_wnli=True))


def test_other_versions_and_other_data_are_noted_and_not_compared_example_by_example() -> None:
    cells = [cell(method, "cola", seed) for method in ("plain", "kam") for seed in (0, 1)]
    cells[3] = cells[3] | {"versions": {"infuser": "0.1.0", "torch": "2.7.0"}}
    cells[3]["data"] = {**cells[3]["data"], "score": {"split": "dev", "n": N, "digest": "zz"}}
    cells[3]["golds"] = [1 - gold for gold in cells[3]["golds"]]
    table = summarise(settings(method={"plain": {}, "kam": {}}), cells, rounds=100)
    assert any("different versions of torch: 2.6.0 (3 cells), 2.7.0 (1 cells)" in note for note in table.notes)
    assert any(note.startswith("cola: 2 different versions of its score data") for note in table.notes)
    difference = entry(table, "kam", "cola").first.difference
    assert difference is not None and difference.over_seeds is not None and difference.over_examples is None
    assert difference.verdict == "no evidence" and table.versions == {"infuser": "0.1.0", "torch": "2.6.0, 2.7.0"}


def test_hidden_answers_have_no_scores_and_no_differences() -> None:
    hidden = {"scores": {}, "golds": [None] * N}
    cells = [cell(method, "cola", seed) | hidden for method in ("plain", "kam") for seed in (0, 1)]
    kam = entry(summarise(settings(), cells, rounds=100), "kam", "cola")
    assert kam.first.mean is None and kam.first.difference is None and kam.n_missing == 1


def test_methods_that_only_results_know_come_last_and_two_results_of_one_cell_are_refused() -> None:
    cells = [cell(method, "cola", 0) for method in ("plain", "kam alpha=0.1")]
    table = summarise(settings(), cells, rounds=100)
    assert [row.method for row in table.rows] == ["plain", "kam", "placebo", "kam alpha=0.1"]
    with pytest.raises(InputError, match="Two results are of minilm, plain, cola, 0"):
        summarise(settings(), [*cells, cell("plain", "cola", 0, share_right=0.5) | {"digest": "other"}])


def test_where_all_seeds_are_alike_there_is_no_interval_over_seeds_no_p_value_and_no_verdict() -> None:
    shares = {"plain": 0.6, "kam": 0.9}
    cells = []
    for method, share in shares.items():
        first = cell(method, "cola", 0, share_right=share)
        cells += [first | {"cell": {**first["cell"], "seed": seed}} for seed in range(3)]
    table = summarise(settings(task={"cola": {}}, method={"plain": {}, "kam": {}}), cells, rounds=200)
    kam = entry(table, "kam", "cola").first
    assert kam.difference is not None and kam.difference.over_examples is not None and kam.interval is None
    assert kam.difference.over_examples[0] > 0 and len(kam.difference.per_seed) == 3
    assert (kam.difference.over_seeds, kam.difference.p_value) == (None, None)
    assert kam.difference.verdict == "no evidence" and "p" not in table_grid(table).head
    [told] = table_verdicts(table)
    assert told.startswith("No evidence over seeds that kam differs from plain on cola: matthews +0.")
    assert "with every seed alike ([+0." in told


def asked(method: str, seed: int, ranks: list[int]) -> dict[str, Any]:
    """Return the result of a task that does not learn."""
    golds = [{"relation": "capital"} for _ in ranks]
    predictions = [{"rank": rank, "words": 50} for rank in ranks]
    told = {"cell": {"host": "minilm", "method": method, "task": "facts", "seed": seed}, "golds": golds}
    scores = TASKS["lama"](data="").score(golds, predictions)
    return cell(method, "cola", seed) | told | {"predictions": predictions, "scores": scores}


def test_what_does_not_learn_has_one_cell_and_counts_for_every_seed_in_an_average() -> None:
    tasks = {"cola": {}, "facts": {"kind": "lama", "data": "x"}}
    planned = settings(task=tasks, method={"plain": {}, "kam": {}}, average=True)
    cells = [cell(method, "cola", seed) for method in ("plain", "kam") for seed in range(3)]
    cells += [asked("plain", 0, [1, 3] * 40), asked("kam", 0, [1, 1, 1, 3] * 20)]
    table = summarise(planned, [*cells, asked("kam", 1, [9] * 80)], rounds=200)  # one of a seed that is not asked
    kam, mean = entry(table, "kam", "facts"), entry(table, "kam", "average").first
    assert table.n_cells == 8 and table.n_missing == kam.n_missing == 0
    assert kam.first.per_seed == (0.75,) and kam.first.difference is not None
    assert kam.first.difference.mean == 0.25 and kam.first.difference.verdict == "no evidence"
    assert "No evidence over seeds that kam differs from plain on facts: p@1 +0.250" in table_verdicts(table)[1]
    on_cola = entry(table, "kam", "cola").first.per_seed
    assert mean.per_seed == pytest.approx([(one + 0.75) / 2 for one in on_cola]) and mean.seeds == (0, 1, 2)
    assert mean.difference is not None and mean.difference.over_examples is not None
