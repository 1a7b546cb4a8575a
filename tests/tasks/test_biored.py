from __future__ import annotations

from pathlib import Path

import pytest

from infuser.tables.skipped import BadRow
from infuser.tasks.biored import BioredNer, BioredRelations

REAL = Path(__file__).parents[3] / "shared" / "data" / "bio" / "BioRED"
LINES = [
    "7|t|HNF-6 and diabetes in mice.",
    "7|a|HNF6 and MODY.",
    "7\t0\t5\tHNF-6\tGeneOrGeneProduct\t3175",
    "7\t10\t18\tdiabetes\tDiseaseOrPhenotypicFeature\tD003924",
    "7\t22\t26\tmice\tOrganismTaxon\t10090",
    "7\t28\t32\tHNF6\tGeneOrGeneProduct\t3175",
    "7\t37\t41\tMODY\tGeneOrGeneProduct\t3172,3651",
    "7\tAssociation\tD003924\t3175\tNo",
]


def folder_with(folder: Path, *more: str) -> str:
    for part in ("Train", "Dev", "Test"):
        (folder / f"{part}.PubTator").write_text("\n".join([*LINES, *more]) + "\n\n")
    return str(folder)


def test_entities_have_the_types_of_the_file(tmp_path: Path) -> None:
    task = BioredNer(folder_with(tmp_path))
    [example] = task.read("dev")
    assert example["text"] == "HNF-6 and diabetes in mice. HNF6 and MODY."
    assert task.types == ("DiseaseOrPhenotypicFeature", "GeneOrGeneProduct", "OrganismTaxon")
    assert len(example["entities"]) == 5


def test_all_mentions_of_a_pair_are_marked_and_species_have_no_pairs(tmp_path: Path) -> None:
    task = BioredRelations(folder_with(tmp_path))
    examples = task.read("train")
    assert [example["id"] for example in examples] == [
        "7 3175 D003924",
        "7 3175 3172",
        "7 3175 3651",
        "7 D003924 3172",
        "7 D003924 3651",
        "7 3172 3651",
    ]
    first, *others = examples
    assert first["text"] == ("@ * gene * HNF-6 @ and # ^ disease ^ diabetes # in mice. @ * gene * HNF6 @ and MODY.")
    assert task.labels[first["label"]] == "Association" and [one["label"] for one in others] == [0] * 5
    assert [first["text"][start:end] for start, end in first["mentions"]] == ["HNF-6", "HNF6", "diabetes"]
    assert others[-1]["text"].endswith("@ * gene * # ^ gene ^ MODY # @ .")  # one mention of two genes
    assert set(task.held_out_groups(examples)) == {"7"}


def test_a_relation_outside_the_candidates_is_an_example_too(tmp_path: Path) -> None:
    task = BioredRelations(folder_with(tmp_path, "7\tBind\t3175\t3175\tNo", "7\tAssociation\t10090\t3175\tNo"))
    stated = {one["id"]: task.labels[one["label"]] for one in task.read("test") if one["label"]}
    assert stated == {"7 3175 D003924": "Association", "7 3175 3175": "Bind", "7 3175 10090": "Association"}


def test_pairs_are_scored_with_their_type_and_alone() -> None:
    golds, chosen = [{"label": label, "document": "7"} for label in (0, 1, 1, 8)], [0, 1, 2, 0]
    logits = [[float(at == one) for at in range(9)] for one in chosen]
    scores = BioredRelations("").score(golds, logits)
    assert scores["relation-f1"] == pytest.approx(2 / 5) and scores["detection-f1"] == pytest.approx(4 / 5)
    assert BioredRelations("").notes(golds, logits)["F1 by relation"] == {
        "Association": pytest.approx(2 / 3),
        "Bind": 0.0,
        "Positive_Correlation": 0.0,
    }


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("7\tBind\t3175\tD9\tNo", "line 9 has a relation of 'D9', which no mention of the document means"),
        ("7\tBind\t3175\tD003924\tNo", "line 9 has the relation 'Bind' of a pair that has 'Association' already"),
    ],
)
def test_a_relation_that_cannot_be_read_is_named(line: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(BadRow, match=rf"Test\.PubTator, {says}"):
        BioredRelations(folder_with(tmp_path, line)).read("test")


def test_a_relation_of_another_kind_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the relation 'Cures', not one of the 9 known"):
        BioredRelations(folder_with(tmp_path, "7\tCures\t3172\tD003924\tNo")).read("test")


@pytest.mark.shared
def test_biored_is_read_whole() -> None:
    if not REAL.is_dir():
        pytest.skip(f"no data at {REAL}")
    entities, pairs = BioredNer(str(REAL), max_words=None), BioredRelations(str(REAL))
    counts = {
        split: (
            len(documents := entities.read(split)),
            sum(len(one["entities"]) for one in documents),
            len(read := pairs.read(split)),
            sum(one["label"] > 0 for one in read),
        )
        for split in ("train", "dev", "test")
    }
    assert counts == {
        "train": (400, 13351, 21759, 4178),
        "dev": (100, 3533, 6335, 1162),
        "test": (100, 3535, 7047, 1163),
    }
    windows = BioredNer(str(REAL)).read("test")
    inside = [end <= len(one["text"]) for one in windows for _, end, _ in one["entities"]]
    assert len(windows) == 209 and inside == [True] * 3535
