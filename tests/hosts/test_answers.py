from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import infuser
from infuser.analysis.explain import explain
from infuser.analysis.predict import predict
from infuser.errors import CheckpointError
from infuser.hosts.answers import finite
from infuser.tasks.ner import find_entities
from tests.tiny_infusions import infuse_tiny


def test_finite_logits_stay_as_they_are() -> None:
    logits = torch.tensor([[1.0, -2.0]])
    assert finite(logits) is logits


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_others_are_an_error(value: float) -> None:
    with pytest.raises(CheckpointError, match="1 of 2 logits that are infinite or not a number"):
        finite(torch.tensor([[1.0, value]]))


def spoiled(task: str) -> infuser.Infused:
    infused = infuse_tiny("bert", task)
    head: Any = infused.model
    with torch.no_grad():
        head.classifier.bias[0] = float("nan")
    return infused


def test_no_label_is_made_of_them(tmp_path: Path) -> None:
    infused = spoiled("sequence-classification")
    example = {"text": "one two", "label": 1}
    with pytest.raises(CheckpointError, match="not a number"):
        infuser.evaluate(infused.model, [example], infused.collator(), metric="accuracy")
    with pytest.raises(CheckpointError, match="not a number"):
        list(predict(infused.model, infused.collator(), [{"text": "one two"}]))
    with pytest.raises(CheckpointError, match="not a number"):
        explain(infused, "one two")
    with pytest.raises(CheckpointError, match=r"1 tensors hold values .* 'classifier\.bias'"):
        infused.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_no_tag_is_made_of_them() -> None:
    infused = spoiled("token-classification")
    infused.model.config.id2label = {0: "O", 1: "B-x", 2: "I-x"}
    with pytest.raises(CheckpointError, match="not a number"):
        find_entities(infused.model, infused.collator(), [{"text": "one two"}], progress=False)
