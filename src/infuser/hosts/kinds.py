"""The kinds of encoders that can be infused: an example of each, the heads that transformers has for it, notes."""

from __future__ import annotations

from dataclasses import dataclass

import transformers
from transformers import AutoConfig

from infuser.hosts.anatomy import HOSTS
from infuser.hosts.loading import HEADS

EXAMPLES = {
    "albert": "albert/albert-base-v2",
    "bert": "google-bert/bert-base-uncased",
    "camembert": "almanach/camembert-base",
    "deberta": "microsoft/deberta-base",
    "deberta-v2": "microsoft/deberta-v3-base",
    "distilbert": "distilbert/distilbert-base-uncased",
    "electra": "google/electra-base-discriminator",
    "ernie": "nghuyong/ernie-3.0-base-zh",
    "esm": "facebook/esm2_t12_35M_UR50D",
    "eurobert": "EuroBERT/EuroBERT-210m",
    "jina_embeddings_v3": "jinaai/jina-embeddings-v3",
    "megatron-bert": "nvidia/megatron-bert-uncased-345m",
    "mobilebert": "google/mobilebert-uncased",
    "modernbert": "answerdotai/ModernBERT-base",
    "mpnet": "microsoft/mpnet-base",
    "nomic_bert": "nomic-ai/nomic-embed-text-v1.5",
    "rembert": "google/rembert",
    "roberta": "FacebookAI/roberta-base",
    "roberta-prelayernorm": "andreasmadsen/efficient_mlm_m0.40",
    "xlm-roberta": "FacebookAI/xlm-roberta-base",
    "xlm-roberta-xl": "facebook/xlm-roberta-xl",
    "xmod": "facebook/xmod-base",
}
"""A checkpoint on the hub that many others of its kind were trained from, or the best known."""


@dataclass(frozen=True, slots=True)
class HostKind:
    """One supported kind of encoder."""

    name: str
    """Its `model_type` in transformers."""
    example: str
    """A checkpoint of this kind on the hub; empty if none is known."""
    heads: tuple[str, ...]
    """What `load_model` can load it for."""
    notes: tuple[str, ...]
    """What is particular to it."""


def heads_of(kind: str) -> tuple[str, ...]:
    """Return the heads that transformers has for a kind of encoder."""
    config = type(AutoConfig.for_model(kind))
    return tuple(head for head, auto in HEADS.items() if config in getattr(transformers, auto)._model_mapping)


def kind_called(name: str) -> HostKind:
    """Return one described kind of encoder."""
    return HostKind(name, EXAMPLES.get(name, ""), heads_of(name), _notes(name))


def supported_kinds() -> list[HostKind]:
    """Return every kind of encoder that is described, by name."""
    return [kind_called(name) for name in sorted(HOSTS)]


def _notes(kind: str) -> tuple[str, ...]:
    notes = {
        "all layers are one module": HOSTS[kind].shared,
        "positions count from the padding id": HOSTS[kind].counts_from_padding,
        "own route: its scores are computed by infuser": HOSTS[kind].own is not None,
    }
    return tuple(note for note, holds in notes.items() if holds)
