"""Finds the described host that is most like an encoder, by structure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from infuser.hosts.anatomy import HOSTS
from infuser.hosts.skeletons import (
    calls_the_interface,
    looks_ahead,
    module_names,
    reads_tokens,
    skeleton_of,
    skeleton_of_kind,
)

_ALIKE = 0.6
"""Names of kinds are alike above this ratio of difflib: "xmod" and "xlm" are not, "xlm-roberta" and "roberta" are."""

_UNBUILT = "transformers cannot build it from its config, and code that a checkpoint brings along is not run."


@dataclass(frozen=True, slots=True)
class Nearest:
    """The described host that is most like an encoder."""

    kind: str
    """The host's `model_type`; empty if nothing could be compared and no name is like it."""
    in_common: float | None
    """The share of the names of their modules that both have; None if no module could be compared."""
    fits: bool
    """True if the host's entry finds blocks, attention, keys and values in the encoder as it is."""
    obstacle: str | None
    """Why an entry alone is not enough, in a sentence; None if it may be."""

    def __str__(self) -> str:
        if not self.kind:
            found = "No described host has a name like it."
        elif self.in_common is None:
            found = f"The nearest name is {self.kind!r}."
        elif self.fits:
            found = f"Nearest is {self.kind!r}, whose entry finds blocks, attention, keys and values in it as it is."
        else:
            found = f"Nearest is {self.kind!r}: {self.in_common:.0%} of their modules have the same names."
        return f"{found} {self.obstacle}" if self.obstacle else found


def nearest_host(config: PreTrainedConfig | None, kind: str) -> Nearest:
    """Return the described host nearest to an encoder: by the names of its modules, else by the name of its kind.

    An encoder that fits a host's entry is nearer than one that does not; among equals, names of kinds are compared.
    """
    model = None if config is None else skeleton_of(config)
    if model is None:
        nearest = max(HOSTS, key=lambda known: _alike(kind, known))
        nearest = nearest if _alike(kind, nearest) > _ALIKE else ""
        return Nearest(nearest, None, False, _UNBUILT)
    names = module_names(model)
    scores = {
        known: (_fits(known, model), _share(names, module_names(skeleton)), _alike(kind, known) > _ALIKE)
        for known in HOSTS
        if known != kind and (skeleton := skeleton_of_kind(known)) is not None
    }
    nearest = max(scores, key=scores.__getitem__)
    fits, in_common, _ = scores[nearest]
    return Nearest(nearest, in_common, fits, _obstacle(model))


def _share(ours: frozenset[str], theirs: frozenset[str]) -> float:
    return len(ours & theirs) / len(ours | theirs)


def _alike(kind: str, known: str) -> float:
    return difflib.SequenceMatcher(None, kind, known).ratio()


def _fits(known: str, model: PreTrainedModel) -> bool:
    """Return whether a host's entry finds its way in an encoder without weights."""
    anatomy, base = HOSTS[known], model.base_model
    if (anatomy.own is None) != calls_the_interface(model):
        return False
    try:
        blocks = anatomy.blocks(base)
        states = torch.zeros(1, 2, model.config.hidden_size, device="meta", dtype=model.dtype)
        projected = [anatomy.project(anatomy.attention(block), anatomy.prepare(block, states)) for block in blocks]
        alike = all(keys.shape == values.shape for keys, values in projected)
    except Exception:  # whatever is missing: it does not fit
        return False
    n_blocks = 1 if anatomy.shared else model.config.num_hidden_layers
    return alike and len(blocks) == n_blocks


def _obstacle(model: PreTrainedModel) -> str | None:
    if not reads_tokens(model):
        return "It has no table of token embeddings: knowledge is about words of text."
    if getattr(model.config, "is_encoder_decoder", False):
        return "It is an encoder with a decoder, and maps tie words of one text."
    if not looks_ahead(model):
        return "It looks in one direction only, and maps tie words in both."
    if not calls_the_interface(model):
        return "It computes its attention itself, so its entry also needs to say how it makes its scores (`own`)."
    return None
