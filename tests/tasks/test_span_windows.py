from __future__ import annotations

from typing import Any

import pytest
import torch
from miniatures import Repeats, tiny_tokenizer
from tasks.small_questions import QUESTIONS, TASK

from infuser.errors import InputError
from infuser.signals import Collator
from infuser.tasks.base import Training
from infuser.tasks.span_windows import (
    PassageAnswer,
    WindowCollator,
    find_answer,
    read_windows,
    training_windows,
    windows_of,
)
from infuser.training import TrainSettings


@pytest.mark.parametrize(
    ("passage", "answers", "found"),
    [
        ("in the Green Town.", ["green town"], "Green Town"),
        ("a townhouse, a town", ["town"], "town"),  # whole words only
        ("the U.S. and St. Louis", ["st louis"], "St. Louis"),
        ("Bern or Basel", ["Basel", "Bern"], "Basel"),  # the first answer goes first
        ("by Beatles", ["The Beatles"], "Beatles"),  # articles do not count in scores either
        ("Vitamin A", ["A"], "A"),
        ("nothing", ["Bern", "?"], None),
        ("", ["Bern"], None),
    ],
)
def test_an_answer_is_found_as_whole_words_in_any_case(passage, answers, found):
    place = find_answer(passage, answers)
    assert (passage[slice(*place)] if place else None) == found
    if place:
        assert place[0] == passage.rindex(found)


def test_training_reads_passages_that_hold_the_answer_and_a_few_that_do_not():
    question = {
        "text": "q",
        "pair": ["x", "in Bern", "y", "Bern it is"],
        "answers": ["Bern"],
        "annotations": list("abcd"),
    }
    windows = training_windows(question, n_negatives=1)
    assert [(window["pair"], window["answer"], window["annotations"]) for window in windows] == [
        ("in Bern", (3, 7), "b"),
        ("Bern it is", (0, 4), "d"),
        ("x", None, "a"),
    ]
    assert training_windows({**question, "answers": ["Basel"]}, n_negatives=1) == []
    with pytest.raises(InputError, match="None of the 1 questions has its answer"):
        TASK.fit(Training(None, None, TrainSettings()), [{**question, "answers": ["Basel"]}])


@pytest.mark.parametrize("host", ["bert", "roberta", "xlm-roberta"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_answers_are_placed_at_their_tokens_beside_the_collators_own_batch(host, side):
    tokenizer = tiny_tokenizer(host, padding_side=side)
    collator = Collator(tokenizer, [Repeats()], max_length=32)
    windows = [window for question in QUESTIONS for window in training_windows(question, n_negatives=1)]
    windows.append({**windows[0], "pair": "the lake " * 30 + "green town", "answer": (270, 280)})  # cut off
    batch = WindowCollator(collator)(windows)
    starts, ends = batch.pop("start_positions").tolist(), batch.pop("end_positions").tolist()
    plain = collator(windows)
    assert batch.keys() == plain.keys() and all(torch.equal(batch[name], plain[name]) for name in plain)
    assert batch["knowledge_boxes"].max() >= 0
    for row, window in enumerate(windows):
        first = int(batch["attention_mask"][row].argmax())
        ids = batch["input_ids"][row]
        assert ids[first] == tokenizer.cls_token_id
        if window["answer"] is None or len(window["pair"]) > 100:
            assert starts[row] == ends[row] == first
            continue
        said = tokenizer.decode(ids[starts[row] : ends[row] + 1]).strip().lower()
        assert said == window["pair"][slice(*window["answer"])].lower()


def test_selective_sources_draw_anew_in_each_epoch():
    class Drawing(Repeats):
        def drawn(self, found, *, epoch, seed):
            return [epoch == 1] * len(found.spans)

    collator = WindowCollator(Collator(tiny_tokenizer("bert"), [Drawing()]))
    windows = training_windows(QUESTIONS[0], n_negatives=0)
    n_boxes = [
        int((collator.for_epoch(epoch, seed=3)(windows)["knowledge_boxes"][..., 0] >= 0).sum()) for epoch in (0, 1)
    ]
    assert n_boxes[0] == 0 < n_boxes[1]


class Pointing(torch.nn.Module):
    """Stands where a model stands, with chosen logits: a start and an end per token id."""

    device = torch.device("cpu")

    def __init__(self, starts: dict[int, float], ends: dict[int, float]) -> None:
        super().__init__()
        self.tables = starts, ends

    def forward(self, input_ids, **others):
        starts, ends = (
            torch.tensor([[table.get(token, 0.0) for token in row] for row in input_ids.tolist()])
            for table in self.tables
        )
        return type("Out", (), {"start_logits": starts, "end_logits": ends})


def test_the_best_span_lies_in_the_passage_and_is_no_longer_than_allowed():
    tokenizer = tiny_tokenizer("bert")
    cls, river, old, town = tokenizer.convert_tokens_to_ids(["[CLS]", "river", "old", "town"])
    model: Any = Pointing({river: 9.0, old: 5.0, cls: 1.0}, {town: 4.5, cls: 0.5})
    passages = ["a river of the old, big town is", "town old", "!", ""]
    windows = windows_of({"text": "the river town", "pair": passages})

    def read(most: int, batch_size: int = 64) -> list[PassageAnswer]:
        return read_windows(model, Collator(tokenizer), windows, max_answer_tokens=most, batch_size=batch_size)

    found = read(16)
    assert found[0] == PassageAnswer(9 + 4.5 - 1.5, "river of the old, big town")
    assert found[1] == PassageAnswer(5 - 1.5, "old")
    assert found[2:] == [PassageAnswer(float("-inf"), "")] * 2
    assert read(4)[0] == PassageAnswer(5 + 4.5 - 1.5, "old, big town")  # the comma is a token, too
    assert read(3)[0] == PassageAnswer(9 - 1.5, "river")
    assert read(16, batch_size=1) == found
