"""The encoder that reads: a checkpoint, a saved infused model or a live one; and its digest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.hosts import n_blocks
from infuser.hosts.checkpoints import Progress, find_checkpoint, is_infused
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
    """The asset, hub id or absolute directory that it came from."""


def open_encoder(given: str | Path | Encoder | Infused, progress: Progress | None = None) -> Encoder:
    """Return an encoder ready to read: assets, hub ids and folders are loaded, infused ones with their knowledge."""
    if isinstance(given, Encoder):
        return given
    if isinstance(given, Infused):
        return Encoder(given.model, given.tokenizer, given.sources, given.base)
    base = str(Path(given).resolve()) if Path(given).exists() else str(given)
    folder = find_checkpoint(str(given), progress)
    if is_infused(folder):
        infused = load(folder)
        return Encoder(infused.model, infused.tokenizer, infused.sources, base)
    return Encoder(load_model(folder, "encoder"), load_tokenizer(folder), base=base)


def digest_of_encoder(encoder: Encoder) -> str:
    """Return a digest of all that decides what an encoder's heads attend to: weights, tokenizer and knowledge.

    A head for a task does not count, nor does the pooler: they look at attention but do not change it, and where a
    checkpoint has none they are random with every load. Neither does the cutting and padding that the tokenizer
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
