"""Reads attention weights layer by layer: each layer's are passed on as soon as they are formed, and not stored.

`output_attentions=True` would keep the weights of all layers until the end: for a base encoder 144 maps per text. Here
one layer's are alive at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import HostError
from infuser.hosts.anatomy import anatomy_of, attentions
from infuser.hosts.attention import plug_in, showing_weights, unplug


@contextmanager
def watching_attention(host: PreTrainedModel, see: Callable[[Tensor], None]) -> Iterator[None]:
    """Call `see` with the weights (batch, heads, seq, seq) of each layer, lower to upper, whenever the host reads.

    What an infused host gives to auxiliary terms is left out, so its rows may sum to less than 1. Where all layers
    share one module, it is seen once per layer all the same.
    """

    def hand_over(module: nn.Module, args: Any, out: Any) -> None:
        weights = out[1] if isinstance(out, tuple) else None
        if weights is None:
            raise HostError(
                f"{type(module).__name__} gave no attention weights. Load the host with attn_implementation='eager'."
            )
        see(weights)

    hooks = [module.register_forward_hook(hand_over) for module in attentions(host)]
    try:
        with _finite_masks(host), showing_weights(host):
            yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _finite_masks(host: PreTrainedModel) -> Iterator[None]:
    """Let a host in float64 use our attention functions for a while, plain as it is.

    Hosts that form their weights in float32 (ModernBERT) turn the lowest float64 of their own mask into minus infinity:
    a padding token whose window holds nothing but padding is then read as NaN, and the next layer reads it everywhere.
    """
    name = host.config._attn_implementation
    if host.dtype == torch.float64 and anatomy_of(host).own is None:
        plug_in(host)
    try:
        yield
    finally:
        if host.config._attn_implementation != name:
            unplug(host)


@contextmanager
def answering(model: PreTrainedModel) -> Iterator[None]:
    """Let a model answer without dropout and without gradients; its mode is given back afterwards."""
    was_training = model.training
    model.train(False)
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)
