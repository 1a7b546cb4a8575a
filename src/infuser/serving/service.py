"""The model and the knowledge that one process answers with, and how it changes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from infuser.serving.batching import Batcher, WorkError
from infuser.serving.knowledge import Knowledge, Pinned, Wanted, release
from infuser.serving.limits import ServingLimits
from infuser.serving.metrics import Metrics
from infuser.serving.model import LINK, PREDICT, Question, ServedModel
from infuser.serving.requests import Asked
from infuser.sources.storage import annotate_checked
from infuser.types import Source

_SAMPLE = "Bern lies on the Aare."
_QUESTION = Question(_SAMPLE, _SAMPLE)
"""With a pair: models that answer questions need a passage."""

Gone = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True, eq=False)
class Edition:
    """A model with one version of its knowledge; requests end with the edition that they began with."""

    model: ServedModel
    knowledge: Mapping[str, Any]
    """Version, sources, folders and digests."""

    @property
    def version(self) -> int:
        """The version of the knowledge."""
        return int(self.knowledge["version"])


class Service:
    """Answers questions with the current edition, and changes to another one in two steps."""

    def __init__(
        self, model: ServedModel, knowledge: Mapping[str, Any], limits: ServingLimits, metrics: Metrics | None = None
    ) -> None:
        self.limits, self.metrics = limits, metrics or Metrics()
        self.batcher = Batcher(limits, self.metrics.batched)
        self.current = Edition(model, knowledge)
        self._next: Edition | None = None

    async def ask(
        self, edition: Edition, task: str, asked: Asked, is_gone: Gone, *, urgent: bool = False
    ) -> list[dict[str, Any]]:
        """Return one answer per text; what is urgent does not wait behind others."""
        verb = getattr(edition.model, task)
        work = partial(verb, off=asked.off) if asked.off else verb
        return await self.batcher.ask((edition, task, asked.off), work, asked.questions, is_gone, urgent=urgent)

    async def prepare(self, changes: Mapping[int, Source], knowledge: Mapping[str, Any]) -> None:
        """Open new sources, by their places, beside the current ones, and see that the model can answer with them."""
        self._next = None
        sources = [changes.get(place, source) for place, source in enumerate(self.current.model.sources)]
        model = await asyncio.to_thread(_opened, self.current.model, sources, list(changes.values()))
        edition = Edition(model, knowledge)
        for task in sorted({PREDICT, LINK}.intersection(model.tasks)):
            try:
                await self.ask(edition, task, Asked((_QUESTION,)), _never, urgent=True)
            except WorkError as error:
                raise error.args[0] from error
        self._next = edition

    def switch(self) -> None:
        """Answer new requests with what was prepared."""
        assert self._next is not None, "prepare comes before switch"
        self.current, self._next = self._next, None

    def forget(self) -> None:
        """Close what was prepared."""
        self._next = None


class LocalExchange:
    """Exchanges the knowledge of a service that has a process to itself."""

    def __init__(self, service: Service, knowledge: Knowledge) -> None:
        self._service, self.knowledge, self._turn = service, knowledge, asyncio.Lock()
        self._old: list[Pinned] = []

    async def __call__(self, wanted: Wanted) -> dict[str, Any]:
        """Return what is known now; raise and leave all as it was if that cannot be opened."""
        async with self._turn:
            new = await asyncio.to_thread(self.knowledge.exchanged, wanted)
            try:
                await self._service.prepare(new.changes_from(self.knowledge), new.about())
            except BaseException:
                release(one for one in new.pinned if one not in self.knowledge.pinned)
                raise
            self._service.switch()
            release_later(
                [one for one in self.knowledge.pinned if one not in new.pinned], self._service.limits, self._old
            )
            self.knowledge = new
            return new.about()

    def close(self) -> None:
        """Remove all copies of folders."""
        release([*self._old, *self.knowledge.pinned])


def release_later(pinned: Sequence[Pinned], limits: ServingLimits, kept: list[Pinned]) -> None:
    """Remove copies once the requests that began with them must have ended; until then they are in `kept`."""
    kept.extend(pinned)

    def end() -> None:
        release(pinned)
        kept[:] = [one for one in kept if one not in pinned]

    asyncio.get_running_loop().call_later(2 * limits.seconds + 60, end)


def _opened(model: ServedModel, sources: Sequence[Source], new: Sequence[Source]) -> ServedModel:
    """Return the model with these sources; those that are new have opened what they read."""
    opened = model.with_sources(sources)
    for source in new:
        annotate_checked(source, [_SAMPLE])
    return opened


async def _never() -> bool:
    return False
