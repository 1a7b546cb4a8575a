"""`infuser explain`: what it tells, and the picture and page it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli.commands import error_of, run_command, write_lines

import infuser
from infuser.analysis.explain import explain
from infuser.methods import Text

QUESTION = ("--text", "buy ramipril", "--pair", "the pharmacy near me")


def test_a_trained_model_tells_what_it_knows_and_what_that_changes(trained: Path, tmp_path: Path) -> None:
    told = run_command("explain", trained / "model", *QUESTION, "--out", tmp_path).output
    assert "graph found 2 spans, 1 link, 0 terms" in told
    assert "ramipril -- is a -- pharmacy   1.00" in told
    assert "good" in told and "without knowledge" in told
    assert "Largest changes of attention in layer 1, mean over heads" in told
    assert "freshly infused" not in told


def test_the_picture_and_the_page_show_the_text(trained: Path, tmp_path: Path) -> None:
    from matplotlib.image import imread

    run_command("explain", trained / "model", *QUESTION, "--layer", 0, "--head", 1, "--out", tmp_path / "new")
    pixels = imread(tmp_path / "new" / "explanation.png")
    assert min(pixels.shape[:2]) > 300 and len(np.unique(pixels[..., 0])) > 20
    page = (tmp_path / "new" / "explanation.html").read_text()
    assert "buy ramipril" in page and "the pharmacy near me" in page and "layer 0, head 1" in page
    assert "ramipril -- is a -- pharmacy" in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page  # it fetches nothing


def test_a_plain_checkpoint_is_infused_on_the_fly(checkpoint: Path, tmp_path: Path) -> None:
    names = write_lines(tmp_path / "names.txt", "Bern\tcity", "Aare\triver")
    pairs = write_lines(tmp_path / "pairs.tsv", "lies\tbridge\t2", "lies\tbern\t1")
    told = run_command(
        *("explain", checkpoint, "--text", "Bern lies on the Aare", "--out", tmp_path / "out"),
        *("--entities", names, "--correlation", pairs, "--terms", 1),
    ).output
    assert "Bern (city)" in told and "Aare (river)" in told
    assert "Bern -- lies   0.50" in told and "+ bridge, not in the text: lies 1.00" in told
    assert "freshly infused" in told
    assert (tmp_path / "out" / "explanation.png").exists()


def test_a_model_that_reads_its_knowledge_as_text_tells_what_was_written(checkpoint: Path, tmp_path: Path) -> None:
    infused = infuser.infuse(str(checkpoint), Text(), sources=[infuser.Entities({"Bern": "city"})])
    infused.save(tmp_path / "model")
    command = ("explain", tmp_path / "model", "--text", "Bern lies on the Aare")
    told = run_command(*command, "--layer", "strongest", "--out", tmp_path).output
    assert "written behind the text: Bern: city" in told and "Largest changes of attention" in told
    assert "Written behind the text: Bern: city" in (tmp_path / "explanation.html").read_text(encoding="utf-8")
    left_out = run_command(*command, "--off", "entities", "--out", tmp_path).output
    assert "written behind" not in left_out and "did not change the attention" in left_out


def test_a_text_about_which_nothing_is_known_says_so(trained: Path, tmp_path: Path) -> None:
    told = run_command("explain", trained / "model", "--text", "the old bridge", "--out", tmp_path).output
    assert "No source knows anything about this text" in told


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (("--layer", 2), ["layer 2", "0 to 1"]),
        (("--head", 7), ["head 7", "0 to 1"]),
        (("--head", "all"), ["'all'", "mean"]),
    ],
)
def test_a_layer_or_head_that_does_not_exist_is_named(
    choice: tuple[object, ...], words: list[str], trained: Path, tmp_path: Path
) -> None:
    told = error_of("explain", trained / "model", *QUESTION, *choice, "--out", tmp_path)
    assert all(word in told for word in words)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_without_knowledge_asks_for_some(checkpoint: Path) -> None:
    assert "--entities" in error_of("explain", checkpoint, "--text", "Bern")


def test_json_is_what_the_library_says_and_a_source_can_be_left_out(trained: Path) -> None:
    asked = ("explain", trained / "model", *QUESTION, "--json")
    told = json.loads(run_command(*asked, "--layer", "strongest").stdout)
    infused = infuser.load(trained / "model")
    text, pair = QUESTION[1], QUESTION[3]
    assert told == json.loads(json.dumps(explain(infused, text, pair, layer="strongest").to_dict()))
    assert told["found"]["graph"]["links"] and not told["off"]
    less = json.loads(run_command(*asked, "--off", "graph").stdout)
    assert less["off"] == ["graph"] and "graph" not in less["maps"]
    assert "no source 'nobody' to leave out" in error_of(*asked, "--off", "nobody")
