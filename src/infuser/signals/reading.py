"""A tokenizer that also reads knowledge, for clients that know only a tokenizer and a model.

Pipelines and sentence-transformers call `tokenizer(texts, return_tensors="pt")` and hand the result to the model. This
tokenizer puts the knowledge_* tensors into that result. Asked for anything but PyTorch tensors, it is the plain one.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import BatchEncoding, PreTrainedTokenizerBase

from infuser.errors import InputError
from infuser.signals.appending import hide_appended
from infuser.signals.collator import Collator
from infuser.signals.examples import InputRow, rows_of, tokenizer_inputs
from infuser.signals.terms import no_terms


class _ReadsKnowledge:
    """Mixed into the tokenizer's own class, so that every other method and every isinstance check still hold."""

    knowledge_collator: Collator

    def __call__(self, text: Any = None, text_pair: Any = None, **options: Any) -> BatchEncoding:
        """Tokenise as asked; when PyTorch tensors are wanted, add knowledge."""
        encoding: BatchEncoding
        if text is None or str(options.get("return_tensors")) != "pt":
            encoding = super().__call__(text, text_pair, **options)  # type: ignore[misc]
            return encoding
        if options.get("is_split_into_words"):
            raise InputError("Knowledge is found in texts, not in lists of words. Give each text as one string.")
        rows, collator = _rows(text, text_pair), self.knowledge_collator
        found, golds = collator.find(rows)
        want_offsets = options.pop("return_offsets_mapping", False)
        defaults = {"padding": True, "truncation": True, "max_length": collator.max_length}
        options = {**defaults, **options, "return_tensors": None, "return_offsets_mapping": True}
        if collator.writer is not None and options.get("return_overflowing_tokens") and options["truncation"] is True:
            options["truncation"] = "only_first"  # what is written stands behind every part of a long text
        limit = options["max_length"] if options["truncation"] in (True, "longest_first") else None
        written = collator.written(rows, found, limit)
        inputs = tokenizer_inputs(collator.tokenizer, written, limit)
        encoding = super().__call__(inputs, **options)  # type: ignore[misc]
        sources_of = encoding.get("overflow_to_sample_mapping", range(len(rows)))
        hide_appended(encoding, [written[i] for i in sources_of])
        knowledge = collator.knowledge([rows[i] for i in sources_of], [found[i] for i in sources_of], encoding, golds)
        if knowledge:
            n_tokens = len(encoding["input_ids"][0])
            knowledge["knowledge_length"] = np.full(len(encoding["input_ids"]), n_tokens)
        if knowledge and collator.vocabulary.with_terms:
            # a pipeline lays single texts side by side and pads, so all need the same tensors, and ids that ties
            # refer to by their places must not move
            knowledge = no_terms(len(encoding["input_ids"])) | knowledge
            terms = knowledge["knowledge_terms"]
            knowledge["knowledge_terms"] = np.pad(terms, ((0, 0), (0, collator.max_term_tokens - terms.shape[1])))
        if not want_offsets:
            del encoding["offset_mapping"]
        encoding = encoding.convert_to_tensors("pt")
        encoding.update(collator.finish(knowledge))
        return encoding


def reading_tokenizer(collator: Collator) -> PreTrainedTokenizerBase:
    """Return a copy of the collator's tokenizer that adds knowledge to the tensors it returns."""
    tokenizer: Any = copy.copy(collator.tokenizer)
    kind = type(tokenizer)
    tokenizer.__class__ = type(kind.__name__, (_ReadsKnowledge, kind), {})
    tokenizer.knowledge_collator = collator
    result: PreTrainedTokenizerBase = tokenizer
    return result


def real_tokens(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
    """Return (batch, seq) True for real tokens of a call of an encoder; None if it has no tokens at all."""
    given = dict(zip(("input_ids", "attention_mask"), args, strict=False)) | dict(kwargs)
    tokens, mask = given.get("input_ids"), given.get("attention_mask")
    tokens = given.get("inputs_embeds") if tokens is None else tokens
    if tokens is None:
        return None
    if mask is not None and mask.dim() != 2:
        raise InputError(
            f"Knowledge needs an attention_mask of shape (batch, seq) to tell words from padding, got "
            f"{tuple(mask.shape)}. Pass the tokenizer's own mask."
        )
    return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device) if mask is None else mask.bool()


def reject_old_keys(batch: Mapping[str, Any]) -> None:
    """Raise if a batch was made by an earlier version, which called its boxes maps."""
    if "knowledge_maps" in batch:
        raise InputError(
            "The batch carries 'knowledge_maps', which is now called 'knowledge_boxes'. Make the batch again with "
            "infused.batch(texts) or infused.collator(), or rename its key."
        )


def follow_padding(places: Tensor, length: Tensor, rows: Tensor) -> Tensor:
    """Return token positions (batch, n, ...) in sequences of `length` (batch,) tokens, moved to where padding added
    since has moved these tokens; `rows` (batch, seq) is True for real tokens.
    """
    added = rows.shape[1] - length.to(rows.device)
    on_the_left = added * rows[:, -1]  # a row padded on the left ends in a real token
    return places + on_the_left.view(-1, *[1] * (places.dim() - 1))


def _rows(text: Any, text_pair: Any) -> list[InputRow]:
    """Return the rows of what tokenizers take: a text, a list of texts or pairs, with or without a second list."""
    texts: Sequence[Any] = [text] if isinstance(text, str) else list(text)
    pairs: Sequence[Any] | None = [text_pair] * len(texts) if isinstance(text_pair, str) else text_pair
    if pairs is None and texts and all(isinstance(one, list | tuple) and len(one) == 2 for one in texts):
        texts, pairs = zip(*texts, strict=True)
    return rows_of(texts, pairs)
