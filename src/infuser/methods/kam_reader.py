"""What KAM reads from a batch: compact knowledge in, drawn maps out, once for all layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from infuser.errors import InputError
from infuser.hosts import BatchKnowledge, check_plugged_in, terms_for_layers
from infuser.hosts.calls import GraphInputs
from infuser.signals.drawing import CHANNELS, DRAWN, TIED, MapDrawer
from infuser.signals.maps import draw_maps, draw_ties


@dataclass(slots=True)
class MapKnowledge:
    """The knowledge of one call, on its way through the host's layers."""

    maps: Tensor
    """(batch, channels, seq, seq)"""
    rows: Tensor
    """(batch, seq): True for real tokens."""
    channels: Tensor | None = None
    """Which of the model's channels these maps are; None for all of them, in order."""
    bypass: Tensor | None = None
    """(batch,): True for texts that keep their plain attention; None if no text does."""
    terms: list[tuple[Tensor, Tensor]] | None = None
    """Keys and values of the terms' pieces for each attention module; None if no text has terms."""
    ties: Tensor | None = None
    """(batch, seq, pieces) log weight of each piece for each token; very low where the token does not see it."""
    fused: dict[int, Tensor] = field(default_factory=dict)
    """Fused scores by layer, for the residual link."""
    passed: bool = False
    """Whether it has gone through a layer without gradients."""


@dataclass(frozen=True, slots=True)
class MapReader:
    """Draws the maps of a batch and prepares its terms, once for all layers."""

    n_channels: int
    n_kinds: tuple[int, ...] | None
    """How many types and relations each source has, one channel for each; None for one channel per source."""
    cls_row: bool
    bypass_empty: bool
    with_terms: bool
    term_scope: Literal["mention", "text"]

    def __call__(self, base: Any, batch: BatchKnowledge) -> MapKnowledge | None:
        """Return KAM's part of a call."""
        tensors, rows = batch.tensors, batch.rows
        if "knowledge_boxes" not in tensors and DRAWN not in tensors:
            return None
        check_plugged_in(base)
        first = rows.long().argmax(dim=1)
        known = self._drawn(tensors, rows) if DRAWN in tensors else self._draw(tensors, rows, base.dtype, first)
        if self.bypass_empty:
            known.bypass = ~known.maps.flatten(1).any(dim=1)
        if "knowledge_terms" in tensors:
            self._read_terms(base, batch, known, first)
        return known

    def graph_inputs(self, base: Any) -> GraphInputs:
        """Return the tensors that are read: maps and ties, drawn already."""
        n_channels = self.n_channels if self.n_kinds is None else "channels"
        inputs: GraphInputs = {DRAWN: ("float32", "texts", n_channels, "tokens", "tokens")}
        if self.n_kinds is not None:
            inputs[CHANNELS] = ("int64", "channels")
        if self.with_terms:
            inputs |= {"knowledge_terms": ("int64", "texts", "pieces"), TIED: ("float32", "texts", "tokens", "pieces")}
        return inputs

    @property
    def drawer(self) -> MapDrawer:
        """What draws these maps and ties without torch."""
        return MapDrawer(self.n_channels, self.n_kinds, self.cls_row)

    def _drawn(self, tensors: Mapping[str, Tensor], rows: Tensor) -> MapKnowledge:
        channels = None if self.n_kinds is None else tensors[CHANNELS]
        return MapKnowledge(tensors[DRAWN], rows, channels)

    def _draw(self, tensors: Mapping[str, Tensor], rows: Tensor, dtype: torch.dtype, first: Tensor) -> MapKnowledge:
        weights = tensors["knowledge_weights"].to(dtype)
        boxes, channels = tensors["knowledge_boxes"], None
        if self.n_kinds is not None:
            boxes, channels = _by_kind(boxes, tensors["knowledge_kinds"], weights, self.n_kinds)
        maps = draw_maps(
            boxes,
            weights,
            n_channels=self.n_channels if channels is None else len(channels),
            n_tokens=rows.shape[1],
            valid=rows,
            first=first if self.cls_row else None,
        )
        return MapKnowledge(maps, rows, channels)

    def _read_terms(self, base: Any, batch: BatchKnowledge, known: MapKnowledge, first: Tensor) -> None:
        if not self.with_terms:
            raise InputError(
                "The batch carries auxiliary terms, but this model was infused without room for them. Infuse it with "
                "a source whose n_terms is above 0."
            )
        ids = batch.tensors["knowledge_terms"]
        if TIED in batch.tensors:
            ties = batch.tensors[TIED]  # (batch, seq, pieces)
        else:
            weights = batch.tensors["knowledge_tie_weights"].to(base.dtype)
            n_tokens, n_pieces = batch.rows.shape[1], ids.shape[1]
            ties = draw_ties(batch.tensors["knowledge_ties"], weights, n_tokens=n_tokens, n_pieces=n_pieces)
        if known.bypass is not None:
            known.bypass = known.bypass & ~ties.flatten(1).any(dim=1)
        of_text = ties.amax(dim=1)
        if self.term_scope == "text":
            ties = of_text[:, None].expand_as(ties)
        elif self.cls_row:
            is_first = torch.arange(ties.shape[1], device=ties.device) == first[:, None]
            ties = torch.where(is_first[..., None], of_text[:, None], ties)
        seen = (ties > 0) & batch.rows[..., None]
        # a quarter of the lowest number: sums stay finite, and the share of a row that sees no term is exactly 0
        known.ties = torch.where(seen, torch.log(ties), torch.finfo(ties.dtype).min / 4)
        positions = batch.positions
        start = first if positions is None else positions.expand(first.shape[0], -1).gather(1, first[:, None])[:, 0]
        known.terms = list(terms_for_layers(base, ids, start))


@torch.compiler.disable  # type: ignore[untyped-decorator]  # how many channels there are depends on the data
@torch.no_grad()
def _by_kind(boxes: Tensor, kinds: Tensor, weights: Tensor, n_kinds: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return boxes on channels by type and relation, numbered by those of the model's channels that come second.

    Only channels that occur in the batch are drawn: a text holds few of a vocabulary's types.
    """
    source = boxes[..., 0]
    if (highest := int(source.max()) if source.numel() else -1) >= len(n_kinds):
        raise InputError(
            f"A box belongs to source {highest}, counted from 0, but the model was infused with {len(n_kinds)} sources."
        )
    starts = torch.tensor([sum(n_kinds[:place]) for place in range(len(n_kinds))], device=boxes.device)
    drawn = (source >= 0) & (weights > 0)
    channel = starts[source.clamp(min=0)] + kinds
    channels, numbers = torch.unique(channel[drawn], return_inverse=True)
    place = torch.full_like(source, -1).masked_scatter_(drawn, numbers)
    return torch.cat([place[..., None], boxes[..., 1:]], dim=-1), channels
