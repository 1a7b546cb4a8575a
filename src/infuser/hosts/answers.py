"""What a host says: numbers, or an error where it says none; one vector of a text's states."""

from __future__ import annotations

import torch
from torch import Tensor

from infuser.errors import CheckpointError


def finite(logits: Tensor) -> Tensor:
    """Return logits as they are; CheckpointError if one is infinite or not a number, which no label may be made of."""
    n_bad = int((~torch.isfinite(logits)).sum())
    if n_bad:
        raise CheckpointError(
            f"The model answers with {n_bad} of {logits.numel()} logits that are infinite or not a number. Its weights "
            "are damaged, or training diverged: take a good copy, or train it again with a lower learning rate."
        )
    return logits


def pool(states: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """Return one vector (batch, hidden) of the states (batch, seq, hidden) of each text: "mean" or "cls", the first."""
    if pooling == "cls":
        return states[torch.arange(len(states), device=states.device), mask.long().argmax(dim=1)]
    real = mask[..., None].to(states.dtype)
    mean: Tensor = (states * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
    return mean
