from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.tables.skipped import BadRow
from infuser.tasks.multiple_choice import CosmosQa

REAL = Path(__file__).parents[3] / "shared/data/qa/CosmosQA"
COLUMNS = ["id", "context", "question", "answer0", "answer1", "answer2", "answer3", "label"]
ROW = [
    "s1##q1",
    "We went to Bern,\nby train.",
    "Why by train ?",
    "It was cheap .",
    "No car .",
    "A bike .",
    "None .",
    "1",
]


def written(folder: Path, *rows: list[str], name: str = "valid.csv", columns: list[str] = COLUMNS) -> CosmosQa:
    with (folder / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])
    return CosmosQa(str(folder))


def test_a_story_is_the_text_and_question_with_answer_its_pairs(tmp_path):
    [example] = written(tmp_path, ROW).read("dev")
    assert example == {
        "text": "We went to Bern,\nby train.",
        "pair": [
            "Why by train ? It was cheap .",
            "Why by train ? No car .",
            "Why by train ? A bike .",
            "Why by train ? None .",
        ],
        "id": "s1##q1",
        "label": 1,
    }


@pytest.mark.parametrize("label", ["", "-1", "2"])
def test_the_test_part_may_hide_its_answers(tmp_path, label):
    [example] = written(tmp_path, [*ROW[:-1], label], name="test.csv").read("test")
    assert example.get("label") == (2 if label == "2" else None)


def test_the_test_part_may_be_json_lines_without_a_label(tmp_path):
    (tmp_path / "test.jsonl").write_text(json.dumps(dict(zip(COLUMNS[:-1], ROW, strict=False))))
    [example] = CosmosQa(str(tmp_path)).read("test")
    assert "label" not in example and len(example["pair"]) == 4


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ([*ROW[:-1], "4"], "has the label '4'"),
        ([*ROW[:-1], "-1"], "has the label '-1'"),
        (ROW[:-1], "has 7 cells instead of 8"),
    ],
)
def test_a_malformed_row_is_told_with_its_file_and_line(tmp_path, row, why):
    with pytest.raises(BadRow, match=rf"valid.csv, line 4 {why}"):  # a story of two lines each
        written(tmp_path, ROW, row).read("dev")


def test_a_missing_column_is_told(tmp_path):
    with pytest.raises(BadRow, match=r"line 2 has no text in the column 'answer3'; its columns are id, .*, last"):
        written(tmp_path, ROW, columns=[*COLUMNS[:-2], "last", "label"]).read("dev")
    with pytest.raises(InputError, match=r"train.csv"):
        CosmosQa(str(tmp_path)).read("train")


@pytest.mark.usefixtures("offline")
def test_the_hubs_columns_are_read_through_the_datasets_library(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    from_files = written(data, ROW, name="validation.csv")
    written(data, [*ROW[:-1], "-1"], name="test.csv")
    task = CosmosQa(f"datasets:{data}")
    assert task.read("dev")[0]["label"] == 1 and "label" not in task.read("test")[0]
    (data / "validation.csv").rename(data / "valid.csv")
    assert task.read("dev") == from_files.read("dev")


def test_it_is_a_task_of_choices():
    assert TASKS["cosmos-qa"] is CosmosQa and CosmosQa.head == "multiple-choice"
    assert CosmosQa("x").score([3], [[0.0, 0, 0, 1]]) == {"accuracy": 1.0}


@pytest.mark.shared
def test_the_real_dev_part_has_as_many_questions_as_published():
    if not REAL.is_dir():
        pytest.skip(f"no data at {REAL}")
    examples = CosmosQa(str(REAL)).read("dev")
    assert len(examples) == 2985 and {example["label"] for example in examples} == {0, 1, 2, 3}
