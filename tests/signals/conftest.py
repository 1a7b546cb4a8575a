"""Texts, and tokenizers of every kind; what they are stands in miniatures.py."""

from __future__ import annotations

import pytest
from miniatures import PAIRS, TEXTS, TOKENIZERS, tiny_tokenizer, tokenizer_of_kind
from transformers import PreTrainedTokenizerFast


@pytest.fixture
def texts() -> list[str]:
    return list(TEXTS)


@pytest.fixture
def pairs() -> list[str]:
    return list(PAIRS)


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    return tokenizer_of_kind(request.param)


@pytest.fixture
def wordpiece() -> PreTrainedTokenizerFast:
    return tiny_tokenizer("bert")
