"""Which encoder reads: a checkpoint, a saved infused model or a live one, and what tells it from any other."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.hosts import n_blocks
from infuser.hosts.checkpoints import is_infused
from infuser.hosts.loading import load_model, load_tokenizer
from infuser.infused import Infused, load
from infuser.saving import digest
from infuser.sources.annotating.fingerprints import fingerprint
from infuser.types import Source


@dataclass(frozen=True, slots=True)
class Encoder:
    """A plain or an infused encoder; an `Infused` serves as well."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    sources: tuple[Source, ...] = ()
    """Those of an infused one."""
    base: str | None = None
    """The hub id or directory that it came from."""


def open_encoder(given: str | Path | Encoder | Infused) -> Encoder:
    """Return an encoder ready to read: a hub id or directory is loaded, a saved infused model with its knowledge."""
    if isinstance(given, Encoder):
        return given
    if isinstance(given, Infused):
        return Encoder(given.model, given.tokenizer, given.sources, given.base)
    if is_infused(given):
        infused = load(given)
        return Encoder(infused.model, infused.tokenizer, infused.sources, str(given))
    return Encoder(load_model(str(given), "encoder"), load_tokenizer(str(given)), base=str(given))


def mark_of_encoder(encoder: Encoder) -> str:
    """Return a digest of all that decides what an encoder's heads attend to: weights, tokenizer and knowledge.

    A head for a task does not count, nor does the pooler: they look at attention but do not change it, and where a
    checkpoint has none they are drawn anew with every load. Neither does the cutting and padding that the tokenizer
    was last asked for. A source whose content cannot be written down counts by its class.
    """
    weights = encoder.model.base_model.state_dict()
    total = hashlib.sha256(digest({name: weights[name] for name in weights if not name.startswith("pooler.")}).encode())
    total.update(f"{n_blocks(encoder.model)} {encoder.model.config.num_attention_heads}".encode())
    pieces = json.loads(encoder.tokenizer.backend_tokenizer.to_str()) | {"truncation": None, "padding": None}
    total.update(json.dumps(pieces).encode())
    for source in encoder.sources:
        total.update((fingerprint(source) or type(source).__name__).encode())
    return total.hexdigest()
