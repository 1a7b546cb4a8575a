"""Attention is handed over layer by layer, and the host is left as it was."""

from __future__ import annotations

import pytest
import torch
from miniatures import HOSTS, TEXTS, tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, infuse_tiny

from infuser.errors import HostError
from infuser.hosts import attentions, n_blocks, plug_in, watching_attention


def tokens(host, texts=TEXTS, **settings):
    return tiny_tokenizer(host, **settings)(list(texts), padding=True, return_tensors="pt")


def hooks_of(model):
    return [len(module._forward_hooks) for module in attentions(model)]


@torch.no_grad()
def watched(model, batch):
    seen = []
    with watching_attention(model, seen.append):
        model(**batch)
    return seen


@pytest.mark.parametrize("host", HOSTS)
def test_each_layer_hands_over_what_output_attentions_would_keep(host):
    batch = tokens(host)
    seen = watched(tiny_host(host), batch)
    model = tiny_host(host, attn_implementation="eager")
    plug_in(model)  # ModernBERT's own eager attention is not finite in float64
    with torch.no_grad():
        kept = model(**batch, output_attentions=True).attentions
    assert len(seen) == len(kept) == n_blocks(model)
    assert seen[0].shape == (4, 2, *[batch["input_ids"].shape[1]] * 2)
    for one, other in zip(seen, kept, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6 if host == "modernbert" else 1e-12)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_finite_in_float64_where_layers_see_a_window(side):
    batch = tokens("modernbert", ("Bern", "the old bridge of the town " * 4), padding_side=side)
    seen = watched(tiny_host("modernbert"), batch)
    assert len(seen) == 3
    assert all(weights.isfinite().all() for weights in seen)


def test_layers_that_share_one_module_are_seen_once_each():
    model = tiny_host("albert", num_hidden_layers=3)
    seen = watched(model, tokens("albert"))
    assert len(attentions(model)) == 1
    assert len(seen) == n_blocks(model) == 3
    assert not torch.equal(seen[0], seen[2])


@pytest.mark.parametrize("method", ["kam", "kar", "ernie"])
def test_an_infused_host_shows_the_weights_it_reads_with(method):
    infused = infuse_tiny("bert", method=method)
    batch = infused.batch([KNOWN_TEXT, "buy glipizide tablets"])
    seen = watched(infused.model, batch)
    infused.model.set_attn_implementation("infuser_eager" if method == "kam" else "eager")
    with torch.no_grad():
        kept = infused.model(**batch, output_attentions=True).attentions
    assert len(seen) == len(kept) == 2
    for one, other in zip(seen, kept, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("infused", [False, True])
def test_the_host_is_left_as_it_was_also_after_an_error(name, dtype, infused):
    model = tiny_host("bert", attn_implementation=name).to(dtype)
    if infused:
        plug_in(model)
    before = model.config._attn_implementation, hooks_of(model), set(vars(model))
    watched(model, tokens("bert"))
    assert (model.config._attn_implementation, hooks_of(model), set(vars(model))) == before
    with pytest.raises(ZeroDivisionError), watching_attention(model, lambda weights: 1 / 0):
        model(**tokens("bert"))
    assert (model.config._attn_implementation, hooks_of(model), set(vars(model))) == before


def test_hooks_of_others_stay():
    model, calls = tiny_host("bert"), []
    hook = attentions(model)[0].register_forward_hook(lambda *args: calls.append(1))
    watched(model, tokens("bert"))
    model(**tokens("bert"))
    assert calls == [1, 1]
    hook.remove()


def test_attention_that_tells_no_weights_is_named(monkeypatch):
    model = tiny_host("bert")
    first = attentions(model)[0]
    plain = first.forward
    monkeypatch.setattr(first, "forward", lambda *args, **options: (plain(*args, **options)[0], None))
    with pytest.raises(HostError, match=r"BertSelfAttention.*eager"):
        watched(model, tokens("bert"))
    assert hooks_of(model) == [0, 0]
