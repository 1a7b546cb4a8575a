"""Masked-word heads: asking them at some positions only, and training the whole model on plain texts by BERT's recipe.

Such a head gives one number per word of the vocabulary at every position. For a small encoder that is as much work as
all its layers, and most of its memory; LAMA asks at one position of a text and training at one in seven.

What training masks is a function of the seed, the epoch and the text, so that a killed run resumes exactly. Knowledge
about a masked word is removed together with it: when the model is probed, the sources see a mask there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedTokenizerBase

from infuser.errors import HostError, InputError
from infuser.hosts.answers import finite
from infuser.linking.masking import MaskingCollator
from infuser.signals.examples import IGNORED
from infuser.tasks.base import Example, Training

if TYPE_CHECKING:
    from infuser.training import TrainResult


@contextmanager
def head_only_at(model: nn.Module, positions: Callable[[Mapping[str, Any]], Tensor]) -> Iterator[None]:
    """Compute a masked-word head at some positions only, in training or not.

    `positions` returns a mask (batch, seq) for a batch. Inside this context logits are (1, positions, vocabulary), text
    by text, and `labels` count at these positions only.
    """
    encoder: Any = model.base_model
    waiting: list[RemovableHandle] = []

    def before(_: nn.Module, args: Any, batch: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        where = positions(batch)

        def narrow(_: nn.Module, args: Any, encoded: Any) -> Any:
            waiting.pop().remove()
            return type(encoded)(**{**encoded, "last_hidden_state": encoded.last_hidden_state[where][None]})

        # registered at each call, so that it runs after all other hooks: they see the whole text
        waiting.append(encoder.register_forward_hook(narrow))
        if batch.get("labels") is not None:
            batch = {**batch, "labels": batch["labels"][where][None]}
        return args, batch

    handle = model.register_forward_pre_hook(before, with_kwargs=True)
    try:
        yield
    finally:
        for one in (handle, *waiting):
            one.remove()


def logits_at(model: Any, batch: Mapping[str, Tensor], where: Tensor) -> Tensor:
    """Return the logits (positions, vocabulary) at the positions of a batch where `where` (batch, seq) is True."""
    with head_only_at(model, lambda _: where):
        logits = finite(model(**batch).logits[0])
    return logits


def check_masked_head(model: Any, tokenizer: PreTrainedTokenizerBase, *, otherwise: str = "") -> None:
    """Raise unless the model has a masked-word head and the tokenizer a mask; errors end with what to do otherwise."""
    if model.get_output_embeddings() is None:
        raise HostError(
            f"{type(model).__name__} has no head for masked words, so it cannot guess any. Load the checkpoint with "
            f"task='masked-lm' if it was trained with one. {otherwise}".rstrip()
        )
    if tokenizer.mask_token_id is None:
        raise InputError(f"The tokenizer has no mask token, so words cannot be masked. {otherwise}".rstrip())


class MaskedTexts(MaskingCollator):
    """Turns texts into batches with masked words, others in every epoch."""

    _seed_and_epoch: tuple[int, int] = (0, 0)

    def for_epoch(self, epoch: int, *, seed: int = 0) -> Self:
        """Return the collator for one epoch of training."""
        drawing = super().for_epoch(epoch, seed=seed)
        drawing._seed_and_epoch = (seed, epoch)
        return drawing

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Return the batch, with `labels` for the masked words."""
        seed, epoch = self._seed_and_epoch
        batch = super().__call__([{**example, "seed": f"{seed} {epoch} {example['text']}"} for example in examples])
        if "knowledge_boxes" in batch:
            _drop_links(batch, batch["labels"] != IGNORED)
        return batch


def _drop_links(batch: dict[str, Tensor], masked: Tensor) -> None:
    """Remove everything that knowledge says about masked words: it would give them away."""
    n_before = pad(masked.cumsum(dim=1), (1, 0))  # (batch, seq + 1) masked words before each position

    def covers(places: Tensor) -> Tensor:
        start, end = (n_before.gather(1, places[..., side]) for side in (0, 1))
        return end > start

    boxes, spans = batch["knowledge_boxes"], batch["knowledge_spans"]
    dropped = covers(boxes[..., 1:3]) | covers(boxes[..., 3:5])  # (batch, L)
    boxes[dropped] = torch.tensor([-1, 0, 0, 0, 0])
    batch["knowledge_weights"][dropped] = 0.0
    spans[covers(spans[..., 2:4])] = 0
    if (ties := batch.get("knowledge_ties")) is not None:
        dropped = covers(ties[..., 2:4])
        ties[dropped] = 0
        batch["knowledge_tie_weights"][dropped] = 0.0


def train_on_masked_words(training: Training, examples: Sequence[Example]) -> TrainResult:
    """Train the whole model to guess masked words of texts, and keep its last weights."""
    check_masked_head(training.model, training.collator.tokenizer)
    with head_only_at(training.model, lambda batch: batch["labels"] != IGNORED):
        return training.fit(examples, collate=MaskedTexts(training.collator))
