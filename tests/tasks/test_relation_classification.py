"""TACRED, SemEval-2010-8 and FewRel: official files and hub columns in, marked texts and official scores out."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from miniatures import tiny_host, tiny_tokenizer

from infuser.errors import InputError
from infuser.reading.files import BadRow, Place
from infuser.registry import TASKS
from infuser.signals import Collator
from infuser.tasks.fewrel import FewRel
from infuser.tasks.relation_classification import parted
from infuser.tasks.semeval_2010_8 import SemEval2010Task8
from infuser.tasks.tacred import Tacred, read_tacred
from infuser.training import TrainSettings

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
SEMEVAL = """\
1\t"The <e1>storm</e1> broke the <e2>window</e2>."
Cause-Effect(e1,e2)
Comment: plain

2\t"The <e1>window</e1> was broken by the <e2>storm</e2>."
Cause-Effect(e2,e1)
Comment:

3\t"The <e1>cat</e1> saw the <e2>moon</e2>."
Other
Comment:

"""


def tacred_folder(folder: Path, **parts: list[dict[str, Any]]) -> str:
    for split in ("train", "dev", "test"):
        (folder / f"{split}.json").write_text(json.dumps(parts.get(split, [THABANE])))
    return str(folder)


def fewrel_row(number: int = 0) -> dict[str, Any]:
    tokens = ["The", "bridge", str(number), "crosses", "the", "Aare", "."]
    return {"tokens": tokens, "h": ["bridge", "Q1", [[1, 2]]], "t": ["aare", "Q2", [[5]]]}


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the datasets library keep what it writes in the test's own folder, and ask nobody."""
    import datasets

    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


# TACRED


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
    [text] = read_tacred([(Place(Path("train.json"), 1), row)])
    [triple] = text.triples
    for side, span in (("subj", triple.head), ("obj", triple.tail)):
        assert text.text[span.start : span.end] == " ".join(words[row[f"{side}_start"] : row[f"{side}_end"] + 1])


def test_relation_that_training_never_has_is_an_error(tmp_path: Path):
    task = Tacred(tacred_folder(tmp_path, dev=[THABANE | {"relation": "per:titel"}]))
    with pytest.raises(InputError, match=r"example 'e77' of the dev part has the relation 'per:titel', which is none"):
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


# SemEval-2010 task 8


def test_semeval_marks_do_not_tell_the_direction(tmp_path: Path):
    (tmp_path / "TEST_FILE_FULL.TXT").write_bytes(SEMEVAL.replace("\n", "\r\n").encode())
    task = SemEval2010Task8(str(tmp_path))
    names = task.head_options()["id2label"]
    assert [(example["text"], names[example["label"]]) for example in task.read("test")] == [
        ("The @ storm @ broke the # window # .", "Cause-Effect(e1,e2)"),
        ("The @ window @ was broken by the # storm # .", "Cause-Effect(e2,e1)"),
        ("The @ cat @ saw the # moon # .", "Other"),
    ]
    assert (len(names), names[0], names[18]) == (19, "Other", "Product-Producer(e2,e1)")


def test_semeval_dev_part_is_a_tenth_of_every_label_that_training_keeps(tmp_path: Path):
    folder = tmp_path / "SemEval2010_task8_training"
    folder.mkdir()
    relations = ["Other"] * 40 + ["Cause-Effect(e2,e1)"] * 20 + ["Entity-Destination(e2,e1)"]
    blocks = [f'{i}\t"<e1>a</e1> {i} <e2>b</e2>"\n{name}\nComment:\n\n' for i, name in enumerate(relations, start=1)]
    (folder / "TRAIN_FILE.TXT").write_text("".join(blocks))
    task = SemEval2010Task8(str(tmp_path))
    train, dev = task.read("train"), task.read("dev")
    assert Counter(example["label"] for example in dev) == {0: 4, 2: 2}
    assert Counter(example["label"] for example in train) == {0: 36, 2: 18, 8: 1}
    assert {example["id"] for example in train}.isdisjoint(example["id"] for example in dev)
    assert SemEval2010Task8(str(tmp_path)).read("dev") == dev


@pytest.mark.parametrize(
    ("block", "line", "why"),
    [
        ('4\t"<e1>a</e1> b"\nOther\n', 13, "no <e2>words</e2>"),
        ('4\t"<e1>a</e1> <e2>b</e2>"\nCause\n', 13, "the relation is neither Name(e1,e2)"),
        ('4\t"<e1>a</e1> <e2>b</e2>"\n', 13, "no relation under the sentence"),
        ("Nothing\n", 13, "neither a sentence"),
    ],
)
def test_bad_sentence_of_semeval_is_told_with_its_file_and_line(block: str, line: int, why: str, tmp_path: Path):
    path = tmp_path / "TEST_FILE_FULL.TXT"
    path.write_text(SEMEVAL + block)
    with pytest.raises(BadRow) as error:
        SemEval2010Task8(str(tmp_path)).read("test")
    assert str(error.value).startswith(f"{path}, line {line} cannot be read: {why}")


