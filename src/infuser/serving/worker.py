"""One worker process: it loads the model, answers at the socket that all share, and does what the parent asks."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvicorn

from infuser.errors import InfuserError
from infuser.serving.app import make_app
from infuser.serving.channel import Channel, ChannelClosedError
from infuser.serving.knowledge import Wanted
from infuser.serving.limits import ServingLimits
from infuser.serving.metrics import Metrics
from infuser.serving.model import open_model
from infuser.serving.service import Service
from infuser.types import Source
from infuser.web.listening import config_of

_QUIET = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Plan:
    """What every worker needs to know."""

    model: str
    hosts: tuple[str, ...]
    token: str | None
    limits: ServingLimits
    metrics: Path
    n_threads: int
    """Threads of each worker's model."""


def work(
    connection: Connection,
    listener: socket.socket,
    plan: Plan,
    number: int,
    sources: tuple[Source, ...],
    knowledge: Mapping[str, Any],
) -> None:
    """Serve until the parent says stop, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who presses Ctrl-C speaks to the parent, which stops us
    for name in _THREADS:
        os.environ.setdefault(name, str(plan.n_threads))
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # else clients that make no sense fill the log
    with suppress(ChannelClosedError):
        asyncio.run(_Worker(plan, number, connection, listener).run(sources, knowledge))
    os._exit(0)  # all answers are sent; to take torch down in good order would take seconds


class _Server(uvicorn.Server):
    """Leaves signals to the worker."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _TakesTurns(socket.socket):
    """A listening socket that leaves its queue as it is: asyncio would shorten it to what one turn accepts."""

    def listen(self, backlog: int = 0, /) -> None:
        pass


class _Worker:
    def __init__(self, plan: Plan, number: int, connection: Connection, listener: socket.socket) -> None:
        self._plan, self._number = plan, number
        self._listener = _TakesTurns(listener.family, listener.type, listener.proto, listener.detach())
        self._connection = connection
        self._service: Service | None = None
        self._server: _Server | None = None
        self._stopped = asyncio.Event()

    async def run(self, sources: tuple[Source, ...], knowledge: Mapping[str, Any]) -> None:
        plan = self._plan
        self._channel = Channel(self._connection, self._handle, self._stop)
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop)
        try:
            model = await asyncio.to_thread(partial(open_model, plan.model, sources, threads=plan.n_threads))
        except (InfuserError, OSError) as error:
            await self._channel.ask("broken", str(error))
            return
        metrics = Metrics.shared(plan.metrics, self._number)
        self._service = Service(model, knowledge, plan.limits, metrics)
        app = make_app(self._service, self._exchange, hosts=plan.hosts, token=plan.token)
        config = config_of(app, header_seconds=plan.limits.header_seconds, stop_seconds=plan.limits.stop_seconds)
        config.backlog = 1  # accepts one connection per turn, so that the workers share them
        self._server = _Server(config)
        self._server.should_exit = self._stopped.is_set()
        about = {**model.about(), "tasks": sorted(model.tasks), "knowledge": knowledge}
        await self._channel.ask("ready", about)
        await self._server.serve(sockets=[self._listener])

    async def _exchange(self, wanted: Wanted) -> Mapping[str, Any]:
        """Let the parent exchange the knowledge of all workers."""
        known: Mapping[str, Any] = await self._channel.ask("exchange", wanted)
        return known

    async def _handle(self, name: str, content: Any) -> Any:
        assert self._service is not None, "the parent waits until a worker is ready"
        if name == "prepare":
            await self._service.prepare(*content)
        elif name == "switch":
            self._service.switch()
        elif name == "forget":
            self._service.forget()
        elif name == "stop":
            self._stop()

    def _stop(self) -> None:
        """Refuse new connections, and end when the requests under way have their answers."""
        self._stopped.set()
        if self._server is not None:
            self._server.should_exit = True
