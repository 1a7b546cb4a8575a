"""How knowledge reaches the states around the blocks: hooks that pass them to the parts of the call's `knowledge`.

A part that has `before_blocks(states)` sees the states that enter the first block, one that has `after_block(layer,
states)` those that leave a block that was hooked; both return what the states (batch, seq, hidden) shall be.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import HostError, InputError
from infuser.hosts.anatomy import anatomy_of
from infuser.hosts.calls import Call, remove_hooks
from infuser.hosts.own_attention import close_route, open_route


@dataclass(frozen=True, slots=True)
class AfterBlock:
    """Stands after a block and hands its states to the knowledge of the call, if it carries any."""

    layer: int | None
    """Which block it is; None where one module is all of them."""
    methods: set[str] = field(default_factory=set)
    """The names of the methods that asked for it."""

    def __call__(self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], states: Any) -> Any:
        """Return the new states, or None to leave them."""
        knowledge = _knowledge_of(kwargs)
        if knowledge is None:
            return None
        layer = self.layer
        if layer is None:
            layer, knowledge.n_passed = knowledge.n_passed, knowledge.n_passed + 1
        changed = _checked(states[0] if isinstance(states, tuple) else states)
        for part in knowledge.parts.values():
            if hasattr(part, "after_block"):
                changed = part.after_block(layer, changed)
        return (changed, *states[1:]) if isinstance(states, tuple) else changed


@dataclass(frozen=True, slots=True)
class BeforeBlocks:
    """Stands before the first block and hands the embeddings' states to the knowledge of the call."""

    methods: set[str] = field(default_factory=set)
    """The names of the methods that asked for it."""

    def __call__(
        self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return arguments with the new states, or None to leave them."""
        knowledge = _knowledge_of(kwargs)
        if knowledge is None or knowledge.n_passed:  # a module that is every block is the first one only once
            return None
        states = _checked(args[0] if args else kwargs["hidden_states"])
        for part in knowledge.parts.values():
            if hasattr(part, "before_blocks"):
                states = part.before_blocks(states)
        return ((states, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": states})


def _knowledge_of(kwargs: dict[str, Any]) -> Call | None:
    knowledge: Call | None = kwargs.get("knowledge")
    if knowledge is None and any(name.startswith("knowledge_") for name in kwargs):
        raise HostError(
            "The batch carries knowledge that nobody has read: model.forward(...) was called, which skips the "
            "hook that reads it. Call the model itself, model(**batch)."
        )
    return knowledge


def _checked(states: Tensor) -> Tensor:
    if states.dim() != 3:
        raise InputError(
            f"The states between blocks have the shape {tuple(states.shape)}, not (batch, seq, hidden): this "
            "attention packs texts without padding. Load the host with attn_implementation='sdpa'."
        )
    return states


_Hook = TypeVar("_Hook", AfterBlock, BeforeBlocks)


def n_blocks(host: PreTrainedModel) -> int:
    """Return how many blocks the states pass; one that is used again counts again."""
    blocks = len(anatomy_of(host).blocks(host.base_model))
    if not anatomy_of(host).shared:
        return blocks
    return int(host.config.num_hidden_layers) * int(getattr(host.config, "inner_group_num", 1))


def hook_blocks(host: PreTrainedModel, method: str, layers: Collection[int], *, before: bool = False) -> None:
    """Let the knowledge of a call see the states after these blocks, counted from 0, and `before` the first one.

    Several methods, given by name, may ask for the same block; it is hooked once.
    """
    anatomy = anatomy_of(host)
    blocks = anatomy.blocks(host.base_model)
    for layer, block in enumerate(blocks):
        if anatomy.shared or layer in layers:
            after = _hook_of(block._forward_hooks, AfterBlock)
            if after is None:
                after = AfterBlock(None if anatomy.shared else layer)
                block.register_forward_hook(after, with_kwargs=True)
            after.methods.add(method)
    if before:
        first = _hook_of(blocks[0]._forward_pre_hooks, BeforeBlocks)
        if first is None:
            first = BeforeBlocks()
            blocks[0].register_forward_pre_hook(first, with_kwargs=True)
        first.methods.add(method)
    open_route(host, f"blocks of {method}")


def unhook_blocks(host: PreTrainedModel, method: str) -> None:
    """Take away what `hook_blocks` put there for this method; hooks that others asked for stay."""
    for block in anatomy_of(host).blocks(host.base_model):
        for hook in (_hook_of(block._forward_hooks, AfterBlock), _hook_of(block._forward_pre_hooks, BeforeBlocks)):
            if hook is None:
                continue
            hook.methods.discard(method)
            if not hook.methods:
                remove_hooks(block, type(hook))
    close_route(host, f"blocks of {method}")


def _hook_of(hooks: dict[int, Any], kind: type[_Hook]) -> _Hook | None:
    return next((hook for hook in hooks.values() if isinstance(hook, kind)), None)
