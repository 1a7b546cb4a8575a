from __future__ import annotations

from pathlib import Path

import pytest

from infuser.errors import InputError
from infuser.tables.skipped import BadRow
from infuser.tasks.ddi import Ddi, read_ddi

REAL = Path(__file__).parents[3] / "shared" / "data" / "bio" / "DDI2013"
TEXT = "Aspirin raises alpha- and beta-blockers."
FIRST, LAST = '"0-6" type="brand"', '"15-20;31-38" type="group"'
PAIR = 'ddi="true" type="effect"'


def document(name: str, pair: str = PAIR, first: str = FIRST, last: str = LAST) -> str:
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<document id="{name}"><sentence id="{name}.s0" text="{TEXT}">
  <entity id="{name}.s0.e0" charOffset={first} text="Aspirin"/>
  <entity id="{name}.s0.e1" charOffset={last} text="alpha-blockers"/>
  <pair id="{name}.s0.p0" e1="{name}.s0.e0" e2="{name}.s0.e1" {pair}/>
</sentence></document>"""


def folder_with(folder: Path, train: dict[str, str], test: dict[str, str]) -> str:
    for part, documents in (("Train/DrugBank", train), ("Test/Test for DDI Extraction task/MedLine", test)):
        (folder / part).mkdir(parents=True)
        for name, pair in documents.items():
            (folder / part / f"{name}.xml").write_text(document(name, pair))
    return str(folder)


def test_pairs_have_typed_marks_and_drugs_in_pieces_go_from_first_to_last(tmp_path: Path) -> None:
    task = Ddi(folder_with(tmp_path, {"d0": PAIR}, {"d1": 'ddi="true" type="advise"', "d2": 'ddi="false"'}))
    one, other = task.read("test")
    assert one == {
        "text": "@ * brand * Aspirin @ raises # ^ group ^ alpha- and beta-blockers # .",
        "label": 3,
        "id": "d1.s0.p0",
        "mentions": [[12, 19], [41, 65]],
    }
    assert (other["label"], task.labels) == (0, ("none", "mechanism", "effect", "advise", "int"))


def test_whole_documents_are_held_out_for_dev(tmp_path: Path) -> None:
    task = Ddi(folder_with(tmp_path, {f"d{at}": PAIR for at in range(20)}, {}))
    train, dev = task.read("train"), task.read("dev")
    assert (len(train), len(dev)) == (18, 2)
    assert not set(task.held_out_groups(train)) & set(task.held_out_groups(dev))
    assert task.dev_beside("test") == dev and task.dev_beside("dev") is None


def test_an_interaction_without_a_type_is_an_int(tmp_path: Path) -> None:
    task = Ddi(folder_with(tmp_path, {"d0": PAIR}, {"d1": 'ddi="true"', "d2": 'ddi="false" type=""'}))
    assert [task.labels[one["label"]] for one in task.read("test")] == ["int", "none"]


def test_scores_leave_out_none_and_detection_asks_for_no_type() -> None:
    golds = [{"label": label, "document": "d0"} for label in (0, 0, 1, 1, 2, 2)]
    chosen = [0, 1, 1, 2, 2, 0]
    logits = [[float(at == one) for at in range(5)] for one in chosen]
    scores = Ddi("").score(golds, logits)
    assert scores["relation-f1"] == scores["relation-macro-f1"] == pytest.approx(0.5)  # 2 of 4 right, 4 answered
    assert scores["detection-f1"] == pytest.approx(0.75)
    assert Ddi("").notes(golds, logits) == {"F1 by relation": {"mechanism": 0.5, "effect": 0.5}}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"first": '"0-99" type="drug"'}, "has the charOffset '0-99', which holds no words of its 40 characters"),
        ({"first": '"5-2" type="drug"'}, "has the charOffset '5-2', which holds no words"),
        ({"last": '"four" type="drug"'}, "has the charOffset 'four'"),
        ({"pair": 'ddi="maybe"'}, "has the pair 'd1.s0.p0' with ddi 'maybe'"),
        ({"pair": 'ddi="true" type="side effect"'}, "with ddi 'true' and type 'side effect'"),
    ],
)
def test_a_sentence_that_cannot_be_read_is_named(changed: dict[str, str], says: str, tmp_path: Path) -> None:
    path = tmp_path / "d1.xml"
    path.write_text(document("d1", **changed))
    with pytest.raises(BadRow) as error:
        list(read_ddi(path))
    assert str(error.value).startswith(f"{path}, sentence 1 ") and says in str(error.value)


def test_pairs_of_unknown_drugs_broken_files_and_missing_folders_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "d1.xml"
    path.write_text(document("d1").replace('e2="d1.s0.e1"', 'e2="d1.s0.e9"'))
    with pytest.raises(BadRow, match=r"sentence 1 has the pair 'd1\.s0\.p0' with 'd1\.s0\.e9', which is no entity"):
        list(read_ddi(path))
    path.write_text("<document>\n<sentence")
    with pytest.raises(BadRow, match=r"d1\.xml, line 2 is no XML at character \d+"):
        list(read_ddi(path))
    with pytest.raises(InputError, match=r"holds no \.xml file under Train"):
        Ddi(str(tmp_path)).read("train")


@pytest.mark.shared
def test_ddi_2013_is_read_whole() -> None:
    if not REAL.is_dir():
        pytest.skip(f"no data at {REAL}")
    task = Ddi(str(REAL))
    train, test = task.read("train") + task.read("dev"), task.read("test")
    counts = [(len(part), sum(example["label"] > 0 for example in part)) for part in (train, test)]
    assert counts == [(27792, 4021), (5716, 979)]
