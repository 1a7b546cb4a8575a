"""KAM's arithmetic: fused scores and attention, whole or in tiles.

The convolution is linear, so alpha, the identity and the bias arrive folded into one kernel. What remains costs
memory traffic, not arithmetic: on a CPU without gradients the scores are made, mixed, normalised and used tile by
tile (all heads, some query rows and a halo), so that they stay in cache and the whole map is never held.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad, scaled_dot_product_attention
from torch.nn.functional import dropout as drop

from infuser.methods.kam_reader import MapKnowledge

_TILE_BYTES = 2**21
"""Size of one tile of score and map channels; 2 to 4 MB were fastest on cores with 512 KB of second-level cache."""
_LANES = 8
"""The convolution is fastest with channels in multiples of this, so tiles carry zero channels up to it."""
_WHOLE = 64
"""Sequences up to this long are done whole: a tile would hold all of it anyway."""


@dataclass(frozen=True, slots=True)
class TermAttention:
    """What the tokens of one layer may read of the terms."""

    keys: Tensor
    """(batch, heads, pieces, head size)"""
    values: Tensor
    ties: Tensor
    """(batch, seq, pieces) added to the scores; very low where a token does not see a piece."""
    gates: Tensor
    """(heads,) how much of the terms' share each head takes."""

    def mix(self, out: Tensor, query: Tensor, total: Tensor) -> Tensor:
        """Return the output (batch, heads, seq, head size) with its share of the terms.

        query: scaled; total: (batch, heads, seq) log of the sum of exponentials over the text.
        """
        scores = query @ self.keys.to(query.dtype).transpose(2, 3) + self.ties[:, None]  # (batch, heads, seq, pieces)
        share = torch.sigmoid(torch.logsumexp(scores, dim=-1) - total)
        read = torch.softmax(scores, dim=-1).to(self.values.dtype) @ self.values
        return out + (self.gates[:, None] * share)[..., None].to(out.dtype) * (read.to(out.dtype) - out)


def attend_with_bias(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    maps: Tensor,
    strengths: Tensor,
    *,
    scaling: float,
    position_bias: Tensor | None,
    dropout: float,
) -> Tensor:
    """Return the output (batch, seq, heads, head size) of plain attention with maps (batch, channels, seq, seq) added.

    strengths: (heads, channels) what a full cell of each map adds to the scores of each head.
    position_bias: (batch, heads, seq, seq) what the host adds to them.
    """
    added = None if mask is None else torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, _lowest(query))
    if maps.shape[1]:
        n_texts, _, n_rows, n_columns = maps.shape
        each = strengths.to(query.dtype).expand(n_texts, -1, -1)
        cells = maps.to(query.dtype).flatten(2)
        if added is None:
            added = torch.bmm(each, cells)
        else:
            added = torch.baddbmm(added.expand(n_texts, 1, n_rows, n_columns).flatten(2), each, cells)
        added = added.view(n_texts, -1, n_rows, n_columns)
    if position_bias is not None:
        added = position_bias.to(query.dtype) if added is None else added + position_bias.to(query.dtype)
    out = scaled_dot_product_attention(query, key, value, attn_mask=added, dropout_p=dropout, scale=scaling)
    return out.transpose(1, 2).contiguous()


