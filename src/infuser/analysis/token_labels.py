"""The tokens of one text as people read them, and the maps that sources draw over them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from infuser.signals import draw_maps
from infuser.signals.examples import shorten
from infuser.signals.maps import draw_ties

_WORD_STARTS = ("##", "Ġ", "▁")
"""Marks of tokenizers at the head of a piece."""


def token_maps(batch: Mapping[str, Tensor], n_sources: int, n_shown: int) -> list[NDArray[np.float64]]:
    """Return one map (seq, seq + terms) per source, of the first `n_shown` tokens."""
    n_tokens = batch["input_ids"].shape[1]
    boxes, weights = batch["knowledge_boxes"], batch["knowledge_weights"].double()
    maps = draw_maps(boxes, weights, n_channels=n_sources, n_tokens=n_tokens)[0]
    drawn = [one.cpu().numpy()[:n_shown, :n_shown] for one in maps]
    if "knowledge_terms" not in batch:
        return drawn
    ties, weights = batch["knowledge_ties"], batch["knowledge_tie_weights"].double()
    n_pieces = batch["knowledge_terms"].shape[1]
    for source, of_text in enumerate(drawn):
        beside = draw_ties(ties, weights, n_tokens=n_tokens, n_pieces=n_pieces, source=source)[0]
        drawn[source] = np.concatenate([of_text, beside.cpu().numpy()[:n_shown]], axis=1)
    return drawn


def token_labels(tokenizer: PreTrainedTokenizerBase, text: str, pair: str | None, ids: Tensor) -> list[str]:
    """Return the tokens as the text spells them, with the marks that say where a word goes on or begins."""
    n_tokens = len(ids)
    encoding = tokenizer(
        shorten(tokenizer, text, n_tokens),
        None if pair is None else shorten(tokenizer, pair, n_tokens),
        truncation="longest_first",
        max_length=n_tokens,
        return_offsets_mapping=True,
    )
    tokens = tokenizer.convert_ids_to_tokens(ids.tolist())
    if encoding["input_ids"] != ids.tolist():  # not the same cut: the bare pieces are right in any case
        return list(tokens)
    labels = []
    for token, (start, end), side in zip(tokens, encoding["offset_mapping"], encoding.sequence_ids(0), strict=True):
        if side is None or token == tokenizer.unk_token:
            labels.append(token)
            continue
        # byte-level pieces of "ü" read "Ã¼"; the text itself is what people know
        piece = ((text, pair or "")[side][start:end]).strip()
        mark = next((mark for mark in _WORD_STARTS if token.startswith(mark)), "")
        labels.append(mark + piece if piece else token)
    return labels
