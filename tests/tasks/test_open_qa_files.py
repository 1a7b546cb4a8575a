from __future__ import annotations

import gzip
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.tables.skipped import BadRow
from infuser.tasks.open_qa import QuasarT, SearchQa


def quasar_files(folder: Path, questions: list[Any], contexts: list[Any], kind: str = "short") -> QuasarT:
    for name, rows in (("questions/dev_questions", questions), (f"contexts/{kind}/dev_contexts", contexts)):
        path = folder / f"{name}.json.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode()))
    return QuasarT(str(folder), max_passages=2, contexts="long" if kind == "long" else "short")


QUESTION = {"uid": "s3q1", "question": "Where is Bern?", "answer": "Switzerland", "tags": ["1tok"]}
CONTEXTS = {"uid": "s3q1", "contexts": [[0.9, "Bern , Switzerland ."], [0.5, "b"], [0.1, "c"]]}


@pytest.mark.parametrize("kind", ["short", "long"])
def test_quasar_joins_questions_and_passages_by_their_uid(tmp_path, kind):
    task = quasar_files(
        tmp_path, [QUESTION, {**QUESTION, "uid": "s3q2"}], [{"uid": "s3q2", "contexts": []}, CONTEXTS], kind
    )
    first, second = task.read("dev")
    answer = {"text": "Where is Bern?", "answers": ["Switzerland"]}
    assert first == {**answer, "pair": ["Bern , Switzerland .", "b"], "id": "s3q1"}
    assert second == {**answer, "pair": [""], "id": "s3q2"}  # nothing was found, and it counts all the same
    assert TASKS["quasar-t"] is QuasarT and task.head == "question-answering" and task.metrics[0] == "f1"


@pytest.mark.parametrize(
    ("question", "contexts", "why"),
    [
        ({**QUESTION, "uid": "s3q9"}, CONTEXTS, r"dev_questions.json.gz, line 2 has the uid 's3q9', for which"),
        ({**QUESTION, "answer": " "}, CONTEXTS, r"dev_questions.json.gz, line 2 has no answer that is a text"),
        ({**QUESTION, "question": 5}, CONTEXTS, r"dev_questions.json.gz, line 2 has no question that is a text but 5"),
        (QUESTION, {"uid": "s3q1"}, r"dev_contexts.json.gz, line 2 has no list of contexts but None"),
        (QUESTION, {"uid": ["s3q1"], "contexts": []}, r"dev_contexts.json.gz, line 2 has no uid that is a text"),
        (QUESTION, {"uid": "s3q1", "contexts": [[0.5, None]]}, r"line 1 has a passage that is no text but None"),
        (QUESTION, "no object", r"dev_contexts.json.gz, line 2 is not an object"),
    ],
)
def test_malformed_rows_of_quasar_are_told_with_their_file_and_line(tmp_path, question, contexts, why):
    with pytest.raises(BadRow, match=why):
        quasar_files(tmp_path, [QUESTION, question], [CONTEXTS, contexts]).read("dev")


LINE = "<s> the aare flows in bern </s>  <s> bern </s> ||| a city on the aare ||| bern\n"
CRAWLED = {
    "question": "A city on the Aare",
    "answer": "Bern",
    "search_results": [
        {"snippet": "Bern it is", "title": "t"},
        {"snippet": None, "title": "t"},
        {"snippet": "the Aare"},
    ],
}
FROM_CRAWLED = {"text": "A city on the Aare", "pair": ["Bern it is", "the Aare"], "answers": ["Bern"], "id": "dev-1"}


def test_searchqas_lines_hold_snippets_question_and_answer(tmp_path):
    (tmp_path / "val.txt").write_text(LINE + "<s> a </s> |||  ||| bern\n" + LINE)
    pair = ["the aare flows in bern", "bern"]
    read = SearchQa(str(tmp_path)).read("dev")
    assert read[0] == {"text": "a city on the aare", "pair": pair, "answers": ["bern"], "id": "dev-1"}
    assert [example["id"] for example in read] == ["dev-1", "dev-3"]  # one without a question is left out
    assert SearchQa(str(tmp_path), max_passages=1).read("dev")[0]["pair"] == pair[:1]
    assert TASKS["search-qa"] is SearchQa


