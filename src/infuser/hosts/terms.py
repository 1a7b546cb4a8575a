"""Words that are not in the text, as an encoder's attention and its first block would read them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from infuser.hosts.anatomy import HOSTS


def terms_for_layers(base: Any, ids: Tensor, start: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield keys and values (batch, heads, terms, head size) of auxiliary subwords for each attention module.

    Their states are the embedding output, the same at every layer. They are embedded as a text of their own, so that
    the text's length does not matter. Encoders that turn keys by their position count the terms from `start` (batch,),
    the position of the text's first token, so that its padding does not matter either.
    """
    anatomy = HOSTS[base.config.model_type]
    n_heads = base.config.num_attention_heads
    states = anatomy.enter(base, anatomy.embeddings(base)(ids))
    positions = start[:, None] + torch.arange(ids.shape[1], device=ids.device)
    for block in anatomy.blocks(base):
        attention = anatomy.attention(block)
        keys, values = anatomy.project(attention, anatomy.prepare(block, states))
        groups = heads_per_key(attention)
        keys, values = (x.view(*x.shape[:2], n_heads // groups, -1).transpose(1, 2) for x in (keys, values))
        if anatomy.turn is not None and turns_keys(base):
            cos, sin = anatomy.turn(base, block, states, positions)
            keys = sys.modules[type(base).__module__].apply_rotary_pos_emb(keys, keys, cos, sin)[1]
        yield for_each_head(keys, groups), for_each_head(values, groups)


def turns_keys(base: Any) -> bool:
    """Return whether an encoder turns keys by their position; ESM does so or has position embeddings."""
    return getattr(base.config, "position_embedding_type", None) in (None, "rotary")


def heads_per_key(attention: Any) -> int:
    """Return how many heads read the same keys and values."""
    return int(getattr(attention, "num_key_value_groups", 1))


def for_each_head(shared: Tensor, n: int) -> Tensor:
    """Return keys or values (batch, heads / n, seq, head size) once for each of the n heads that read them."""
    return shared if n == 1 else shared.repeat_interleave(n, dim=1)


def embed_names(base: Any, ids: Tensor, places: Tensor) -> Tensor:
    """Return a vector (batch, T, hidden) for each name: the mean of its pieces' input embeddings, layer-normed.

    ids     (batch, K) token ids of all names of a text, one behind the other
    places  (batch, T, 2) where among them each name begins and ends
    """
    anatomy = HOSTS[base.config.model_type]
    states = anatomy.enter(base, anatomy.words(base, ids))  # (batch, K, hidden)
    piece = torch.arange(ids.shape[1], device=ids.device)
    inside = ((piece >= places[..., :1]) & (piece < places[..., 1:])).to(states.dtype)  # (batch, T, K)
    mean = inside @ states / inside.sum(dim=-1, keepdim=True).clamp(min=1)
    return nn.functional.layer_norm(mean, mean.shape[-1:])
