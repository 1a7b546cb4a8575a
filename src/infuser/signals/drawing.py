"""Maps and ties drawn with NumPy, for graphs that run without torch; `maps` draws the same with torch on the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError

DRAWN, CHANNELS, TIED = "knowledge_drawn", "knowledge_channels", "knowledge_tied"
"""Names of maps, of the numbers of their channels and of ties, once they are drawn."""
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class MapDrawer:
    """Draws the maps that a model's `Kam` reads."""

    n_channels: int
    n_kinds: tuple[int, ...] | None
    """How many types and relations each source has, one channel for each; None for one channel per source."""
    cls_row: bool

    def draw(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """Return the drawn knowledge of a batch of arrays, (batch, ...)."""
        rows = batch["attention_mask"].astype(bool)
        boxes, weights = batch["knowledge_boxes"], batch["knowledge_weights"]
        drawn: dict[str, Array] = {}
        n_channels = self.n_channels
        if self.n_kinds is not None:
            boxes, drawn[CHANNELS] = by_kind(boxes, batch["knowledge_kinds"], weights, self.n_kinds)
            n_channels = len(drawn[CHANNELS])
        first = rows.argmax(axis=1) if self.cls_row else None
        drawn[DRAWN] = draw_maps(boxes, weights, n_channels=n_channels, n_tokens=rows.shape[1], valid=rows, first=first)
        if "knowledge_terms" in batch:
            drawn[TIED] = draw_ties(
                batch["knowledge_ties"],
                batch["knowledge_tie_weights"],
                n_tokens=rows.shape[1],
                n_pieces=batch["knowledge_terms"].shape[1],
            )
        return drawn


def draw_maps(
    boxes: Array,
    weights: Array,
    *,
    n_channels: int,
    n_tokens: int,
    valid: Array | None = None,
    first: Array | None = None,
) -> Array:
    """Return the maps (batch, n_channels, n_tokens, n_tokens) of boxes (batch, L, 5), as `maps.draw_maps` does."""
    if boxes.size and (highest := int(boxes[..., 0].max())) >= n_channels:
        raise InputError(f"A box belongs to map channel {highest}, but there are {n_channels} channels.")
    channel, top, bottom, left, right = np.moveaxis(boxes, -1, 0)
    shape = (len(boxes), n_channels, n_tokens, n_tokens)
    plane = np.arange(len(boxes))[:, None] * n_channels + channel
    weights = np.where(channel >= 0, weights, 0)
    sides = [(plane, top, bottom, left, right, weights), (plane, left, right, top, bottom, weights)]
    maps = _paint(shape, *(np.stack(both) for both in zip(*sides, strict=True)))
    if valid is not None:
        maps *= valid[:, None, :, None] & valid[:, None, None, :]
    if first is not None:
        covered = (maps > 0).any(axis=-1)  # boxes are symmetric
        every = np.arange(len(maps))
        maps[every, :, first] = np.maximum(maps[every, :, first], covered)
        maps[every, :, :, first] = np.maximum(maps[every, :, :, first], covered)
    return maps


def draw_ties(ties: Array, weights: Array, *, n_tokens: int, n_pieces: int) -> Array:
    """Return how strongly each token is tied to each piece of the terms, (batch, n_tokens, n_pieces)."""
    *_, top, bottom, left, right = np.moveaxis(ties, -1, 0)
    plane = np.broadcast_to(np.arange(len(ties))[:, None], weights.shape)
    return _paint((len(ties), n_tokens, n_pieces), plane, top, bottom, left, right, weights)


def by_kind(boxes: Array, kinds: Array, weights: Array, n_kinds: tuple[int, ...]) -> tuple[Array, Array]:
    """Return boxes on the channels of their types and relations, and the numbers of these channels; at least one."""
    source = boxes[..., 0]
    if (highest := int(source.max()) if source.size else -1) >= len(n_kinds):
        raise InputError(f"A box belongs to source {highest}, counted from 0, but the model has {len(n_kinds)}.")
    starts = np.cumsum([0, *n_kinds[:-1]])
    drawn = (source >= 0) & (weights > 0)
    channels, numbers = np.unique((starts[np.maximum(source, 0)] + kinds)[drawn], return_inverse=True)
    boxes = boxes.copy()
    boxes[..., 0] = -1
    boxes[drawn, 0] = numbers
    return boxes, channels.astype(np.int64) if len(channels) else np.zeros(1, np.int64)


def _paint(
    shape: tuple[int, ...], plane: Array, top: Array, bottom: Array, left: Array, right: Array, weights: Array
) -> Array:
    """Return planes of this shape in which each cell holds the largest weight of the rectangles that cover it."""
    n_rows, n_columns = shape[-2:]
    height = np.maximum(np.minimum(bottom, n_rows) - top, 0)
    width = np.maximum(np.minimum(right, n_columns) - left, 0)
    kept = (height > 0) & (width > 0) & (weights > 0)
    # where an index is repeated NumPy keeps the last value, so the heaviest rectangles come last
    order = np.argsort(weights[kept], kind="stable")
    plane, top, left, height, width, weights = (one[kept][order] for one in (plane, top, left, height, width, weights))
    n_cells = height * width
    box = np.repeat(np.arange(len(n_cells)), n_cells)
    place = np.arange(len(box)) - (np.cumsum(n_cells) - n_cells)[box]
    row, column = top[box] + place // width[box], left[box] + place % width[box]
    painted = np.zeros(int(np.prod(shape)), np.float32)
    painted[(plane[box] * n_rows + row) * n_columns + column] = weights[box]
    return painted.reshape(shape)
