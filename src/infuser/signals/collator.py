"""The collator: batches of tensors, for `DataLoader`, `Trainer` or a direct call of the model."""

from __future__ import annotations

import torch

from infuser.signals.batches import Batch, BatchMaker


class Collator(BatchMaker):
    """Turns examples into batches of tensors; `BatchMaker` says what they hold."""

    def finish(self, arrays: Batch) -> Batch:
        """Return the arrays as tensors, which share their memory."""
        return {name: torch.from_numpy(array) for name, array in arrays.items()}
