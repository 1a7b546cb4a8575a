"""Heads for masked words that answer where they are asked.

Such a head gives one number per word of the vocabulary at every position. For a small encoder that is as much work as
all its layers, and most of its memory; LAMA asks at one position of a text and training at one in seven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedTokenizerBase

from infuser.errors import HostError, InputError


@contextmanager
def answering_where(model: nn.Module, asked: Callable[[Mapping[str, Any]], Tensor]) -> Iterator[None]:
    """Let a model with a head for masked words answer at some positions only, in training or not.

    `asked` looks at a batch and gives (batch, seq) True where an answer is wanted. While this holds, logits are
    (1, asked, vocabulary), text by text, and `labels` count at these positions only.
    """
    encoder: Any = model.base_model
    waiting: list[RemovableHandle] = []

    def before(_: nn.Module, args: Any, batch: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        where = asked(batch)

        def narrow(_: nn.Module, args: Any, encoded: Any) -> Any:
            waiting.pop().remove()
            return type(encoded)(**{**encoded, "last_hidden_state": encoded.last_hidden_state[where][None]})

        # anew for each call, so that it stands behind all other hooks: they see the whole text
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
    """Return the logits (asked, vocabulary) at the positions of a batch where `where` (batch, seq) is True."""
    with answering_where(model, lambda _: where):
        logits: Tensor = model(**batch).logits[0]
    return logits


def check_masked_head(model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a model that cannot guess masked words, or a tokenizer that cannot mask any."""
    if model.get_output_embeddings() is None:
        raise HostError(
            f"{type(model).__name__} has no head for masked words, so it cannot guess any. Load the checkpoint with "
            "task='masked-lm'."
        )
    if tokenizer.mask_token_id is None:
        raise InputError("The tokenizer has no mask token, so words cannot be masked.")
