from __future__ import annotations

import json
from pathlib import Path

import pytest
from miniatures import tiny_host, tiny_tokenizer

from infuser import Arm, Entities, Kam, compare
from infuser.experiments.coverage import coverage_sentences, score_apart
from infuser.experiments.data import Data, annotate_part
from infuser.tasks.chemprot import ChemProt
from infuser.tasks.ddi import Ddi
from infuser.training import TrainSettings


def labelled(*labels: int) -> list[dict[str, object]]:
    return [{"label": label, "document": "d0"} for label in labels]


def chosen(*classes: int) -> list[list[float]]:
    return [[float(at == one) for at in range(5)] for one in classes]


def test_a_row_is_covered_if_something_was_found_in_one_of_its_mentions() -> None:
    text = "@ * drug * Aspirin @ and # ^ drug ^ heparin # cause bleeding"
    mentions = [[11, 18], [36, 43]]
    assert [text[start:end] for start, end in mentions] == ["Aspirin", "heparin"]
    lists = {"heparin": "drug"}, {"bleeding": "symptom"}, {"drug": "word of the marks"}, {"Aspirin": "drug"}
    for names, covered in zip(lists, [True, False, False, True], strict=True):
        [example] = annotate_part([{"text": text, "mentions": mentions}], [Entities(names)], None)
        assert Ddi("").covered([example]) == [covered]


def test_covered_and_uncovered_rows_are_scored_apart() -> None:
    found = score_apart(Ddi(""), labelled(1, 1, 0, 2), chosen(1, 2, 0, 2), [True, True, False, False])
    assert found["rows"] == [1, 1, 0, 0] and found["n"] == {"covered": 2, "uncovered": 2}
    assert {part: scores["relation-f1"] for part, scores in found["scores"].items()} == {
        "covered": 0.5,
        "uncovered": 1.0,
    }
    assert "uncovered" not in score_apart(Ddi(""), labelled(1), chosen(1), [True])["scores"]


def test_every_arm_is_scored_on_the_rows_that_an_arm_covers() -> None:
    golds = labelled(1, 1, 0, 2)
    kam = score_apart(Ddi(""), golds, chosen(1, 2, 0, 2), [True, True, False, False])
    results = {
        "plain": [{"golds": golds, "predictions": chosen(*one)} for one in ((0, 0, 0, 2), (1, 1, 0, 2))],
        "kam": [{"golds": golds, "predictions": chosen(1, 2, 0, 2), "coverage": kam}],
        "of other data": [{"golds": labelled(0), "predictions": chosen(0)}],
    }
    assert coverage_sentences(Ddi(""), "relation-f1", results) == [
        "relation-f1 by rows (knowledge of kam): 2 covered rows: plain 0.500, kam 0.500; "
        "2 uncovered rows: plain 1.000, kam 1.000."
    ]
    assert coverage_sentences(Ddi(""), "relation-f1", {"plain": results["plain"]}) == []


@pytest.mark.slow
def test_a_comparison_on_a_relation_task_prints_scores_by_coverage(tmp_path: Path) -> None:
    rows = [
        {"text": f"<< {gene} >> {verb} [[ {drug} ]]", "label": label}
        for gene in ("bern", "basel")
        for drug in ("glipizide", "aspirin", "codeine")
        for verb, label in (("buy", "INHIBITOR"), ("sell", "AGONIST"))
    ]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("\n".join(map(json.dumps, rows)))
    for part in (tiny_host("bert").float(), tiny_tokenizer("bert")):
        part.save_pretrained(tmp_path / "tiny")
    data = Data.from_task(ChemProt(str(tmp_path)), score_on="test")
    arm = Arm(Kam(), [Entities({"aspirin": "drug"})])
    settings = TrainSettings(epochs=1, batch_size=4)
    found = compare(tmp_path / "tiny", arm, data, seeds=1, settings=settings, out=tmp_path / "run")
    [kam] = found.results["kam"]
    assert kam["coverage"]["n"] == {"covered": 4, "uncovered": 8}
    assert "coverage" not in found.results["plain"][0] and "coverage" not in found.results["placebo"][0]
    assert "micro-f1 by rows (knowledge of kam" in found.table()
