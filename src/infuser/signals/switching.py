"""Sources that are switched off for a while: `with infused.disabled("graph"): ...`.

What is off is a context variable, so that threads and tasks do not disturb each other. Collators leave out what these
sources found, and the encoder what a batch made before holds of them (`hosts.calls`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from infuser.errors import UnknownNameError, did_you_mean
from infuser.signals.candidates import bases_among
from infuser.sources.storage import name_of
from infuser.types import Source


@dataclass(frozen=True, slots=True)
class Off:
    """The sources of a model that are switched off."""

    places: frozenset[int] = frozenset()
    bases: frozenset[str] = frozenset()
    """The names of the knowledge bases among them."""
    everything: bool = False
    """Whether no source is left; the model then answers as the plain one."""


_OFF: ContextVar[Mapping[int, Off]] = ContextVar("infuser_off", default={})  # noqa: B039  # never changed
"""What is off, by the id of the encoder."""


def switched_off(encoder: int | None) -> Off | None:
    """Return what is off in an encoder, by its id; None if nothing is."""
    return _OFF.get().get(encoder) if encoder is not None else None


@contextmanager
def switching_off(encoder: int, sources: Sequence[Source], given: Sequence[str | int]) -> Iterator[None]:
    """Switch sources off, by name or place, on top of those that are off already; none given are all."""
    before = _OFF.get()
    places = frozenset(range(len(sources)) if not given else (at for one in given for at in _places(sources, one)))
    if encoder in before:
        places |= before[encoder].places
    bases = frozenset(base.name for place, base in bases_among(sources).items() if place in places)
    token = _OFF.set({**before, encoder: Off(places, bases, len(places) == len(sources))})
    try:
        yield
    finally:
        _OFF.reset(token)


def _places(sources: Sequence[Source], given: str | int) -> list[int]:
    """Return the places of the sources that are meant: one, or all of a registered name."""
    from infuser.sources.naming import source_names  # not above: pyarrow is slow to load

    names = source_names(sources)
    if isinstance(given, int) and 0 <= given < len(sources):
        return [given]
    places = [place for place, name in enumerate(names) if name == given]
    places = places or [place for place, base in bases_among(sources).items() if base.name == given]
    places = places or [place for place, source in enumerate(sources) if name_of(source) == given]
    if not places:
        hint = did_you_mean(given, names) if isinstance(given, str) else ""
        known = ", ".join(f"{name!r} ({place})" for place, name in enumerate(names))
        raise UnknownNameError(f"This model has no source {given!r} to switch off.{hint} It has {known}.")
    return places