def test_relation_that_semeval_does_not_have_is_an_error(tmp_path: Path):
    (tmp_path / "TEST_FILE_FULL.TXT").write_text(SEMEVAL.replace("Cause-Effect(e2", "Cause-Efect(e2"))
    with pytest.raises(InputError, match=r"example '2' of the test part has the relation 'Cause-Efect\(e2,e1\)'"):
        SemEval2010Task8(str(tmp_path)).read("test")


def test_semeval_is_read_by_the_datasets_library(tmp_path: Path, offline: None):
    folder = tmp_path / "hub"
    folder.mkdir()
    rows = [
        {"sentence": "The <e1>storm</e1> broke the <e2>window</e2>.", "relation": 0},
        {"sentence": "The <e1>window</e1> was broken by the <e2>storm</e2>.", "relation": 1},
        {"sentence": "The <e1>cat</e1> saw the <e2>moon</e2>.", "relation": 18},
    ]
    jsonl(folder / "train.jsonl", [*rows, {"sentence": "<e1>a</e1> <e2>b</e2>", "relation": 19}])
    jsonl(folder / "test.jsonl", rows)
    (tmp_path / "TEST_FILE_FULL.TXT").write_text(SEMEVAL)
    task = SemEval2010Task8(f"datasets:{folder}")
    assert task.read("test") == SemEval2010Task8(str(tmp_path)).read("test")
    with pytest.raises(BadRow, match=r"train, row 4 cannot be read: no sentence with a relation from 0 to 18 but .*19"):
        task.read("train")


def official_semeval_score(golds: list[str], answers: list[str]) -> float:
    """Do by hand what the official scorer's description says of its third way of counting."""
    confused: Counter[tuple[str, str]] = Counter()
    turned: Counter[str] = Counter()  # "the relations match, but the direction is wrong"
    for gold, answer in zip(golds, answers, strict=True):
        relation, answered = gold.split("(")[0], answer.split("(")[0]
        if gold != answer and relation == answered:
            turned[relation] += 1
        else:
            confused[answered, relation] += 1
    scores = []
    for relation in {gold.split("(")[0] for gold in golds} - {"Other"}:
        right = confused[relation, relation]
        proposed = sum(n for (answered, _), n in confused.items() if answered == relation) + turned[relation]
        precision = right / proposed if proposed else 0
        recall = right / sum(gold.split("(")[0] == relation for gold in golds)
        scores.append(2 * precision * recall / (precision + recall) if right else 0)
    return sum(scores) / len(scores)


def test_semeval_score_is_the_official_one():
    task, draw = SemEval2010Task8("nowhere"), np.random.default_rng(0)
    for n_examples in (5, 60, 900):
        golds = draw.integers(0, 19, n_examples)
        logits = draw.normal(size=(n_examples, 19)) + 2.5 * np.eye(19)[golds]
        names = [[task.labels[at] for at in places] for places in (golds, logits.argmax(axis=1))]
        scores = task.score(golds.tolist(), logits.tolist())
        assert scores["semeval-f1"] == pytest.approx(official_semeval_score(*names), abs=1e-12)
        assert 0 < scores["semeval-f1"] < 1
    assert task.score([0, 0], [[1.0, 0.0, 0.0]] * 2)["semeval-f1"] == 0.0


def test_wrong_direction_is_wrong_for_precision_and_recall():
    logits = np.eye(19)[[1, 2, 1]]  # the second answer has the wrong direction: 2 of 3 answered, 2 of 3 asked
    assert SemEval2010Task8("nowhere").score([1, 1, 1], logits.tolist())["semeval-f1"] == pytest.approx(2 / 3)


# FewRel


def test_fewrel_splits_every_relation_in_the_same_way_each_time(tmp_path: Path):
    rows = {"P9": [fewrel_row(i) for i in range(20)], "P177": [fewrel_row(i) for i in range(40)]}
    (tmp_path / "train_wiki.json").write_text(json.dumps(rows))
    task = FewRel(str(tmp_path))
    parts = {split: task.read(split) for split in ("train", "dev", "test")}
    counts = {split: Counter(example["label"] for example in examples) for split, examples in parts.items()}
    assert counts == {"train": {0: 32, 1: 16}, "dev": {0: 4, 1: 2}, "test": {0: 4, 1: 2}}
    assert task.head_options()["id2label"] == {0: "P177", 1: "P9"}
    pairs = [(example["text"], example["label"]) for examples in parts.values() for example in examples]
    assert len(set(pairs)) == 60
    assert ("The @ bridge 7 @ crosses the # Aare # .", 0) in pairs
    assert FewRel(str(tmp_path)).read("test") == parts["test"]
    assert task.score([0, 1], [[1, 0], [1, 0]]) == {"accuracy": 0.5}


