"""How the knowledge of a batch enters an encoder: one reader before it, one `Call` on its way through it.

Each method that is attached adds a function to the reader, which makes its part of the call's knowledge from the
knowledge_* tensors of the batch, once for all layers. The call travels as the keyword `knowledge`, which every host
passes down to its blocks and its attention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import HostError, InputError
from infuser.hosts.own_attention import close_route, open_route
from infuser.signals.candidates import part_name
from infuser.signals.drawing import DRAWN
from infuser.signals.reading import follow_padding, real_tokens, reject_old_keys
from infuser.signals.switching import Off, switched_off

_PLACES = (("knowledge_boxes", 1, 5), ("knowledge_spans", 2, 4), ("knowledge_ties", 2, 4))
"""Tensors whose last axis holds token positions, and where on it."""


@dataclass(frozen=True, slots=True)
class BatchKnowledge:
    """What a call brings to the encoder, one row per text."""

    tensors: Mapping[str, Tensor]
    """The knowledge_* tensors; links, spans and ties count padding that a client added since."""
    rows: Tensor
    """(batch, seq): True for real tokens."""
    positions: Tensor | None = None
    """(1 or batch, seq) the position ids that the caller gave."""
    length: Tensor | None = None
    """(batch,) how many tokens each text had when its knowledge was placed; None if no padding was added since."""
    trace: Any = None
    """An object of the caller's that a method fills with what it computed."""


Read = Callable[[Any, BatchKnowledge], Any]
"""Encoder and knowledge to a method's part of a call; None if there is nothing for this method. Optional
attribute `always_on`: error message for readers that a call cannot switch off. Optional method `graph_inputs(encoder)`:
the knowledge tensors that an exported graph takes, {name: (dtype, *sizes)}, a size that varies by its name."""

GraphInputs = dict[str, tuple[str | int, ...]]

TERM_INPUTS: GraphInputs = {
    "knowledge_terms": ("int64", "texts", "pieces"),
    "knowledge_ties": ("int64", "texts", "ties", 6),
    "knowledge_tie_weights": ("float32", "texts", "ties"),
}
"""Terms, as the batch carries them."""


@dataclass(slots=True)
class Call:
    """The knowledge of one call, on its way through the encoder."""

    parts: dict[str, Any]
    """Of each method, by name, what it made of the batch."""
    n_passed: int = 0
    """How many blocks it has passed; counts where all layers are the same module."""


