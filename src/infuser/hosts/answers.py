"""What a host says: numbers, or an error where it says none."""

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
