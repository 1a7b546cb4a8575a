from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lama_files import jsonl

from infuser.errors import InputError
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.relation_classification import Tacred, _tacred_text

THABANE: dict[str, Any] = {
    "id": "e77",
    "docid": "AFP_ENG",
    "relation": "per:title",
    "token": ["Tom", "Thabane", "-LRB-", "70", "-RRB-", "is", "prime", "minister", "."],
    "subj_start": 0,
    "subj_end": 1,
    "obj_start": 6,
    "obj_end": 7,
    "subj_type": "PERSON",
    "obj_type": "TITLE",
    "stanford_pos": ["NNP", "NNP", "-LRB-", "CD", "-RRB-", "VBZ", "JJ", "NN", "."],
}


def tacred_folder(folder: Path, **parts: list[dict[str, Any]]) -> str:
    for split in ("train", "dev", "test"):
        (folder / f"{split}.json").write_text(json.dumps(parts.get(split, [THABANE])))
    return str(folder)


def test_tacred_marks_typed_mentions_and_puts_no_relation_first(tmp_path: Path):
    none = THABANE | {
        "relation": "no_relation",
        "id": "e78",
        "subj_start": 6,
        "subj_end": 7,
        "obj_start": 3,
        "obj_end": 3,
    }
    born = THABANE | {"relation": "per:age", "id": "e79"}
    task = Tacred(tacred_folder(tmp_path, train=[THABANE, none, born], dev=[none, born]))
    titled, nothing, _ = task.read("train")
    assert titled == {
        "text": "@ * person * Tom Thabane @ ( 70 ) is # ^ title ^ prime minister # .",
        "label": 2,
        "id": "e77",
        "mentions": [[13, 24], [49, 63]],
    }
    assert nothing["text"] == "Tom Thabane ( # ^ title ^ 70 # ) is @ * person * prime minister @ ."
    assert [example["label"] for example in task.read("dev")] == [0, 1]
    assert task.head_options()["id2label"] == {0: "no_relation", 1: "per:age", 2: "per:title"}
    assert Tacred(task.data, markers="none").read("test")[0]["text"] == "Tom Thabane ( 70 ) is prime minister ."


def test_class_0_is_no_relation_even_where_training_has_none(tmp_path: Path):
    task = Tacred(tacred_folder(tmp_path, train=[THABANE]))
    assert task.head_options()["id2label"][0] == "no_relation"
    scores = task.score([1, 1, 0, 0], [[0, 1], [1, 0], [1, 0], [0, 1]])
    assert scores == {"relation-f1": 0.5, "relation-precision": 0.5, "relation-recall": 0.5}


def test_tacred_is_found_where_its_release_has_it_packed_or_not(tmp_path: Path):
    folder = tmp_path / "data" / "json"
    folder.mkdir(parents=True)
    (folder / "train.json.gz").write_bytes(gzip.compress(json.dumps([THABANE]).encode()))
    assert len(Tacred(str(tmp_path)).read("train")) == 1
    with pytest.raises(InputError, match=r"holds no dev\.json"):
        Tacred(str(tmp_path)).read("dev")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"subj_end": 9}, "subj_start and subj_end, 0 and 9, are not inside its 9 tokens"),
        ({"obj_start": 8, "obj_end": 7}, "obj_start and obj_end, 8 and 7, are not inside"),
        ({"obj_start": "6"}, "obj_start and obj_end, '6' and 7, are not inside"),
        ({"subj_start": True}, "subj_start and subj_end, True and 1"),
        ({"subj_type": None}, "'subj_type' is no text but None"),
        ({"relation": ""}, "'relation' is no text but ''"),
        ({"token": "Tom is"}, "'token' is no list of words but 'Tom is'"),
        ({"token": [1] * 9}, "a token is no text"),
        ({"token": [""] * 9}, "no text"),
    ],
)
def test_bad_row_of_tacred_is_told_with_its_file_and_number(change: dict[str, Any], why: str, tmp_path: Path):
    task = Tacred(tacred_folder(tmp_path, train=[THABANE, THABANE | change]))
    with pytest.raises(BadRow) as error:
        task.read("train")
    assert str(error.value).startswith(f"{tmp_path / 'train.json'}, entry 2 cannot be read: ")
    assert why in str(error.value)


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1), min_size=1, max_size=12), st.data())
def test_mentions_of_tacred_are_the_words_of_their_tokens(words: list[str], data: st.DataObject):
    row = THABANE | {"token": words}
    for side in ("subj", "obj"):
        row[f"{side}_start"] = data.draw(st.integers(0, len(words) - 1))
        row[f"{side}_end"] = data.draw(st.integers(row[f"{side}_start"], len(words) - 1))
    text = _tacred_text(Place(Path("train.json"), 1), row)
    [triple] = text.triples
    for side, span in (("subj", triple.head), ("obj", triple.tail)):
        assert text.text[span.start : span.end] == " ".join(words[row[f"{side}_start"] : row[f"{side}_end"] + 1])


def test_relation_that_training_never_has_is_an_error(tmp_path: Path):
    task = Tacred(tacred_folder(tmp_path, dev=[THABANE | {"relation": "per:titel"}]))
    with pytest.raises(
        InputError, match=r"example 'e77' of the dev part has the relation 'per:titel', not one of the 2 known"
    ):
        task.read("dev")


def test_tacred_is_read_by_the_datasets_library(tmp_path: Path, offline: None):
    folder = tmp_path / "hub"
    folder.mkdir()
    jsonl(folder / "train.jsonl", [THABANE, THABANE | {"relation": "no_relation"}])
    jsonl(folder / "validation.jsonl", [THABANE | {"obj_end": 99}])
    task = Tacred(f"datasets:{folder}")
    assert task.read("train") == Tacred(
        tacred_folder(tmp_path, train=[THABANE, THABANE | {"relation": "no_relation"}])
    ).read("train")
    with pytest.raises(BadRow, match="validation, row 1 cannot be read: obj_start and obj_end, 6 and 99"):
        task.read("dev")
