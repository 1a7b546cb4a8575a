"""One table of names per kind of thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from infuser.errors import UnknownNameError, did_you_mean

_T = TypeVar("_T")


class Registry:
    """Names and the classes behind them; a registered name ends up in saved files, so it stays."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._classes: dict[str, type[Any]] = {}

    def register(self, name: str) -> Callable[[type[_T]], type[_T]]:
        """Return a decorator that enters a class under `name`."""

        def enter(cls: type[_T]) -> type[_T]:
            if _path(self._classes.get(name, cls)) != _path(cls):  # a reloaded module defines the same class again
                raise ValueError(f"Two {self.kind}s want to be called {name!r}: {self._classes[name]!r} and {cls!r}.")
            self._classes[name] = cls
            return cls

        return enter

    def __getitem__(self, name: str) -> type[Any]:
        if name in self._classes:
            return self._classes[name]
        hint = did_you_mean(name, self._classes)
        raise UnknownNameError(f"No {self.kind} is called {name!r}.{hint} Known: {', '.join(self)}.")

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._classes))

    def name_of(self, thing: object) -> str:
        """Return the registered name of an instance, or raise an error that shows how to register its class."""
        for name, cls in self._classes.items():
            if type(thing) is cls:
                return name
        raise UnknownNameError(
            f"{type(thing).__name__} is not a registered {self.kind}; decorate it with "
            f"@{self.kind.upper()}S.register(...)."
        )


def _path(cls: type[Any]) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


SOURCES = Registry("source")
METHODS = Registry("method")
TASKS = Registry("task")
