from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks.small_glue import OFFICIAL, write_files

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.tables.skipped import BadRow
from infuser.tasks.glue import Cola, Mnli, Mrpc, Qnli, Qqp, Rte, Sst2, Wnli

GLUE = Path(__file__).parents[3] / "shared" / "data" / "glue"
EXPECTED = {  # text, pair and label of the first training row; label of the dev row
    "cola": ('He said "no.', None, 1, 0),
    "sst-2": ("a fine film ", None, 1, 0),
    "mrpc": ("It fell.", "It went down.", 1, 0),
    "sts-b": ("A plane.", "An air plane.", 5.0, 3.8),
    "qqp": ("Why?", "Why not?", 0, 1),
    "mnli": ("A.", "B.", 1, 0),
    "qnli": ("Who?", "He.", 0, 0),
    "rte": ("A fell.", "A moved.", 0, 1),
    "wnli": ("It broke.", "The cup broke.", 1, 0),
}


@pytest.mark.parametrize("name", sorted(OFFICIAL))
def test_official_files_are_read(name: str, tmp_path: Path):
    task = TASKS[name](write_files(tmp_path, OFFICIAL[name]))
    text, pair, label, dev_label = EXPECTED[name]
    train, dev, test = (task.read(split) for split in ("train", "dev", "test"))
    assert len(train) == 2 and train[0] == {"text": text, "pair": pair, "label": label}
    assert type(train[0]["label"]) is type(label)
    assert [example["label"] for example in dev] == [dev_label]
    assert len(test) == 1 and "label" not in test[0]
    assert task.head_options()["num_labels"] == {"sts-b": 1, "mnli": 3}.get(name, 2)


def test_a_quote_is_part_of_the_text(tmp_path: Path):
    assert Cola(write_files(tmp_path, OFFICIAL["cola"])).read("train")[1]["text"] == '"They it saw."'


def test_mnli_has_two_dev_and_two_test_parts(tmp_path: Path):
    data = write_files(tmp_path, OFFICIAL["mnli"])
    read = {
        m: [Mnli(data, matched=m).read(split)[0]["text"] for split in ("train", "dev", "test")] for m in (True, False)
    }
    assert read == {True: ["A.", "E.", "I."], False: ["A.", "G.", "K."]}


def test_labels_of_the_sentiment_test_part_are_read_when_asked_for(tmp_path: Path):
    data = write_files(tmp_path, OFFICIAL["sst-2"])
    assert Sst2(data, labelled_test=True).read("test") == [{"text": "a mishmash", "pair": None, "label": 0}]


def test_the_paraphrase_corpus_itself_is_parted_by_the_dev_ids(tmp_path: Path):
    head = "Quality|#1 ID|#2 ID|#1 String|#2 String"
    files = {
        "msr_paraphrase_train.txt": [head, "1|1|2|A.|B.", "0|3|4|C.|D.", "0|1|4|E.|F."],
        "msr_paraphrase_test.txt": [head, "1|5|6|G.|H."],
        "dev_ids.tsv": ["3|4"],
    }
    task = Mrpc(write_files(tmp_path, files))
    read = {split: [(e["text"], e["label"]) for e in task.read(split)] for split in ("train", "dev", "test")}
    assert read == {"train": [("A.", 1), ("E.", 0)], "dev": [("C.", 0)], "test": [("G.", 1)]}
    (tmp_path / "dev_ids.tsv").unlink()
    with pytest.raises(InputError, match=r"holds no dev_ids\.tsv"):
        task.read("dev")


HUB = {
    "cola": ("sentence", None, 1),
    "sts-b": ("sentence1", "sentence2", 3.5),
    "qqp": ("question1", "question2", 0),
    "mnli": ("premise", "hypothesis", 2),
    "qnli": ("question", "sentence", 1),
}


@pytest.mark.parametrize("name", sorted(HUB))
@pytest.mark.usefixtures("offline")
def test_the_hubs_columns_are_read_by_the_datasets_library(name: str, tmp_path: Path):
    text, pair, label = HUB[name]
    parts = ("train", "validation", "test")
    if name == "mnli":
        parts = ("train", "validation_matched", "test_matched")
    for number, part in enumerate(parts):
        hidden = part.startswith("test")
        row = {
            text: f"{number}.",
            "label": type(label)(-1) if hidden else label,
            "idx": 0,
            **({pair: "p"} if pair else {}),
        }
        write_files(tmp_path / "data", {f"{part}.jsonl": [json.dumps(row)]})
    # the datasets library tells parts of a folder by their names only if they are its own
    (tmp_path / "data" / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files:\n"
        + "".join(f"  - split: {part}\n    path: {part}.jsonl\n" for part in parts)
        + "---\n"
    )
    task = TASKS[name](f"datasets:{tmp_path / 'data'}")
    train, dev, test = (task.read(split) for split in ("train", "dev", "test"))
    assert train == [{"text": "0.", "pair": "p" if pair else None, "label": label}]
    assert dev == [{"text": "1.", "pair": "p" if pair else None, "label": label}]
    assert test == [{"text": "2.", "pair": "p" if pair else None}]


