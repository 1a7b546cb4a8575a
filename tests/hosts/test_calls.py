"""How the knowledge of a batch enters an encoder: one reader for all methods, and the parts that they make of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from miniatures import TEXTS, tiny_host, tiny_tokenizer
from torch import Tensor

from infuser.errors import HostError, InputError
from infuser.hosts import BatchKnowledge, add_reader, hook_blocks, remove_reader


class Doubles:
    """A method's part of a call that doubles the states which enter the first block."""

    def before_blocks(self, states: Tensor) -> Tensor:
        return 2 * states


class Flips:
    """A part that turns the states around that leave the first block."""

    def after_block(self, layer: int, states: Tensor) -> Tensor:
        return states.flip(-1)


def host_with(**readers: Any) -> Any:
    model = tiny_host("bert")
    for name, part in readers.items():
        add_reader(model, name, lambda base, batch, part=part: part)
    hook_blocks(model, "+".join(readers), {0}, before=True)
    return model


def tokens(texts: tuple[str, ...] | list[str] = TEXTS, **options: Any) -> dict[str, Tensor]:
    return dict(tiny_tokenizer("bert", **options)(list(texts), padding=True, return_tensors="pt"))


def states(model: Any, **batch: Any) -> Tensor:
    with torch.no_grad():
        result: Tensor = model(**batch).last_hidden_state
    return result


def test_every_method_that_reads_has_its_own_part_of_a_call() -> None:
    known = {**tokens(), "knowledge_spans": torch.zeros(len(TEXTS), 1, 4).long()}
    doubled, flipped = host_with(one=Doubles()), host_with(other=Flips())
    both = host_with(one=Doubles(), other=Flips(), silent=None)
    whole = states(both, **known)
    assert not torch.equal(whole, states(doubled, **known))
    assert torch.equal(states(both, **known, knowledge_off=["other"]), states(doubled, **known))
    assert torch.equal(states(both, **known, knowledge_off=("one", "silent")), states(flipped, **known))
    plainly = states(tiny_host("bert"), **tokens())
    assert torch.equal(states(both, **known, knowledge_off=["one", "other"]), plainly)
    assert torch.equal(states(both, **tokens()), plainly)  # without knowledge nobody reads
    assert torch.equal(states(both, **tokens(), knowledge_off=["one"]), plainly)


def test_a_method_that_is_not_there_cannot_be_switched_off() -> None:
    with pytest.raises(InputError, match="no method 'kam' to switch off: this model has one, other"):
        states(host_with(one=None, other=None), **tokens(), knowledge_off=["kam"])


def test_two_methods_of_one_name_are_refused_and_the_last_one_takes_the_hook_along() -> None:
    model = host_with(one=None, other=None)
    with pytest.raises(HostError, match="'one' is attached to this host already"):
        add_reader(model, "one", lambda base, batch: None)
    assert len(model._forward_pre_hooks) == 1
    remove_reader(model, "one")
    assert len(model._forward_pre_hooks) == 1
    remove_reader(model, "nobody")
    remove_reader(model, "other")
    remove_reader(model, "other")
    assert not model._forward_pre_hooks and not model._forward_pre_hooks_with_kwargs


def read_of(model: Any, batch: dict[str, Any]) -> BatchKnowledge:
    """Return what a reader gets of a batch."""
    got: list[BatchKnowledge] = []
    add_reader(model, "spy", lambda base, batch: got.append(batch))
    states(model, **batch)
    remove_reader(model, "spy")
    [batch_knowledge] = got
    return batch_knowledge


def test_padding_that_a_client_adds_on_the_left_moves_tokens_and_nothing_else() -> None:
    known = {
        "knowledge_boxes": torch.tensor([[[1, 1, 2, 3, 4]], [[1, 1, 2, 3, 4]]]),
        "knowledge_weights": torch.ones(2, 1),
        "knowledge_kinds": torch.tensor([[2], [2]]),
        "knowledge_spans": torch.tensor([[[1, 2, 1, 3]], [[1, 2, 1, 3]]]),
        "knowledge_terms": torch.tensor([[7, 8, 9], [7, 8, 9]]),
        "knowledge_ties": torch.tensor([[[1, 2, 1, 3, 0, 2]], [[1, 2, 1, 3, 0, 2]]]),
        "knowledge_tie_weights": torch.ones(2, 1),
        "knowledge_length": torch.tensor([6, 4]),
    }
    batch = tokens(["the red river the", "the town"], padding_side="left")
    assert batch["attention_mask"].tolist() == [[1] * 6, [0, 0, 1, 1, 1, 1]]
    got = read_of(tiny_host("bert"), {**batch, **known})
    assert torch.equal(got.rows, batch["attention_mask"].bool())
    moved = {name: tensor.tolist() for name, tensor in got.tensors.items()}
    assert moved.pop("knowledge_boxes") == [[[1, 1, 2, 3, 4]], [[1, 3, 4, 5, 6]]]
    assert moved.pop("knowledge_spans") == [[[1, 2, 1, 3]], [[1, 2, 3, 5]]]
    assert moved.pop("knowledge_ties") == [[[1, 2, 1, 3, 0, 2]], [[1, 2, 3, 5, 0, 2]]]
    assert moved == {name: known[name].tolist() for name in moved} and "knowledge_terms" in moved
    assert known["knowledge_spans"][1].tolist() == [[1, 2, 1, 3]]  # the caller's own tensors stay as they are


def test_choices_lie_one_below_the_other_like_texts() -> None:
    model = tiny_host("bert", "multiple-choice")
    batch = {name: tensor.view(2, 2, -1) for name, tensor in tokens(TEXTS[:4]).items()}
    known = {"knowledge_spans": torch.arange(16).view(2, 2, 1, 4), "knowledge_kinds": torch.arange(4).view(2, 2, 1)}
    got: list[BatchKnowledge] = []
    add_reader(model, "spy", lambda base, batch: got.append(batch))
    model(**batch, **known)
    assert got[0].rows.shape[0] == 4
    assert got[0].tensors["knowledge_spans"].tolist() == torch.arange(16).view(4, 1, 4).tolist()
    assert got[0].tensors["knowledge_kinds"].tolist() == [[0], [1], [2], [3]]


def test_keys_of_earlier_versions_are_refused() -> None:
    with pytest.raises(InputError, match="'knowledge_maps'"):
        states(host_with(one=None), **tokens(), knowledge_maps=torch.zeros(1))
