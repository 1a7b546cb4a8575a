"""How knowledge reaches the place where scores become attention.

transformers looks up its attention function by the name in the host's config. We register one function per plain
function ("infuser_sdpa", "infuser_eager"), as soon as this file is imported, so that a model that arrives in another
process finds it too. It hands over to the module's `knowledge` child when the call carries knowledge, and to the plain
function otherwise. The mask function must be registered under the same name: with only the first, the mask arrives as
None and padding is attended to, silently.

Encoders that compute their attention themselves take another route: own_attention.py.

A module's `knowledge` child names its method; it gets that method's part of the call.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from infuser.errors import HostError
from infuser.hosts.anatomy import NEW, anatomy_of
from infuser.hosts.calls import Call
from infuser.hosts.own_attention import asking_for_weights, close_route, open_route
from infuser.hosts.terms import for_each_head, heads_per_key

_PREFIX = "infuser_"
_USER = "attention"
_MEMORY = "_attention_before_infusion"


def plug_in(host: PreTrainedModel) -> None:
    """Let the host's attention modules look for a `knowledge` child; without one they work as before."""
    if anatomy_of(host).own is not None:
        open_route(host, _USER)
        return
    plain = host.config._attn_implementation
    if plain.startswith(_PREFIX):
        return
    if plain not in ("sdpa", "eager"):  # flash and flex kernels never form the scores that knowledge is mixed into
        setattr(host, _MEMORY, plain)
        plain = "sdpa"
    host.set_attn_implementation(_PREFIX + plain)


def unplug(host: PreTrainedModel) -> None:
    """Give the host its plain attention function back."""
    if anatomy_of(host).own is not None:
        close_route(host, _USER)
        return
    plain = host.config._attn_implementation.removeprefix(_PREFIX)
    if hasattr(host, _MEMORY):
        plain = getattr(host, _MEMORY)
        delattr(host, _MEMORY)
    host.set_attn_implementation(plain)


@contextmanager
def plain_config(host: PreTrainedModel) -> Iterator[None]:
    """Let the host's config name its plain attention for a while: transformers refuses to write some with ours."""
    config = host.config
    name = config._attn_implementation
    config._attn_implementation_internal = name.removeprefix(_PREFIX)
    try:
        yield
    finally:
        config._attn_implementation_internal = name


@contextmanager
def showing_weights(host: PreTrainedModel) -> Iterator[None]:
    """Let the host's attention form its weights for a while, as the eager function does; fused kernels return none."""
    if anatomy_of(host).own is not None:
        with asking_for_weights(host):
            yield
        return
    name = host.config._attn_implementation
    prefix = _PREFIX if name.startswith(_PREFIX) else ""
    if name == prefix + "eager":
        yield
        return
    host.set_attn_implementation(prefix + "eager")
    try:
        yield
    finally:
        host.set_attn_implementation(name)


def check_plugged_in(host: PreTrainedModel) -> None:
    """Raise if the host's attention function was replaced after the infusion: it would ignore knowledge silently."""
    name = host.config._attn_implementation
    if not name.startswith(_PREFIX) and anatomy_of(host).own is None:
        raise HostError(
            f"The batch carries knowledge, but this infused model's attention was set to {name!r}, which cannot read "
            f"it. Set it back: model.set_attn_implementation('{_PREFIX}sdpa')."
        )


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    plain: str,
    knowledge: Call | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend with knowledge where the call carries some and the module has weights for it, else plainly."""
    mixer = getattr(module, NEW, None)
    part = None if knowledge is None or mixer is None else knowledge.parts.get(mixer.method)
    # the second is the key of batches from before it was renamed
    if knowledge is None and any(options.get(name) is not None for name in ("knowledge_boxes", "knowledge_maps")):
        raise HostError(
            "The batch carries knowledge that nobody has read: model.forward(...) was called, which skips the hook "
            "that reads it. Call the model itself, model(**batch)."
        )
    if mixer is None or part is None:
        return _attend_plainly(module, query, key, value, attention_mask, plain=plain, **options)
    n = heads_per_key(module)
    out: tuple[Tensor, Tensor | None] = mixer(
        query,
        for_each_head(key, n),
        for_each_head(value, n),
        attention_mask,
        part,
        scaling=options["scaling"],
        dropout=options["dropout"],
        want_weights=plain == "eager" or bool(options.get("output_attentions")),
    )
    return out


def _attend_plainly(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    plain: str,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    if plain == "sdpa" and not options.get("output_attentions"):
        result: tuple[Tensor, Tensor | None] = ALL_ATTENTION_FUNCTIONS[plain](
            module, query, key, value, mask, **options
        )
        return result
    if mask is not None and mask.dtype == torch.bool:  # eager functions add their mask
        # some do their softmax in float32, where the lowest float64 would be minus infinity
        lowest = max(torch.finfo(query.dtype).min, torch.finfo(torch.float32).min)
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, lowest)
    eager = sys.modules[type(module).__module__].eager_attention_forward
    result = eager(module, query, key, value, mask, **options)
    return result


for _plain in ("sdpa", "eager"):
    AttentionInterface.register(_PREFIX + _plain, partial(_attend, plain=_plain))
    AttentionMaskInterface.register(_PREFIX + _plain, sdpa_mask)
