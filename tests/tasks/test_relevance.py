from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import ndcg_score, roc_auc_score

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.stats.ranking import mean_ndcg
from infuser.tasks.base import Training
from infuser.tasks.relevance import Relevance
from infuser.tasks.tabular import Table

HEAD = "query,text,label"


def write_lines(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_pairs_are_read_with_their_query_as_group(tmp_path: Path):
    data = write_lines(tmp_path / "train.csv", HEAD, "buy shoes,Shoe shop,1", "buy shoes,Pet shop,0")
    task = TASKS["relevance"](data, dev_share=0)
    first, second = task.read("train")
    assert first == {"text": "buy shoes", "pair": "Shoe shop", "group": "buy shoes", "label": 1, "grade": 1.0}
    assert (second["label"], task.gold(second)) == (0, {"label": 0.0, "group": "buy shoes"})
    assert task.metrics == ("auc", "ndcg") and task.head_options()["num_labels"] == 2


def test_columns_grades_and_groups_have_any_name(tmp_path: Path):
    data = write_lines(tmp_path / "train.tsv", "ad\tq\tgrade\tsession", "Shoes!\tshoes\t3\t7", "Pets!\tshoes\t1\t8")
    named = {"query": "q", "text": "ad", "label": "grade", "group": "session", "dev_share": 0}
    learned = Relevance(data, **named, relevant_from=2).read("train")
    assert [(e["pair"], e["label"], e["grade"], e["group"]) for e in learned] == [
        ("Shoes!", 1, 3.0, "7"),
        ("Pets!", 0, 1.0, "8"),
    ]
    graded = Relevance(data, **named, graded=True)
    assert [example["label"] for example in graded.read("train")] == [3.0, 1.0]
    assert graded.metrics == ("spearman", "pearson", "ndcg") and graded.head_options()["num_labels"] == 1


def test_yes_and_no_of_json_are_relevance(tmp_path: Path):
    rows = [{"query": "q", "text": "a", "label": True}, {"query": "q", "text": "b", "label": False}]
    data = write_lines(tmp_path / "train.jsonl", *map(json.dumps, rows))
    assert [example["label"] for example in Relevance(data, dev_share=0).read("train")] == [1, 0]


def test_whole_queries_are_held_out(tmp_path: Path):
    data = write_lines(tmp_path / "train.csv", HEAD, *(f"query {i // 4},text {i},{i % 2}" for i in range(80)))
    task = Relevance(data, dev_share=0.2)
    parts = [task.read(split) for split in ("train", "dev", "test")]
    queries = [{example["text"] for example in part} for part in parts]
    assert [len(part) for part in queries] == [13, 3, 4] and len(set.union(*queries)) == 20
    assert sum(map(len, parts)) == 80


def test_a_bench_holds_out_whole_groups(tmp_path: Path):
    lines = ["q,s,text,label", "a,1,x,0", "a,2,y,1", "b,1,z,1"]
    data = write_lines(tmp_path / "train.csv", *lines)
    by_query, by_session = (Relevance(data, query="q", group=group, dev_share=0) for group in (None, "s"))
    assert by_query.held_out_groups(by_query.read("train")) == ["a", "a", "b"]
    assert by_session.held_out_groups(by_session.read("train")) == ["1", "2", "1"]
    assert Table(data).held_out_groups([{"text": "any"}]) is None


def ndcg_by_query(scores, grades, groups, k) -> float:
    values = []
    for group in set(groups):
        at = [i for i, one in enumerate(groups) if one == group]
        if len(at) > 1 and any(grades[i] > 0 for i in at):
            values.append(ndcg_score([[grades[i] for i in at]], [[scores[i] for i in at]], k=k))
    return float(np.mean(values))


@pytest.mark.parametrize("k", [1, 3, 10])
def test_scores_agree_with_scikit_learn_and_scipy(k: int):
    chance = np.random.default_rng(k)
    groups = [f"q{number}" for number in chance.integers(25, size=100)]
    grades = chance.integers(4, size=100).astype(float)
    golds = [{"label": grade, "group": group} for grade, group in zip(grades.tolist(), groups, strict=True)]
    golds = json.loads(json.dumps(golds))

    two = chance.normal(size=(100, 2)).round(1)  # rounded, so that some are equal
    margins = two[:, 1] - two[:, 0]
    expected = {"auc": roc_auc_score(grades >= 2, margins), "ndcg": ndcg_by_query(margins, grades, groups, k)}
    assert Relevance("d", relevant_from=2, k=k).score(golds, two.tolist()) == pytest.approx(expected)

    one = two[:, :1]
    expected = {
        "spearman": spearmanr(one[:, 0], grades).statistic,
        "pearson": pearsonr(one[:, 0], grades).statistic,
        "ndcg": ndcg_by_query(one[:, 0], grades, groups, k),
    }
    assert Relevance("d", graded=True, k=k).score(golds, one.tolist()) == pytest.approx(expected)


def test_queries_without_anything_to_rank_are_left_out_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    lines = ["one,a,1", "none,b,0", "none,c,0", "both,d,1", "both,e,0"]
    write_lines(tmp_path / "train.csv", HEAD, *lines)
    task = Relevance(str(tmp_path), dev="train.csv", dev_share=0)
    with caplog.at_level(logging.INFO):
        dev = task.read("dev")
    assert "mean over 1 of 3 queries; 2 have one text or nothing relevant" in caplog.text
    wrong = [[0.0, 0.0], [0.0, 5.0], [0.0, 5.0], [1.0, 0.0], [0.0, 1.0]]
    assert task.score([task.gold(example) for example in dev], wrong)["ndcg"] == pytest.approx(1 / np.log2(3))


def test_ndcg_that_is_nowhere_defined_is_an_error_and_can_be_left_out():
    golds = [{"label": 1.0, "group": "a"}, {"label": 0.0, "group": "b"}]
    answers = [[0.0, 1.0], [1.0, 0.0]]
    with pytest.raises(InputError, match=r"of 2 queries none has\. Give a larger set, or set k = 0"):
        Relevance("d").score(golds, answers)
    assert Relevance("d", k=0).score(golds, answers) == {"auc": 1.0}
    with pytest.raises(InputError, match="k is -1"):
        Relevance("d", k=-1)
    with pytest.raises(InputError, match="1 predictions for 2 examples"):
        Relevance("d").score(golds, answers[:1])


def test_ndcg_of_a_perfect_ranking_is_one():
    assert mean_ndcg([3, 2, 1, 9, 8], [2, 1, 0, 1, 0], ["a", "a", "a", "b", "b"], k=10) == pytest.approx(1)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("q,a,high", r"train\.csv, line 3 has 'high' in 'label', not a number"),
        ("q,a,-1", r"train\.csv, line 3 has the label -1. Relevance starts at 0"),
        ("q,a", r"train\.csv, line 3 has 2 cells instead of 3"),
    ],
)
def test_a_malformed_row_is_named_with_file_and_line(line: str, words: str, tmp_path: Path):
    write_lines(tmp_path / "train.csv", HEAD, "q,b,1", line)
    with pytest.raises(InputError, match=words):
        Relevance(str(tmp_path), dev_share=0).read("train")


