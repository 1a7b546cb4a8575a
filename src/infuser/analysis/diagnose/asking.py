"""A model is asked about examples, batch by batch, as it will be in use: without dropout, without labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from infuser.errors import InputError
from infuser.training.steps import Collate, Example, loader


@torch.inference_mode()
def ask(
    model: PreTrainedModel,
    examples: Sequence[Example],
    collate: Collate,
    answer: Callable[[dict[str, Tensor]], Any],
    *,
    batch_size: int,
) -> Tensor:
    """Return what `answer` makes of each batch, one row per example, on the CPU; the model's mode is left as it was."""
    if not len(examples):
        raise InputError("There are no examples to ask about. Give at least one.")
    was_training, rows = model.training, []
    model.train(False)
    try:
        for batch in loader(examples, collate, 0, batch_size=batch_size):
            given = {name: tensor.to(model.device) for name, tensor in batch.items() if name != "labels"}
            rows.append(answer(given).cpu())
    finally:
        model.train(was_training)
    return torch.cat(rows)
