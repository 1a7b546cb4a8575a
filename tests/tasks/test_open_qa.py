from __future__ import annotations

import json
import string
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import exit_codes, start_ranks
from hypothesis import given
from hypothesis import strategies as st
from miniatures import Repeats, tiny_host, tiny_tokenizer
from tasks.small_questions import QUESTIONS, TASK

from infuser import Kam, infuse
from infuser.errors import InputError
from infuser.signals import Collator
from infuser.tasks.base import Training
from infuser.training import TrainSettings


class Forbidden(Repeats):
    """A source that must not be asked any more."""

    def annotate(self, texts):
        raise AssertionError("annotations were given, yet the source was asked")


# --- scores ---


def squads_words(text: str) -> list[str]:
    """SQuAD "ignores punctuations and articles (a, an, the)", case and white space; run by run, not by patterns."""
    kept = (char for char in text.lower() if char not in string.punctuation)
    runs = ("".join(run) for _, run in groupby(kept, key=str.isalnum))
    return "".join(" " if run in ("a", "an", "the") else run for run in runs).split()


def squads_f1(answer: list[str], gold: list[str]) -> float:
    """SQuAD: "average overlap between the prediction and ground truth, as bags of tokens"; none only matches none."""
    if not answer or not gold:
        return float(answer == gold)
    left = list(gold)
    for word in answer:
        if word in left:
            left.remove(word)
    shared = len(gold) - len(left)
    precision, recall = shared / len(answer), shared / len(gold)
    return 2 * precision * recall / (precision + recall) if shared else 0.0


TEXT = st.lists(
    st.sampled_from(["The", "a", "an", "Bern", "bern", "U.S.", "aare", " ", ", ", "-", "'s", "é"]), max_size=8
)


@given(
    st.lists(st.tuples(TEXT.map(" ".join), st.lists(TEXT.map("".join) | TEXT.map(" ".join), min_size=1, max_size=3)))
)
def test_scores_are_those_that_squad_describes(rows):
    if not rows:
        with pytest.raises(InputError, match="at least one"):
            TASK.score([], [])
        return
    predictions, golds = zip(*rows, strict=True)
    words = [(squads_words(answer), [squads_words(gold) for gold in accepted]) for answer, accepted in rows]
    scores = TASK.score(list(golds), list(predictions))
    f1s = [max(squads_f1(answer, gold) for gold in accepted) for answer, accepted in words]
    exact = [any(" ".join(answer) == " ".join(gold) for gold in accepted) for answer, accepted in words]
    assert scores["f1"] == pytest.approx(sum(f1s) / len(rows))
    assert scores["exact-match"] == pytest.approx(sum(exact) / len(rows))


def test_scores_agree_with_hand_counts():
    golds = [["the Green Town"], ["Aare", "river Aare"], ["Bern"]]
    scores = TASK.score(golds, ["green town!", "the blue river Aare", "Basel"])
    assert scores == pytest.approx({"f1": (1 + 2 * 2 / 5 + 0) / 3, "exact-match": 1 / 3})
    with pytest.raises(InputError, match="2 predictions for 3 examples"):
        TASK.score(golds, ["", ""])


# --- the whole way ---


def fitted(collator: Collator, model: Any, questions: list[dict[str, Any]], **changes: Any) -> None:
    chosen = {"epochs": 40, "batch_size": 4, "learning_rate": 1e-2, "weight_decay": 0.0, "patience": 3, **changes}
    training = Training(model, collator, TrainSettings(**chosen), progress=False)
    result = TASK.fit(training, questions, questions)
    assert result.best is None and result.steps == chosen["epochs"]


def test_a_tiny_host_learns_two_questions_and_answers_them():
    model, collator = tiny_host("bert", "question-answering"), Collator(tiny_tokenizer("bert"))
    before = TASK.answer(model, collator, QUESTIONS)
    fitted(collator, model, QUESTIONS)
    answers = TASK.answer(model, collator, QUESTIONS, batch_size=3)
    assert answers == ["Green Town", "train"] != before
    golds = json.loads(json.dumps([TASK.gold(question) for question in QUESTIONS]))
    assert TASK.score(golds, answers) == {"f1": 1.0, "exact-match": 1.0}


def test_annotations_of_each_passage_reach_an_infused_model():
    infused = infuse(
        tiny_host("bert", "question-answering"), Kam(), sources=[Repeats()], tokenizer=tiny_tokenizer("bert")
    )
    collator = infused.collator()
    asked = TASK.answer(infused.model, collator, QUESTIONS)
    annotated = [
        {**question, "annotations": collator.annotate([question["text"]] * 2, question["pair"])}
        for question in QUESTIONS
    ]
    silent = Collator(infused.tokenizer, [Forbidden()])
    assert TASK.answer(infused.model, silent, annotated) == asked
    before = {name: weight.clone() for name, weight in infused.model.named_parameters() if "knowledge" in name}
    fitted(silent, infused.model, annotated, epochs=2)
    weights = dict(infused.model.named_parameters())
    assert before and any(not torch.equal(weights[name], old) for name, old in before.items())


def answers_after_three_steps() -> list[str]:
    model = tiny_host("bert", "question-answering", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    collator = Collator(tiny_tokenizer("bert"))
    fitted(collator, model, QUESTIONS, epochs=3)
    return TASK.answer(model, collator, QUESTIONS, batch_size=1)


def answer_as_a_process(out: Path) -> None:
    from accelerate import PartialState

    told = answers_after_three_steps()
    (out / f"told-{PartialState().process_index}.json").write_text(json.dumps(told))
    PartialState().destroy_process_group()


@pytest.mark.slow
def test_two_processes_answer_as_one_does(tmp_path):
    ranks = start_ranks(answer_as_a_process, tmp_path, logs=tmp_path)
    assert exit_codes(*ranks) == [0, 0], "".join(log.read_text() for log in tmp_path.glob("log-*.txt"))
    alone = answers_after_three_steps()
    assert [json.loads((tmp_path / f"told-{rank}.json").read_text()) for rank in (0, 1)] == [alone, alone]
