"""`infuser train CHECKPOINT datasets:NAME`: splits of the datasets library in the place of files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.commands import COLUMNS, MEDICINES, TOOLS, error_of, examples_of, run_command, write_csv
from tasks import small_ner
from tasks.small_ner import CITIES, DRUGS

from infuser.errors import InputError
from infuser.experiments.data import Data
from infuser.experiments.run_folder import RunFolder
from infuser.experiments.train import TrainedRun
from infuser.viewer.opening import open_view

pytestmark = pytest.mark.usefixtures("quiet")
FAST = ("--epochs", 3, "--batch-size", 8, "--learning-rate", 0.01)


@pytest.fixture
def quiet(offline: None) -> Iterator[None]:
    """Let the datasets library show no progress, so that an error is one line."""
    import datasets

    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def write_split(folder: Path, split: str, examples: list[dict[str, Any]]) -> None:
    """Write texts and entities as lines that the datasets library reads."""
    folder.mkdir(exist_ok=True)
    rows = (
        {"text": one["text"], "entities": [dict(zip(("start", "end", "label"), span, strict=True)) for span in spans]}
        for one in examples
        for spans in [one["entities"]]
    )
    (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data set of entities with three splits: 64, 16 and 36 texts."""
    folder = tmp_path / "drugs"
    write_split(folder, "train", small_ner.examples_of(DRUGS[:4], CITIES[:4]))
    write_split(folder, "validation", small_ner.examples_of(DRUGS[3:5], CITIES[3:5]))
    write_split(folder, "test", small_ner.examples_of(DRUGS[3:], CITIES[3:]))
    return folder


def test_a_tagger_is_trained_on_a_data_set_and_read_back(
    data: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names.csv").write_text("".join(f"{name},{label}\n" for name, label in small_ner.NAMES.items()))
    command = ("train", checkpoint, "datasets:drugs", "--task", "ner", "--entities", "names.csv", "--out", "run", *FAST)
    told = run_command(*command, "--test", "test").output
    assert "64 training and 16 dev examples of 2 types of entities" in told and "On 36 test examples" in told
    record = json.loads((tmp_path / "run" / "train.json").read_text())
    name = f"datasets:{data}"  # a folder has its whole path, so that it is found from elsewhere
    assert record["files"]["data"] == {"dataset": name, "split": "train"}
    assert record["files"]["dev"] == {"dataset": name, "split": "validation"}
    assert record["files"]["test"] == {"dataset": name, "split": "test"}

    again = run_command(*command, "--test", "test")
    assert "step" not in again.stderr and "On 36 test examples" in again.output  # nothing was left to do
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    model = tmp_path / "run" / "model"
    assert "glipizide" in run_command("predict", model, "--text", "buy glipizide in bern").output
    run_command("explain", model, "--text", "buy glipizide in bern", "--out", "page")
    examples = open_view(str(tmp_path / "run")).about()["examples"]
    assert examples[0]["text"] in {one["text"] for one in small_ner.examples_of(DRUGS[3:5], CITIES[3:5])}

    run = TrainedRun(RunFolder(tmp_path / "run"))
    assert len(run.again().data.test) == 36 and len(run.again(n_train=20).data.train) == 20
    write_split(data, "train", small_ner.examples_of(DRUGS[:4], CITIES[:3]))
    with pytest.raises(InputError, match=r"holds other examples than .*run was trained on.*--restart"):
        run.again()
    monkeypatch.chdir(tmp_path)
    assert "examples" in error_of(*command) and "--restart" in error_of(*command)


def test_the_test_split_is_scored_only_if_it_is_named(data: Path) -> None:
    name = f"datasets:{data}"
    read = Data.from_table(name, task="ner")
    assert read.scored == "dev" and read.test is read.dev and len(read.dev) == 16
    assert len(Data.from_table(name, task="ner", dev="test").dev) == 36
    assert Data.from_table(name, task="ner", dev="dev") == read  # our word for validation


def test_without_a_dev_split_a_tenth_is_held_out_as_of_a_file(data: Path) -> None:
    (data / "validation.jsonl").unlink()
    of_name = Data.from_table(f"datasets:{data}", task="ner")
    of_file = Data.from_table(data / "train.jsonl", task="ner")
    assert len(of_name.dev) == 6 and len(of_name.train) == 58
    assert (of_name.train, of_name.dev) == (of_file.train, of_file.dev)


def test_a_part_of_a_data_set_is_named_behind_a_comma(data: Path) -> None:
    (data / "small.jsonl").write_text((data / "validation.jsonl").read_text())
    files = "[{split: train, path: small.jsonl}, {split: dev, path: test.jsonl}]"
    (data / "README.md").write_text(f"---\nconfigs:\n- config_name: small\n  data_files: {files}\n---\n")
    read = Data.from_table(f"datasets:{data},small", task="ner")
    assert (len(read.train), len(read.dev)) == (16, 36)
    assert "cannot load" in error_of("train", "tiny", f"datasets:{data},big", "--task", "ner", "--plain", "--out", "o")


def test_names_that_do_not_fit_are_refused(data: Path, checkpoint: Path, tmp_path: Path) -> None:
    command = ("train", checkpoint, "--task", "ner", "--plain", "--out", tmp_path / "run")
    of_file = error_of(*command, f"datasets:{data}", "--test", "test.conll")  # not the split test
    assert "has no split 'test.conll'; it has train, validation, test" in of_file and "not files" in of_file
    mixed = error_of(*command, data / "train.jsonl", "--dev", f"datasets:{data}")
    assert "is a name of the datasets library, but the training examples are the file" in mixed
    (data / "train.jsonl").unlink()
    assert "has no split 'train'; it has validation, test" in error_of(*command, f"datasets:{data}")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_labels_of_a_data_set_are_trained_and_diagnosed(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "ads", tmp_path / "run"
    data.mkdir()
    write_csv(data / "train.csv", examples_of(MEDICINES[:2], TOOLS[:2]))
    write_csv(data / "validation.csv", examples_of(MEDICINES[2:], TOOLS[2:]))
    command = ("train", checkpoint, f"datasets:{data}", *COLUMNS, *FAST, "--out", out)
    told = run_command(*command, "--graph", task / "triples.tsv").output
    assert "24 training and 24 dev examples of 2 labels" in told
    assert open_view(str(out)).about()["examples"][0]["pair"].startswith("the ")
    run_command("diagnose", out, "--sizes", 0.5, "--corrupt", 0.5)
    facts = json.loads((out / "diagnose" / "diagnosis.json").read_text())["facts"]
    assert facts["Training examples"] == f"24, datasets:{data}"