@pytest.mark.parametrize(
    ("line", "why"),
    [("a ||| b\n", r"has 2 parts between '\|\|\|'"), ("snippet ||| q ||| a\n", "has snippets without <s> and </s>")],
)
def test_malformed_lines_of_searchqa_are_told_with_their_file_and_line(tmp_path, line, why):
    (tmp_path / "train.txt").write_text(LINE + line)
    with pytest.raises(BadRow, match=rf"train.txt, line 2 {why}"):
        SearchQa(str(tmp_path)).read("train")


@pytest.mark.parametrize("packed", [False, True])
def test_searchqas_crawled_files_are_read_from_a_folder_or_a_zip(tmp_path, packed):
    files = {"000001.json": json.dumps(CRAWLED), "000002.json": "{"}
    task = SearchQa(str(tmp_path))

    def write(names: list[str]) -> None:
        if packed:
            with zipfile.ZipFile(tmp_path / "val.zip", "w") as archive:
                for name in names:
                    archive.writestr(name, files[name])
        else:
            (tmp_path / "val").mkdir(exist_ok=True)
            for name in names:
                (tmp_path / "val" / name).write_text(files[name])

    write(["000001.json"])
    assert task.read("dev") == [FROM_CRAWLED]
    write([*files])
    with pytest.raises(BadRow, match=r"000002.json, line 1 is not JSON"):
        task.read("dev")


def test_searchqa_says_what_is_missing(tmp_path):
    (tmp_path / "val").mkdir()
    (tmp_path / "val/1.json").write_text(json.dumps({**CRAWLED, "search_results": "none"}))
    (tmp_path / "test.zip").write_bytes(b"no archive")
    for split, why in (("dev", "has no search_results"), ("test", "no zip file"), ("train", "train.txt or train.zip")):
        with pytest.raises(InputError, match=why):
            SearchQa(str(tmp_path)).read(split)


@pytest.mark.usefixtures("offline")
def test_the_hubs_columns_are_read_through_the_datasets_library(tmp_path):
    results = {"snippets": ["Bern it is", "", "the Aare"], "titles": ["t", "t", "t"]}
    for name, row in (
        ("search", {**CRAWLED, "search_results": results}),
        ("quasar", {**QUESTION, "contexts": [text for _, text in CONTEXTS["contexts"]]}),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "validation.jsonl").write_text(json.dumps(row))
    assert SearchQa(f"datasets:{tmp_path / 'search'}").read("dev") == [FROM_CRAWLED]
    assert QuasarT(f"datasets:{tmp_path / 'quasar'}").read("dev")[0]["pair"] == ["Bern , Switzerland .", "b", "c"]


@given(st.text(st.sampled_from("<s/>| ab\n"), max_size=40))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_line_is_read_or_refused_with_its_place(tmp_path, text):
    (tmp_path / "val.txt").write_text(text)
    examples, refused = [], ""
    try:
        examples = SearchQa(str(tmp_path)).read("dev")
    except BadRow as error:
        refused = str(error)
    n_lines = sum(1 for line in text.split("\n") if line.strip())
    assert re.search(r"val.txt, line \d+", refused) or len(examples) <= n_lines
    assert all(example["text"] and example["pair"] and example["answers"][0] for example in examples)


@pytest.mark.parametrize(
    "setting", [{"max_passages": 0}, {"max_answer_tokens": 0}, {"n_negatives": -1}, {"contexts": "x"}]
)
def test_impossible_settings_are_refused(setting):
    with pytest.raises(InputError, match=f"The setting {next(iter(setting))} is"):
        QuasarT("nowhere", **setting)
