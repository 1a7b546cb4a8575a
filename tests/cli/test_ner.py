"""`infuser train --task ner` and what its model predicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commands import error_of, read_json_lines, run_command, save_checkpoint, write_lines
from tasks.small_ner import write_task

import infuser
from infuser.tasks.ner import find_entities
from infuser.tasks.ner_readers import read_entities
from infuser.viewer.opening import open_view
from infuser.viewer.request import ViewRequest

FAST = ("--epochs", 3, "--batch-size", 8, "--learning-rate", 0.01)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_task(tmp_path_factory.mktemp("ner"))
    save_checkpoint(folder / "tiny")
    return folder


def arguments(folder: Path, out: str) -> tuple[object, ...]:
    files = (folder / "train.conll", "--dev", folder / "dev.conll", "--test", folder / "test.conll")
    return ("train", folder / "tiny", *files, "--task", "ner", "--out", folder / out, *FAST)


@pytest.fixture(scope="module")
def told(folder: Path) -> str:
    return run_command(*arguments(folder, "run"), "--entities", folder / "names.csv").output


def test_training_prints_scores_by_type_and_what_the_dictionary_reaches(told: str) -> None:
    assert "64 training and 16 dev examples of 2 types of entities" in told
    assert "128 mentions in 64 and" in told and "It knows nothing" not in told
    assert "dev entity-f1" in told
    assert "On 36 test examples: entity-f1 0." in told and "entity-f1-unseen" in told
    assert "72 entities, 48 of them unseen in training" in told
    assert "F1 by type: City 0." in told
    assert "dictionary alone, without an encoder: entity-f1 1.0000" in told
    assert "dictionary alone has a higher entity-f1 than this model" in told
    assert "infuser predict" in told and "infuser explain" in told and "infuser diagnose" not in told


def test_the_same_command_again_trains_nothing(told: str, folder: Path) -> None:
    again = run_command(*arguments(folder, "run"), "--entities", folder / "names.csv")
    assert "step" not in again.stderr and "72 entities" in again.output
    record = json.loads((folder / "run" / "train.json").read_text())
    assert record["made_with"]["task"] == "ner" and record["result"]["metric"] == "entity-f1"


def test_a_trained_model_predicts_entities_with_offsets(told: str, folder: Path, tmp_path: Path) -> None:
    texts = write_lines(tmp_path / "new.txt", "buy glipizide in bern", "the old bridge")
    out = tmp_path / "predictions.jsonl"
    run_command("predict", folder / "run" / "model", texts, "--out", out)
    rows = read_json_lines(out)
    assert [row["text"] for row in rows] == ["buy glipizide in bern", "the old bridge"]
    for row in rows:
        for one in row["entities"]:
            assert one["text"] == row["text"][one["start"] : one["end"]] and 0 < one["probability"] <= 1
    assert any(row["entities"] for row in rows)
    assert len(list(read_entities(out))) == 2  # what it wrote can be corrected and learned from
    shown = run_command("predict", folder / "run" / "model", "--text", "buy glipizide in bern").output
    assert "glipizide" in shown and "without knowledge" in shown


def test_a_text_of_any_length_is_read_to_its_end(told: str, folder: Path, tmp_path: Path) -> None:
    long = " . ".join(["buy glipizide in bern"] * 30)
    out = tmp_path / "predictions.jsonl"
    run_command("predict", folder / "run" / "model", write_lines(tmp_path / "new.txt", long), "--out", out)
    [row] = read_json_lines(out)
    assert row["text"] == long and row["entities"][-1]["end"] > len(long) - 30


def test_a_plain_model_is_trained_and_asked_likewise(folder: Path) -> None:
    told = run_command(*arguments(folder, "plain"), "--plain").output
    assert "On 36 test examples" in told and "dictionary" not in told
    assert "glipizide" in run_command("predict", folder / "plain" / "model", "--text", "buy glipizide in bern").output


def test_mistakes_are_named_before_the_work(folder: Path, tmp_path: Path) -> None:
    bad = write_lines(tmp_path / "bad.conll", "in O", "Bern X-city")
    command = ("train", folder / "tiny", bad, "--task", "ner", "--plain", "--out", tmp_path / "run")
    assert "bad.conll, line 2 has the tag 'X-city'" in error_of(*command)
    assert "diagnose reads runs that label texts" in error_of("diagnose", folder / "plain", "--out", tmp_path / "page")
    metric = (*arguments(folder, "other"), "--plain", "--metric", "accuracy")
    assert "'accuracy' does not judge entities" in error_of(*metric)


def test_a_trained_model_is_explained_and_looked_at(told: str, folder: Path, tmp_path: Path) -> None:
    asked = ("explain", folder / "run" / "model", "--text", "buy glipizide in bern")
    shown = run_command(*asked, "--out", tmp_path).output
    assert "entities found 2 spans" in shown and "without knowledge" in shown and "without entities" in shown
    said = json.loads(run_command(*asked, "--json").stdout)
    infused = infuser.load(folder / "run" / "model")
    [found] = find_entities(infused.model, infused.collator(), [{"text": "buy glipizide in bern"}])
    assert found and [one[:3] for one in said["entities_infused"]] == [one[:3] for one in found]
    assert "<mark" in (tmp_path / "explanation.html").read_text()
    view = open_view(str(folder / "run"))
    example = view.about()["examples"][0]
    assert example["text"] in {one["text"] for _, one in read_entities(folder / "dev.conll")}
    assert view.see(ViewRequest(**example)).entities_plain is not None


def test_a_folder_of_brat_is_trained_on(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    for number, text in enumerate(["buy aspirin", "aspirin here", "the aspirin"] * 4):
        start = text.index("aspirin")
        write_lines(tmp_path / "train" / f"{number}.txt", text)
        write_lines(tmp_path / "train" / f"{number}.ann", f"T1\tDrug {start} {start + 7}\taspirin")
    command = ("train", folder / "tiny", tmp_path / "train", "--task", "ner", "--plain", "--epochs", 1)
    told = run_command(*command, "--out", tmp_path / "run").output
    assert "11 training and 1 dev example of 1 type of entities" in told
    assert len(json.loads((tmp_path / "run" / "train.json").read_text())["files"]["data"]["sha256"]) == 64
