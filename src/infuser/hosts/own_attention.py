"""The route of knowledge through encoders that do not call transformers' attention function.

MPNet, DeBERTa and a few others compute their attention themselves, and drop keywords that they do not know, so the
knowledge of a call would be lost on its way. While a method is attached, four of their modules are therefore of a
class made here, which inherits from their own and does one thing more:

    the model with a head   keeps the batch's knowledge for its encoder, which it calls without
    the encoder             takes it, and keeps the call's knowledge for its blocks
    a block                 takes it as the keyword `knowledge`, as blocks of other encoders do, and keeps it for
                            its attention; being a keyword, it is there again when checkpointing repeats the block
    its attention           hands its scores (`own_scores.py`) to its `knowledge` child

Where there is nothing to hand over, the module's own `forward` runs, untouched. Modules, weights and their names stay
as they are, and when the last user closes the route, so do the classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import HostError
from infuser.hosts.anatomy import HOSTS, NEW, anatomy_of, attentions

if TYPE_CHECKING:
    from infuser.hosts.calls import Call

_USERS = "_knowledge_route_users"
_FOR_ENCODER: ContextVar[dict[str, Any] | None] = ContextVar("knowledge tensors of a batch", default=None)
_FOR_BLOCKS: ContextVar[Call | None] = ContextVar("knowledge of a call", default=None)


def open_route(host: PreTrainedModel, user: str) -> None:
    """Let knowledge reach the attention of an encoder that computes it itself; nothing to do for all others."""
    if anatomy_of(host).own is None:
        return
    base: Any = host.base_model
    if not hasattr(base, _USERS):
        parts = _parts(host)
        for module, _ in parts:
            if "forward" in vars(module):
                raise HostError(
                    f"Something replaced the forward of this {type(module).__name__}, so knowledge could not pass it. "
                    "Infuse the model first, and then let accelerate or others prepare it."
                )
        for module, role in parts:
            plain: Any = type(module)
            module.__class__ = _class_with(role, plain, host.config.model_type)
        setattr(base, _USERS, set())
    getattr(base, _USERS).add(user)


def close_route(host: PreTrainedModel, user: str) -> None:
    """Undo `open_route`; with the last user the modules get their own classes back."""
    base: Any = host.base_model
    users = getattr(base, _USERS, None)
    if users is None:
        return
    users.discard(user)
    if not users:
        delattr(base, _USERS)
        for module, _ in _parts(host):
            module.__class__ = type(module).__mro__[2]  # behind its class and its role


@contextmanager
def asking_for_weights(host: PreTrainedModel) -> Iterator[None]:
    """Let the attention modules of such an encoder return their weights for a while, whatever a call asks for."""

    def ask(module: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        given = inspect.signature(module.forward).bind(*args, **kwargs)
        given.arguments["output_attentions"] = True
        return given.args, given.kwargs

    hooks = [module.register_forward_pre_hook(ask, with_kwargs=True) for module in attentions(host)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _parts(host: PreTrainedModel) -> list[tuple[Any, type]]:
    blocks = anatomy_of(host).blocks(host.base_model)
    parts: list[tuple[Any, type]] = [(host.base_model, _Encoder)]
    parts += [(block, _Block) for block in blocks] + [(module, _Attention) for module in attentions(host)]
    return parts if host.base_model is host else [(host, _Head), *parts]


class _Head:
    """The model that calls the encoder."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Keep the batch's knowledge for the encoder."""
        given = {name: kwargs.pop(name) for name in list(kwargs) if name.split("_")[0] == "knowledge"}
        with _kept(_FOR_ENCODER, given):
            return super().forward(*args, **kwargs)  # type: ignore[misc]


class _Encoder:
    """The encoder: takes what the head kept before its hooks run, one of which reads it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = _FOR_ENCODER.get()
        return super().__call__(*args, **kwargs, **(given or {}))  # type: ignore[misc]

    def forward(self, *args: Any, knowledge: Call | None = None, **kwargs: Any) -> Any:
        """Keep the call's knowledge for the blocks."""
        if any(name.startswith("knowledge_") and given is not None for name, given in kwargs.items()):
            raise HostError(
                "The batch carries knowledge that nobody has read: model.forward(...) was called, which skips the "
                "hook that reads it. Call the model itself, model(**batch)."
            )
        with _kept(_FOR_BLOCKS, knowledge):
            return super().forward(*args, **kwargs)  # type: ignore[misc]


class _Block:
    """A block of the encoder: hooks around it find `knowledge` among its keywords."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **{"knowledge": _FOR_BLOCKS.get(), **kwargs})  # type: ignore[misc]

    def forward(self, *args: Any, knowledge: Call | None = None, **kwargs: Any) -> Any:
        """Keep the call's knowledge for the attention, also when checkpointing repeats the block later."""
        with _kept(_FOR_BLOCKS, knowledge):
            return super().forward(*args, **kwargs)  # type: ignore[misc]


class _Attention:
    """The attention module of a block."""

    kind: str

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Attend with knowledge where the call has some for this module's child, else as the module itself does."""
        call, mixer = _FOR_BLOCKS.get(), getattr(self, NEW, None)
        part = None if call is None or mixer is None else call.parts.get(mixer.method)
        own = HOSTS[self.kind].own
        if mixer is None or part is None or own is None:
            return super().forward(*args, **kwargs)  # type: ignore[misc]
        scores = own.scores(self, *args, **kwargs)
        module: Any = self
        out, weights = mixer(
            scores.query,
            scores.key,
            scores.value,
            scores.mask,
            part,
            scaling=scores.scaling,
            dropout=module.dropout.p if module.training else 0.0,
            want_weights=scores.want_weights,
            position_bias=scores.position_bias,
        )
        merged: Tensor = out.flatten(2)  # (batch, seq, hidden)
        return own.finish(self, merged), weights


@contextmanager
def _kept(place: ContextVar[Any], content: Any) -> Iterator[None]:
    token = place.set(content)
    try:
        yield
    finally:
        place.reset(token)


@cache
def _class_with(role: type, plain: type, kind: str) -> Any:
    """Return the class of a module that plays a role on the route: named as its own, which it inherits from."""

    def reduce(module: Any, protocol: Any) -> Any:  # classes made at run time cannot be looked up by name
        return _remade, (role, plain, kind), dict(vars(module))

    @wraps(plain.forward)  # type: ignore[attr-defined]  # others look at what it takes
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return super(made, self).forward(*args, **kwargs)

    about = {"kind": kind, "__module__": plain.__module__, "__reduce_ex__": reduce, "forward": forward}
    made: Any = type(plain.__name__, (role, plain), about)
    return made


def _remade(role: type, plain: type, kind: str) -> nn.Module:
    made = _class_with(role, plain, kind)
    module: nn.Module = made.__new__(made)
    return module
