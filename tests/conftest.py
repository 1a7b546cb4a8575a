"""Fixtures everybody shares; what they build stands in miniatures.py."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from miniatures import HEADS, HOSTS, PAIRS, TEXTS, TOKENIZERS, tiny_host, tiny_tokenizer, tokenizer_of_kind
from transformers import BertModel, PreTrainedTokenizerFast

# the same examples in every run, so that a red run can be repeated; HYPOTHESIS_PROFILE=explore looks for new ones
settings.register_profile("repeatable", derandomize=True, deadline=None)  # no wall time in a test
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture
def texts() -> list[str]:
    return list(TEXTS)


@pytest.fixture
def pairs() -> list[str]:
    return list(PAIRS)


@pytest.fixture(params=HOSTS)
def host_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=HEADS)
def head_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    return tokenizer_of_kind(request.param)


@pytest.fixture
def wordpiece() -> PreTrainedTokenizerFast:
    return tiny_tokenizer("bert")


@pytest.fixture
def tiny_bert() -> BertModel:
    return tiny_host("bert")
