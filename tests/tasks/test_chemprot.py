from __future__ import annotations

import json
from pathlib import Path

import pytest

from infuser.tables.skipped import BadRow
from infuser.tasks.chemprot import ChemProt

REAL = Path(__file__).parents[3] / "shared" / "data" / "bio" / "ChemProt"
GEFITINIB = {"text": "<< EGFR >> inhibitors ([[ gefitinib ]], 9 >> 3)", "label": "INHIBITOR", "metadata": []}


def folder_with(folder: Path, *rows: object) -> str:
    for split in ("train", "dev", "test"):
        (folder / f"{split}.txt").write_text("\n".join(map(json.dumps, rows)))
    return str(folder)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        (GEFITINIB["text"], "@ EGFR @ inhibitors ( # gefitinib # , 9 >> 3)"),
        ("[[ aspirin ]] blocks << COX >>", "# aspirin # blocks @ COX @"),
        ("<< 5-[2-[[2-hydroxy]] x >> and [[ AR ]]", "@ 5-[2-[[2-hydroxy]] x @ and # AR #"),
        ("<< [[ AR ]] ligand >>", "@ # AR # ligand @"),
    ],
)
def test_marks_of_the_file_become_marks_of_ours(text: str, marked: str, tmp_path: Path) -> None:
    task = ChemProt(folder_with(tmp_path, {"text": text, "label": "INHIBITOR"}))
    [example] = task.read("train")
    assert example["text"] == marked
    head, tail = (marked[start:end] for start, end in example["mentions"])
    assert marked.index(f"@ {head} @") >= 0 and marked.index(f"# {tail} #") >= 0
    plain = ChemProt(task.data, markers="none").read("train")[0]
    assert "@" not in plain["text"] and plain["text"][slice(*plain["mentions"][1])] == tail


def test_micro_f1_is_accuracy_for_there_is_no_class_none(tmp_path: Path) -> None:
    task = ChemProt(folder_with(tmp_path, GEFITINIB, GEFITINIB | {"label": "AGONIST"}))
    assert task.labels == ("AGONIST", "INHIBITOR")
    scores = task.score([0, 1, 1], [[1, 0], [0, 1], [1, 0]])
    assert scores["micro-f1"] == scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["macro-f1"] == pytest.approx(2 / 3)
    assert task.dev_beside("test") == task.read("dev")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"text": "EGFR and [[ gefitinib ]]"}, "not one mention in <<  >> but 0"),
        ({"text": "<< EGFR >> and << X >> and [[ gefitinib ]]"}, "not one mention in <<  >> but 2"),
        ({"text": "<< EGFR >> and [[ gefitinib"}, "not one mention in [[  ]] but 1"),
        ({"text": "<<   >> and [[ gefitinib ]]"}, "a mention without words"),
        ({"text": 7}, "its 'text' is no text but 7"),
        ({"label": ""}, "its 'label' is no text but ''"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(change: dict[str, object], why: str, tmp_path: Path) -> None:
    task = ChemProt(folder_with(tmp_path, GEFITINIB, GEFITINIB | change))
    with pytest.raises(BadRow) as error:
        task.read("train")
    assert str(error.value).startswith(f"{tmp_path / 'train.txt'}, line 2 cannot be read: {why}")


@pytest.mark.shared
def test_chemprot_is_read_whole() -> None:
    if not REAL.is_dir():
        pytest.skip(f"no data at {REAL}")
    task = ChemProt(str(REAL))
    assert [len(task.read(split)) for split in ("train", "dev", "test")] == [4169, 2427, 3469]
    assert len(task.labels) == 13
