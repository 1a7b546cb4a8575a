"""Encoders that compute their attention themselves: scores equal theirs, the route stands and is taken away whole."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from gradients import assert_compiled_model_learns_alike, drop_nothing, without_dropout
from miniatures import OWN_ATTENTION, TEXTS, tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, answer, examples, infuse_tiny, plain, real_part, shake, tiny_sources
from torch import Tensor, nn

import infuser
from infuser.errors import HostError
from infuser.hosts import Call, add_reader, attentions, hook_blocks, n_blocks, plug_in, remove_reader, unhook_blocks
from infuser.hosts import unplug as unplug_attention
from infuser.methods import kam_scores

DEBERTAS = {
    "as v3": {},
    "c2p": {"pos_att_type": ["c2p"]},
    "p2c": {"pos_att_type": ["p2c"]},
    "content": {"pos_att_type": []},
    "own projections": {"share_att_key": False},
    "all distances": {"position_buckets": -1},
    "no positions": {"relative_attention": False},
}
"""Settings of DeBERTa that change how scores are made."""


class Plain(nn.Module):
    """Stands where a method's layer stands, and attends as the host would: scores, mask, softmax, values."""

    method = "plain"

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        knowledge: Any,
        *,
        scaling: float,
        dropout: float,
        want_weights: bool,
        position_bias: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        scores = query @ key.transpose(2, 3) * scaling
        if position_bias is not None:
            scores = scores + position_bias
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)
        return (weights @ value).transpose(1, 2), weights if want_weights else None


def tokens(host: str) -> dict[str, Tensor]:
    return dict(tiny_tokenizer(host)(list(TEXTS), padding=True, return_tensors="pt"))


def classes(model: nn.Module) -> list[type]:
    return [type(module) for module in model.modules()]


@pytest.mark.parametrize(
    ("host", "changes"),
    [
        *((host, {}) for host in OWN_ATTENTION),
        *(("deberta-v2", changes) for changes in DEBERTAS.values()),
        *(("deberta", DEBERTAS[name]) for name in ("c2p", "p2c", "content", "no positions")),
        ("deberta", {"embedding_size": 8}),
        ("deberta-v2", {"embedding_size": 8, "max_relative_positions": 4}),
    ],
    ids=str,
)
def test_what_is_handed_over_makes_the_hosts_own_attention(host: str, changes: dict[str, Any]) -> None:
    model, batch = tiny_host(host, **changes), tokens(host)
    assert not batch["attention_mask"].all()
    with torch.no_grad():
        expected = model(**batch, output_attentions=True)
        plug_in(model)
        for module in attentions(model):
            module.knowledge = Plain()
        found = model(**batch, output_attentions=True, knowledge=Call({"plain": object()}))
    for ours, theirs in zip((found[0], *found.attentions), (expected[0], *expected.attentions), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


@pytest.mark.parametrize("host", OWN_ATTENTION)
@pytest.mark.parametrize("head", ["encoder", "sequence-classification"])
def test_classes_change_with_the_first_user_and_come_back_with_the_last(host: str, head: str) -> None:
    model = tiny_host(host, head)
    before, attributes, takes = classes(model), set(vars(model.base_model)), inspect.signature(model.forward)
    plug_in(model)
    during = classes(model)
    n_changed = sum(one is not other for one, other in zip(before, during, strict=True))
    assert n_changed == 1 + (head != "encoder") + 2 * n_blocks(model)
    assert all(
        issubclass(one, other) and one.__name__ == other.__name__ for one, other in zip(during, before, strict=True)
    )
    assert inspect.signature(model.forward) == takes
    hook_blocks(model, "other", {0})
    add_reader(model, "other", lambda base, batch: None)
    unplug_attention(model)
    assert classes(model) == during
    unhook_blocks(model, "other")
    remove_reader(model, "other")
    assert classes(model) == before and set(vars(model.base_model)) == attributes
    unplug_attention(model)  # nothing is left to undo
    assert classes(model) == before


def test_the_knowledge_of_two_calls_is_not_mixed_up_when_checkpointing_repeats_their_blocks() -> None:
    infused = without_dropout(infuse_tiny("deberta-v2", num_hidden_layers=3))
    model, first, second = infused.model, infused.batch([KNOWN_TEXT]), infused.batch(["the river of the red river"])

    def learned() -> dict[str, Tensor]:
        model.zero_grad()
        both = answer(model, first).square().sum() + answer(model, second).square().sum()
        answer(model, plain(first))  # a call without knowledge comes last
        both.backward()
        return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}

    expected = learned()
    model.gradient_checkpointing_enable()
    found = learned()
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-9, rtol=1e-9, msg=name)