def test_bad_example_of_fewrel_is_told_with_its_file_relation_and_number(tmp_path: Path):
    path = tmp_path / "val_wiki.json"
    path.write_text(json.dumps({"P9": [fewrel_row(), fewrel_row() | {"t": ["aare", "Q2", [[7]]]}]}))
    with pytest.raises(BadRow) as error:
        FewRel(str(tmp_path), part="val_wiki").read("train")
    assert str(error.value).startswith(f"{path}, P9, example 2 cannot be read: a mention is not inside the text of 7")


def test_fewrel_is_read_by_the_datasets_library(tmp_path: Path, offline: None):
    folder = tmp_path / "hub"
    folder.mkdir()
    rows = [fewrel_row(i) for i in range(10)]
    entities = {"head": ("text", "type", "indices"), "tail": ("text", "type", "indices")}
    hub = [
        {"relation": "P177", "tokens": row["tokens"], "names": ["crosses", ""]}
        | {side: dict(zip(keys, row[side[0]], strict=True)) for side, keys in entities.items()}
        for row in rows
    ]
    jsonl(folder / "wiki.jsonl", hub)
    jsonl(folder / "bad.jsonl", [hub[0], hub[1] | {"head": None}])
    splits = "".join(
        f"  - split: {name}\n    path: {file}\n" for name, file in (("train_wiki", "wiki.jsonl"), ("bad", "bad.jsonl"))
    )
    (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: default\n  data_files:\n{splits}---\n")
    (tmp_path / "train_wiki.json").write_text(json.dumps({"P177": rows}))
    for split in ("train", "dev", "test"):
        assert FewRel(f"datasets:{folder}").read(split) == FewRel(str(tmp_path)).read(split) != []
    with pytest.raises(BadRow, match="bad, row 2 cannot be read: head and tail are not both"):
        FewRel(f"datasets:{folder}", part="bad").read("train")


# what they share


@given(st.lists(st.sampled_from("abc")), st.sampled_from([["dev"], ["dev", "test"]]))
def test_every_label_keeps_examples_to_train_on(labels: list[str], held_out: list[Any]):
    parts = parted(labels, held_out)
    assert parted(labels, held_out) == parts
    for label, n_examples in Counter(labels).items():
        counts = Counter(part for part, other in zip(parts, labels, strict=True) if other == label)
        n_held = max(1, n_examples // 10) if n_examples > len(held_out) else 0
        assert [counts[split] for split in held_out] == [n_held] * len(held_out)
        assert counts["train"] >= 1


def test_readers_load_without_torch():
    modules = "entity_markers", "relation_classification", "tacred", "semeval_2010_8", "fewrel", "entity_typing"
    lines = [f"import infuser.tasks.{name}" for name in modules]
    code = "\n".join(["import sys", *lines, "sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"])
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_kinds_are_registered():
    assert [TASKS[name] for name in ("tacred", "semeval-2010-8", "fewrel")] == [Tacred, SemEval2010Task8, FewRel]


def test_miniature_learns_which_relation_two_mentions_have(tmp_path: Path):
    blocks = []
    for number, (first, second) in enumerate([("river", "bridge"), ("bank", "lake"), ("shop", "book")] * 4):
        for relation, verb in (("Cause-Effect(e1,e2)", "buy"), ("Cause-Effect(e2,e1)", "flows"), ("Other", "near")):
            blocks.append(f'{number}\t"<e1>{first}</e1> {verb} <e2>{second}</e2>"\n{relation}\nComment:\n\n')
    (tmp_path / "TRAIN_FILE.TXT").write_text("".join(blocks))
    task = SemEval2010Task8(str(tmp_path))
    model = tiny_host("bert", task.head, hidden_dropout_prob=0.0, **task.head_options()).float()
    collator = Collator(tiny_tokenizer("bert"))
    train, dev = task.read("train"), task.read("dev")
    settings = TrainSettings(epochs=15, batch_size=4, learning_rate=5e-3, evaluate_every=27)
    result = task.fit(model, collator, train, dev=dev, settings=settings, progress=False)
    scores = task.score([task.gold(example) for example in dev], task.answer(model, collator, dev))
    assert scores == {"semeval-f1": 1.0, "accuracy": 1.0}
    assert (result.metric, result.best) == ("semeval-f1", 1.0)
    assert len(dev) == 3
