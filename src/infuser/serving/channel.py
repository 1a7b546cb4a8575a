"""Questions and answers between two processes over one pipe; each side runs an event loop and may ask the other."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from infuser.errors import InfuserError

_ASK, _ANSWER, _FAILED = range(3)


class ChannelClosedError(InfuserError):
    """The process at the other end has ended."""


class Channel:
    """One end of a pipe. `handle(name, content)` answers what the other end asks; `closed` is called when it is gone.

    Messages are packed before they are sent and unpacked by their receiver: what one side cannot read is an
    error of that question, and not the end of the channel.
    """

    def __init__(
        self,
        connection: Connection,
        handle: Callable[[str, Any], Awaitable[Any]],
        closed: Callable[[], None],
    ) -> None:
        self._connection, self._handle, self._closed = connection, handle, closed
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_open, self._sending = True, asyncio.Lock()
        threading.Thread(target=self._read, name="infuser-serve-channel", daemon=True).start()

    async def ask(self, name: str, content: Any = None) -> Any:
        """Return what the other process answers, or raise what it says went wrong."""
        if not self.is_open:
            raise ChannelClosedError("A worker process has ended.")
        number = next(self._numbers)
        future = self._waiting[number] = self._loop.create_future()
        try:
            await self._send((_ASK, number, name, content))
            return await future
        finally:
            self._waiting.pop(number, None)

    async def _send(self, message: tuple[Any, ...]) -> None:
        packed = bytes(ForkingPickler.dumps((*message[:-1], bytes(ForkingPickler.dumps(message[-1])))))
        async with self._sending:
            try:
                await asyncio.to_thread(self._connection.send_bytes, packed)  # waits while the other end is slow
            except (OSError, ValueError) as error:
                raise ChannelClosedError("A worker process has ended.") from error

    def _read(self) -> None:
        """Pass on what arrives, in a thread, until the other end closes."""
        with suppress(RuntimeError):  # our own loop has ended
            with suppress(EOFError, OSError):
                while True:
                    message = ForkingPickler.loads(self._connection.recv_bytes())
                    self._loop.call_soon_threadsafe(self._take, message)
            self._loop.call_soon_threadsafe(self._close)

    def _take(self, message: tuple[Any, ...]) -> None:
        kind, number = message[:2]
        if kind == _ASK:
            task = self._loop.create_task(self._answer(number, *message[2:]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        future = self._waiting.get(number)
        if future is None or future.done():
            return
        content = ForkingPickler.loads(message[-1])
        if kind == _ANSWER:
            future.set_result(content)
        else:
            future.set_exception(InfuserError(content))

    async def _answer(self, number: int, name: str, packed: bytes) -> None:
        try:
            content = await asyncio.to_thread(ForkingPickler.loads, packed)
            message = (_ANSWER, number, await self._handle(name, content))
        except Exception as error:
            known = isinstance(error, InfuserError | OSError)
            message = (_FAILED, number, str(error) if known else f"{type(error).__name__}: {error}")
        with suppress(ChannelClosedError):
            await self._send(message)

    def _close(self) -> None:
        self.is_open = False
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ChannelClosedError("A worker process has ended."))
        self._closed()
