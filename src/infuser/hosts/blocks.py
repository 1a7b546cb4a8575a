"""How knowledge reaches the states between two blocks: hooks that pass them to the call's `knowledge`.

A method's reader, a pre-hook of the encoder, puts one object under the keyword `knowledge`; every host passes unknown
keywords down to its blocks. After each block that was hooked, the object may exchange the states.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import HostError, InputError
from infuser.hosts.anatomy import anatomy_of


class CallKnowledge(Protocol):
    """Knowledge on its way through the blocks of one call."""

    n_passed: int
    """How many blocks it has passed; counts where all layers are the same module."""

    def after_block(self, layer: int, states: Tensor) -> Tensor:
        """Return what the states (batch, seq, hidden) behind this block shall be."""
        ...


@dataclass(frozen=True, slots=True)
class AfterBlock:
    """Stands after a block and hands its states to the knowledge of the call, if it carries any."""

    layer: int | None
    """Which block it is; None where one module is all of them."""

    def __call__(self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], states: Any) -> Any:
        """Return the new states, or None to leave them."""
        knowledge: CallKnowledge | None = kwargs.get("knowledge")
        if knowledge is None:
            if any(name.startswith("knowledge_") for name in kwargs):
                raise HostError(
                    "The batch carries knowledge that nobody has read: model.forward(...) was called, which skips the "
                    "hook that reads it. Call the model itself, model(**batch)."
                )
            return None
        layer = self.layer
        if layer is None:
            layer, knowledge.n_passed = knowledge.n_passed, knowledge.n_passed + 1
        first: Tensor = states[0] if isinstance(states, tuple) else states
        if first.dim() != 3:
            raise InputError(
                f"The states between blocks have the shape {tuple(first.shape)}, not (batch, seq, hidden): this "
                "attention packs texts without padding. Load the host with attn_implementation='sdpa'."
            )
        changed = knowledge.after_block(layer, first)
        return (changed, *states[1:]) if isinstance(states, tuple) else changed


def n_blocks(host: PreTrainedModel) -> int:
    """Return how many blocks the states pass; one that is used again counts again."""
    blocks = len(anatomy_of(host).blocks(host.base_model))
    if not anatomy_of(host).shared:
        return blocks
    return int(host.config.num_hidden_layers) * int(getattr(host.config, "inner_group_num", 1))


def hook_blocks(host: PreTrainedModel, layers: Collection[int]) -> None:
    """Let the knowledge of a call see the states after these blocks, counted from 0."""
    anatomy = anatomy_of(host)
    for layer, block in enumerate(anatomy.blocks(host.base_model)):
        if anatomy.shared or layer in layers:
            block.register_forward_hook(AfterBlock(None if anatomy.shared else layer), with_kwargs=True)


def unhook_blocks(host: PreTrainedModel) -> None:
    """Take away what `hook_blocks` put there."""
    for block in anatomy_of(host).blocks(host.base_model):
        remove_hooks(block, AfterBlock)


def remove_hooks(module: nn.Module, kind: type) -> None:
    """Remove all hooks of one class from a module."""
    for hooks, options in (
        (module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs),
        (module._forward_hooks, module._forward_hooks_with_kwargs),
    ):
        for key in [key for key, hook in hooks.items() if isinstance(hook, kind)]:
            hooks.pop(key)
            options.pop(key, None)
