from __future__ import annotations

import json
from pathlib import Path

import pytest

from infuser.errors import InputError
from infuser.tasks.ner import Ner
from infuser.tasks.ner_readers import read_entities

SAMPLES = Path(__file__).parent.parent / "data" / "ner"
BIG = Path(__file__).parents[3] / "shared" / "data" / "ner"
TEXT = "Bern lies on the Aare."


def read(path: Path) -> list[dict[str, object]]:
    return [example for _, example in read_entities(path)]


def words_of(example: dict[str, object]) -> list[tuple[str, str]]:
    return [(example["text"][start:end], label) for start, end, label in example["entities"]]


def test_words_are_joined_by_one_space() -> None:
    examples = read(SAMPLES / "train.conll")
    assert [example["text"] for example in examples[:2]] == [
        "buy glipizide tablets in Bern",
        "the old bridge of New York",
    ]
    assert words_of(examples[0]) == [("glipizide", "drug"), ("Bern", "city")]
    assert words_of(examples[1]) == [("New York", "city")]
    assert words_of(examples[3]) == []


@pytest.mark.parametrize(
    "row",
    [
        {"text": TEXT, "entities": [[0, 4, "city"], [17, 21, "river"]]},
        {"text": TEXT, "spans": [{"start": 17, "end": 21, "label": "river"}, {"start": 0, "end": 4, "label": "city"}]},
        {"text": TEXT, "entities": [[0, 5, "city"], [16, 21, " river "]]},  # spaces at the ends do not count
    ],
)
def test_spans_of_characters_are_read_as_they_are(row: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row))
    assert read(path) == [{"text": TEXT, "entities": [(0, 4, "city"), (17, 21, "river")]}]


def test_tokens_with_tags_are_read_from_json_lines_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"tokens": ["in", "New", "York"], "ner_tags": ["O", "B-city", "I-city"]}))
    assert read(path) == [{"text": "in New York", "entities": [(3, 11, "city")]}]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"text": TEXT, "entities": [[0, 4, "city"], [3, 9, "verb"]]}, "line 1 has two entities that overlap"),
        ({"text": TEXT, "entities": [[0, 99, "city"]]}, "lies outside its 22 characters"),
        ({"text": TEXT, "entities": [[4, 4, "city"]]}, "lies outside its 22 characters"),
        ({"text": TEXT, "entities": [[4, 5, "city"]]}, "has no words or no label"),
        ({"text": TEXT, "entities": [[0, 4]]}, "has the entity"),
        ({"text": TEXT, "entities": [{"start": "0", "end": 4, "label": "city"}]}, "has the entity"),
        ({"text": TEXT, "entities": "city"}, "not a list"),
        ({"texts": TEXT}, "has no text but"),
        ({"tokens": ["a", "b"], "tags": ["O"]}, "has no tag for each token"),
        ({"tokens": ["a"], "tags": ["X-city"]}, "has the tag 'X-city'"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(row: dict[str, object], says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(InputError, match=f"a.jsonl, line 1.*{says.removeprefix('line 1 ')}"):
        read(path)


@pytest.mark.slow
def test_documents_of_spacy_are_read(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    from spacy.tokens import DocBin

    doc = spacy.blank("en")(TEXT)
    doc.ents = [doc.char_span(0, 4, label="city"), doc.char_span(17, 21, label="river")]
    DocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")
    [(place, example)] = read_entities(tmp_path / "a.spacy")
    assert str(place).endswith("a.spacy, document 1")
    assert example == {"text": TEXT, "entities": [(0, 4, "city"), (17, 21, "river")]}
    (tmp_path / "b.spacy").write_bytes(b"no documents")
    with pytest.raises(InputError, match=r"b\.spacy is no DocBin"):
        list(read_entities(tmp_path / "b.spacy"))


@pytest.mark.slow
@pytest.mark.parametrize("as_names", [True, False])
def test_tags_of_the_datasets_library_are_names_or_class_labels(as_names: bool, tmp_path: Path, offline: None) -> None:
    import datasets

    names = ["O", "B-city", "I-city"]
    numbers = [[0, 1, 2]] * 3
    kind = datasets.Value("string") if as_names else datasets.ClassLabel(names=names)
    features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "ner_tags": datasets.List(kind)})
    tags = [[names[tag] for tag in row] for row in numbers] if as_names else numbers
    rows = {"tokens": [["in", "New", "York"]] * 3, "ner_tags": tags}
    (tmp_path / "data").mkdir()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "data" / "train.parquet")
    task = Ner(f"datasets:{tmp_path / 'data'}", dev_share=0.0)
    assert task.read("train") == [{"text": "in New York", "entities": [(3, 11, "city")]}] * 3


def test_a_file_without_entities_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text("in O\nBern O\n")
    with pytest.raises(InputError, match=r"None of the 1 texts of .*train\.conll' has an entity"):
        Ner(str(tmp_path)).read("train")


@pytest.mark.skipif(not BIG.exists(), reason="the data are not here")
@pytest.mark.parametrize(
    ("name", "n_texts", "n_entities"),
    [
        ("BioNER/BC5CDR-IOB/train.tsv", 4560, 5203 + 4182),
        ("WNUT17/wnut17train.conll", 3394, 1975),
        ("CrossNER/politics/train.txt", 200, 1304),
    ],
)
def test_published_files_are_read_whole(name: str, n_texts: int, n_entities: int) -> None:
    examples = read(BIG / name)
    assert (len(examples), sum(len(example["entities"]) for example in examples)) == (n_texts, n_entities)


def test_documents_of_pubtator_are_texts_with_the_types_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "Train.PubTator"
    path.write_text("1|t|Aspirin helps.\n1|a|So it does.\n1\t0\t7\tAspirin\tChemical\tD001\n\n2|t|Nothing.\n2|a|\n")
    assert read(path) == [
        {"text": "Aspirin helps. So it does.", "entities": [(0, 7, "Chemical")]},
        {"text": "Nothing. ", "entities": []},
    ]


def test_a_folder_of_brat_is_read_and_mentions_that_overlap_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "a.txt").write_text(TEXT)
    (folder / "a.ann").write_text("T1\tcity 0 4\tBern\nT2\tplace 0 9\tBern lies\n")
    task = Ner(str(tmp_path), train="train", dev_share=0.0)
    assert task.read("train") == [{"text": TEXT, "entities": [(0, 9, "place")]}]
    assert "1 of 2 mentions" in caplog.text and "overlap" in caplog.text
    assert read(folder / "a.ann") == task.read("train")