@dataclass(frozen=True, slots=True)
class KnowledgeReader:
    """Stands before the encoder: takes the knowledge_* tensors of the batch and makes a `Call` of them."""

    readers: dict[str, Read] = field(default_factory=dict)
    """Of each method, by name, how it reads."""

    def __call__(
        self, base: PreTrainedModel, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Replace the tensors by one `knowledge` keyword, unless there are none or all methods are switched off.

        Sources that are switched off (see `Infused.disabled`) are left out.
        """
        reject_old_keys(kwargs)
        given = {name: kwargs.pop(name) for name in list(kwargs) if name.startswith("knowledge_")}
        given = _left_on(given, switched_off(id(base)))
        off = given.pop("knowledge_off", ())
        off = (off,) if isinstance(off, str) else off
        if unknown := sorted(set(off) - self.readers.keys()):
            raise InputError(
                f"There is no method {unknown[0]!r} to switch off: this model has {', '.join(self.readers)}."
            )
        for name in off:
            if reason := getattr(self.readers[name], "always_on", None):
                raise InputError(reason)
        rows = real_tokens(args, kwargs) if given else None
        if rows is None:  # no knowledge, or no tokens: then the host itself says what it needs
            return args, kwargs
        batch = _take_in(given, rows, kwargs.get("position_ids"))
        parts = {name: read(base, batch) for name, read in self.readers.items() if name not in off}
        parts = {name: part for name, part in parts.items() if part is not None}
        if parts:
            kwargs["knowledge"] = Call(parts)
        return args, kwargs


def _left_on(given: dict[str, Any], off: Off | None) -> dict[str, Any]:
    """Return the knowledge of a batch without that of sources that are switched off, as if they had found nothing."""
    if off is None or not given:
        return given
    if off.everything and "knowledge_trace" not in given:
        return {}
    left = dict(given)
    for name, weights, empty in (
        ("knowledge_boxes", "knowledge_weights", (-1, 0, 0, 0, 0)),
        ("knowledge_ties", "knowledge_tie_weights", None),
        ("knowledge_spans", None, (0, 0, 0, 0)),
    ):
        if name not in left:
            continue
        is_off = torch.isin(left[name][..., 0], torch.tensor(sorted(off.places), device=left[name].device))
        if weights is not None:
            left[weights] = left[weights].masked_fill(is_off, 0.0)
        if empty is not None:
            left[name] = torch.where(is_off[..., None], left[name].new_tensor(empty), left[name])
    for base in off.bases:  # a span that is empty and a prior of 0 are padding
        for name in (part_name(base, part) for part in ("spans", "priors")):
            if name in left:
                left[name] = torch.zeros_like(left[name])
    return left


def _take_in(given: dict[str, Any], rows: Tensor, positions: Tensor | None) -> BatchKnowledge:
    trace = given.pop("knowledge_trace", None)
    tensors: dict[str, Tensor] = given
    if any(tensor.dim() == 4 for name, tensor in tensors.items() if name != DRAWN):
        # multiple choice: the head flattens (batch, choices) for its own tensors only
        tensors = {name: tensor.flatten(0, 1) for name, tensor in tensors.items()}
    length = tensors.pop("knowledge_length", None)
    if length is not None:
        for name, first, last in _PLACES:
            if name in tensors:
                moved = tensors[name].clone()
                moved[..., first:last] = follow_padding(moved[..., first:last], length, rows)
                tensors[name] = moved
    return BatchKnowledge(tensors, rows, positions, length, trace)


def add_reader(host: PreTrainedModel, name: str, read: Read) -> None:
    """Let a method read the knowledge of every call of the host's encoder."""
    reader = _reader_of(host.base_model)
    if reader is None:
        reader = KnowledgeReader()
        host.base_model.register_forward_pre_hook(reader, with_kwargs=True)
    if name in reader.readers:
        raise HostError(f"The method {name!r} is attached to this host already. Detach it first.")
    reader.readers[name] = read
    open_route(host, f"reader of {name}")


def remove_reader(host: PreTrainedModel, name: str) -> None:
    """Take away what `add_reader` put there; the last one takes the hook along."""
    reader = _reader_of(host.base_model)
    if reader is not None:
        reader.readers.pop(name, None)
        if not reader.readers:
            remove_hooks(host.base_model, KnowledgeReader)
    close_route(host, f"reader of {name}")


def graph_inputs(host: PreTrainedModel) -> GraphInputs:
    """Return the knowledge tensors that an exported graph of a host takes; raise for methods that do not name any."""
    reader, inputs = _reader_of(host.base_model), GraphInputs()
    for name, read in reader.readers.items() if reader else ():
        if not hasattr(read, "graph_inputs"):
            raise HostError(
                f"The method {name!r} cannot be exported: it does not say which tensors its graph takes. Give its "
                "reader graph_inputs(encoder), or detach the method."
            )
        inputs |= read.graph_inputs(host.base_model)
    return inputs


def reader_called(host: PreTrainedModel, name: str) -> Any:
    """Return the reader of one method; None if it is not attached."""
    reader = _reader_of(host.base_model)
    return reader.readers.get(name) if reader else None


def _reader_of(base: nn.Module) -> KnowledgeReader | None:
    hooks = base._forward_pre_hooks.values()
    return next((hook for hook in hooks if isinstance(hook, KnowledgeReader)), None)


def remove_hooks(module: nn.Module, kind: type) -> None:
    """Remove all hooks of one class from a module."""
    for hooks, options in (
        (module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs),
        (module._forward_hooks, module._forward_hooks_with_kwargs),
    ):
        for key in [key for key, hook in hooks.items() if isinstance(hook, kind)]:
            hooks.pop(key)
            options.pop(key, None)
