from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infuser.errors import InputError, UnknownNameError
from infuser.registry import TASKS
from infuser.tasks.tabular import Table

ROWS = [{"text": f"text {i}", "label": ("good", "bad", "mixed")[i % 3]} for i in range(60)]


def write_csv(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_table(path: Path, rows: list[dict[str, object]]) -> None:
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".tsv":
        path.write_text("\n".join("\t".join(map(str, row)) for row in (rows[0], *(row.values() for row in rows))))
    else:
        write_csv(path, rows)


@pytest.mark.parametrize("ending", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_every_kind_of_table_gives_the_same_examples(ending: str, tmp_path: Path):
    for part, number in (("train", 6), ("dev", 3), ("test", 3)):
        write_table(tmp_path / f"{part}.{ending}", ROWS[:number])
    task = Table(str(tmp_path), train=f"train.{ending}", dev=f"dev.{ending}", test=f"test.{ending}")
    expected = [{"text": f"text {i}", "pair": None, "label": (1, 0, 2)[i % 3]} for i in range(6)]
    assert [task.read("train"), task.read("dev"), task.read("test")] == [expected, expected[:3], expected[:3]]
    assert task.head_options()["id2label"] == {0: "bad", 1: "good", 2: "mixed"}
    assert TASKS.name_of(task) == "table"


def test_missing_parts_are_held_out_of_training(tmp_path: Path):
    write_csv(tmp_path / "all.csv", ROWS)
    task = Table(str(tmp_path / "all.csv"), dev_share=0.2)
    parts = {split: task.read(split) for split in ("train", "dev", "test")}
    texts = {split: [example["text"] for example in part] for split, part in parts.items()}
    assert sorted(text for part in texts.values() for text in part) == sorted(row["text"] for row in ROWS)
    assert [len(part) for part in parts.values()] == [39, 9, 12]  # a fifth of 20 per label, then of the 16 left
    assert all({example["label"] for example in part} == {0, 1, 2} for part in parts.values())
    assert task.read("dev") == parts["dev"]
    assert Table(str(tmp_path / "all.csv"), dev_share=0.2, seed=1).read("dev") != parts["dev"]


def test_a_part_with_a_file_of_its_own_is_not_held_out(tmp_path: Path):
    write_csv(tmp_path / "train.csv", ROWS)
    write_csv(tmp_path / "later.csv", ROWS[:3])
    for data in (tmp_path, tmp_path / "train.csv"):
        task = Table(str(data), dev="later.csv", dev_share=0)
        assert (len(task.read("train")), len(task.read("dev"))) == (60, 3)
        with pytest.raises(InputError, match=r"has no test part\. Name its file, test = FILE, or set dev_share"):
            task.read("test")


def test_columns_have_any_name(tmp_path: Path):
    write_csv(tmp_path / "train.csv", [{"q": "a", "d": "b", "y": 10}, {"q": "c", "d": "d", "y": 9}])
    task = Table(str(tmp_path), text="q", pair="d", label="y", dev_share=0)
    assert task.read("train")[0] == {"text": "a", "pair": "b", "label": 1}
    assert list(task.head_options()["label2id"]) == ["9", "10"]  # numbers in their order


def test_a_test_part_without_labels_is_read(tmp_path: Path):
    write_csv(tmp_path / "train.csv", ROWS)
    write_csv(tmp_path / "test.csv", [{"text": "new"}])
    assert Table(str(tmp_path), test="test.csv").read("test") == [{"text": "new", "pair": None}]


def test_scores_are_learned_as_numbers(tmp_path: Path):
    write_csv(tmp_path / "train.csv", [{"text": f"t{i}", "label": i / 4} for i in range(20)])
    task = Table(str(tmp_path), regression=True)
    parts = [task.read(split) for split in ("train", "dev", "test")]
    assert [len(part) for part in parts] == [16, 2, 2]
    assert sorted(example["label"] for part in parts for example in part) == [i / 4 for i in range(20)]
    assert task.head_options()["num_labels"] == 1
    scores = task.score([1.0, 2.0, 4.0], [[1.0], [2.0], [3.0]])
    assert list(scores) == ["spearman", "pearson", "mse"]
    assert scores["mse"] == pytest.approx(1 / 3) and scores["spearman"] == 1 and 0.9 < scores["pearson"] < 1


def test_the_chosen_metric_comes_first():
    assert Table("d").metrics == ("accuracy", "macro-f1")
    assert Table("d", metric="auc").metrics == ("auc", "accuracy", "macro-f1")
    assert Table("d", metric="macro-f1").metrics == ("macro-f1", "accuracy")
    assert Table("d", metric="mse", regression=True).metrics == ("mse", "spearman", "pearson")
    with pytest.raises(UnknownNameError, match="Did you mean 'accuracy'"):
        Table("d", metric="acuracy")
    assert Table("d", metric="auc").score([0, 1, 1], [[1.0, 0.0], [0.0, 1.0], [1.0, 0.5]]) == pytest.approx(
        {"auc": 1.0, "accuracy": 2 / 3, "macro-f1": 2 / 3}
    )


@pytest.mark.parametrize(
    ("settings", "dev", "words"),
    [
        (
            {},
            ["text,label", "a,good", "b,awful"],
            r"dev\.csv, line 3 has the label 'awful', which no training example has",
        ),
        ({}, ["text,label", "a"], r"dev\.csv, line 2 has 1 cell instead of 2"),
        ({}, ["text,label", "a,"], r"dev\.csv, line 2 has the label ''"),
        ({}, ["texts,label", "a,good"], r"dev\.csv, line 2 has no column 'text'. Did you mean 'texts'\?"),
        ({}, ["text,label"], "dev part .* holds no examples"),
        ({"label": "n", "regression": True}, ["text,n", "a,3", "b,inf"], r"line 3 has 'inf' in 'n', not a number"),
        ({"dev": "dve.csv"}, ["text,label"], "No file at .*dve.csv"),
    ],
)
def test_what_cannot_be_read_is_named_with_file_and_line(settings, dev, words, tmp_path: Path):
    write_csv(tmp_path / "train.csv", [{**row, "n": 1} for row in ROWS])
    (tmp_path / "dev.csv").write_text("\n".join(dev) + "\n")
    with pytest.raises(InputError, match=words):
        Table(str(tmp_path), **{"dev": "dev.csv", **settings}).read("dev")


def test_settings_that_cannot_be_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"dev_share is 0\.5"):
        Table("d", dev_share=0.5)
    write_csv(tmp_path / "train.csv", [*ROWS[:6], {"text": "one", "label": "rare"}])
    with pytest.raises(InputError, match="one example of the label 'rare', so none can be held out"):
        Table(str(tmp_path)).read("dev")
    write_csv(tmp_path / "train.csv", [{"text": "a", "label": 0.5}, {"text": "b", "label": 1}])
    with pytest.raises(InputError, match="regression = true"):
        Table(str(tmp_path), dev_share=0).read("train")


@pytest.mark.usefixtures("offline")
def test_the_datasets_library_reads_splits_by_name(tmp_path: Path):
    (tmp_path / "data").mkdir()
    write_csv(tmp_path / "data" / "train.csv", ROWS)
    write_csv(tmp_path / "data" / "validation.csv", ROWS[:3])
    task = Table(f"datasets:{tmp_path / 'data'}", dev="dev", dev_share=0)
    assert len(task.read("train")) == 60
    assert [example["label"] for example in task.read("dev")] == [1, 0, 2]
    held = Table(f"datasets:{tmp_path / 'data'}", dev="dev")
    assert len(held.read("train")) == 54 and len(held.read("test")) == 6


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r"), min_size=1, max_size=20)


@given(rows=st.lists(st.tuples(TEXTS, st.integers(0, 2)), min_size=3, max_size=8))
def test_any_text_and_label_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, rows):
    path = tmp_path_factory.mktemp("table") / "train.csv"
    rows = [*rows, ("x", 0), ("y", 1), ("z", 2)]
    write_csv(path, [{"text": text, "label": label} for text, label in rows])
    read = Table(str(path), dev_share=0).read("train")
    assert [(example["text"], example["label"]) for example in read] == rows
