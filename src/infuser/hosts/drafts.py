"""Looks a checkpoint up by its config alone; drafts the entry of one that is not described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import AutoConfig, PreTrainedConfig

from infuser.hosts.anatomy import HOSTS, anatomy_of
from infuser.hosts.checkpoints import read_config
from infuser.hosts.nearest import Nearest, nearest_host
from infuser.hosts.skeletons import layers_of, skeleton_of


@dataclass(frozen=True, slots=True)
class Looked:
    """What a checkpoint's config says about infusing it."""

    kind: str
    """Its `model_type`; empty if its config has none."""
    nearest: Nearest | None
    """The described host nearest to it; None if its own kind is described."""
    block: tuple[str, ...] = ()
    """What is inside: the list of its blocks, then the layers with weights of the first block."""
    draft: tuple[str, ...] = ()
    """Lines of Python that describe it; empty if an entry alone is not enough."""


def look_up(checkpoint: str) -> Looked:
    """Return whether a checkpoint's kind is described, or what is nearest to it; HostError for a decoder."""
    kind = str(read_config(checkpoint).get("model_type") or "")
    try:
        config = AutoConfig.from_pretrained(checkpoint, trust_remote_code=False)
    except (OSError, ValueError):  # transformers does not know the kind, or its code lies in the checkpoint
        return Looked(kind, nearest_host(None, kind))
    if kind in HOSTS:
        anatomy_of(type("Host", (), {"config": config}))  # type: ignore[arg-type]
        return Looked(kind, None)
    nearest = nearest_host(config, kind)
    return Looked(kind, nearest, block_of(config), () if nearest.obstacle else draft_entry(config, nearest))


def block_of(config: PreTrainedConfig) -> tuple[str, ...]:
    """Return the list of an encoder's blocks and the layers with weights in the first, as "name (class)"."""
    model = skeleton_of(config)
    found = None if model is None else layers_of(model)
    if found is None:
        return ()
    place, blocks = found
    layers = [f"{name} ({type(layer).__name__})" for name, layer in blocks[0].named_modules() if _is_a_layer(layer)]
    return (f"{place} ({len(blocks)} x {type(blocks[0]).__name__})", *layers)


def _is_a_layer(module: nn.Module) -> bool:
    return not any(module.children()) and any(True for _ in module.parameters())


def draft_entry(config: PreTrainedConfig, nearest: Nearest) -> tuple[str, ...]:
    """Return the entry of an encoder: its nearest host's if that fits, else one made of what its modules are called."""
    kind = config.model_type
    if nearest.fits:
        return ("from infuser.hosts import HOSTS", f"HOSTS[{kind!r}] = HOSTS[{nearest.kind!r}]")
    model = skeleton_of(config)
    found = None if model is None else layers_of(model)
    if found is None:
        return ()
    place, blocks = found
    attention, key, value = _keys_and_values(blocks[0])
    return (
        "from infuser.hosts import HOSTS, Anatomy",
        f"HOSTS[{kind!r}] = Anatomy(",
        f"    blocks=lambda base: list(base.{place}),",
        f"    attention=lambda block: block.{attention},",
        f"    project=lambda attention, states: (attention.{key}(states), attention.{value}(states)),",
        ")",
    )


def _keys_and_values(block: Any) -> tuple[str, str, str]:
    """Return what a block's attention and its layers for keys and values are called, "..." for what is not found."""
    for name, module in block.named_modules():
        linear = [child for child, layer in module.named_children() if isinstance(layer, nn.Linear)]
        keys, values = ([child for child in linear if child.startswith(letter)] for letter in "kv")
        if name and keys and values:
            return name, keys[0], values[0]
    return "...", "...", "..."
