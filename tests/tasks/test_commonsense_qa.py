from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from miniatures import tiny_host, tiny_tokenizer

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.signals import Collator
from infuser.tables.skipped import BadRow
from infuser.tasks.base import Training
from infuser.tasks.multiple_choice import CommonsenseQa
from infuser.training import TrainSettings

REAL = Path(__file__).parents[3] / "shared/data/qa/CommonsenseQA"
TEXTS = ["bank", "river", "town", "lake", "house"]


def official(key: str | None = "B", **changes: object) -> dict[str, Any]:
    choices = [{"label": letter, "text": text} for letter, text in zip("ABCDE", TEXTS, strict=True)]
    record = {"id": "q1", "question": {"question_concept": "aare", "stem": "What is the Aare?", "choices": choices}}
    return {**record, **({} if key is None else {"answerKey": key}), **changes}


def written(folder: Path, *records: object, name: str = "dev_rand_split.jsonl") -> CommonsenseQa:
    (folder / name).write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return CommonsenseQa(str(folder))


def test_official_lines_become_a_question_with_five_choices(tmp_path):
    task = written(tmp_path, official(), official("E"))
    example = {"text": "What is the Aare?", "pair": TEXTS, "id": "q1", "label": 1}
    assert task.read("dev") == [example, {**example, "label": 4}]


def test_only_the_test_part_may_hide_its_answers(tmp_path):
    task = written(tmp_path, official(None), official(""), name="test_rand_split_no_answers.jsonl")
    assert ["label" in example for example in task.read("test")] == [False, False]
    with pytest.raises(BadRow, match=r"dev_rand_split.jsonl, line 2 has the answerKey None"):
        written(tmp_path, official(), official(None)).read("dev")


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (official("F"), "has the answerKey 'F'"),
        (official(question=None), "has no question that is a text"),
        (official(question={"stem": "What?", "choices": []}), r"has the choices \[\]"),
        (official(question={"stem": "What?", "choices": [{"label": "A", "text": "bank"}]}), r"has the choices \['A'\]"),
        (official(question="What?", choices={"label": list("ABCDE"), "text": [*TEXTS[:4], 5]}), "has a choice E"),
        (official(question="What?", choices={"label": list("ABCDE"), "text": TEXTS[:4]}), "has the choices"),
        ([], "is not an object"),
    ],
)
def test_a_malformed_row_is_told_with_its_file_and_line(tmp_path, record, why):
    with pytest.raises(BadRow, match=rf"{re.escape(str(tmp_path))}.*, line 2 {why}"):
        written(tmp_path, official(), record).read("dev")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(["A", "E"]),
        lambda inner: (
            st.lists(inner, max_size=5)
            | st.dictionaries(st.sampled_from(["question", "stem", "choices", "label", "text", "answerKey"]), inner)
        ),
        max_leaves=12,
    )
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_read_or_refused_with_its_place(tmp_path, record):
    task, refused = written(tmp_path, record), ""
    try:
        examples = task.read("dev")
    except BadRow as error:
        examples, refused = [], str(error)
    assert "line 1" in refused or (len(examples[0]["pair"]) == 5 and 0 <= examples[0]["label"] < 5)


@pytest.mark.usefixtures("offline")
def test_the_hubs_columns_are_read_through_the_datasets_library(tmp_path):
    row = {"id": "q1", "question": "What is the Aare?", "question_concept": "aare"}
    row["choices"] = {"label": list("ABCDE"), "text": TEXTS}
    data = tmp_path / "data"
    data.mkdir()
    (data / "validation.jsonl").write_text(json.dumps({**row, "answerKey": "B"}) + "\n")
    (data / "test.jsonl").write_text(json.dumps({**row, "answerKey": ""}) + "\n")
    task = CommonsenseQa(f"datasets:{data}")
    assert task.read("dev") == [{"text": "What is the Aare?", "pair": TEXTS, "id": "q1", "label": 1}]
    assert "label" not in task.read("test")[0]


def test_it_is_a_task_of_choices_judged_by_accuracy(tmp_path):
    assert TASKS["commonsense-qa"] is CommonsenseQa and CommonsenseQa.head == "multiple-choice"
    task = CommonsenseQa(str(tmp_path))
    assert task.score([1, 0], [[0.1, 0.9, 0, 0, 0], [0.1, 0.9, 0, 0, 0]]) == {"accuracy": 0.5}
    with pytest.raises(InputError, match=r"train_rand_split\.jsonl"):
        task.read("train")


def test_a_tiny_host_learns_which_choice_is_right(tmp_path):
    other = {"stem": "What runs?", "choices": official()["question"]["choices"]}
    task = written(tmp_path, official("B"), official("D", question=other))
    model, collator, examples = tiny_host("bert", "multiple-choice"), Collator(tiny_tokenizer("bert")), task.read("dev")
    chosen = TrainSettings(epochs=30, batch_size=2, learning_rate=1e-2)
    task.fit(Training(model, collator, chosen, progress=False), examples, examples)
    answers = task.answer(model, collator, examples)
    assert [len(logits) for logits in answers] == [5, 5]
    assert task.score([task.gold(example) for example in examples], answers) == {"accuracy": 1.0}


@pytest.mark.shared
def test_the_real_files_have_as_many_questions_as_published():
    if not REAL.is_dir():
        pytest.skip(f"no data at {REAL}")
    task = CommonsenseQa(str(REAL))
    train, dev, test = (task.read(split) for split in ("train", "dev", "test"))
    assert (len(train), len(dev), len(test)) == (9741, 1221, 1140)
    assert {example["label"] for example in train} == {0, 1, 2, 3, 4}
    assert not any("label" in example for example in test)
