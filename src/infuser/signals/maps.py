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
    valid: Tensor | None = None,
    first: Tensor | None = None,
) -> Tensor:
    """Return the maps (batch, n_channels, n_tokens, n_tokens) of a batch of boxes, in the dtype of `weights`.

    A cell holds the largest weight of the boxes that cover it; every link is drawn in both directions.

    boxes    (..., L, 5) channel, row_start, row_end, col_start, col_end; channel -1 is padding. Leading dimensions
             (examples, choices) are taken together.
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

    # each box once as it is and once with rows and columns exchanged
    example, channel, weight = example.repeat(2), channel.repeat(2), weight.repeat(2)
    drawn = drawn.repeat(2)
    top, left = torch.cat([top, left]), torch.cat([left, top])
    bottom, right = torch.cat([bottom, right]), torch.cat([right, bottom])
    height = (bottom.clamp(max=n_tokens) - top).clamp(min=0)
    width = (right.clamp(max=n_tokens) - left).clamp(min=0)

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
        value = value * valid[example[box], row] * valid[example[box], col]

    maps = value.new_zeros(n_batch * n_channels * n_tokens * n_tokens)
    maps.scatter_reduce_(0, (plane * n_tokens + row) * n_tokens + col, value, "amax")
    maps = maps.view(n_batch, n_channels, n_tokens, n_tokens)
    if first is None:
        return maps

    covered = value.new_zeros(n_batch * n_channels * n_tokens)
    covered.scatter_reduce_(0, plane * n_tokens + row, (value > 0).to(value.dtype), "amax")  # boxes are symmetric
    covered = covered.view(n_batch, n_channels, n_tokens)
    every, first = torch.arange(n_batch, device=maps.device), first.reshape(-1)
    maps[every, :, first] = torch.maximum(maps[every, :, first], covered)
    maps[every, :, :, first] = torch.maximum(maps[every, :, :, first], covered)
    return maps


def draw_ties(ties: Tensor, weights: Tensor, *, n_tokens: int, n_pieces: int, source: int | None = None) -> Tensor:
    """Return how strongly each token is tied to each piece of the terms, (batch, n_tokens, n_pieces).

    ties     (batch, T, 6) source, relation, row_start, row_end, piece_start, piece_end
    weights  (batch, T)
    source   draw the ties of this source only; None draws those of all
    """
    if source is not None:
        weights = weights * (ties[..., 0] == source)
    rows, pieces = (torch.arange(n, device=ties.device) for n in (n_tokens, n_pieces))
    tied = (rows >= ties[..., 2, None]) & (rows < ties[..., 3, None])  # (batch, T, n_tokens)
    said = (pieces >= ties[..., 4, None]) & (pieces < ties[..., 5, None])  # (batch, T, n_pieces)
    drawn = weights.new_zeros(len(ties), n_tokens, n_pieces)
    for place in range(ties.shape[1]):  # all at once would hold (batch, T, n_tokens, n_pieces)
        both = tied[:, place, :, None] & said[:, place, None, :]
        drawn = torch.maximum(drawn, both * weights[:, place, None, None])
    return drawn
