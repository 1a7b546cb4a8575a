"""A tokenizer that also reads knowledge, for clients that know only a tokenizer and a model.

Pipelines and sentence-transformers call `tokenizer(texts)` and hand the result to the model. This tokenizer puts the
knowledge_* tensors into that result.
"""

from __future__ import annotations

import copy
from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerBase

from infuser.signals.collator import Collator


class _ReadsKnowledge:
    """Mixed into the tokenizer's own class, so that every other method and every isinstance check still hold."""

    knowledge_collator: Collator

    def __call__(self, text: Any = None, text_pair: Any = None, **options: Any) -> BatchEncoding:
        """Tokenise as before; when tensors are wanted, add knowledge."""
        if options.get("return_tensors") != "pt" or text is None:
            result: BatchEncoding = super().__call__(text, text_pair, **options)  # type: ignore[misc]
            return result
        texts = [text] if isinstance(text, str) else list(text)
        pairs = [text_pair] if isinstance(text_pair, str) else text_pair
        if texts and not isinstance(texts[0], str):  # a list of (text, pair)
            texts, pairs = [first for first, _ in texts], [second for _, second in texts]
        return BatchEncoding(self.knowledge_collator.encode(texts, pairs))


def reading_tokenizer(collator: Collator) -> PreTrainedTokenizerBase:
    """Return a copy of the collator's tokenizer that adds knowledge to the tensors it returns."""
    tokenizer = copy.copy(collator.tokenizer)
    kind = type(tokenizer)
    tokenizer.__class__ = type(kind.__name__, (_ReadsKnowledge, kind), {})
    tokenizer.knowledge_collator = collator
    return tokenizer
