"""Connections that end: a client that is slow with its header, never reads its answer, or vanishes loses its place."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_HEADER_BYTES = 16_384
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""After so many seconds of silence the system asks whether a client is still there, so often and so many times."""

_UNREAD_SECONDS = 60
"""A client that takes nothing of its answer for so long has left."""


def protocol(header_seconds: float) -> type[H11Protocol]:
    """Return a protocol that closes connections whose header has not arrived in time."""

    class _Watched(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Give a header its time from its first byte on, or from the beginning of the connection."""
            if self.conn.their_state is not h11.IDLE:
                self._stop()
            elif self._timer is None:
                self._timer = self.loop.call_later(header_seconds, self._end)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _end(self) -> None:
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                self.transport.abort()

    return _Watched


def notice_silence(listener: socket.socket, unread_seconds: float = _UNREAD_SECONDS) -> None:
    """Let the system close connections whose clients have vanished or do not read; all that are accepted inherit it."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # in milliseconds; a closed connection would wait for ever to send the rest of an answer
    for name, value in {**_KEEPALIVE, "TCP_USER_TIMEOUT": int(1000 * unread_seconds)}.items():
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
