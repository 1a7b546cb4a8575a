"""What a host says: numbers, or an error where it says none; one vector of a text's states."""

from __future__ import annotations

import torch
from torch import Tensor

from infuser.signals.answers import check_finite


def finite(logits: Tensor) -> Tensor:
    """Return logits as they are; CheckpointError if one is infinite or not a number, which no label may be made of."""
    check_finite(int((~torch.isfinite(logits)).sum()), logits.numel())
    return logits


def pool(states: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """Return one vector (batch, hidden) of the states (batch, seq, hidden) of each text: "mean" or "cls", the first."""
    if pooling == "cls":
        return states[torch.arange(len(states), device=states.device), mask.long().argmax(dim=1)]
    real = mask[..., None].to(states.dtype)
    mean: Tensor = (states * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
    return mean
