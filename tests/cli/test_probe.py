"""`infuser probe`: what it prints and writes, and what `infuser select` makes of its scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commands import error_of, run_command, save_checkpoint, write_lines
from relation_texts import SHAPES, shaped_texts

import infuser
from infuser import Entities
from infuser.analysis.probe.result import ProbeReport
from infuser.knowledge.entity_scores import open_scores
from infuser.relations.readers import write_relations
from infuser.sources import Known
from infuser.sources.selective import read_selection


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.jsonl, test.jsonl and names.tsv."""
    folder = tmp_path_factory.mktemp("relations")
    write_relations(folder / "train.jsonl", shaped_texts(96, 0))
    write_relations(folder / "test.jsonl", shaped_texts(32, 1))
    write_lines(folder / "names.tsv", "short\tshort words", "tail\tlong tail")
    return folder


def report_in(folder: Path) -> ProbeReport:
    return ProbeReport.from_json((folder / "probe.json").read_text(encoding="utf-8"))


def test_one_page_tells_what_the_encoder_knows_and_scores_serve_selection(
    checkpoint: Path, texts: Path, tmp_path: Path
) -> None:
    scores = tmp_path / "known.json"
    result = run_command(
        *("probe", texts / "train.jsonl", "--test", texts / "test.jsonl", "--encoder", checkpoint),
        *("--labels", texts / "names.tsv", "--out", tmp_path / "out", "--scores", scores),
    )
    report, told = report_in(tmp_path / "out"), " ".join(result.output.split())
    [reading] = report.readings
    assert " ".join(report.sentence.split()) in told and "related or not" in told
    # random weights read these shapes as well: nothing that the encoder knows
    assert "a control does as well." in told and "infuser select" not in told and "with --pairs" in told
    assert (
        reading.scores.accuracy == 1 and reading.n_triples == 32 and set(reading.layers) == {"attention", "embeddings"}
    )
    assert reading.control is not None and reading.shuffled is not None and reading.shuffled.accuracy < 0.5
    assert report.label("tail") == "long tail" and report.facts["Training texts"] == "96, train.jsonl"
    page = (tmp_path / "out" / "probe.html").read_text(encoding="utf-8")
    assert "long tail" in page and report.names[0] in page
    file = open_scores(scores)
    assert {one.relation: one.n_triples for one in file.relations} == dict.fromkeys(SHAPES, 32)
    assert file.about["measure"] == "relation-probe" and file.about["accuracy"] == 1
    assert file.about["verdict"] == reading.verdict == "no evidence" and file.about["held_out_by"] == "text and pair"
    assert file.about["controls"]["random weights"] == reading.control.accuracy
    triples = write_lines(tmp_path / "triples.tsv", "head\trelation\ttail", "river\ttail\ttown", "lake\tnear\ttown")
    corpus = write_lines(tmp_path / "corpus.txt", "the river of the town", "a lake near the town")
    chosen = tmp_path / "selection.json"
    selected = run_command("select", corpus, "--graph", triples, "--known", scores, "--out", chosen, "--explain").output
    assert "1 link of 1 relation that the encoder knows" in " ".join(selected.split())
    assert "the probe's verdict was 'no evidence'" in " ".join(selected.split())
    strategy = read_selection(chosen)
    assert isinstance(strategy, Known) and strategy.why_relation("tail") is not None


def test_an_entity_that_an_encoder_knows_better_than_its_controls_is_left_out_of_a_list(
    texts: Path, tmp_path: Path
) -> None:
    checkpoint = save_checkpoint(tmp_path / "checkpoint")
    settings = checkpoint / "config.json"
    # the control is drawn with this: its weights are nothing, so that it attends to all words alike
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "initializer_range": 1e-9}), encoding="utf-8")
    told = run_command(
        *("probe", texts / "train.jsonl", "--test", texts / "test.jsonl", "--encoder", checkpoint, "--no-curve"),
        *("--pooling", "mean", "--out", tmp_path / "out", "--scores", tmp_path / "known.json"),
    ).output
    assert report_in(tmp_path / "out").readings[0].verdict == "knows", told
    assert "infuser select" in told and "do not show" not in told
    best = max(open_scores(tmp_path / "known.json").scores, key=lambda one: one.score)
    names = write_lines(tmp_path / "names.tsv", f"{best.key.title()}\ta thing", "Zug\ta town")
    corpus = write_lines(tmp_path / "corpus.txt", f"{best.key.title()} and Zug")
    select = ("select", corpus, "--entities", names, "--known", tmp_path / "known.json", "--threshold", best.score)
    told = " ".join(run_command(*select, "--explain").output.split())
    assert "50.0% of the mentions" in told and "1 of " in told and "scored entities" in told and "Warning" not in told
    assert "Dropped most often" in told and "by the words" in told


def test_two_encoders_are_compared_and_an_infused_one_is_read_with_its_knowledge(
    checkpoint: Path, texts: Path, tmp_path: Path
) -> None:
    infused = infuser.infuse(str(checkpoint), sources=[Entities({"river": "water", "lake": "water"})])
    infused.save(tmp_path / "run" / "model")
    common = ("probe", texts / "train.jsonl", "--encoder", checkpoint, "--no-curve", "--pairs", "--sample", 12)
    model = tmp_path / "run" / "model"
    run_command(*common, "--compare", model, "--out", tmp_path / "both")
    report = report_in(tmp_path / "both")
    assert report.names == (checkpoint.name, "run/model") and report.change == "no evidence"
    first, second = report.readings
    assert first.scores == second.scores and first.directions == ("head>tail", "tail>head") and first.layers == {}
    assert report.facts["Test texts"] == "32, held out of train.jsonl"
    run_command(*common, "--out", tmp_path / "again")
    assert report_in(tmp_path / "again").readings == (first,)
    line = error_of("probe", texts / "train.jsonl", "--encoder", model, "--out", tmp_path, "--scores", "known.json")
    assert "is infused. Give the plain one as --encoder" in line


def test_mistakes_are_told_in_one_line(checkpoint: Path, texts: Path, tmp_path: Path) -> None:
    common = ("probe", texts / "train.jsonl", "--encoder", checkpoint, "--out", tmp_path / "out")
    assert "do not state the relations P36" in error_of(*common, "--relations", "short,tail,P36")
    assert "1 different relations" in error_of(*common, "--relations", "short")
    assert "give a number above 0" in error_of(*common, "--strength", 0)
    assert "There is no model 'no/such/model'" in error_of(*common, "--compare", "no/such/model", code=1)
    file = write_lines(tmp_path / "file", "")
    nowhere = ("probe", "no.jsonl", "--encoder", "no/such/model", "--out")  # places are looked at first
    assert "is a file. Name a folder" in error_of(*nowhere, file)
    assert "--out: nothing can be written in" in error_of(*nowhere, file / "out")
    assert "is a folder. Name a file" in error_of(*nowhere, tmp_path, "--scores", tmp_path)
    assert "--scores: nothing can be written in" in error_of(*nowhere, tmp_path, "--scores", file / "known.json")
    one = write_lines(tmp_path / "one.jsonl", json.dumps({"text": "a", "triples": []}))
    assert "1 different texts cannot be split" in error_of("probe", one, "--encoder", checkpoint, "--out", tmp_path)
    assert not (tmp_path / "out").exists()
