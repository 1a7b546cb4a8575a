"""What KAM reads from a batch: compact knowledge in, drawn maps out, once for all layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import InputError
from infuser.hosts import check_plugged_in, terms_for_layers
from infuser.signals.maps import draw_maps
from infuser.signals.reading import follow_padding, real_tokens, reject_old_keys


@dataclass(slots=True)
class MapKnowledge:
    """The knowledge of one call, on its way through the host's layers."""

    maps: Tensor
    """(batch, sources, seq, columns); columns are the tokens, then a gap and the auxiliary terms if there are any."""
    rows: Tensor
    """(batch, seq): True for real tokens."""
    columns: Tensor
    """(batch, columns): True for real tokens and terms."""
    bypass: Tensor | None
    """(batch,): True for texts that keep their plain attention; None if no text does."""
    terms: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """Keys and values of the gap and the terms, for each attention module."""
    fused: dict[int, Tensor] = field(default_factory=dict)
    """Fused scores by layer, for the residual link."""
    passed: bool = False
    """Whether it has gone through a layer without gradients."""


@dataclass(frozen=True, slots=True)
class MapReader:
    """Stands before the encoder: takes the knowledge_* tensors of the batch and draws the maps, once for all layers."""

    n_sources: int
    cls_row: bool
    bypass_empty: bool
    gap: int
    with_terms: bool

    def __call__(
        self, base: PreTrainedModel, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Replace the compact tensors by one `knowledge` keyword, which the host passes down to its attention."""
        reject_old_keys(kwargs)
        names = ("boxes", "weights", "terms", "length")
        boxes, weights, terms, length = (kwargs.pop(f"knowledge_{name}", None) for name in names)
        if boxes is None:
            return args, kwargs
        check_plugged_in(base)
        if boxes.dim() == 4:  # multiple choice: the head flattens (batch, choices) for its own tensors only
            boxes, weights = boxes.flatten(0, 1), weights.flatten(0, 1)
            terms = None if terms is None else terms.flatten(0, 1)
        rows = real_tokens(args, kwargs)
        if rows is None:
            return args, kwargs  # the host itself says what it needs
        boxes = boxes if length is None else follow_padding(boxes, length, rows)
        positions = kwargs.get("position_ids")
        kwargs["knowledge"] = self.read(base, boxes, weights.to(base.dtype), terms, rows, positions)
        return args, kwargs

    def read(
        self,
        base: PreTrainedModel,
        boxes: Tensor,
        weights: Tensor,
        terms: Tensor | None,
        rows: Tensor,
        positions: Tensor | None,
    ) -> MapKnowledge:
        """Draw the maps and prepare the auxiliary terms of one batch."""
        n_tokens, first = rows.shape[1], rows.long().argmax(dim=1)
        n_terms = 0 if terms is None else terms.shape[1]
        maps = draw_maps(
            boxes,
            weights,
            n_channels=self.n_sources,
            n_tokens=n_tokens,
            n_terms=n_terms,
            valid=rows,
            first=first if self.cls_row else None,
        )
        bypass = ~(weights > 0).any(dim=1) if self.bypass_empty else None
        if terms is None:
            return MapKnowledge(maps, rows, rows, bypass)
        if not self.with_terms:
            raise InputError(
                "The batch carries auxiliary terms, but this model was infused without room for them. Infuse it with "
                "a source whose n_terms is above 0."
            )
        pad = nn.functional.pad
        maps = torch.cat([pad(maps[..., :n_tokens], (0, self.gap)), maps[..., n_tokens:]], dim=-1)
        columns = torch.cat([pad(rows, (0, self.gap)), terms >= 0], dim=1)
        ids = terms.masked_fill(terms < 0, base.config.pad_token_id or 0)
        start = first if positions is None else positions.expand(len(first), -1).gather(1, first[:, None])[:, 0]
        beside = [
            (pad(keys, (0, 0, self.gap, 0)), pad(values, (0, 0, self.gap, 0)))
            for keys, values in terms_for_layers(base, ids, start)
        ]
        return MapKnowledge(maps, rows, columns, bypass, beside)
