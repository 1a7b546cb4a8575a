from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from tasks.small_glue import OFFICIAL, write_files

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.tasks.base import Training
from infuser.tasks.glue import StsB
from infuser.tasks.glue_totals import glue_average


@pytest.mark.parametrize("name", sorted(OFFICIAL))
def test_scores_agree_with_scikit_learn_and_scipy(name: str):
    chance = np.random.default_rng(len(name))
    task = TASKS[name]("nowhere")
    if name == "sts-b":
        golds, answers = chance.uniform(0, 5, 50), chance.normal(size=50)
        logits, expected = answers[:, None], (pearsonr(answers, golds).statistic, spearmanr(answers, golds).statistic)
    else:
        logits, golds = chance.normal(size=(50, len(task.labels))), chance.integers(len(task.labels), size=50)
        chosen = logits.argmax(axis=1)
        each = {"matthews": matthews_corrcoef, "accuracy": accuracy_score, "f1": f1_score}
        expected = tuple(each[metric](golds, chosen) for metric in task.metrics)
    scored = task.score(json.loads(json.dumps(golds.tolist())), json.loads(json.dumps(logits.tolist())))
    assert tuple(scored.values()) == pytest.approx(expected)


def test_similarity_is_learned_as_a_number(tmp_path: Path):
    from miniatures import tiny_host, tiny_tokenizer

    from infuser.signals import Collator
    from infuser.training import TrainSettings

    head, row = OFFICIAL["sts-b"]["train.tsv"][0], "0|n|f|2012|4|x|y|{}|{}|{}"
    pairs = [("the old bridge", "a new bridge", 4.2), ("the river", "a cheap book", 0.0), ("the town", "the city", 3)]
    data = write_files(tmp_path, {"train.tsv": [head, *(row.format(*pair) for pair in pairs * 4)]})
    task = StsB(data)
    examples = task.read("train")
    model = tiny_host("bert", "sequence-classification", **task.head_options()).float()
    collator = Collator(tiny_tokenizer("bert"))
    chosen = TrainSettings(epochs=5, batch_size=4, learning_rate=5e-3)
    task.fit(Training(model, collator, chosen, progress=False), examples, examples)
    scores = task.score([task.gold(example) for example in examples], task.answer(model, collator, examples))
    assert scores["pearson"] > 0.9 and list(scores) == ["pearson", "spearman"]


def test_each_task_is_judged_as_glue_judges_it():
    judged = {name: TASKS[name].metrics for name in OFFICIAL}
    assert judged.pop("cola") == ("matthews",)
    assert judged.pop("mrpc") == judged.pop("qqp") == ("f1", "accuracy")
    assert judged.pop("sts-b") == ("pearson", "spearman")
    assert set(judged.values()) == {("accuracy",)}


def test_the_average_counts_each_task_once():
    scores = {name: dict.fromkeys(TASKS[name].metrics, 0.5) for name in OFFICIAL}
    scores |= {"cola": {"matthews": 0.9}, "mrpc": {"f1": 0.9, "accuracy": 0.5}, "wnli": {"accuracy": 0.2}}
    del scores["mnli"]
    scores |= {"mnli-m": {"accuracy": 0.7}, "mnli-mm": {"accuracy": 0.5}}
    assert glue_average(scores) == pytest.approx((0.9 + 0.5 + 0.7 + 0.5 + 0.5 + 0.6 + 0.5 + 0.5) / 8)
    assert glue_average(scores, with_wnli=True) == pytest.approx((8 * 0.5875 + 0.2) / 9)
    del scores["rte"], scores["mnli-m"], scores["mnli-mm"]
    with pytest.raises(InputError, match="no scores of mnli, rte"):
        glue_average(scores)
