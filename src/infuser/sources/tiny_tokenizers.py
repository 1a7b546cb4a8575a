"""The tokenizer of the miniature models that taggers make in memory."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any


def tiny_tokenizer(words: Sequence[str] = (), *, last: Sequence[str] = (), longest: int = 64) -> Any:
    """Return a fast WordPiece tokenizer of lower-case words and single letters; `last` ends its vocabulary."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    pieces = [*special.values(), *words, *ascii_lowercase, *(f"##{letter}" for letter in ascii_lowercase), *last]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    inside = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inside.normalizer = normalizers.BertNormalizer(lowercase=True)
    inside.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inside.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inside, model_max_length=longest, additional_special_tokens=list(last), **special
    )