@pytest.mark.parametrize(
    ("name", "file", "line", "words"),
    [
        ("cola", "train.tsv", "gj04|1|No mark.", ["train.tsv, line 3 has 3 cells instead of 4: source, label"]),
        ("cola", "dev.tsv", "gj04|2||Two.", ["dev.tsv, line 2 has the label '2', not one of 0, 1"]),
        ("rte", "train.tsv", "2|A.|B.|entails", ["line 4", "'entails'", "entailment, not_entailment"]),
        ("sts-b", "dev.tsv", "0|n|f|1|4|x|y|A.|B.|nan", ["line 3 has the score 'nan', not a number from 0 to 5"]),
        ("sts-b", "dev.tsv", "0|n|f|1|4|x|y|A.|B.|5.2", ["line 3 has the score '5.2'"]),
        ("qqp", "train.tsv", "5|1|2|Why do", ["line 4 has 4 cells instead of 6", "skip_bad = true"]),
        ("mnli", "train.tsv", "2|p|n|f|(|(|(|(|A.|B.|-|-", ["line 4 has the label '-'"]),
    ],
)
def test_a_malformed_row_is_named_with_file_and_line(name: str, file: str, line: str, words: list[str], tmp_path: Path):
    data = write_files(tmp_path, {**OFFICIAL[name], file: [*OFFICIAL[name][file], line]})
    with pytest.raises(BadRow) as caught:
        TASKS[name](data).read(file.split(".")[0])
    assert all(word in str(caught.value) for word in words), caught.value


def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path: Path):
    (tmp_path / "train.tsv").write_bytes(b"sentence\tlabel\ngood\t1\nb\xff\xfe\t0\n")
    with pytest.raises(BadRow, match=r"train\.tsv, line 3 is not UTF-8"):
        Sst2(str(tmp_path)).read("train")


def test_broken_training_rows_are_left_out_when_asked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    train, dev = OFFICIAL["qqp"]["train.tsv"], OFFICIAL["qqp"]["dev.tsv"]
    broken = ["5|1|2|Why do", "you ask?|What?|1"]  # one row with a line break
    files = {"train.tsv": [*train, *broken, "6|7|8|Where?|Where to?|1"], "dev.tsv": [*dev, *broken]}
    task = Qqp(write_files(tmp_path, files), skip_bad=True)
    with caplog.at_level(logging.WARNING):
        assert [example["text"] for example in task.read("train")] == ["Why?", "How?", "Where?"]
    assert "2 training rows" in caplog.text
    with pytest.raises(BadRow, match="line 3"):  # what is judged by is never made smaller
        task.read("dev")


def test_another_sets_file_and_an_empty_one_are_refused(tmp_path: Path):
    data = write_files(tmp_path, OFFICIAL["rte"])
    with pytest.raises(InputError, match="line 2 has no column 'question' but index, sentence1, sentence2, label"):
        Qnli(data).read("train")
    (tmp_path / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n")
    with pytest.raises(InputError, match=r"dev part in .* holds no rows"):
        Rte(data).read("dev")


TEXTS = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]))


@given(
    st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from([0, 1])), min_size=1, max_size=6), st.sampled_from(["\n", "\r\n"])
)
def test_any_text_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, rows, end):
    path = tmp_path_factory.mktemp("wnli")
    lines = ["index\tsentence1\tsentence2\tlabel", *(f"{i}\t{a}\t{b}\t{c}" for i, (a, b, c) in enumerate(rows))]
    (path / "train.tsv").write_bytes("".join(line + end for line in lines).encode())
    read = Wnli(str(path)).read("train")
    assert [(example["text"], example["pair"], example["label"]) for example in read] == rows


@pytest.mark.shared
@pytest.mark.parametrize(
    ("task", "counts"),
    [
        (Cola(str(GLUE / "CoLA")), (8551, 1043, 1063)),
        (Rte(str(GLUE / "RTE")), (2490, 277, 3000)),
        (Sst2(str(GLUE / "SST-2")), (67349, 872, 1821)),
        (Wnli(str(GLUE / "WNLI")), (635, 71, 146)),
    ],
)
def test_the_real_files_have_the_published_counts(task, counts):
    if not GLUE.is_dir():
        pytest.skip(f"no data at {GLUE}")
    parts = [task.read(split) for split in ("train", "dev", "test")]
    assert tuple(map(len, parts)) == counts
    assert {example["label"] for example in parts[0]} == {example["label"] for example in parts[1]} == {0, 1}
    assert not any("label" in example for example in parts[2])


@pytest.mark.shared
def test_the_labelled_sentiment_test_part_is_the_hidden_one():
    if not GLUE.is_dir():
        pytest.skip(f"no data at {GLUE}")
    hidden, labelled = (Sst2(str(GLUE / "SST-2"), labelled_test=told).read("test") for told in (False, True))
    assert [example["text"].strip() for example in hidden] == [example["text"].strip() for example in labelled]
    assert {example["label"] for example in labelled} == {0, 1}
