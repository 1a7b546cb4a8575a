"""Training on masked words of plain texts, by BERT's recipe: new knowledge weights learn before they are probed.

What is masked is a function of the seed, the epoch and the text, so that a run that was killed goes on alike. Knowledge
about a masked word is taken away together with it: when the model is probed, the sources see a mask there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

from infuser.linking.masking import Masking, MaskingCollator
from infuser.signals import Collator
from infuser.signals.examples import IGNORED
from infuser.tasks.masked_head import answering_where, check_masked_head
from infuser.training import TrainResult, TrainSettings, train

if TYPE_CHECKING:
    from infuser.methods.spectral import Spectral
    from infuser.training.steps import StepReport


class MaskedTexts(MaskingCollator):
    """Turns texts into batches with masked words, others in every epoch."""

    _drawn: tuple[int, int] = (0, 0)

    def for_epoch(self, epoch: int, *, seed: int = 0) -> Self:
        """Return the same for one epoch of training."""
        drawing = super().for_epoch(epoch, seed=seed)
        drawing._drawn = (seed, epoch)
        return drawing

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Return the batch, with `labels` for the masked words."""
        seed, epoch = self._drawn
        batch = super().__call__([{**example, "seed": f"{seed} {epoch} {example['text']}"} for example in examples])
        if "knowledge_maps" in batch:
            _forget(batch, batch["labels"] != IGNORED)
        return batch


def _forget(batch: dict[str, Tensor], masked: Tensor) -> None:
    """Take links of masked words out of the maps, and auxiliary terms that nothing is tied to any more."""
    boxes, n_tokens = batch["knowledge_maps"], masked.shape[1]
    n_before = pad(masked.cumsum(dim=1), (1, 0))  # (batch, seq + 1) masked words before each position
    at = boxes[..., 1:].clamp(max=n_tokens)  # columns of terms lie behind the text
    top, bottom, left, right = (n_before.gather(1, at[..., side]) for side in range(4))
    gone = (bottom > top) | (right > left)  # (batch, L)
    boxes[gone] = torch.tensor([-1, 0, 0, 0, 0])
    batch["knowledge_weights"][gone] = 0.0
    if (terms := batch.get("knowledge_terms")) is not None:
        column = torch.arange(n_tokens, n_tokens + terms.shape[1])
        tied = (boxes[..., 3, None] <= column) & (column < boxes[..., 4, None])  # (batch, L, K)
        terms[~tied.any(dim=1)] = -1


def train_on_masked_words(
    model: PreTrainedModel,
    collator: Collator,
    examples: Sequence[Mapping[str, Any]],
    *,
    settings: TrainSettings,
    masking: Masking | None = None,
    progress: bool | Callable[[StepReport], None] = True,
    spectral: Spectral | None = None,
    out: Path | None = None,
) -> TrainResult:
    """Train the whole model to guess masked words of texts, and keep its last weights."""
    check_masked_head(model, collator.tokenizer)
    texts = MaskedTexts(collator, masking)
    with answering_where(model, lambda batch: batch["labels"] != IGNORED):
        return train(model, examples, texts, settings=settings, progress=progress, spectral=spectral, out=out)