def test_a_test_part_without_labels_is_read(tmp_path: Path):
    write_lines(tmp_path / "test.csv", "query,text", "q,a")
    assert Relevance(str(tmp_path), test="test.csv").read("test") == [{"text": "q", "pair": "a", "group": "q"}]


@pytest.mark.parametrize("graded", [False, True])
def test_relevance_is_learned_and_asked_for(graded: bool, tmp_path: Path):
    from miniatures import tiny_host, tiny_tokenizer

    from infuser.signals import Collator
    from infuser.training import TrainSettings

    good, bad = "medicine drug tablets", "garden house lake"
    lines = [f"buy {i % 5},{good if i % 2 else bad},{i % 2 * 2}" for i in range(20)]
    task = Relevance(write_lines(tmp_path / "train.csv", HEAD, *lines), graded=graded, dev_share=0)
    examples = task.read("train")
    model = tiny_host("bert", "sequence-classification", **task.head_options()).float()
    collator = Collator(tiny_tokenizer("bert"))
    chosen = TrainSettings(epochs=4, batch_size=5, learning_rate=5e-3)
    run = task.fit(Training(model, collator, chosen, progress=False), examples, examples)
    answers = task.answer(model, collator, examples)
    scores = task.score([task.gold(example) for example in examples], json.loads(json.dumps(answers)))
    assert run.metric == task.metrics[0] and run.best == pytest.approx(scores[run.metric])
    assert all(score > 0.8 for score in scores.values()), scores
