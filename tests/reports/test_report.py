from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from infuser.analysis.explanation import Explanation
from infuser.errors import InputError
from infuser.reports import write_report
from infuser.reports.charts import dot_plot, line_chart
from infuser.stats.comparison import ArmScores, ArmStatistics, compare_arms

Explain = Callable[..., Explanation]
LABELS = np.random.default_rng(7).integers(0, 2, 200)


def comparison(
    *signals: float, n_seeds: int = 3, names: tuple[str, ...] = ("plain", "KAM", "placebo")
) -> ArmStatistics:
    random = np.random.default_rng(0)
    arms = [
        ArmScores(name, [signal * LABELS + random.normal(size=200) for _ in range(n_seeds)], 12, [3.0] * n_seeds)
        for name, signal in zip(names, signals, strict=False)
    ]
    return compare_arms(arms, LABELS, rounds=200)


@pytest.fixture
def fields(explain: Explain) -> dict[str, Any]:
    return {
        "title": "Does knowledge help?",
        "comparison": comparison(1.0, 2.5, 1.0),
        "explanations": [explain(title="One pair", answer_plain={"yes": 0.3}, answer_infused={"yes": 0.8})],
        "facts": {"Test terms": "never seen in training"},
        "next_steps": ["Try your own graph"],
        "curves": {"KAM": [(1, 0.6), (2, 0.8), (3, math.nan)]},
        "settings": {"learning rate": 3e-5},
    }


def test_report_tells_the_verdict_first_and_then_everything(
    fields: dict[str, Any], tmp_path: Path, read_page: Callable[[Path], Any]
) -> None:
    page = read_page(write_report(tmp_path / "runs" / "demo" / "report.html", **fields))
    page.check_self_contained()
    parts = [
        "KAM helps: AUC is",
        "Results",
        "± by Student's t",
        "During training",
        "One pair",
        "Attention of layer 3",
        "never seen in training",
        "Try your own graph",
        "Versions",
        "3e-05",
    ]
    places = [page.text.find(part) for part in parts]
    assert places == sorted(places) and places[0] > 0
    assert [tag for tag, _ in page.elements].count("details") == 2
    assert not re.search(r"\bnan\b", page.source, re.IGNORECASE)


def test_json_beside_it_holds_the_same_and_can_be_read_back(fields: dict[str, Any], tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", **fields)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.html", "report.json"]
    told = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert ArmStatistics.from_json(json.dumps(told["comparison"])) == fields["comparison"]
    assert told["verdicts"] == fields["comparison"].verdicts and told["facts"] == fields["facts"]
    assert told["curves"] == {"KAM": [[1.0, 0.6], [2.0, 0.8]]}
    assert told["settings"] == {"learning rate": "3e-05"} and "python" in told["versions"]
    again = Explanation.from_dict(told["explanations"][0])
    np.testing.assert_allclose(again.plain, fields["explanations"][0].plain, atol=1e-6)


def test_bare_comparison_is_enough(tmp_path: Path, read_page: Callable[[Path], Any]) -> None:
    path = write_report(tmp_path / "report.html", title="🌍", comparison=comparison(1.0, 1.0, n_seeds=1))
    page = read_page(path)
    page.check_self_contained()
    assert "at least two seeds" in page.text and "During training" not in page.text and "What to try" not in page.text


def test_report_escapes_every_word_it_was_given(
    explain: Explain, tmp_path: Path, read_page: Callable[[Path], Any], evil: str
) -> None:
    path = write_report(
        tmp_path / "report.html",
        title=evil,
        comparison=comparison(1.0, 2.0, names=(evil, "b" + evil)),
        explanations=[explain(title=evil, text=evil)],
        facts={evil: evil},
        next_steps=[evil],
        curves={evil: [(0, 1), (1, 2)]},
        settings={evil: evil},
    )
    page = read_page(path)
    page.check_self_contained()
    assert "<script>alert" not in page.source and page.text.count(evil) >= 8


def test_report_is_replaced_whole(fields: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report(path, **fields)
    assert path.read_text("utf-8").startswith("<!DOCTYPE html>")
    with pytest.raises(InputError, match=r"does not end in \.html"):
        write_report(tmp_path / "report.json", **fields)
    assert len(list(tmp_path.iterdir())) == 2


def numbers(drawn: str) -> list[float]:
    """Return every coordinate of a chart, which must be well-formed XML."""
    ElementTree.fromstring(drawn)
    pairs = [
        pair for path in re.findall(r' d="([^"]*)"', drawn) for pair in re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", path)
    ]
    pairs += re.findall(r"translate\(([-\d.]+) ([-\d.]+)\)", drawn)
    pairs += re.findall(r' x="([-\d.]+)" y="([-\d.]+)"', drawn)
    return [float(number) for pair in pairs for number in pair]


def inside(drawn: str) -> bool:
    """Return whether all of a chart lies on it; a marker is drawn around its place."""
    width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)[0])
    return width == 460 and all(-12 <= number <= max(width, height) for number in numbers(drawn))


def test_dot_plot_has_a_ring_per_seed_a_dot_per_arm_and_keeps_their_order() -> None:
    one = comparison(0.5, 1.5, 3.0)
    drawn = dot_plot(one)
    assert drawn.count("one seed") == 9
    means = [float(x) for x in re.findall(r"<title>mean: .*?translate\(([\d.]+)", drawn)]
    assert len(means) == 3 and means == sorted(means)
    assert inside(drawn)


@pytest.mark.parametrize("n_seeds", [1, 2])
def test_dot_plot_of_few_seeds_stays_on_the_page(n_seeds: int) -> None:
    drawn = dot_plot(comparison(1.0, 1.1, n_seeds=n_seeds))
    assert inside(drawn)
    assert drawn.count('stroke-opacity="0.55"') == (0 if n_seeds == 1 else 2)  # a line for each interval


def test_equal_values_are_drawn_too() -> None:
    scores = [LABELS.astype(float)] * 3
    drawn = dot_plot(compare_arms([ArmScores("a", scores), ArmScores("b", scores)], LABELS, rounds=200))
    assert "nan" not in drawn and len(numbers(drawn)) > 10 and inside(drawn)


def test_line_chart_leaves_out_what_is_not_finite() -> None:
    drawn = line_chart({"a 🌍": [(1, 0.5), (2, math.inf), (3, 0.7)], "flat": [(2, 0.6)], "nothing": [(1, math.nan)]})
    assert drawn.count("translate(") == 3 + 2 and "🌍" in drawn and "nothing" not in drawn  # points and the legend
    assert inside(drawn)
    assert line_chart({}) == "" and line_chart({"x": []}) == ""
