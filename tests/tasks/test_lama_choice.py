from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lama_files import DANTE, trex
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import infuse_tiny

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.signals import Collator
from infuser.tasks.cloze import CUT_OFF, UNKNOWN_PIECE, choose
from infuser.tasks.lama import LamaChoice

CHOICES = ["red", "glipizide", "the old river", "blue", "zebra"]
QUESTIONS = [
    {"text": text, "choices": CHOICES, "relation": "P1", "object": "red", "label": 0}
    for text in ("the bridge is [MASK] .", "[MASK] lies near the lake and the [MASK] house", "buy [MASK]")
]


def slow_choice(model: Any, tokenizer: Any, example: dict[str, Any]) -> list[float]:
    """One choice at a time: all its pieces masked, the mean logarithm of their shares."""
    means = []
    for choice in example["choices"]:
        pieces = tokenizer(f" {choice}", add_special_tokens=False)["input_ids"]
        before, behind = example["text"].split("[MASK]", 1)
        text = before + tokenizer.mask_token * len(pieces) + behind.replace("[MASK]", tokenizer.mask_token)
        encoding = tokenizer(text, return_tensors="pt")
        first = encoding["input_ids"][0].tolist().index(tokenizer.mask_token_id)
        shares = model(**encoding).logits[0].softmax(dim=-1)
        means.append(sum(shares[first + i, piece].log().item() for i, piece in enumerate(pieces)) / len(pieces))
    return means


@pytest.mark.parametrize("host", ["bert", "roberta"])
def test_choices_of_several_pieces_are_scored_as_by_a_slow_reference(host: str):
    model, tokenizer = tiny_host(host, "masked-lm"), tiny_tokenizer(host)
    found = choose(model, Collator(tokenizer), QUESTIONS, batch_size=2)
    for example, one in zip(QUESTIONS, found, strict=True):
        expected = slow_choice(model, tokenizer, example)
        assert one["scores"] == pytest.approx(expected, abs=1e-5)
        assert one["answer"] == expected.index(max(expected))


def test_an_infused_model_reads_its_knowledge_behind_a_long_gap():
    infused = infuse_tiny("roberta", "masked-lm", "kam")
    collator = infused.collator()
    texts = [f"{example['text']} the old bridge and the old river" for example in QUESTIONS]
    asked = [example | {"text": text} for example, text in zip(QUESTIONS, texts, strict=True)]
    annotated = [e | {"annotations": found} for e, found in zip(asked, collator.annotate(texts), strict=True)]
    told = choose(infused.model, collator, annotated)
    assert told == choose(infused.model, collator, asked)
    assert told != choose(infused.model, Collator(infused.tokenizer), asked)


def test_what_cannot_be_asked_is_counted():
    model, tokenizer = tiny_host("bert", "masked-lm"), tiny_tokenizer("bert")
    asked = [QUESTIONS[2], QUESTIONS[0] | {"choices": ["red", "☃"]}, QUESTIONS[0]]
    asked[2] = asked[2] | {"text": "the old town of the lake [MASK]"}
    found = LamaChoice("data").answer(model, Collator(tokenizer, max_length=12), asked)
    assert [one.get("left_out") for one in found] == [None, UNKNOWN_PIECE, CUT_OFF]
    golds = [LamaChoice("data").gold(example) for example in asked]
    notes = LamaChoice("data").notes(golds, found)
    assert notes == {"facts": 3, "answered": 1, "left out": {UNKNOWN_PIECE: 1, CUT_OFF: 1}, "chance": 1 / 5}
    assert LamaChoice("data").notes(golds[2:], found[2:]) == {"facts": 1, "answered": 0, "left out": {CUT_OFF: 1}}


def facts(folder: Path, n: int = 12) -> str:
    rows = [DANTE | {"sub_label": f"Ann{number // 2}", "obj_label": f"Bern {number}"} for number in range(n)]
    return trex(folder, [*rows, DANTE | {"sub_label": "Bob", "obj_label": "bern 0"}])


def test_other_objects_of_the_relation_are_drawn_but_none_that_is_right(tmp_path: Path):
    data = facts(tmp_path)
    examples = TASKS["lama-choice"](data, choices=5).read("test")
    assert len(examples) == 13
    for example in examples:
        assert len({name.casefold() for name in example["choices"]}) == 5
        assert example["choices"][example["label"]] == example["object"]
        assert not set(example["others"]) & set(example["choices"])
    assert len({example["label"] for example in examples}) > 1
    assert examples == LamaChoice(data, choices=5).read("test")
    assert examples != LamaChoice(data, choices=5, seed=1).read("test")
    some = LamaChoice(data, choices=5, max_facts_per_relation=3).read("test")
    assert some == [example for example in examples if example["object"] in [one["object"] for one in some]]


def test_a_relation_with_few_objects_offers_few_and_with_one_none(tmp_path: Path):
    assert [len(e["choices"]) for e in LamaChoice(facts(tmp_path, 4)).read("test")] == [3, 3, 3, 3, 4]
    assert LamaChoice(trex(tmp_path, [DANTE])).read("test") == []
    with pytest.raises(InputError, match="choices is 1; give 2 or more"):
        LamaChoice("data", choices=1)


def test_accuracy_is_taken_over_facts_and_over_relations():
    golds = [{"relation": relation, "label": 1, "choices": ["a", "b"]} for relation in ("P1", "P1", "P1", "P2")]
    answers = [{"answer": answer} for answer in (1, 1, 0, 0)]
    assert LamaChoice("data").score(golds, answers) == {"accuracy": 2 / 4, "macro accuracy": (2 / 3 + 0) / 2}