def _lowest(like: Tensor) -> float:
    return torch.finfo(like.dtype).min


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    knowledge: MapKnowledge,
    *,
    scaling: float,
    position_bias: Tensor | None,
    kernel: Tensor,
    bias: Tensor | None,
    below: Tensor | None,
    gate: Tensor | float,
    terms: TermAttention | None,
    dropout: float,
    want_fused: bool,
    want_weights: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return output (batch, seq, heads, head size), fused scores if wanted and attention weights if wanted.

    `mask` is True where attention is allowed, (batch, 1, seq, seq) or None.
    """
    # zero queries and keys of padding make zero rows and columns of scores, before the kernel can reach them
    query = query * (knowledge.rows[:, None, :, None].to(query.dtype) * scaling)
    key = key * knowledge.rows[:, None, :, None]
    real = knowledge.rows[:, None, :, None] & knowledge.rows[:, None, None, :]
    if position_bias is not None:  # it would be there for padding, too
        position_bias = (position_bias * real).to(query.dtype)
    kernel = kernel.to(query.dtype)
    bias = None if bias is None else bias.to(query.dtype)
    in_tiles = (
        not torch.is_grad_enabled()
        and not want_weights
        and not dropout
        and not torch.compiler.is_compiling()
        and query.device.type == "cpu"
        and query.shape[2] > _WHOLE
    )
    if in_tiles:
        out, fused = _attend_in_tiles(
            query, key, value, mask, knowledge, position_bias, kernel, bias, below, gate, terms, want_fused
        )
        return out, fused, None

    plain = query @ key.transpose(2, 3)
    if position_bias is not None:
        plain = plain + position_bias
    scores = plain
    if below is not None:  # the convolution has written into rows and columns of padding: they are cleared here
        scores = plain + below * (gate * real.to(plain.dtype))
    stack = torch.cat([scores, knowledge.maps.to(scores.dtype)], dim=1)
    fused = conv2d(stack, kernel, bias, padding=kernel.shape[-1] // 2)
    if knowledge.bypass is not None:
        fused = torch.where(knowledge.bypass[:, None, None, None], plain, fused)
    logits = fused if mask is None else _masked(fused, mask)
    weights = torch.softmax(logits, dim=-1)
    if dropout:
        weights = drop(weights, dropout)
    out = weights.to(value.dtype) @ value
    if terms is not None:
        out = terms.mix(out, query, torch.logsumexp(logits, dim=-1))
    return out.transpose(1, 2).contiguous(), fused if want_fused else None, weights if want_weights else None


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    """Return scores (batch, heads, seq, seq) that are very low where `mask` is False."""
    if not torch.compiler.is_exporting():
        return scores.masked_fill(~mask, _lowest(scores))
    # onnxruntime adds in half the time; float32 has the range for it, and the mask of all layers is made once
    return scores + torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, _lowest(scores))


def _attend_in_tiles(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    knowledge: MapKnowledge,
    position_bias: Tensor | None,
    kernel: Tensor,
    bias: Tensor | None,
    below: Tensor | None,
    gate: Tensor | float,
    terms: TermAttention | None,
    want_fused: bool,
) -> tuple[Tensor, Tensor | None]:
    """Do the same without gradients, one tile of query rows of one text at a time."""
    n_texts, n_heads, n_rows, head_size = query.shape
    n_columns, reach = key.shape[2], kernel.shape[-1] // 2
    n_channels, n_padded = kernel.shape[1], _round_up(kernel.shape[1])
    kernel = pad(kernel, (0, 0, 0, 0, 0, n_padded - n_channels, 0, _round_up(n_heads) - n_heads))
    bias = None if bias is None else pad(bias, (0, _round_up(n_heads) - n_heads))
    height = max(8, min(n_rows, _TILE_BYTES // (query.element_size() * n_padded * n_columns) - 2 * reach))

    unpadded = query
    query = pad(query, (0, 0, reach, reach))  # the halo of the first and the last tile is zero
    maps = pad(knowledge.maps.to(query.dtype), (0, 0, reach, reach))
    keys = key.transpose(2, 3)
    blocked = None if mask is None else (~mask).expand(n_texts, -1, n_rows, -1)
    is_blocked = [False] * n_texts if blocked is None else blocked.flatten(1).any(1).tolist()
    is_padded = (~knowledge.rows.all(1)).tolist()
    real = knowledge.rows[:, :, None] & knowledge.rows[:, None, :]
    skipped = [False] * n_texts if knowledge.bypass is None else knowledge.bypass.tolist()
    out = value.new_empty(n_texts, n_rows, n_heads, head_size)
    fused = query.new_empty(n_texts, n_heads, n_rows, n_columns) if want_fused else None
    space = query.new_zeros(n_padded * (height + 2 * reach) * n_columns)
    total = None if terms is None else query.new_empty(n_texts, n_heads, n_rows)

    for text in range(n_texts):
        for top in range(0, n_rows, height):
            bottom = min(top + height, n_rows)
            n_tile = bottom - top + 2 * reach
            stack = space[: n_padded * n_tile * n_columns].view(1, n_padded, n_tile, n_columns)
            scores = stack[0, :n_heads]
            torch.bmm(query[text, :, top : top + n_tile], keys[text], out=scores)
            first, end = max(top - reach, 0), min(bottom + reach, n_rows)
            inner = scores[:, first - top + reach : end - top + reach]
            if position_bias is not None:
                inner += position_bias[text, :, first:end]
            if skipped[text]:
                mixed = scores[:, reach : n_tile - reach]
            else:
                stack[0, n_heads:n_channels] = maps[text, :, top : top + n_tile]
                if below is not None:
                    inner.addcmul_(below[text, :, first:end], torch.as_tensor(gate, dtype=inner.dtype))
                mixed = conv2d(stack, kernel, bias, padding=(0, reach))[0, :n_heads]
            if fused is not None:
                fused[text, :, top:bottom] = mixed * real[text, top:bottom] if is_padded[text] else mixed
            if blocked is not None and is_blocked[text]:
                mixed.masked_fill_(blocked[text, :, top:bottom], torch.finfo(mixed.dtype).min)
            if total is not None:
                total[text, :, top:bottom] = torch.logsumexp(mixed, dim=-1)
            out[text, top:bottom] = torch.bmm(torch.softmax(mixed, dim=-1), value[text]).transpose(0, 1)
    if terms is not None and total is not None:
        out = terms.mix(out.transpose(1, 2), unpadded, total).transpose(1, 2).contiguous()
    return out, fused


def _round_up(n: int) -> int:
    return -(-n // _LANES) * _LANES
