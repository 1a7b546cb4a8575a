from __future__ import annotations

import io
import json

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from infuser.errors import InputError
from infuser.reports.table import markdown_table, terminal_table
from infuser.stats.comparison import ArmScores, ArmStatistics, compare_arms, paired_difference
from infuser.stats.metrics import Metric, get_metric

LABELS = np.random.default_rng(7).integers(0, 2, 400)


def arm(name: str, signal: float, *, n_seeds: int = 3, stream: int = 0, weights: int = 0) -> ArmScores:
    random = np.random.default_rng([stream, round(signal * 10)])
    scores = [signal * LABELS + random.normal(size=len(LABELS)) for _ in range(n_seeds)]
    return ArmScores(name, scores, weights, [10.0, 11.0, 12.0][:n_seeds])


@pytest.fixture(scope="module")
def comparison() -> ArmStatistics:
    arms = [arm("plain", 1.0), arm("KAM", 2.0, weights=19584), arm("placebo", 1.0, stream=1, weights=19584)]
    return compare_arms(arms, LABELS, also=[("KAM", "placebo")], rounds=500)


def test_values_means_and_intervals_agree_with_sklearn_and_scipy(comparison: ArmStatistics) -> None:
    plain, kam = arm("plain", 1.0), arm("KAM", 2.0)
    values = [[roc_auc_score(LABELS, scores) for scores in one.scores_per_seed] for one in (plain, kam)]
    assert comparison.arms[1].per_seed == pytest.approx(values[1])
    assert comparison.arms[1].mean == pytest.approx(np.mean(values[1]))
    paired = np.subtract(values[1], values[0])
    test = stats.ttest_rel(values[1], values[0]).confidence_interval(0.95)
    assert comparison.differences[0].per_seed == pytest.approx(paired)
    assert comparison.differences[0].over_seeds == pytest.approx((test.low, test.high))
    assert comparison.differences[0].p_value == pytest.approx(stats.ttest_rel(values[1], values[0]).pvalue)
    assert comparison.arms[1].seconds == 11.0 and comparison.arms[1].extra_weights == 19584
    assert comparison.metric == "AUC"


def test_bootstrap_interval_of_a_difference_lies_around_it(comparison: ArmStatistics) -> None:
    for difference in comparison.differences:
        assert difference.over_examples is not None
        assert difference.over_examples[0] < difference.mean < difference.over_examples[1]


def test_verdict_says_helps_hurts_or_no_evidence(comparison: ArmStatistics) -> None:
    assert [one.verdict for one in comparison.differences] == ["helps", "no evidence", "helps"]
    assert comparison.verdict.startswith("KAM helps: AUC is 0.1")
    assert comparison.verdicts[1].startswith("No evidence that placebo differs from plain")
    assert "higher than placebo" in comparison.verdicts[2]
    worse = compare_arms([arm("KAM", 2.0), arm("plain", 1.0)], LABELS, rounds=200)
    assert worse.differences[0].verdict == "hurts" and "lower than KAM" in worse.verdict


def test_seeds_alone_do_not_make_a_verdict_when_the_test_set_is_tiny() -> None:
    labels = np.array([0, 1] * 6)
    steps = np.round(np.linspace(0, 1.1, 12), 6)
    worse, better = ([labels + share * steps for share in shares] for shares in ((1.5, 1.5, 2.0), (1.0, 1.0, 1.0)))
    one = compare_arms([ArmScores("plain", worse), ArmScores("KAM", better)], labels, rounds=500)
    difference = one.differences[0]
    assert difference.over_seeds is not None and difference.over_seeds[0] > 0
    assert difference.over_examples is not None and difference.over_examples[0] <= 0
    assert difference.verdict == "no evidence"


def test_one_seed_gives_no_verdict_and_asks_for_more() -> None:
    one = compare_arms([arm("plain", 1.0, n_seeds=1), arm("KAM", 3.0, n_seeds=1)], LABELS, rounds=200)
    assert one.differences[0].over_seeds is None and one.arms[0].interval is None
    assert one.differences[0].verdict == "no evidence" and "at least two seeds" in one.verdict
    assert "nan" not in one.to_json().lower() and "±" not in markdown_table(one).splitlines()[2]


def test_seeds_that_are_all_alike_are_no_evidence_however_clear_the_examples_are() -> None:
    random = np.random.default_rng(0)
    plain, kam = (gain * LABELS + random.normal(size=len(LABELS)) for gain in (0.0, 3.0))
    one = compare_arms([ArmScores("plain", [plain] * 3), ArmScores("KAM", [kam] * 3)], LABELS, rounds=200)
    difference = one.differences[0]
    assert difference.over_examples is not None and difference.over_examples[0] > 0.3
    assert (difference.over_seeds, difference.p_value, difference.verdict) == (None, None, "no evidence")
    assert one.verdict.startswith("No evidence over seeds that KAM differs from plain: AUC +0.")
    assert (
        "with every seed alike ([+0." in one.verdict and "±" not in markdown_table(one).split("\n\n")[0].splitlines()[3]
    )
    assert ArmStatistics.from_json(one.to_json()) == one


