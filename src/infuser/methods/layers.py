"""Small layers that methods share: attention over things that may be padding, a block around it, a gate."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class MultiHead(nn.Module):
    """Multi-head attention of queries (batch, n, size) over things (batch, m, size)."""

    def __init__(self, size: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = math.gcd(size, n_heads)  # vectors come in any size
        self.query, self.value, self.out = (nn.Linear(size, size) for _ in range(3))
        self.key = nn.Linear(size, size, bias=False)  # the same for all things, a softmax would not see it
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries: Tensor, things: Tensor, is_real: Tensor) -> Tensor:
        """Return (batch, n, size); things that are not real (batch, m) are not looked at."""
        query, key, value = (
            layer(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (batch, heads, n, head size)
            for layer, x in ((self.query, queries), (self.key, things), (self.value, things))
        )
        scores = query @ key.transpose(-1, -2) / math.sqrt(key.shape[-1])
        # the lowest number, not minus infinity: a text without any real thing must not become NaN
        scores = scores.masked_fill(~is_real[:, None, None, :], torch.finfo(scores.dtype).min)
        mixed = self.dropout(scores.softmax(dim=-1)) @ value
        result: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return result


class FeedForward(nn.Sequential):
    """Two linear layers with a gelu between them."""

    def __init__(self, size: int, inner: int, dropout: float) -> None:
        super().__init__(nn.Linear(size, inner), nn.GELU(), nn.Linear(inner, size), nn.Dropout(dropout))


class TransformerBlock(nn.Module):
    """A transformer block: things (batch, m, size) look at each other, as words do in BERT."""

    def __init__(self, size: int, n_heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.attention = MultiHead(size, n_heads, dropout)
        self.attention_norm = nn.LayerNorm(size)
        self.feed_forward = FeedForward(size, inner, dropout)
        self.norm = nn.LayerNorm(size)

    def forward(self, things: Tensor, is_real: Tensor) -> Tensor:
        """Return the things, each with what it saw of the others."""
        things = self.attention_norm(things + self.attention(things, things, is_real))
        result: Tensor = self.norm(things + self.feed_forward(things))
        return result


class _OpenGate(torch.autograd.Function):
    """max(x, 0) whose gradient still passes at 0 and below where it would open the gate."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor) -> Tensor:
        ctx.save_for_backward(gate)
        return gate.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (gate,) = ctx.saved_tensors
        return torch.where((gate > 0) | (grad < 0), grad, 0)


def open_gate(gate: Tensor) -> Tensor:
    """Return a gate that cannot be negative, but can be opened from 0."""
    if not torch.is_grad_enabled():
        return gate.clamp(min=0)
    opened: Tensor = _OpenGate.apply(gate)  # type: ignore[no-untyped-call]
    return opened
