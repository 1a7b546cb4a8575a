"""A model that can be explained, and what can be switched off in it: its sources and, if it has several, methods."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.errors import InputError
from infuser.infused import Infused
from infuser.methods.together import methods_of, name_of
from infuser.sources.naming import source_names
from infuser.types import Source

_METHOD = "method:"
"""May stand before the name of a method; must, where a source has the same name."""


class Explained(Protocol):
    """An `Infused`, or an encoder that holds no knowledge."""

    @property
    def model(self) -> PreTrainedModel: ...
    @property
    def tokenizer(self) -> PreTrainedTokenizerBase: ...
    @property
    def sources(self) -> tuple[Source, ...]: ...


@dataclass(frozen=True, slots=True)
class Switches:
    """The names by which parts of a model are switched off."""

    sources: tuple[str, ...]
    methods: Mapping[str, str]
    """Registered names of the methods by those of their switches; empty for a model with one method or none."""

    @classmethod
    def of(cls, infused: Explained) -> Self:
        """Return the switches of a model: "graph", "kam", or "method:kam" if a source is called "kam"."""
        sources = tuple(source_names(infused.sources))
        several = methods_of(infused.method) if isinstance(infused, Infused) else ()
        names = [name_of(one) for one in several] if len(several) > 1 else []
        return cls(sources, {_METHOD + name if name in sources else name: name for name in names})

    @property
    def names(self) -> tuple[str, ...]:
        """All names, those of sources first."""
        return (*self.sources, *self.methods)

    def read(self, off: Collection[str]) -> tuple[str, ...]:
        """Return the names of what is switched off, in the order of all; raise for a name that has no switch."""
        long = {_METHOD + method: name for name, method in self.methods.items()}
        asked = {long.get(name, name) for name in off}
        if unknown := sorted(asked.difference(self.names)):
            kinds = "source or method" if self.methods else "source"
            raise InputError(
                f"There is no {kinds} {unknown[0]!r} to leave out: this model has {', '.join(self.names)}."
            )
        return tuple(name for name in self.names if name in asked)

    def methods_among(self, names: Collection[str]) -> list[str]:
        """Return the registered names of the methods among some names."""
        return [method for name, method in self.methods.items() if name in names]
