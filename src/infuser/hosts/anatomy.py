"""Where things sit inside each encoder. A new host is one entry in `HOSTS`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import HostError

NEW = "knowledge"
"""New weights are children of the host's own modules under this name."""


@dataclass(frozen=True, slots=True)
class Anatomy:
    """What a method needs to know about one kind of encoder."""

    blocks: Callable[[Any], list[Any]]
    """The blocks of the encoder, lower to upper, each once."""
    attention: Callable[[Any], Any]
    """The module of a block that calls the attention function."""
    project: Callable[[Any, Tensor], tuple[Tensor, Tensor]]
    """States to keys and values of one attention module, heads not yet split."""
    enter: Callable[[Any, Tensor], Tensor] = lambda base, states: states
    """What lies between the embeddings and the first block."""
    prepare: Callable[[Any, Tensor], Tensor] = lambda block, states: states
    """What a block does to its input before attention (the norm of pre-norm encoders)."""
    shared: bool = False
    """True when all layers are the same module."""
    counts_from_padding: bool = False
    """True when positions start after the padding id, so that as many fewer tokens can be read."""


def _separate(key: str, value: str) -> Callable[[Any, Tensor], tuple[Tensor, Tensor]]:
    return lambda attention, states: (getattr(attention, key)(states), getattr(attention, value)(states))


_BERT = Anatomy(
    blocks=lambda base: list(base.encoder.layer),
    attention=lambda block: block.attention.self,
    project=_separate("key", "value"),
)


_ROBERTA = dataclasses.replace(_BERT, counts_from_padding=True)


def _albert_blocks(base: Any) -> list[Any]:
    return [layer for group in base.encoder.albert_layer_groups for layer in group.albert_layers]


HOSTS: dict[str, Anatomy] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "electra": dataclasses.replace(
        _BERT,
        enter=lambda base, states: base.embeddings_project(states) if hasattr(base, "embeddings_project") else states,
    ),
    "distilbert": Anatomy(
        blocks=lambda base: list(base.transformer.layer),
        attention=lambda block: block.attention,
        project=_separate("k_lin", "v_lin"),
    ),
    "albert": Anatomy(
        blocks=_albert_blocks,
        attention=lambda block: block.attention,
        project=_separate("key", "value"),
        enter=lambda base, states: base.encoder.embedding_hidden_mapping_in(states),
        shared=True,
    ),
    "modernbert": Anatomy(
        blocks=lambda base: list(base.layers),
        attention=lambda block: block.attn,
        project=lambda attention, states: attention.Wqkv(states).chunk(3, dim=-1)[1:],
        prepare=lambda block, states: block.attn_norm(states),
    ),
}


def anatomy_of(host: PreTrainedModel) -> Anatomy:
    """Return the anatomy of a host; raise for one that is not described or is a decoder."""
    kind = getattr(getattr(host, "config", None), "model_type", type(host).__name__)
    if kind not in HOSTS:
        from infuser.hosts.nearest import nearest_host  # which reads this file's entries

        nearest = f" {nearest_host(host.config, kind)}" if hasattr(host, "config") else ""
        raise HostError(
            f"Cannot infuse a {kind!r} encoder: its anatomy is not described yet.{nearest} Described: "
            f"{', '.join(sorted(HOSTS))}. To add one, see docs/guides/new-host.md."
        )
    if getattr(host.config, "is_decoder", False):
        raise HostError(
            f"Cannot infuse {type(host).__name__} with is_decoder=True: maps tie words in both directions, a decoder "
            "must not look ahead. Load the checkpoint with is_decoder=False."
        )
    return HOSTS[kind]


def attentions(host: PreTrainedModel) -> list[nn.Module]:
    """Return the host's attention modules, lower to upper; one module if all layers share it."""
    anatomy = anatomy_of(host)
    return [anatomy.attention(block) for block in anatomy.blocks(host.base_model)]


def is_new_weight(name: str) -> bool:
    """Return whether a parameter's name is that of a weight which an infusion added."""
    return NEW in name.split(".")


def plain_state(host: PreTrainedModel) -> dict[str, Tensor]:
    """Return the host's own tensors, without those that an infusion added."""
    return {name: tensor for name, tensor in host.state_dict().items() if not is_new_weight(name)}


def terms_for_layers(base: Any, ids: Tensor, start: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield keys and values (batch, heads, terms, head size) of auxiliary subwords for each attention module.

    Their states are the embedding output, the same at every layer. They are embedded as a text of their own, so that
    the text's length does not matter. Encoders that turn keys by their position count the terms from `start` (batch,),
    the position of the text's first token, so that its padding does not matter either.
    """
    anatomy = HOSTS[base.config.model_type]
    n_heads = base.config.num_attention_heads
    states = anatomy.enter(base, base.embeddings(input_ids=ids))
    for block in anatomy.blocks(base):
        keys, values = anatomy.project(anatomy.attention(block), anatomy.prepare(block, states))
        keys, values = (x.view(*x.shape[:2], n_heads, -1).transpose(1, 2) for x in (keys, values))
        if hasattr(base, "rotary_emb"):
            keys = _rotate(base, block, keys, states, start)
        yield keys, values


def _rotate(base: Any, block: Any, keys: Tensor, states: Tensor, start: Tensor) -> Tensor:
    positions = start[:, None] + torch.arange(keys.shape[2], device=keys.device)
    cos, sin = base.rotary_emb(states, positions, block.attention_type)
    turn = sys.modules[type(base).__module__].apply_rotary_pos_emb
    rotated: Tensor = turn(keys, keys, cos, sin)[1]
    return rotated


def embed_names(base: Any, ids: Tensor, places: Tensor) -> Tensor:
    """Return a vector (batch, T, hidden) for each name: the mean of its pieces' input embeddings, layer-normed.

    ids     (batch, K) token ids of all names of a text, one behind the other
    places  (batch, T, 2) where among them each name begins and ends
    """
    anatomy = HOSTS[base.config.model_type]
    states = anatomy.enter(base, base.get_input_embeddings()(ids))  # (batch, K, hidden)
    piece = torch.arange(ids.shape[1], device=ids.device)
    inside = ((piece >= places[..., :1]) & (piece < places[..., 1:])).to(states.dtype)  # (batch, T, K)
    mean = inside @ states / inside.sum(dim=-1, keepdim=True).clamp(min=1)
    return nn.functional.layer_norm(mean, mean.shape[-1:])
