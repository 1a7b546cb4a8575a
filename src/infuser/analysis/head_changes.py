"""How much of its attention each head moves elsewhere when it reads knowledge, and which heads run away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

RUNS_AWAY = 0.5
"""A head that moves more than this share of the attention of words without knowledge has lost what it had learned."""


def share_moved(plain: Sequence[Tensor], changed: Sequence[Tensor]) -> Tensor:
    """Return the share of its attention that each token moves elsewhere, (layers, heads, seq)."""
    taken = [(before - after).clamp(min=0).sum(dim=-1) for before, after in zip(plain, changed, strict=True)]
    return torch.stack(taken).double().cpu()


def mean_share(moved: Tensor) -> NDArray[np.float64]:
    """Return the share that each head of each layer moves, mean over tokens."""
    mean: NDArray[np.float64] = moved.mean(dim=-1).numpy()
    return mean


def runaway_heads(moved: Tensor, without_knowledge: Tensor) -> tuple[tuple[int, int, float], ...]:
    """Return layer, head and share of each head that moves too much on words without knowledge, most first."""
    if not without_knowledge.any():
        return ()
    share = moved[..., without_knowledge].mean(dim=-1)
    heads = [(*divmod(flat, share.shape[1]), float(one)) for flat, one in enumerate(share.flatten().tolist())]
    return tuple(sorted((one for one in heads if one[2] > RUNS_AWAY), key=lambda one: -one[2]))


def words_without_knowledge(batch: Mapping[str, Tensor], tokenizer: PreTrainedTokenizerBase) -> Tensor:
    """Return which tokens of the first text of a batch no span of a source covers; special tokens are left out.

    Links and terms stand at spans, so these are the words of which nothing is known.
    """
    ids = batch["input_ids"][0].cpu()
    special = [one for one in tokenizer.all_special_ids if one != tokenizer.unk_token_id]
    unknown = ~torch.isin(ids, torch.tensor(special))
    for _, _, start, end in batch["knowledge_spans"][0].tolist() if "knowledge_spans" in batch else ():
        unknown[start:end] = False
    return unknown
