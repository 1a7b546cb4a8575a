"""Loads hosts and their tokenizers from checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from infuser.errors import CheckpointError, HostError, InputError, UnknownNameError
from infuser.hosts.anatomy import anatomy_of
from infuser.hosts.checkpoints import no_config
from infuser.hosts.nearest import nearest_host
from infuser.seals import check_seal_if_any

HEADS = {
    "encoder": "AutoModel",
    "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "multiple-choice": "AutoModelForMultipleChoice",
    "question-answering": "AutoModelForQuestionAnswering",
    "masked-lm": "AutoModelForMaskedLM",
    "pretraining": "AutoModelForPreTraining",
}
"""What a checkpoint can be loaded for, and the transformers class that loads it."""


def load_model(checkpoint: str, task: str, **options: Any) -> PreTrainedModel:
    """Load a checkpoint with the head that `task` names."""
    if task not in HEADS:
        raise UnknownNameError(f"No task is called {task!r}. Known: {', '.join(HEADS)}.")
    check_seal_if_any(Path(checkpoint), "Take a good copy, or train it again.")
    try:
        config = transformers.AutoConfig.from_pretrained(checkpoint, trust_remote_code=False)
    except Exception as error:  # a damaged config.json raises whatever reads it first
        if unknown := _unknown_kind(checkpoint):
            raise CheckpointError(
                f"Cannot load the checkpoint {checkpoint!r}, whose kind is {unknown!r}. {nearest_host(None, unknown)}"
            ) from error
        raise no_config(checkpoint, error) from error
    shell = type("Host", (), {"config": config})
    anatomy_of(shell)  # type: ignore[arg-type]  # before gigabytes are loaded for nothing
    auto = getattr(transformers, HEADS[task])
    if type(config) not in auto._model_mapping:
        raise HostError(f"transformers has no {task!r} head for {config.model_type!r} encoders.")
    options.setdefault("use_safetensors", True)  # the other format is a pickle
    if task == "question-answering":
        options.setdefault("num_labels", 2)  # start and end, however many classes the checkpoint's last task had
    try:
        model: PreTrainedModel = auto.from_pretrained(checkpoint, trust_remote_code=False, **options)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"Cannot load the weights of {checkpoint!r}: {error} If it has no safetensors but pickled weights that you "
            "trust, pass use_safetensors=False."
        ) from error
    except (TypeError, ValueError) as error:
        raise InputError(f"transformers cannot load {checkpoint!r} with the options {options}: {error}") from error
    return settle(model)


def _unknown_kind(checkpoint: str) -> str | None:
    """Return the kind of a checkpoint that has a config, if transformers does not know it."""
    try:
        kind = PreTrainedConfig.get_config_dict(checkpoint)[0].get("model_type")
    except Exception:
        return None
    return kind if isinstance(kind, str) and kind not in CONFIG_MAPPING else None


def settle(model: PreTrainedModel) -> PreTrainedModel:
    """Move a loaded model's weights out of its mapped file into memory of their own, and return it.

    A file maps weights to any address, and matrix kernels round differently at different alignments: without this, a
    saved model would not answer bit for bit as the one that was saved.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    return model


def load_tokenizer(checkpoint: str | None) -> PreTrainedTokenizerBase:
    """Load the tokenizer that belongs to a checkpoint."""
    if checkpoint is None:
        raise CheckpointError("This model came without a tokenizer; pass one as infuse(..., tokenizer=...).")
    try:
        tokenizer: PreTrainedTokenizerBase = transformers.AutoTokenizer.from_pretrained(
            checkpoint, trust_remote_code=False
        )
    except Exception as error:  # a damaged tokenizer.json raises a bare Exception
        raise CheckpointError(
            f"No tokenizer can be loaded from {checkpoint!r}; pass one as infuse(..., tokenizer=...). ({error})"
        ) from error
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # without files, transformers makes up an empty one
        raise CheckpointError(f"{checkpoint!r} holds no tokenizer; pass one as infuse(..., tokenizer=...).")
    return tokenizer


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a tokenizer as it is before its first text: a fast one keeps how its last call truncated and padded."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        tokenizer.save_pretrained(folder)
        return
    truncation, padding = backend.truncation, backend.padding
    backend.no_truncation()
    backend.no_padding()
    try:
        tokenizer.save_pretrained(folder)
    finally:
        if truncation is not None:
            backend.enable_truncation(**truncation)
        if padding is not None:
            backend.enable_padding(**padding)


def longest_input(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return how many tokens the host can read."""
    longest: int = model.config.max_position_embeddings
    if anatomy_of(model).counts_from_padding:
        longest -= model.config.pad_token_id + 1
    return min(longest, int(tokenizer.model_max_length))


def to_fastest_device(model: PreTrainedModel) -> PreTrainedModel:
    """Move a model to a GPU if there is one, and return it."""
    if torch.cuda.is_available():
        model.to("cuda")  # type: ignore[arg-type]
    return model
