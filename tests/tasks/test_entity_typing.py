"""OpenEntity and FIGER: both official formats in, marked mentions and several labels per text out."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from miniatures import tiny_host, tiny_tokenizer

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.signals import Collator
from infuser.tables.skipped import BadRow, Place
from infuser.tasks.base import Training
from infuser.tasks.entity_typing import Figer, OpenEntity, _of_choi
from infuser.training import TrainSettings

BERN: dict[str, Any] = {
    "sent": "He lives in Bern .",
    "start": 12,
    "end": 16,
    "labels": ["place", "location"],
    "ents": [],
}
HE: dict[str, Any] = BERN | {"start": 0, "end": 2, "labels": ["person"], "ents": [["Q70", 12, 16, 0.4]]}
CROWD: dict[str, Any] = {
    "annot_id": "APW:3:1",
    "left_context_token": ["He", "lives", "in"],
    "mention_span": "Bern",
    "right_context_token": ["."],
    "y_str": ["location", "city", "place", "swiss_city"],
}


def folder_with(folder: Path, **parts: list[dict[str, Any]]) -> str:
    for split in ("train", "dev", "test"):
        (folder / f"{split}.json").write_text(json.dumps(parts.get(split, [HE, BERN])))
    return str(folder)


@pytest.mark.parametrize("kind", ["open-entity", "figer"])
def test_mention_is_marked_and_every_type_is_a_label_of_its_own(kind: str, tmp_path: Path):
    task = TASKS[kind](folder_with(tmp_path, dev=[BERN | {"labels": []}]))
    assert task.read("train") == [
        {"text": "@ He @ lives in Bern .", "label": [0.0, 1.0, 0.0]},
        {"text": "He lives in @ Bern @ .", "label": [1.0, 0.0, 1.0]},
    ]
    [untyped] = task.read("dev")
    assert task.gold(untyped) == [0, 0, 0]
    options = task.head_options()
    assert options["id2label"] == {0: "location", 1: "person", 2: "place"}
    assert (options["num_labels"], options["problem_type"]) == (3, "multi_label_classification")


def test_examples_with_the_same_types_share_one_label(tmp_path: Path):
    turned = BERN | {"labels": ["location", "place", "place"]}
    first, _, second = Figer(folder_with(tmp_path, train=[BERN, HE, turned])).read("train")
    assert first["label"] is second["label"]


def test_open_entity_is_read_as_it_was_published_with_its_nine_general_types(tmp_path: Path):
    (tmp_path / "crowd").mkdir()
    first = CROWD | {"left_context_token": [], "mention_span": "The old town", "y_str": ["group", "crowd"]}
    path = tmp_path / "crowd" / "train.json"
    path.write_text(f"{json.dumps(CROWD)}\n\n{json.dumps(first)}\n")
    task = OpenEntity(str(tmp_path))
    assert task.types == ("group", "location", "place")
    assert task.read("train") == [
        {"text": "He lives in @ Bern @ .", "label": [0.0, 1.0, 1.0]},
        {"text": "@ The old town @ .", "label": [1.0, 0.0, 0.0]},
    ]


@given(*[st.lists(st.text("ab-", min_size=1))] * 2, st.text("cd", min_size=1))
def test_mention_stands_between_its_contexts(left: list[str], right: list[str], mention: str):
    row = CROWD | {"left_context_token": left, "mention_span": mention, "right_context_token": right}
    text, span, _ = _of_choi(Place(Path("train.json"), 1), row)
    assert text == " ".join([*left, mention, *right])
    assert (text[span.start : span.end], text[: span.start].split()) == (mention, left)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"end": 19}, "has a mention from 12 to 19, not inside its 18 characters"),
        ({"start": 17, "end": 16}, "has a mention from 17 to 16"),
        ({"start": "12"}, "has a mention from '12' to 16"),
        ({"start": None}, "has a mention from None to 16"),
        ({"sent": " "}, "has no text as 'sent' but ' '"),
        ({"labels": "person"}, "has no list of types as 'labels' but 'person'"),
        ({"labels": [1]}, "has no list of types as 'labels' but [1]"),
    ],
)
def test_bad_row_is_told_with_its_file_and_number(change: dict[str, Any], why: str, tmp_path: Path):
    task = OpenEntity(folder_with(tmp_path, train=[HE, BERN | change]))
    with pytest.raises(BadRow) as error:
        task.read("train")
    assert str(error.value).startswith(f"{tmp_path / 'train.json'}, entry 2 {why}")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (json.dumps(CROWD | {"mention_span": 3}), "has no mention between two lists of words"),
        (json.dumps(CROWD | {"right_context_token": "."}), "has no mention between two lists of words"),
        (json.dumps(CROWD | {"y_str": None}), "has no list of types as 'y_str' but None"),
        ("[1]", "is not an object"),
        ('{"annot_id": ', "is not JSON"),
    ],
)
def test_bad_line_is_told_with_its_file_and_line(line: str, why: str, tmp_path: Path):
    (tmp_path / "train.json").write_text(f"{json.dumps(CROWD)}\n{line}\n")
    with pytest.raises(BadRow) as error:
        OpenEntity(str(tmp_path)).read("train")
    assert str(error.value).startswith(f"{tmp_path / 'train.json'}, line 2 {why}")


def test_type_that_training_never_has_is_an_error_with_its_place(tmp_path: Path):
    task = OpenEntity(folder_with(tmp_path, test=[HE, HE | {"labels": ["person", "persona"]}]))
    with pytest.raises(BadRow, match=r"test\.json, entry 2 has types that no training row has, \['persona'\]"):
        task.read("test")
    untyped = OpenEntity(folder_with(tmp_path, train=[HE | {"labels": []}]))
    with pytest.raises(InputError, match=r"No mention in the training part of .* has a type"):
        untyped.head_options()


def test_rows_without_a_mention_are_left_out_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    task = OpenEntity(folder_with(tmp_path, dev=[BERN, BERN | {"start": 16}]))
    with caplog.at_level(logging.WARNING):
        assert len(task.read("dev")) == 1
    assert "dev: 1 rows with an empty mention left out" in caplog.text


def test_rows_are_read_by_the_datasets_library(tmp_path: Path, offline: None):
    folder = tmp_path / "hub"
    folder.mkdir()
    for name, rows in (("train", [HE, BERN]), ("validation", [HE | {"end": 99}])):
        plain = [{key: value for key, value in row.items() if key != "ents"} for row in rows]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in plain))
    task = OpenEntity(f"datasets:{folder}")
    assert task.read("train") == OpenEntity(folder_with(tmp_path)).read("train")
    with pytest.raises(BadRow, match="validation, row 1 has a mention from 0 to 99"):
        task.read("dev")


def test_scores_count_types_of_mentions():
    scores = OpenEntity("nowhere").score([[1, 0, 1], [0, 1, 0]], [[2.0, -1.0, -1.0], [1.0, 3.0, -2.0]])
    assert scores["typing-precision"] == pytest.approx(2 / 3)
    assert scores["typing-recall"] == pytest.approx(2 / 3)
    assert scores["typing-micro-f1"] == pytest.approx(2 / 3)
    assert scores["typing-macro-f1"] == pytest.approx(3 / 4)  # both means over mentions are 3/4


def test_figer_counts_the_likeliest_type_as_predicted():
    golds, logits = [[1, 0, 0], [0, 1, 1]], [[-1.0, -2.0, -3.0], [-5.0, 2.0, 4.0]]
    assert Figer("nowhere").score(golds, logits) == dict.fromkeys(Figer.metrics, 1.0)
    assert OpenEntity("nowhere").score(golds, logits)["typing-recall"] == pytest.approx(2 / 3)


def test_miniature_learns_several_types_at_once(tmp_path: Path):
    types = {"river": ["location", "object"], "city": ["location", "place"], "author": ["person"], "book": ["object"]}
    rows = []
    for frame in ("the {}", "{} is old", "buy {}", "on a {}", "{} and me"):
        for word, labels in types.items():
            text, start = frame.format(word), frame.index("{}")
            rows.append({"sent": text, "start": start, "end": start + len(word), "labels": labels})
    task = OpenEntity(folder_with(tmp_path, train=rows, dev=rows[-4:]))
    model = tiny_host("bert", task.head, hidden_dropout_prob=0.0, **task.head_options()).float()
    collator = Collator(tiny_tokenizer("bert"))
    settings = TrainSettings(epochs=25, batch_size=4, learning_rate=5e-3, evaluate_every=25)
    train, dev = task.read("train"), task.read("dev")
    result = task.fit(Training(model, collator, settings, progress=False), train, dev)
    scores = task.score([task.gold(example) for example in dev], task.answer(model, collator, dev))
    assert scores == dict.fromkeys(task.metrics, 1.0)
    assert (result.metric, result.best) == ("typing-micro-f1", 1.0)
