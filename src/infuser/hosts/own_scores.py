"""Attention modules that compute their attention themselves: what knowledge needs to take their place.

transformers has a function for attention that most encoders call; these do not. For each of them a function here takes
what the module's own `forward` takes, and returns what stands before the softmax: queries, keys and values by the
host's own projections, and what it adds to their scores for where words stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from infuser.errors import HostError


@dataclass(frozen=True, slots=True)
class Scores:
    """What one attention module has before the softmax."""

    query: Tensor
    """(batch, heads, seq, head size)"""
    key: Tensor
    value: Tensor
    scaling: float
    """What the products of queries and keys are multiplied by."""
    position_bias: Tensor | None
    """(batch, heads, seq, seq) added to the scaled products; None if the module adds nothing."""
    mask: Tensor | None
    """(batch, 1, 1 or seq, seq): True where attention is allowed; None if it is everywhere."""
    want_weights: bool


@dataclass(frozen=True, slots=True)
class OwnAttention:
    """How attention modules of one kind work that do not call transformers' attention function."""

    scores: Callable[..., Scores]
    """The module and the arguments of its `forward` to its scores."""
    finish: Callable[[Any, Tensor], Tensor] = lambda attention, out: out
    """What the module does to the output (batch, seq, hidden) of its heads before it returns it."""


def _by_head(attention: Any, states: Tensor) -> Tensor:
    return states.view(*states.shape[:2], attention.num_attention_heads, -1).transpose(1, 2)


def _allowed(mask: Tensor | None) -> Tensor | None:
    """Return the mask that transformers makes for modules that add it: 0 where attention is allowed."""
    return mask if mask is None or mask.dtype == torch.bool else mask == 0


def _bert_scores(
    attention: Any,
    hidden_states: Tensor,
    attention_mask: Tensor | None = None,
    encoder_hidden_states: None = None,
    past_key_values: None = None,
    output_attentions: bool | None = False,
) -> Scores:
    query, key, value = (
        _by_head(attention, project(hidden_states)) for project in (attention.query, attention.key, attention.value)
    )
    scaling = 1 / math.sqrt(attention.attention_head_size)
    return Scores(query, key, value, scaling, None, _allowed(attention_mask), bool(output_attentions))


def _mpnet_scores(
    attention: Any,
    hidden_states: Tensor,
    attention_mask: Tensor | None = None,
    position_bias: Tensor | None = None,
    output_attentions: bool = False,
) -> Scores:
    query, key, value = (
        _by_head(attention, project(hidden_states)) for project in (attention.q, attention.k, attention.v)
    )
    scaling = 1 / math.sqrt(attention.attention_head_size)
    return Scores(query, key, value, scaling, position_bias, _allowed(attention_mask), output_attentions)


def _root(number: int) -> float:
    """Return a square root as DeBERTa has it: in float32, whatever its own type is."""
    return float(torch.tensor(float(number)).sqrt())


def _deberta_scores(
    attention: Any,
    hidden_states: Tensor,
    attention_mask: Tensor,
    output_attentions: bool = False,
    query_states: None = None,
    relative_pos: Tensor | None = None,
    rel_embeddings: Tensor | None = None,
) -> Scores:
    if attention.talking_head:
        raise HostError(
            "Cannot infuse a DeBERTa whose heads talk to each other (talking_head=True in its config): knowledge would "
            "be mixed into scores that belong to no head."
        )
    query, key, value = attention.transpose_for_scores(attention.in_proj(hidden_states)).chunk(3, dim=-1)
    # its biases are no layers, so that autocast leaves them as they are
    query = query + attention.transpose_for_scores(attention.q_bias[None, None, :]).to(query.dtype)
    value = value + attention.transpose_for_scores(attention.v_bias[None, None, :]).to(value.dtype)
    factor = 1 + len(attention.pos_att_type)
    query = query / _root(query.shape[-1] * factor)
    bias = None
    if attention.relative_attention and rel_embeddings is not None and relative_pos is not None:
        places = attention.pos_dropout(rel_embeddings)
        bias = attention.disentangled_att_bias(query, key, relative_pos, places, factor)
    return Scores(query, key, value, 1.0, _tensor(bias), attention_mask.bool(), output_attentions)


def deberta_keys(attention: Any, states: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values of the first DeBERTa, whose one projection holds queries, keys and values head by head."""
    by_head = attention.in_proj(states).view(*states.shape[:2], attention.num_attention_heads, 3, -1)
    return by_head[..., 1, :].flatten(2), by_head[..., 2, :].flatten(2) + attention.v_bias


def _deberta_v2_scores(
    attention: Any,
    hidden_states: Tensor,
    attention_mask: Tensor,
    output_attentions: bool = False,
    query_states: Tensor | None = None,
    relative_pos: Tensor | None = None,
    rel_embeddings: Tensor | None = None,
) -> Scores:
    n_heads = attention.num_attention_heads
    asking = hidden_states if query_states is None else query_states
    query = attention.transpose_for_scores(attention.query_proj(asking), n_heads)  # (batch * heads, seq, head size)
    key = attention.transpose_for_scores(attention.key_proj(hidden_states), n_heads)
    value = attention.transpose_for_scores(attention.value_proj(hidden_states), n_heads)
    factor = 1 + ("c2p" in attention.pos_att_type) + ("p2c" in attention.pos_att_type)
    bias = None
    if attention.relative_attention:
        places = attention.pos_dropout(rel_embeddings)
        bias = attention.disentangled_attention_bias(query, key, relative_pos, places, factor)
    query, key, value = (x.view(-1, n_heads, *x.shape[1:]) for x in (query, key, value))
    bias = bias.view(-1, n_heads, *bias.shape[1:]) if isinstance(bias, Tensor) else None
    scaling = 1 / _root(query.shape[-1] * factor)
    return Scores(query, key, value, scaling, bias, attention_mask.bool(), output_attentions)


def _tensor(bias: Any) -> Tensor | None:
    """Return a position bias; DeBERTa's is the number 0 if its positions play no part."""
    return bias if isinstance(bias, Tensor) else None


LIKE_BERT = OwnAttention(_bert_scores)
MPNET = OwnAttention(_mpnet_scores, finish=lambda attention, out: attention.o(out))
DEBERTA = OwnAttention(_deberta_scores)
DEBERTA_V2 = OwnAttention(_deberta_v2_scores)
