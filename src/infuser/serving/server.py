"""The server in a thread, as long as a `with` lasts; and the parent of worker processes."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import secrets
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import uvicorn

from infuser.errors import InfuserError, InputError
from infuser.serving.app import make_app
from infuser.serving.channel import Channel, ChannelClosedError
from infuser.serving.knowledge import Knowledge, Pinned, Wanted, release
from infuser.serving.limits import ServingLimits
from infuser.serving.metrics import make_file
from infuser.serving.model import ServedModel, saved_sources
from infuser.serving.service import LocalExchange, Service, release_later
from infuser.serving.worker import Plan, work
from infuser.types import Source
from infuser.web.listening import address_of, config_of, hosts_for, in_thread, is_private, listen

USUAL_PORT = 8766
"""The default port, if it is free."""
SHORTEST_TOKEN = 16
_MOST_FAILURES = 5
"""A worker that ends so many times in a row before it is ready is not started again."""
_LIVES_SECONDS = 10
"""A worker that lived for so long after it was ready has not failed at its start."""

logger = logging.getLogger(__name__)


def check_access(host: str, allow: Sequence[str] = (), token: str | None = None) -> tuple[str, ...]:
    """Return the names under which a server may be asked; raise if others can reach it without a token."""
    hosts = hosts_for(host, allow)
    # a name that others know leads to this server through a proxy, and "*" lets any web page use a name of its own
    public = next((name for name in (host, *allow) if not is_private(name)), None)
    if token is None and public is not None:
        raise InputError(
            f"Others can reach a server at {public}, too. Give a token that they must send: --token or "
            f"INFUSER_SERVE_TOKEN, for example {secrets.token_urlsafe(24)}"
        )
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise InputError(
            f"A token of {len(token)} characters can be guessed, or not be sent. Give at least {SHORTEST_TOKEN} "
            f"letters and digits, for example {secrets.token_urlsafe(24)}"
        )
    return hosts


@contextmanager
def running(
    model: ServedModel,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    allow: Sequence[str] = (),
    token: str | None = None,
    limits: ServingLimits = ServingLimits(),  # noqa: B008
) -> Iterator[str]:
    """Serve a model in a thread of this process and yield its address; the server ends with the `with`."""
    hosts = check_access(host, allow, token)
    with ExitStack() as ended:
        knowledge = Knowledge.of(model.sources)
        ended.callback(release, knowledge.pinned)
        if model.sources:
            model = model.with_sources(knowledge.sources)
        service = Service(model, knowledge.about(), limits)
        exchange = LocalExchange(service, knowledge)
        ended.callback(exchange.close)
        app = make_app(service, exchange, hosts=hosts, token=token)
        server = uvicorn.Server(config_of(app, header_seconds=limits.header_seconds, stop_seconds=limits.stop_seconds))
        listener = listen(host, port, USUAL_PORT)
        ended.enter_context(in_thread(server, listener, "infuser-serve"))
        yield address_of(host, listener)


def serve(
    name: str,
    sources: Sequence[Source] = (),
    *,
    rebuilt: bool = False,
    host: str = "127.0.0.1",
    port: int | None = None,
    allow: Sequence[str] = (),
    token: str | None = None,
    workers: int = 1,
    limits: ServingLimits = ServingLimits(),  # noqa: B008
    when_up: Callable[[str, Mapping[str, Any]], None] = lambda address, about: None,
) -> None:
    """Serve a model by name with worker processes until SIGTERM or Ctrl-C; requests under way get their answers.

    sources: take the place of those saved with the model.
    rebuilt: open the saved ones' folders as they are now, also those that were built again since then.
    when_up: called with the address, and with what is known about the model, once all workers are ready.
    """
    if workers < 1:
        raise InputError(f"workers is {workers}; give 1 or more.")
    hosts = check_access(host, allow, token)
    with ExitStack() as ended:
        knowledge = Knowledge.of(list(sources) or saved_sources(name, rebuilt=rebuilt))
        ended.callback(release, knowledge.pinned)
        metrics = Path(ended.enter_context(tempfile.TemporaryDirectory(prefix="infuser-serve-"))) / "metrics"
        make_file(metrics, workers)
        n_threads = max(1, (os.cpu_count() or 1) // workers)
        plan = Plan(name, hosts, token, limits, metrics, n_threads)
        listener = ended.enter_context(listen(host, port, USUAL_PORT))
        parent = _Parent(plan, listener, knowledge, workers)
        asyncio.run(parent.run(lambda about: when_up(address_of(host, listener), about)))


class _Child:
    """A worker process as its parent sees it."""

    def __init__(self, number: int, knowledge: Knowledge) -> None:
        self.number, self.version = number, knowledge.version
        self.process: BaseProcess
        self.channel: Channel
        self.ready: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self.ready_at: float | None = None


class _Parent:
    """Starts workers, replaces those that end, exchanges the knowledge of all, and stops them."""

    def __init__(self, plan: Plan, listener: socket.socket, knowledge: Knowledge, n_workers: int) -> None:
        self._plan, self._listener, self._knowledge = plan, listener, knowledge
        self._n_workers = n_workers
        self._children: dict[int, _Child] = {}
        self._n_failures = 0
        self._failure: InfuserError | None = None
        self._old: list[Pinned] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, when_up: Callable[[Mapping[str, Any]], None]) -> None:
        self._stopping, self._exchanging = asyncio.Event(), asyncio.Lock()
        with _signals(self._signalled):
            try:
                for number in range(self._n_workers):
                    self._start(number)
                if about := await self._unless_stopped(self._all_ready()):
                    when_up(about[0])
                    await self._unless_stopped(self._has_failed())
            finally:
                await self._stop()
                release([*self._old, *self._knowledge.pinned])

    async def _unless_stopped(self, what: Any) -> Any:
        """Return what is waited for, or None if the server is stopped before."""
        stopped = asyncio.ensure_future(self._stopping.wait())
        waiting = asyncio.ensure_future(what)
        await asyncio.wait([stopped, waiting], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        return None

    async def _all_ready(self) -> list[Mapping[str, Any]]:
        """Return what is known about each worker, once all of them are alive and ready."""
        while True:
            about = await asyncio.gather(*(child.ready for child in self._children.values()))
            if all(child.channel.is_open for child in self._children.values()):
                return about
            await asyncio.sleep(0.02)  # one of them is being replaced

    async def _has_failed(self) -> None:
        """Raise once workers cannot be kept alive."""
        while self._failure is None:
            await asyncio.sleep(0.1)
        raise self._failure

    def _signalled(self) -> None:
        if self._stopping.is_set():  # asked twice: at once
            for child in self._children.values():
                child.process.kill()
        self._stopping.set()

    def _start(self, number: int) -> None:
        """Start a worker with the knowledge of now."""
        spawning = multiprocessing.get_context("spawn")  # forking a process that runs threads can hang
        child = _Child(number, self._knowledge)
        ours, theirs = spawning.Pipe()
        given = (theirs, self._listener, self._plan, number, self._knowledge.sources, self._knowledge.about())
        child.process = spawning.Process(target=work, args=given, daemon=True, name=f"infuser-serve-{number}")
        child.process.start()
        theirs.close()
        child.channel = Channel(ours, partial(self._handle, child), partial(self._ended, child))
        self._children[number] = child

    async def _handle(self, child: _Child, name: str, content: Any) -> Any:
        if name == "ready" and not child.ready.done():
            child.ready_at = time.monotonic()
            child.ready.set_result(content)
        elif name == "broken" and not child.ready.done():
            child.ready.set_exception(InfuserError(content))
        elif name == "exchange":
            return await self._exchange(content)
        return None

    def _ended(self, child: _Child) -> None:
        """Replace a worker that has ended."""
        if self._stopping.is_set() or self._children.get(child.number) is not child:
            return
        self._keep(self._replace(child))

    async def _replace(self, child: _Child) -> None:
        await asyncio.to_thread(child.process.join, 5)
        lived = child.ready_at is not None and time.monotonic() - child.ready_at > _LIVES_SECONDS
        self._n_failures = 0 if lived else self._n_failures + 1
        code = child.process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        if not child.ready.done():
            child.ready.set_exception(InfuserError(f"A worker process {how} before it was ready."))
        if reason := child.ready.exception():
            how = f"could not start ({reason})"
        if self._n_failures >= _MOST_FAILURES:
            self._failure = InfuserError(
                f"Worker processes end as soon as they start, {_MOST_FAILURES} times in a row; the last one {how}. "
                "Signal 9 often means that memory ran out: try fewer workers."
            )
            return
        logger.warning("Worker %d %s; another one is started.", child.number, how)
        if self._n_failures > 1:
            await asyncio.sleep(0.1 * 2**self._n_failures)
        if not self._stopping.is_set():
            self._start(child.number)

    def _keep(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchange(self, wanted: Wanted) -> Mapping[str, Any]:
        """Let all workers switch to other knowledge, or none."""
        async with self._exchanging:
            before = self._knowledge
            new = await asyncio.to_thread(before.exchanged, wanted)
            try:
                async with asyncio.timeout(self._plan.limits.exchange_seconds):
                    children = await self._prepared(new, before)
            except BaseException as error:
                release(one for one in new.pinned if one not in before.pinned)
                if isinstance(error, TimeoutError):
                    seconds = self._plan.limits.exchange_seconds
                    raise InfuserError(f"The workers could not open it within {seconds:g} seconds.") from error
                raise
            self._knowledge = new  # from here on, workers start with it
            await asyncio.gather(*(self._switch(child, new.version) for child in children))
            for child in list(self._children.values()):
                if child.version != new.version:  # it ended, or started anew, while the others prepared
                    child.process.kill()
            while any(child.version != new.version or not child.ready.done() for child in self._children.values()):
                await asyncio.sleep(0.02)
            release_later([one for one in before.pinned if one not in new.pinned], self._plan.limits, self._old)
            return new.about()

    async def _prepared(self, new: Knowledge, before: Knowledge) -> list[_Child]:
        """Return the workers, all of which have opened the new knowledge; raise if one could not."""
        await self._all_ready()
        children = list(self._children.values())
        content = new.changes_from(before), new.about()
        answers = await asyncio.gather(
            *(child.channel.ask("prepare", content) for child in children), return_exceptions=True
        )
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        if errors:
            for child, answer in zip(children, answers, strict=True):
                if not isinstance(answer, BaseException):
                    with suppress(ChannelClosedError):
                        await child.channel.ask("forget")
            if isinstance(errors[0], ChannelClosedError):
                raise InfuserError("A worker process ended while it opened this. Try again.") from errors[0]
            raise errors[0]
        return children

    async def _switch(self, child: _Child, version: int) -> None:
        with suppress(InfuserError):
            await child.channel.ask("switch")
            child.version = version

    async def _stop(self) -> None:
        """Let workers answer what is under way, and end."""
        self._stopping.set()
        self._listener.close()
        children = list(self._children.values())
        for child in children:
            if child.ready.done() and child.ready_at is not None:
                with suppress(ChannelClosedError):
                    await child.channel.ask("stop")
            else:
                child.process.terminate()  # it still loads its model
        deadline = time.monotonic() + self._plan.limits.stop_seconds + 5
        for child in children:
            await asyncio.to_thread(child.process.join, max(0.1, deadline - time.monotonic()))
            if child.process.is_alive():
                child.process.kill()
                await asyncio.to_thread(child.process.join, 5)


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` for SIGINT and SIGTERM until the end of the `with`."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
