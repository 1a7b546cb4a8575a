"""Boxes become maps, on the device: annotations travel as a few integers, not as n x n floats per example."""

from __future__ import annotations

import torch
from torch import Tensor

from infuser.errors import InputError


@torch.compiler.disable  # type: ignore[untyped-decorator]  # how many cells there are depends on the data
@torch.no_grad()
def draw_maps(
    boxes: Tensor,
    weights: Tensor,
    *,
    n_channels: int,
    n_tokens: int,
    n_terms: int = 0,
    valid: Tensor | None = None,
    first: Tensor | None = None,
) -> Tensor:
    """Return the maps (batch, n_channels, n_tokens, n_tokens + n_terms) of a batch of boxes, in the dtype of `weights`.

    A cell holds the largest weight of the boxes that cover it; every link is drawn in both directions.

    boxes    (..., L, 5) channel, row_start, row_end, col_start, col_end; channel -1 is padding. Columns from
             `n_tokens` on are auxiliary subwords. Leading dimensions (examples, choices) are taken together.
    weights  (..., L)
    valid    (batch, n_tokens) bool: rows and columns of other tokens stay zero
    first    (batch,) position of [CLS]: its row and column mark with 1 all that the channel covers anywhere
    """
    boxes, weights = boxes.reshape(-1, *boxes.shape[-2:]), weights.reshape(-1, weights.shape[-1])
    n_batch, n_boxes = weights.shape
    if boxes.device.type == "cpu" and boxes.numel() and (highest := int(boxes[..., 0].max())) >= n_channels:
        raise InputError(  # on other devices the look would cost a synchronisation; there such boxes are left out
            f"A box belongs to map channel {highest}, but there are {n_channels} channels. The batch was made with "
            "more sources than the model was infused with."
        )
    example = torch.arange(n_batch, device=boxes.device).repeat_interleave(n_boxes)
    channel, top, bottom, left, right = boxes.reshape(-1, 5).unbind(-1)
    weight = weights.reshape(-1)
    drawn = (channel >= 0) & (channel < n_channels) & (weight > 0)
    mirrored = drawn & (right <= n_tokens)

    # each box once as it is and once with rows and columns exchanged
    example, channel, weight = example.repeat(2), channel.repeat(2), weight.repeat(2)
    drawn = torch.cat([drawn, mirrored])
    top, left = torch.cat([top, left]), torch.cat([left, top])
    bottom, right = torch.cat([bottom, right]), torch.cat([right, bottom])
    height = (bottom.clamp(max=n_tokens) - top).clamp(min=0)
    width = (right.clamp(max=n_tokens + n_terms) - left).clamp(min=0)

    # every box becomes a run of cells; `box` says whose a cell is, `place` is its number within the run
    n_cells = height * width * drawn
    box = torch.repeat_interleave(n_cells)
    place = torch.arange(box.numel(), device=box.device) - (n_cells.cumsum(0) - n_cells)[box]
    row = top[box] + place // width[box]
    col = left[box] + place % width[box]
    plane = example[box] * n_channels + channel[box]
    value = weight[box]
    if valid is not None:
        valid = valid.reshape(-1, n_tokens).bool()
        value = value * _is_valid(valid, example[box], row, n_tokens) * _is_valid(valid, example[box], col, n_tokens)

    n_cols = n_tokens + n_terms
    maps = value.new_zeros(n_batch * n_channels * n_tokens * n_cols)
    maps.scatter_reduce_(0, (plane * n_tokens + row) * n_cols + col, value, "amax")
    maps = maps.view(n_batch, n_channels, n_tokens, n_cols)
    if first is None:
        return maps

    covered = value.new_zeros(n_batch * n_channels * n_cols)
    seen = (value > 0).to(value.dtype)
    covered.scatter_reduce_(0, plane * n_cols + row, seen, "amax").scatter_reduce_(
        0, plane * n_cols + col, seen, "amax"
    )
    covered = covered.view(n_batch, n_channels, n_cols)
    every, first = torch.arange(n_batch, device=maps.device), first.reshape(-1)
    maps[every, :, first] = torch.maximum(maps[every, :, first], covered)
    maps[every, :, :, first] = torch.maximum(maps[every, :, :, first], covered[..., :n_tokens])
    return maps


def _is_valid(valid: Tensor, example: Tensor, position: Tensor, n_tokens: int) -> Tensor:
    """Return which positions hold a token that counts; auxiliary positions (batch, >= n_tokens) always do."""
    return (position >= n_tokens) | valid[example, position.clamp(max=n_tokens - 1)]
