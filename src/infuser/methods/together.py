"""Several methods in one host, each with its own weights: infuse(checkpoint, [Types(), Kam()], sources=...)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transformers import PreTrainedModel

from infuser.errors import InputError
from infuser.registry import METHODS
from infuser.types import Method, Source, Vocabulary


@METHODS.register("together")
@dataclass(frozen=True, slots=True)
class Together:
    """Attaches several methods in turn; each can be switched off in a call: model(**batch, knowledge_off=["kam"])."""

    methods: tuple[Any, ...] = ({"kind": "types"}, {"kind": "kam"})
    """The methods, or {"kind": registered name, ...settings} as files hold them."""

    def __post_init__(self) -> None:
        made = tuple(_made(one) for one in self.methods)
        object.__setattr__(self, "methods", made)
        names = [METHODS.name_of(one) for one in made]
        if len(made) < 2 or len(set(names)) < len(names) or "together" in names:
            raise InputError(f"Together takes two or more different methods, not {names}.")

    def attach(self, host: PreTrainedModel, *, sources: Sequence[Source], vocabulary: Vocabulary) -> None:
        """Attach every method to the host."""
        for place, method in enumerate(self.methods):
            try:
                method.attach(host, sources=sources, vocabulary=vocabulary)
            except Exception:
                for earlier in self.methods[:place]:  # the host is as it was when one of them does not fit
                    earlier.detach(host)
                raise

    def detach(self, host: PreTrainedModel) -> None:
        """Take every method out again."""
        for method in reversed(self.methods):
            method.detach(host)


def _made(method: Any) -> Any:
    if not isinstance(method, dict):
        return method
    settings = dict(method)
    return METHODS[settings.pop("kind")](**settings)


def as_method(given: Method | Iterable[Method]) -> Method:
    """Return the one method that a caller's method or list of methods stands for."""
    if isinstance(given, Method):
        return given
    listed = tuple(given)
    return listed[0] if len(listed) == 1 else Together(listed)


def methods_of(method: Any) -> tuple[Any, ...]:
    """Return the methods that a method consists of: itself, unless it is several together."""
    return method.methods if isinstance(method, Together) else (method,)


def name_of(method: Any) -> str:
    """Return the registered name of a method, or those of several joined: "types+kam"."""
    return "+".join(METHODS.name_of(one) for one in methods_of(method))


def describe(method: Any) -> dict[str, Any]:
    """Return kind and settings of a method as plain values."""
    if isinstance(method, Together):
        return {"kind": "together", "methods": [describe(one) for one in method.methods]}
    return {"kind": METHODS.name_of(method), **asdict(method)}
