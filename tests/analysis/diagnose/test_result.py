"""A diagnosis: what its one sentence says, what the page shows, and that JSON gives all of it back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from infuser.analysis.diagnose.result import Bucket, Channel, Diagnosis, Flip
from infuser.analysis.explanation import Explanation
from infuser.errors import InputError
from infuser.reports.charts import interval_plot, line_chart
from infuser.reports.diagnosis_page import write_diagnosis
from infuser.stats.comparison import ArmScores, ArmStatistics, compare_arms

LABELS = np.random.default_rng(7).integers(0, 2, 200)


def comparison(*signals: float, n_seeds: int = 3) -> ArmStatistics:
    random = np.random.default_rng(0)
    arms = [
        ArmScores(name, [signal * LABELS + random.normal(size=200) for _ in range(n_seeds)])
        for name, signal in zip(("plain", "kam", "placebo"), signals, strict=True)
    ]
    return compare_arms(arms, LABELS, rounds=200, also=[("kam", "placebo")])


@pytest.fixture
def diagnosis(explain: Callable[..., Explanation]) -> Diagnosis:
    compared = comparison(1.0, 2.5, 1.0)
    return Diagnosis(
        title="Does the knowledge help?",
        comparison=compared,
        metric="AUC",
        buckets=[
            Bucket(
                "in no text",
                40,
                {"plain": 0.5, "kam": 0.7, "placebo": 0.5},
                {"kam": (0.1, 0.3), "placebo": (-0.1, 0.1)},
            ),
            Bucket("no entity", 3, {"plain": None, "kam": None, "placebo": None}, {"kam": None, "placebo": None}),
        ],
        corruption={"plain": [(0.0, 0.6), (0.5, 0.6)], "kam": [(0.0, 0.8), (0.5, 0.5)]},
        angles={f"layer {number}": [(0.25, 1.0), (0.75, 0.9 - number / 100)] for number in range(12)},
        spectra={"kam, 100 examples": [10.0, 0.1, 0.0], "kam, 1,000 examples": [12.0, 1.0, 0.01]},
        channels=[Channel("graph", compared.differences[0])],
        flips=[
            Flip("buy glipizide", "pharmacy near me", "good", True, 3, 0.2, 0.6),
            Flip("buy adze", None, "bad", True, 2, 0.1, 0.9),
            Flip("cheap froe", None, "bad", False, 2, 0.8, 0.3),
        ],
        explanations=[explain(title="Mended: buy adze")],
        notes=["Scores flatter."],
        facts={"Encoder": "minilm"},
        versions={"python": "3.11"},
    )


def test_the_page_begins_with_the_sentence_and_shows_every_part(
    diagnosis: Diagnosis, tmp_path: Path, read_page: Callable[[Path], Any]
) -> None:
    page = read_page(write_diagnosis(diagnosis, tmp_path / "deep"))
    page.check_self_contained()
    parts = [
        "kam helps: AUC is",
        "Scores flatter.",
        "± by Student's t",
        "kam minus plain, 95 %",
        "[+0.100, +0.300]",
        "When links are wrong",
        "What each source does",
        "wrong without knowledge, right with it (2)",
        "buy adze",  # the largest change first
        "buy glipizide / pharmacy near me",
        "right without knowledge, wrong with it (1)",
        "cheap froe",
        "Mended: buy adze",
        "Attention of layer 3",
        "singular rank",
        "singular value, logarithmic",
        "minilm",
        "Versions",
    ]
    places = [page.text.find(part) for part in parts]
    assert places == sorted(places) and places[0] > 0, dict(zip(parts, places, strict=True))
    charts = [attributes["aria-label"] for tag, attributes in page.elements if attributes.get("class") == "chart"]
    assert len(charts) == 6  # arms, buckets, corruption, sources, angles, singular values
    assert not re.search(r"\b(nan|None)\b", page.text)


def test_json_beside_it_gives_the_diagnosis_back(diagnosis: Diagnosis, tmp_path: Path) -> None:
    write_diagnosis(diagnosis, tmp_path)
    text = (tmp_path / "diagnosis.json").read_text("utf-8")
    again = Diagnosis.from_json(text)
    assert replace(again, explanations=()) == replace(diagnosis, explanations=())
    np.testing.assert_allclose(again.explanations[0].plain, diagnosis.explanations[0].plain, atol=1e-6)
    told = json.loads(text)
    assert told["sentence"] == diagnosis.sentence and told["verdict"] == "helps"
    del told["flips"]
    with pytest.raises(InputError, match="Not a diagnosis: KeyError"):
        Diagnosis.from_json(json.dumps(told))


def test_a_gain_that_a_placebo_has_too_is_not_the_knowledges(diagnosis: Diagnosis) -> None:
    both = replace(diagnosis, comparison=comparison(1.0, 2.5, 2.5))
    assert both.comparison is not None and both.comparison.differences[0].verdict == "helps"
    assert both.verdict == "no evidence"
    assert both.sentence.startswith("No evidence that it is the knowledge that helps: kam is 0.")
    assert "against the placebo it is" in both.sentence
    assert replace(diagnosis, comparison=comparison(2.5, 1.0, 2.5)).verdict == "hurts"
    one_seed = replace(diagnosis, comparison=comparison(1.0, 2.5, 1.0, n_seeds=1))
    assert one_seed.verdict == "no evidence" and "at least two seeds" in one_seed.sentence


def test_without_a_comparison_the_page_says_so_and_compares_nothing(
    tmp_path: Path, read_page: Callable[[Path], Any]
) -> None:
    page = read_page(write_diagnosis(Diagnosis("Alone", None, buckets=[Bucket("all", 9, {"kam": 0.7}, {})]), tmp_path))
    page.check_self_contained()
    assert "No verdict: telling whether knowledge helps takes the same training without" in page.text
    assert "0.700" in page.text and not {"Results", "minus", "Which answers changed"} & set(page.text.split())
    assert Diagnosis.from_json((tmp_path / "diagnosis.json").read_text("utf-8")).verdict is None


def test_script_in_any_text_stays_text(
    diagnosis: Diagnosis, tmp_path: Path, read_page: Callable[[Path], Any], evil: str, explain: Callable[..., Any]
) -> None:
    bucket = Bucket(evil, 1, {evil: 0.5, "b" + evil: 0.6}, {"b" + evil: (0.0, 0.2)})
    bad = replace(
        diagnosis,
        title=evil,
        metric=evil,
        buckets=[bucket],
        corruption={evil: [(0.0, 0.5), (0.5, 0.4)]},
        angles={evil: [(0.0, 1.0), (1.0, 0.5)]},
        spectra={evil: [2.0, 1.0]},
        channels=[replace(diagnosis.channels[0], name=evil)],
        flips=[Flip(evil, evil, evil, True, 1, 0.1, 0.9)],
        explanations=[explain(title=evil, text=evil)],
        notes=[evil],
        facts={evil: evil},
        versions={evil: evil},
    )
    page = read_page(write_diagnosis(bad, tmp_path))
    page.check_self_contained()
    assert "<script>alert" not in page.source and page.text.count(evil) >= 12


def coordinates(drawn: str) -> list[float]:
    """Return every coordinate of a chart, which must be well-formed XML."""
    ElementTree.fromstring(drawn)
    pairs = re.findall(r"translate\(([-\d.]+) ([-\d.]+)\)", drawn) + re.findall(r' x="([-\d.]+)" y="([-\d.]+)"', drawn)
    return [float(number) for pair in pairs for number in pair]


def test_intervals_are_drawn_beside_zero() -> None:
    drawn = interval_plot({"rare": [("kam", 0.2, (0.1, 0.3)), ("placebo", -0.1, None)], "none": []}, label="x")
    assert all(0 <= number <= 460 for number in coordinates(drawn))
    zero = float(re.findall(r'd="M ([\d.]+)[^"]*" class="line"', drawn)[0])
    gain, loss = (float(x) for x in re.findall(r"<title>[^<]*</title>.*?translate\(([\d.]+)", drawn))
    start, end = map(float, re.findall(r'd="M ([\d.]+) [\d.]+ +L ([\d.]+) [^"]*"[^>]*stroke-opacity="0.55"', drawn)[0])
    assert loss < zero < start < gain < end
    assert interval_plot({}, label="x") == ""


def test_a_logarithmic_axis_puts_equal_ratios_at_equal_distances() -> None:
    drawn = line_chart({"a": [(1, 100.0), (2, 10.0), (3, 1.0), (4, 0.0)]}, log=True)
    heights = [float(y) for y in re.findall(r"translate\([\d.]+ ([\d.]+)\)", drawn)[:3]]
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.2)
    assert all(f">{tick}</text>" in drawn for tick in (1, 10, 100))


def test_many_lines_have_colours_of_their_own_and_a_legend_within_the_chart() -> None:
    drawn = line_chart({f"layer {at}": [(0, at), (1, at + 1)] for at in range(24)}, x_name="rank", y_name="cosine")
    assert len(set(re.findall(r'stroke="(#\w{6})"', drawn))) == 24
    height = float(re.findall(r'viewBox="0 0 460 ([\d.]+)"', drawn)[0])
    assert height > 300 and max(coordinates(drawn)) <= max(height, 460)
