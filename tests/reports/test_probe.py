"""A probe's report: what its sentence claims, what the page shows, and that JSON gives all of it back."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from infuser.analysis.probe.result import EncoderReading, ProbeReport, ProbeScores, RelationScore, margin
from infuser.errors import InputError
from infuser.reports.charts import bar_chart, line_chart
from infuser.reports.figures import COLOURS
from infuser.reports.probe_page import importance_section, layer_section, tree_section, write_probe

ReadPage = Callable[[Path], Any]
LABELS = {"P36": "capital", "P17": "country", "P19": "place of birth"}


def scores(accuracy: float, binary: float = 0.9) -> ProbeScores:
    return ProbeScores(binary, accuracy, accuracy, accuracy, accuracy)


def reading(name: str = "minilm", f1: tuple[float, ...] = (0.9, 0.5, 0.7), **fields: Any) -> EncoderReading:
    relations = tuple(
        RelationScore(relation, LABELS[relation], value, value, value, 100)
        for relation, value in zip(LABELS, f1, strict=True)
    )
    weights = np.arange(1.0, 25.0).reshape(2, 6, 2)  # more heads than layers
    values: dict[str, Any] = {
        "features": "attention",
        "scores": scores(sum(f1) / 3),
        "control": scores(0.34, 0.52),
        "shuffled": scores(0.32, 0.49),
        "layers": {"attention": [(0, 0.6, 0.4), (1, 0.8, 0.6)], "embeddings": [(0, 0.7, 0.5), (1, 0.9, 0.7)]},
        "importance_gate": weights.tolist(),
        "importance_relations": weights[::-1].tolist(),
        "directions": ("head>tail", "tail>head"),
        "relations": relations,
        "confusions": (("P17", "P36", 30), ("P36", "P17", 7)),
        "linkage": ((0.0, 1.0, 0.2, 2.0), (2.0, 3.0, 0.8, 3.0)),
        "linked": tuple(LABELS),
        "clusters": (("P36", "P17"), ("P19",)),
    }
    return EncoderReading(name, **(values | fields))


@pytest.fixture
def one() -> ProbeReport:
    facts, versions = {"Data": "T-REx"}, {"python": "3.11"}
    return ProbeReport((reading(),), LABELS, ("Few triples.",), facts, versions)


@pytest.fixture
def two(one: ProbeReport) -> ProbeReport:
    return replace(one, readings=(one.readings[0], reading("minilm with kam", (0.95, 0.9, 0.6))))


def test_the_page_begins_with_the_verdict_and_explains_every_part(
    one: ProbeReport, tmp_path: Path, read_page: ReadPage
) -> None:
    page = read_page(write_probe(one, tmp_path / "deep"))
    page.check_self_contained()
    parts = [
        one.sentence,
        "Few triples.",
        "How well relations can be read",
        "gain over random weights",
        "+0.360",  # 0.7 minus 0.34
        "Which layers know it",
        "embeddings of minilm",
        "Where in the encoder it sits",
        "tail>head",
        "Which relations are alike inside",
        "capital · P36",
        "Which relations are taken for others",
        "30 of 100 (30 %)",
        "All relations",
        "T-REx",
        "Versions",
    ]
    places = [page.text.find(part) for part in parts]
    assert places == sorted(places) and places[0] > 0, dict(zip(parts, places, strict=True))
    assert not re.search(r"\b(nan|None|inf|unknown)\b", page.text)
    for section in page.source.split("<h2>")[2:-1]:  # but the notes and the facts
        assert '</h2><p class="soft">' in section, section[:60]


def test_a_page_of_two_encoders_tells_what_each_relation_gained(
    two: ProbeReport, tmp_path: Path, read_page: ReadPage
) -> None:
    page = read_page(write_probe(two, tmp_path))
    assert two.change == "more" and list(two.gains) == ["P17", "P36", "P19"]
    assert two.sentence.startswith("minilm with kam knows more about these relations than minilm: it is right in 81.7")
    assert "better on 2 relations and worse on 1 (most gained: country +0.40; most lost: place of birth -0.10)" in (
        two.sentence
    )
    for part in ("minilm with kam minus minilm", "Most lost by minilm with kam", "F1 of minilm with kam", "+0.400"):
        assert part in page.text
    rows = re.findall(r"<tr><td>(?:capital|country|place of birth)</td><td>(P\d+)</td>", page.source)
    assert rows == ["P36", "P19", "P17"]  # by F1 of the first
    assert 'class="verdict helps"' in page.source
    worse = replace(two, readings=two.readings[::-1])
    assert worse.change == "less" and 'class="verdict hurts"' in write_probe(worse, tmp_path).read_text("utf-8")


def test_an_encoder_knows_only_what_no_control_reaches(one: ProbeReport) -> None:
    known = one.readings[0]
    assert known.verdict == "knows" and one.sentence.endswith("points, is not explained by the controls.")
    guessed = replace(known, control=scores(0.68))
    assert guessed.verdict == "no evidence" and "a control does as well" in replace(one, readings=(guessed,)).sentence
    memorised = replace(known, shuffled=scores(0.69))
    assert memorised.verdict == "no evidence"
    alone = replace(known, control=None, shuffled=None)
    assert alone.verdict == "unchecked" and "no control was run" in replace(one, readings=(alone,)).sentence


def test_the_margin_is_that_of_agresti_and_caffo() -> None:
    # 300 triples, 210 and 102 right: shares of 211/302 and 103/302, each variance over 302, back to the raw scale
    expected = 1.96 * math.sqrt((211 * 91 + 103 * 199) / 302**2 / 302) * 302 / 300
    assert margin(reading(), 0.7, 0.34) == pytest.approx(expected)
    assert margin(reading(relations=()), 1.0, 0.0) == math.inf


def test_chance_is_what_drawing_a_relation_reaches() -> None:
    chance = reading().chance
    assert chance.binary == 0.5 and chance.accuracy == pytest.approx(1 / 3) and chance.f1 == pytest.approx(1 / 3)
    skewed = tuple(replace(one, n=n) for one, n in zip(reading().relations, (98, 1, 1), strict=True))
    assert reading(relations=skewed).chance.f1 < 0.2  # rare relations are hard to guess


def test_with_one_relation_the_gate_decides(tmp_path: Path, read_page: ReadPage) -> None:
    single = reading(
        scores=ProbeScores(0.9, 1, 1, 1, 1),
        control=ProbeScores(0.5, 1, 1, 1, 1),
        shuffled=None,
        relations=reading().relations[:1],
        confusions=(),
        linkage=(),
        linked=("P36",),
        clusters=(("P36",),),
        layers={"attention": [(0, 0.9, 1.0)]},
    )
    assert single.verdict == "knows"
    report = ProbeReport((single,))
    assert "names the right one" not in report.sentence and "random weights 50.0 %" in report.sentence
    page = read_page(write_probe(report, tmp_path))
    assert "alike inside" not in page.text and "taken for others" not in page.text and "capital" in page.text


def test_what_was_not_read_is_left_out(tmp_path: Path, read_page: ReadPage) -> None:
    bare = EncoderReading("bare", "embeddings", scores(0.5))
    page = read_page(write_probe(ProbeReport((bare, bare)), tmp_path))
    assert [tag for tag, _ in page.elements].count("h2") == 1
    assert "bare, embeddings (1)" in page.text and "bare, embeddings (2)" in page.text
    assert "too few test triples to tell" in page.text
    assert layer_section({"bare": bare}) == importance_section(bare) == tree_section(bare) == ""
    assert importance_section(replace(bare, importance_gate=[[[0.0, 0.0]]])) == ""
    only = layer_section({"minilm": reading(layers={"attention": [(3, 0.5, 0.4)]})})
    assert "at 0 are those before the first block; attention at k reads states k." in only
    assert "attention of minilm" in only and "embeddings of" not in only
    with pytest.raises(InputError, match="3 were given"):
        ProbeReport((bare, bare, bare))


def test_importance_is_told_in_multiples_of_the_average_head(values_of: Callable[..., Any]) -> None:
    page = importance_section(reading())
    grids = [dict(re.findall(r'([\w-]+)="([^"]*)"', grid)) for grid in re.findall(r"<svg[^>]*data-values[^>]*>", page)]
    assert len(grids) == 2  # gate and relations
    by_head = np.arange(1.0, 25.0).reshape(2, 6, 2).mean(axis=2) / 12.5
    np.testing.assert_allclose(values_of(grids[0]).reshape(2, 6), by_head, atol=1e-4)
    assert 'class="term"' not in page and page.count(">head 5<") == 2  # heads beyond the number of layers are heads
    assert ">0.52<" in page and ">1.48<" in page  # the layers: 6.5 and 18.5 over 12.5


def test_json_beside_it_gives_the_report_back(two: ProbeReport, tmp_path: Path) -> None:
    write_probe(two, tmp_path)
    text = (tmp_path / "probe.json").read_text("utf-8")
    assert ProbeReport.from_json(text) == two
    bare = ProbeReport((EncoderReading("bare", "embeddings", scores(0.5)),))
    assert ProbeReport.from_json(bare.to_json()) == bare
    told = json.loads(text)
    assert told["sentence"] == two.sentence and told["verdicts"] == ["knows", "knows"] and told["change"] == "more"
    del told["readings"][0]["scores"]
    for broken in (json.dumps(told), "[]", "{", "{}"):
        with pytest.raises(InputError, match="Not a probe report"):
            ProbeReport.from_json(broken)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["probe.html", "probe.json"]


def test_numbers_that_are_none_are_null_in_json_and_harmless_on_the_page(tmp_path: Path, read_page: ReadPage) -> None:
    nan = float("nan")
    broken = reading(
        control=ProbeScores(nan, nan, nan, nan, nan),
        layers={"attention": [(0, nan, 0.4), (1, 0.8, math.inf)]},
        importance_gate=[[[nan, 1.0]]],
        linkage=((0.0, 1.0, nan, 2.0), (2.0, 3.0, nan, 3.0)),
        relations=(*reading().relations[:2], RelationScore("P19", "", nan, nan, nan, 0)),
    )
    report = ProbeReport((broken, broken))
    page = read_page(write_probe(report, tmp_path))
    assert "unknown" in page.text and not re.search(r"\b(nan|inf)\b", page.text)
    text = (tmp_path / "probe.json").read_text("utf-8")
    assert "NaN" not in text and "Infinity" not in text
    again = ProbeReport.from_json(text).readings[0]
    assert again.control is not None and math.isnan(again.control.f1) and math.isnan(again.linkage[0][2])
    assert again.verdict == "no evidence" and list(report.gains) == ["P36", "P17"]
    weights: Any = np.ones((1, 1, 2), np.float32)  # as numpy has them
    arrays = replace(broken, importance_gate=weights)
    assert json.loads(ProbeReport((arrays,)).to_json())["readings"][0]["importance_gate"] == [[[1.0, 1.0]]]


def test_hostile_and_very_long_labels_do_no_harm(evil: str, tmp_path: Path, read_page: ReadPage) -> None:
    relations = tuple(
        replace(one, relation=f"{one.relation}{evil}", label=evil + "x" * 900) for one in reading().relations
    )
    ids = [one.relation for one in relations]
    hostile = reading(
        evil,
        relations=relations,
        confusions=((ids[0], ids[1], 3),),
        linked=tuple(ids),
        clusters=(tuple(ids),),
        directions=(evil, evil + "2"),
    )
    report = ProbeReport((hostile, replace(hostile, name=evil + "2")), {}, (evil,), {evil: evil}, {evil: evil})
    page = read_page(write_probe(report, tmp_path))
    page.check_self_contained()
    assert evil in page.text and ProbeReport.from_json((tmp_path / "probe.json").read_text("utf-8")) == report
    for svg in re.findall(r"<svg.*?</svg>", page.source):
        ElementTree.fromstring(svg)
    widths = [float(one["width"]) for tag, one in page.elements if tag == "svg" and "width" in one]
    assert widths and max(widths) < 1100
    inside = page.source.split("<svg")[:-1]
    for before, (_, attributes) in zip(
        inside, [element for element in page.elements if element[0] == "svg"], strict=True
    ):
        assert attributes.get("class") in {"chart", "bar"} or before.endswith(
            '<div class="wide">'
        )  # scrolls in its own box


def test_a_line_that_counts_layers_has_no_half_layers() -> None:
    curve = {"a": [(0.0, 0.1), (1.0, 0.2)]}
    assert ">0.4</text>" in line_chart(curve)
    whole = ElementTree.fromstring(line_chart(curve, whole=True))
    marks = [text.text for text in whole.iterfind(".//{*}text") if text.get("text-anchor") == "middle"]
    assert marks == ["0", "1"]


def test_bars_are_as_long_as_their_values() -> None:
    svg = ElementTree.fromstring(bar_chart({"a": 1.0, "b": 0.5, "<c>": float("nan")}, label="x", at=0.5))
    paths = list(svg.iterfind(".//{*}path"))
    bars = [re.findall(r"[ML] ([\d.]+)", path.get("d", "")) for path in paths if path.get("fill") == COLOURS[0]]
    starts, ends = ([float(choose(bar, key=float)) for bar in bars] for choose in (min, max))
    one, half, none = (end - start for start, end in zip(starts, ends, strict=True))
    assert one == pytest.approx(2 * half) and none == 0 and len(set(starts)) == 1
    [line] = [path.get("d", "") for path in paths if path.get("class") == "line"]
    assert float(re.findall(r"M ([\d.]+)", line)[0]) == pytest.approx(ends[1], abs=0.5)
    assert bar_chart({}, label="x") == "" and bar_chart({"a": 0.0}, label="x")


def test_the_report_needs_neither_torch_nor_scipy() -> None:
    code = "import sys, infuser.reports.probe_page; print({'torch', 'scipy', 'sklearn'} & sys.modules.keys())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"
