"""How others see attention: every layer's weights are handed over as soon as they are formed, and then forgotten.

`output_attentions=True` would keep the weights of all layers until the end: for a base encoder 144 maps per text. Here
one layer's are alive at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import HostError
from infuser.hosts.anatomy import attentions
from infuser.hosts.attention import showing_weights


@contextmanager
def watching_attention(host: PreTrainedModel, see: Callable[[Tensor], None]) -> Iterator[None]:
    """Call `see` with the weights (batch, heads, seq, keys) of each layer, lower to upper, whenever the host reads.

    Keys beyond the sequence are auxiliary terms of an infused host. Where all layers share one module, it is seen once
    per layer all the same.
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
        with showing_weights(host):
            yield
    finally:
        for hook in hooks:
            hook.remove()