@pytest.mark.parametrize("host", ["mpnet", "deberta-v2"])
def test_threads_read_with_their_own_knowledge(host: str) -> None:
    infused = infuse_tiny(host, "sequence-classification")
    texts = [KNOWN_TEXT, "the river of the red river", "cheap medicine", "a train runs to the old town of the old city"]
    batches = [infused.batch([text]) for text in texts]

    def read(batch: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            return infused.model(**batch).logits

    alone = [read(batch) for batch in batches]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(read, batches * 10))
    assert all(torch.equal(found, alone[place % len(texts)]) for place, found in enumerate(together))


def test_an_error_in_a_call_leaves_no_knowledge_behind() -> None:
    infused = infuse_tiny("mpnet", "sequence-classification")
    batch = infused.batch([KNOWN_TEXT])
    with torch.no_grad():
        before = infused.model(**plain(batch)).logits
        with pytest.raises(ValueError, match="at the same time"):
            infused.model(**batch, inputs_embeds=torch.zeros(1, 1, 16))
        assert torch.equal(infused.model(**plain(batch)).logits, before)


def test_a_forward_that_someone_replaced_is_refused() -> None:
    model = tiny_host("mpnet", "sequence-classification")
    model.base_model.forward = model.base_model.forward  # as accelerate does
    with pytest.raises(HostError, match=r"replaced the forward of this MPNetModel.*Infuse the model first"):
        infuser.infuse(model, sources=tiny_sources(), tokenizer=tiny_tokenizer("mpnet"))


def test_deberta_whose_heads_talk_to_each_other_is_refused() -> None:
    infused = infuse_tiny("deberta", talking_head=True)
    with pytest.raises(HostError, match="talking_head=True"):
        infused.model(**infused.batch([KNOWN_TEXT]))


@pytest.mark.parametrize(("host", "targets"), [("mpnet", ["q", "v"]), ("deberta-v2", ["query_proj", "value_proj"])])
def test_lora_adapts_the_projections_that_scores_are_made_with(host: str, targets: list[str]) -> None:
    from peft import LoraConfig, get_peft_model

    infused = infuse_tiny(host, "sequence-classification")
    batch = infused.collator()(examples("sequence-classification"))
    with torch.no_grad():
        start = infused.model(**batch).logits
    config = LoraConfig(r=2, target_modules=targets, modules_to_save=["knowledge", "classifier"])
    model: Any = get_peft_model(infused.model, config).double()
    drop_nothing(model)
    torch.testing.assert_close(model(**batch).logits, start, atol=1e-9, rtol=0)  # LoRA starts at zero
    model(**batch, labels=torch.tensor([0, 1, 2, 1])).loss.backward()
    learn = {name for name, weight in model.named_parameters() if weight.grad is not None and weight.grad.any()}
    assert any("lora_B" in name for name in learn) and any("knowledge" in name for name in learn)


@pytest.mark.slow
def test_torch_compile_gives_the_same_answer_and_gradients() -> None:
    infused = without_dropout(infuse_tiny("deberta-v2", "sequence-classification", num_hidden_layers=1))
    batch = infused.collator()(examples("sequence-classification"))
    expected = answer(infused.model, batch)
    compiled = assert_compiled_model_learns_alike(infused, batch, "sequence-classification")
    torch.testing.assert_close(answer(compiled, batch), expected, atol=1e-10, rtol=1e-7)


@pytest.mark.parametrize("host", ["mpnet", "deberta", "deberta-v2"])
def test_long_texts_are_read_the_same_whole_and_in_tiles(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    infused = infuse_tiny(host, num_hidden_layers=3)
    shake(infused.model, seed=4)
    batch = infused.batch([f"{KNOWN_TEXT} " * 3, KNOWN_TEXT])
    with torch.no_grad():
        whole = real_part(answer(infused.model, batch), batch, "encoder")
        monkeypatch.setattr(kam_scores, "_WHOLE", 0)
        monkeypatch.setattr(kam_scores, "_TILE_BYTES", 0)
        tiled = real_part(answer(infused.model, batch), batch, "encoder")
    torch.testing.assert_close(tiled, whole, atol=1e-9, rtol=0)
