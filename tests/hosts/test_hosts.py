"""What is known about the inside of each host: where attention sits, how it is exchanged and given back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from miniatures import HEADS, HOSTS, TEXTS, every_host_and_head, tiny_host, tiny_tokenizer
from torch import Tensor, nn
from transformers import BertConfig, BertLMHeadModel, GPT2Config, GPT2Model, RoFormerConfig, RoFormerModel

from infuser.errors import HostError, InfuserError
from infuser.hosts import (
    HOSTS as DESCRIBED,
)
from infuser.hosts import (
    Call,
    anatomy_of,
    attentions,
    check_plugged_in,
    is_new_weight,
    plain_state,
    plug_in,
    terms_for_layers,
    unplug,
)

SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


class Spy(nn.Module):
    """Stands where a method's layer stands, attends to nothing and remembers the first call."""

    method = "spy"

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, Any] = {}
        self.n_calls = 0

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, knowledge: Any, **options: Any
    ) -> tuple[Tensor, None]:
        if not self.seen:
            self.seen = {"key": key, "value": value, "mask": mask, "knowledge": knowledge, **options}
        self.n_calls += 1
        return value.transpose(1, 2), None


def spied(host: str, head: str = "encoder") -> tuple[Any, Spy]:
    model, spy = tiny_host(host, head), Spy()
    attentions(model)[0].knowledge = spy
    plug_in(model)
    return model, spy


def test_every_host_that_is_described_has_a_miniature() -> None:
    assert set(DESCRIBED) == set(HOSTS)


@pytest.mark.parametrize(("host", "head"), every_host_and_head())
def test_attention_modules_are_found_under_every_head(host: str, head: str) -> None:
    model = tiny_host(host, head)
    found = attentions(model)
    assert len(found) == (1 if anatomy_of(model).shared else model.config.num_hidden_layers)
    assert all(module in list(model.modules()) for module in found)
    assert len({id(module) for module in found}) == len(found)


@pytest.mark.parametrize(("host", "head"), every_host_and_head())
def test_knowledge_travels_in_the_call_to_the_attention_of_every_host_and_head(host: str, head: str) -> None:
    model, spy = spied(host, head)
    batch = tiny_tokenizer(host)(list(TEXTS), padding=True, return_tensors="pt")
    if head == "multiple-choice":
        batch = {name: tensor[None] for name, tensor in batch.items()}
    message = object()
    model(**batch, knowledge=Call({"spy": message}))
    assert spy.seen["knowledge"] is message
    assert spy.n_calls == (model.config.num_hidden_layers if anatomy_of(model).shared else 1)
    # the mask arrives too, and is True where attention is allowed
    mask = spy.seen["mask"]
    assert mask.dtype == torch.bool
    real = batch["attention_mask"].bool().view(len(TEXTS), -1)
    allowed = mask.expand(-1, 1, real.shape[1], -1)[:, 0, 0] if host != "modernbert" else mask[:, 0].any(1)
    assert torch.equal(allowed, real)


@pytest.mark.parametrize("host", HOSTS)
def test_a_call_without_knowledge_goes_past_the_new_module(host: str) -> None:
    model, spy = spied(host)
    batch = tiny_tokenizer(host)(list(TEXTS), padding=True, return_tensors="pt")
    with torch.no_grad():
        assert torch.equal(model(**batch)[0], tiny_host(host)(**batch)[0])
    assert not spy.seen


@pytest.mark.parametrize("host", HOSTS)
def test_terms_enter_the_first_layer_like_a_text_of_their_own(host: str) -> None:
    model, spy = spied(host)
    ids = torch.tensor([[7, 8, 9, 10], [20, 21, 22, 23]])
    with torch.no_grad():
        model(input_ids=ids, knowledge=Call({"spy": "some"}))
        layers = list(terms_for_layers(model, ids, torch.zeros(2, dtype=torch.long)))
    assert len(layers) == len(attentions(model))
    for ours, theirs in zip(layers[0], (spy.seen["key"], spy.seen["value"]), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)
    assert all(keys.shape == values.shape == (2, 2, 4, 8) for keys, values in layers)


def test_rotated_terms_begin_where_their_text_begins() -> None:
    model, spy = spied("modernbert")
    ids = torch.tensor([[7, 8, 9, 10]])
    with torch.no_grad():
        model(input_ids=ids, position_ids=torch.arange(5, 9)[None], knowledge=Call({"spy": "some"}))
        keys, _ = next(terms_for_layers(model, ids, torch.tensor([5])))
        at_zero, _ = next(terms_for_layers(model, ids, torch.tensor([0])))
    torch.testing.assert_close(keys, spy.seen["key"], atol=1e-12, rtol=0)
    assert (keys - at_zero).abs().max() > 1e-3


@pytest.mark.parametrize("plain", ["sdpa", "eager"])
def test_unplugging_gives_the_plain_attention_back(plain: str) -> None:
    model = tiny_host("bert", "sequence-classification", attn_implementation=plain)
    plug_in(model)
    assert model.config._attn_implementation == f"infuser_{plain}"
    plug_in(model)  # twice does no harm
    check_plugged_in(model)
    unplug(model)
    assert model.config._attn_implementation == plain
    with pytest.raises(HostError, match="cannot read it"):
        check_plugged_in(model)


def test_attention_that_never_forms_scores_is_exchanged_and_given_back() -> None:
    model = tiny_host("bert", attn_implementation="flex_attention")
    attributes = set(vars(model))
    plug_in(model)
    assert model.config._attn_implementation == "infuser_sdpa"
    batch = tiny_tokenizer("bert")(list(TEXTS), padding=True, return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(model(**batch)[0], tiny_host("bert")(**batch)[0])
    unplug(model)
    assert model.config._attn_implementation == "flex_attention"
    assert set(vars(model)) == attributes


@pytest.mark.parametrize(
    "host", [RoFormerModel(RoFormerConfig(vocab_size=20, **SMALL)), "a string"], ids=["roformer", "no model"]
)
def test_an_undescribed_host_is_refused_with_all_that_are_described(host: Any) -> None:
    with pytest.raises(HostError) as caught:
        anatomy_of(host)
    assert isinstance(caught.value, InfuserError) and isinstance(caught.value, ValueError)
    assert all(name in str(caught.value) for name in HOSTS)
    assert "docs/guides/new-host.md" in str(caught.value)


def test_decoders_are_refused() -> None:
    with pytest.raises(HostError, match="is_decoder=False"):
        anatomy_of(BertLMHeadModel(BertConfig(vocab_size=20, is_decoder=True, **SMALL)))
    with pytest.raises(HostError, match="'gpt2'"):
        anatomy_of(GPT2Model(GPT2Config(vocab_size=20, n_embd=16, n_layer=1, n_head=2)))


@pytest.mark.parametrize("head", HEADS)
def test_new_weights_are_told_from_the_hosts_own_by_name(head: str) -> None:
    model, _ = spied("bert", head)
    own = set(model.state_dict())
    attentions(model)[1].knowledge = nn.Linear(2, 2)
    assert set(plain_state(model)) == own
    new = set(model.state_dict()) - own
    assert len(new) == 2 and all(is_new_weight(name) for name in new)
    assert not any(is_new_weight(name) for name in own)
    assert not is_new_weight("encoder.knowledgeable.weight")