def test_a_difference_of_errors_helps_when_it_is_below_zero() -> None:
    below = np.linspace(-0.3, -0.1, 200)
    error = paired_difference("KAM", "plain", [-0.2, -0.21, -0.19], below, higher_is_better=False)
    score = paired_difference("KAM", "plain", [-0.2, -0.21, -0.19], below)
    unknown = paired_difference("KAM", "plain", [-0.2, -0.21, -0.19], None)
    assert [one.verdict for one in (error, score, unknown)] == ["helps", "hurts", "no evidence"]
    assert unknown.over_examples is None and error.over_examples == pytest.approx((-0.295, -0.105))


def test_a_comparison_written_before_there_were_p_values_is_read(comparison: ArmStatistics) -> None:
    old = json.loads(comparison.to_json())
    for difference in old["differences"]:
        del difference["p_value"]
    assert ArmStatistics.from_json(json.dumps(old)).differences[0].p_value is None


def test_comparison_survives_json(comparison: ArmStatistics) -> None:
    text = comparison.to_json()
    assert ArmStatistics.from_json(text) == comparison
    assert json.loads(text)["arms"][0]["name"] == "plain"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"arms": [{"no": 1}], "differences": []}'])
def test_text_that_is_no_comparison_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="Not a comparison"):
        ArmStatistics.from_json(text)


def test_terminal_table_shows_names_as_they_are() -> None:
    from rich.console import Console

    arms = [arm("[bold]plain[/bold]", 1.0), arm("KAM 🌍", 2.0, weights=19584)]
    out = io.StringIO()
    Console(file=out, width=140).print(terminal_table(compare_arms(arms, LABELS, rounds=200)))
    assert "[bold]plain[/bold]" in out.getvalue() and "KAM 🌍" in out.getvalue() and "19,584" in out.getvalue()


def test_terminal_table_of_short_names_fits_a_narrow_terminal(comparison: ArmStatistics) -> None:
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=80).print(terminal_table(comparison))
    difference = comparison.differences[0]
    assert difference.over_examples is not None
    assert f"[{difference.over_examples[0]:+.3f}, {difference.over_examples[1]:+.3f}]" in out.getvalue()
    assert "KAM" in out.getvalue()


def test_markdown_has_a_row_per_arm_and_escapes_bars() -> None:
    text = markdown_table(compare_arms([arm("plain", 1.0), arm("a|b", 2.0)], LABELS, rounds=200))
    table = text.split("\n\n")[0].splitlines()
    assert len(table) == 4 and table[3].startswith("| a\\|b | 0.")
    assert {line.replace("\\|", "").count("|") for line in table} == {7}


def test_groups_are_counted_and_named_in_the_note() -> None:
    one = compare_arms([arm("plain", 1.0), arm("KAM", 2.0)], LABELS, groups=np.arange(400) // 8, rounds=200)
    assert one.n_groups == 50 and "50 groups drawn whole" in markdown_table(one)


def test_any_metric_can_be_compared() -> None:
    share_right = Metric("share right", lambda scores, labels: ((scores > 0.5) == labels).mean(), kind="own")
    one = compare_arms([arm("plain", 1.0), arm("KAM", 3.0)], LABELS, metric=share_right, rounds=100)
    assert one.metric == "share right" and one.differences[0].verdict == "helps"


def test_an_error_that_falls_helps_and_is_lower() -> None:
    numbers, random = np.linspace(0, 5, 300), np.random.default_rng(0)
    noisy, close = ([numbers + random.normal(scale=scale, size=300) for _ in range(3)] for scale in (1.0, 0.2))
    one = compare_arms(
        [ArmScores("plain", noisy), ArmScores("KAM", close)], numbers, metric=get_metric("mse"), rounds=200
    )
    assert one.differences[0].mean < 0 and one.verdict.startswith("KAM helps: mse is ")
    assert " lower than plain (95 % interval [-" in one.verdict


def test_arms_that_cannot_be_compared_are_refused_with_the_reason() -> None:
    plain, kam = arm("plain", 1.0), arm("KAM", 2.0)
    with pytest.raises(InputError, match="two or more arms"):
        compare_arms([plain], LABELS)
    with pytest.raises(InputError, match="names of their own"):
        compare_arms([plain, plain], LABELS)
    with pytest.raises(InputError, match="'KAM' has 2 seeds and 'plain' has 3"):
        compare_arms([plain, arm("KAM", 2.0, n_seeds=2)], LABELS)
    with pytest.raises(InputError, match="labels 0 and 1, both present"):
        compare_arms([plain, kam], np.arange(400) % 3)
    with pytest.raises(InputError, match="different labels, but all 400 have the label"):
        compare_arms([plain, kam], np.ones(400))
    with pytest.raises(InputError, match="for 399 labels"):
        compare_arms([plain, kam], LABELS[:-1])
    with pytest.raises(InputError, match="not finite"):
        compare_arms([plain, ArmScores("KAM", [np.full(400, np.nan)] * 3)], LABELS)
    with pytest.raises(InputError, match="No arm is called 'kam'"):
        compare_arms([plain, kam], LABELS, also=[("kam", "plain")], rounds=10)
