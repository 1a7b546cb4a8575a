from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from lama_files import jsonl
from miniatures import tiny_host, tiny_tokenizer

from infuser.errors import InputError
from infuser.signals import Collator
from infuser.tables.skipped import BadRow
from infuser.tasks.base import Training
from infuser.tasks.relation_classification import SemEval2010Task8
from infuser.training import TrainSettings

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
    result = task.fit(Training(model, collator, settings, progress=False), train, dev)
    scores = task.score([task.gold(example) for example in dev], task.answer(model, collator, dev))
    assert scores == {"semeval-f1": 1.0, "accuracy": 1.0}
    assert (result.metric, result.best) == ("semeval-f1", 1.0)
    assert len(dev) == 3
