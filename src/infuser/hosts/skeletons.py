"""Encoders without weights, built from a config alone, to see what is inside before anything is downloaded."""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel


def skeleton_of(config: PreTrainedConfig) -> PreTrainedModel | None:
    """Return an encoder whose weights take no memory; None if transformers cannot build one from this config."""
    try:
        with torch.device("meta"):
            model: PreTrainedModel = AutoModel.from_config(config, trust_remote_code=False)  # type: ignore[no-untyped-call]
            return model
    except Exception:  # each model has its own way to say that a setting is missing
        return None


@cache
def skeleton_of_kind(kind: str) -> PreTrainedModel | None:
    """Return an encoder of that `model_type` with its usual settings; None if transformers knows none."""
    for settings in ({}, {"vocab_size": 32, "pad_token_id": 0}):  # ESM's vocabulary has no usual size
        try:
            config = AutoConfig.for_model(kind, **settings)
        except ValueError:
            return None
        if (skeleton := skeleton_of(config)) is not None:
            return skeleton
    return None


def module_names(model: nn.Module) -> frozenset[str]:
    """Return the names of all modules, with * for the number of a layer, and "!" behind embeddings that skip padding.

    The mark tells positions that count from the padding id (RoBERTa's) from those that count from zero (BERT's).
    """
    return frozenset(
        re.sub(r"\.\d+(?=\.|$)", ".*", name) + "!" * (getattr(module, "padding_idx", None) is not None)
        for name, module in model.named_modules()
        if name
    )


def calls_the_interface(model: PreTrainedModel) -> bool:
    """Return whether an encoder looks its attention function up by name, where ours can take its place."""
    return hasattr(sys.modules[type(model).__module__], "ALL_ATTENTION_FUNCTIONS")


def looks_ahead(model: PreTrainedModel) -> bool:
    """Return whether every word may attend to those behind it."""
    return not any(getattr(module, "is_causal", False) for module in model.modules())


def reads_tokens(model: PreTrainedModel) -> bool:
    """Return whether ids of tokens go in; pictures and sounds do not come as such."""
    try:
        return isinstance(model.get_input_embeddings(), nn.Embedding)
    except NotImplementedError:
        return False


def layers_of(model: nn.Module) -> tuple[str, nn.ModuleList] | None:
    """Return the list of modules with the most weights, which are an encoder's blocks, and its name."""
    lists: list[tuple[str, Any]] = [one for one in model.named_modules() if isinstance(one[1], nn.ModuleList)]
    return max(lists, key=lambda one: sum(weight.numel() for weight in one[1].parameters()), default=None)
