"""Singular values of features: how many directions a model uses for what enters its task head."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from infuser.analysis.predict import map_batches
from infuser.errors import InputError
from infuser.methods.spectral_watch import EncoderCall
from infuser.training.steps import Collate, Example


def feature_matrix(
    model: PreTrainedModel, examples: Sequence[Example], collate: Collate, *, batch_size: int = 64, most: int = 1024
) -> Tensor:
    """Return the vectors (examples, hidden) that enter the task head, without dropout.

    They are those that `Spectral` looks at: the pooler's output where the encoder has one, else the first token's last
    state. Of more than `most` examples so many are taken at equal distances: the same ones for every model.
    """
    if not len(examples) or most < 1:
        raise InputError(f"There are {len(examples)} examples and at most {most} are asked for; both must be above 0.")
    n = min(len(examples), most)
    chosen = [examples[place * len(examples) // n] for place in range(n)]

    def entering(batch: dict[str, Tensor]) -> Tensor:
        # an empty output of its kind says that the head answers once per text
        return EncoderCall(encoder, (), batch, encoder(**batch)).features(SequenceClassifierOutput())

    encoder = model.base_model
    return map_batches(model, chosen, collate, entering, batch_size=batch_size)


def singular_values(features: Tensor) -> list[float]:
    """Return the singular values of a matrix of features, largest first."""
    values: list[float] = torch.linalg.svdvals(features.double()).tolist()
    return values
