"""Knowledge between the blocks: what travels in a call sees the states behind every block of every host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from miniatures import HOSTS, NORM_AT_THE_END, TEXTS, every_host_and_head, tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, infuse_tiny, plain
from torch import Tensor, nn

from infuser.errors import HostError, InputError
from infuser.hosts import Call, anatomy_of, hook_blocks, n_blocks, unhook_blocks
from infuser.hosts.blocks import AfterBlock


@dataclass
class Spy:
    """Travels through a call, remembers what it passed, and turns the states behind one block around."""

    changed: int | None = None
    seen: list[tuple[int, Tensor]] = field(default_factory=list)

    def after_block(self, layer: int, states: Tensor) -> Tensor:
        self.seen.append((layer, states))
        return states.flip(-1) if layer == self.changed else states


def tokens(host: str, head: str = "encoder") -> dict[str, Tensor]:
    batch = tiny_tokenizer(host)(list(TEXTS), padding=True, return_tensors="pt")
    return {name: tensor[None] if head == "multiple-choice" else tensor for name, tensor in batch.items()}


def spied(host: str, head: str = "encoder", **changes: Any) -> Any:
    model = tiny_host(host, head, num_hidden_layers=3, **changes)
    hook_blocks(model, "spy", range(n_blocks(model)))
    return model


@pytest.mark.parametrize(("host", "head"), every_host_and_head())
def test_knowledge_sees_the_states_behind_every_block_in_order(host: str, head: str) -> None:
    model, spy, batch = spied(host, head), Spy(), tokens(host, head)
    with torch.no_grad():
        out = model(**batch, knowledge=Call({"spy": spy}), output_hidden_states=True)
    assert [layer for layer, _ in spy.seen] == [0, 1, 2] == list(range(n_blocks(model)))
    told = [torch.equal(s, h) for (_, s), h in zip(spy.seen, out.hidden_states[1:], strict=True)]
    # DeBERTa's second version adds a convolution over the embeddings behind the first block
    assert told == [host != "deberta-v2", True, host not in NORM_AT_THE_END]
    n_rows, n_tokens = batch["input_ids"].shape[-2:]
    assert {tuple(states.shape) for _, states in spy.seen} == {(n_rows, n_tokens, 16)}


@pytest.mark.parametrize("host", HOSTS)
def test_what_knowledge_makes_of_the_states_goes_on_to_the_next_block(host: str) -> None:
    model, batch, before, after = spied(host), tokens(host), Spy(), Spy(changed=1)
    with torch.no_grad():
        plainly = model(**batch, knowledge=Call({"spy": before}))[0]
        changed = model(**batch, knowledge=Call({"spy": after}))[0]
        assert torch.equal(model(**batch)[0], plainly)
    same = [torch.equal(one, other) for (_, one), (_, other) in zip(before.seen, after.seen, strict=True)]
    assert same == [True, True, False]
    assert (changed - plainly).abs().max() > 1e-3


@pytest.mark.parametrize("groups", [1, 2])
def test_layers_that_share_their_weights_are_counted_in_every_call(groups: int) -> None:
    model = spied("albert", num_hidden_groups=1, inner_group_num=groups)
    assert n_blocks(model) == 3 * groups
    for _ in range(2):
        spy = Spy()
        model(**tokens("albert"), knowledge=Call({"spy": spy}))
        assert [layer for layer, _ in spy.seen] == list(range(3 * groups))


@pytest.mark.parametrize("host", HOSTS)
def test_only_the_blocks_that_were_asked_for_are_hooked_and_all_can_be_unhooked(host: str) -> None:
    model, spy = tiny_host(host, num_hidden_layers=3), Spy()
    hook_blocks(model, "spy", {1})
    model(**tokens(host), knowledge=Call({"spy": spy}))
    shared = anatomy_of(model).shared  # one module is all of them
    assert [layer for layer, _ in spy.seen] == ([0, 1, 2] if shared else [1])
    unhook_blocks(model, "spy")
    assert not any(module._forward_hooks or module._forward_hooks_with_kwargs for module in model.modules())


@pytest.mark.parametrize("host", HOSTS)
def test_a_direct_call_of_forward_does_not_ignore_knowledge_silently(host: str) -> None:
    infused = infuse_tiny(host, "encoder", "kar")
    batch = infused.batch([KNOWN_TEXT])
    with pytest.raises(HostError, match=r"model\(\*\*batch\)"):
        infused.model.forward(**batch)
    infused.model.forward(**plain(batch))
    classifier = infuse_tiny(host, "sequence-classification", "kar").model  # its encoder is called by its own forward
    assert torch.equal(classifier.forward(**batch).logits, classifier(**batch).logits)


@pytest.mark.parametrize("inside", [lambda states: states, lambda states: (states, "more")], ids=["", "in a tuple"])
def test_texts_packed_without_padding_are_refused(inside: Any) -> None:
    class Packed(nn.Module):
        def forward(self, states: Tensor, **options: Any) -> Any:
            return inside(states)

    block = Packed()
    block.register_forward_hook(AfterBlock(0), with_kwargs=True)
    with pytest.raises(InputError, match=r"shape \(9, 16\).*'sdpa'"):
        block(torch.zeros(9, 16), knowledge=Call({"spy": Spy()}))
    spy = Spy(changed=0)
    given = torch.rand(2, 9, 16)
    told = block(given, knowledge=Call({"spy": spy}))
    assert isinstance(told, tuple) is isinstance(inside(given), tuple)
    assert torch.equal(told[0] if isinstance(told, tuple) else told, given.flip(-1)) and len(spy.seen) == 1
