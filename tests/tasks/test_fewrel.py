from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lama_files import jsonl

from infuser.tables.skipped import BadRow
from infuser.tasks.relation_classification import FewRel


def fewrel_row(number: int = 0) -> dict[str, Any]:
    tokens = ["The", "bridge", str(number), "crosses", "the", "Aare", "."]
    return {"tokens": tokens, "h": ["bridge", "Q1", [[1, 2]]], "t": ["aare", "Q2", [[5]]]}


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
