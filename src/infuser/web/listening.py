"""Addresses and sockets of our servers, and uvicorn with the settings that all of them want."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from infuser.errors import InfuserError, InputError
from infuser.web.connections import MOST_HEADER_BYTES, notice_silence, protocol
from infuser.web.guard import LOOPBACK

_ANY_ADDRESS = {"0.0.0.0", "::"}
_MOST_CONNECTIONS = 512
_SECONDS_TO_START = 30


def hosts_for(host: str, allow: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names under which a server at this address answers; "*" among those allowed stands for any."""
    if host in _ANY_ADDRESS and not allow:
        raise InputError(
            f"A server at {host} can be asked by every machine that reaches this one. Name the hosts in its address: "
            "--allow-host box.lan, --allow-host 192.168.1.7, or --allow-host '*' for any."
        )
    own = () if host in _ANY_ADDRESS else (host,)
    return tuple(dict.fromkeys((*LOOPBACK, *map(_in_brackets, (*own, *allow)))))


def is_private(host: str) -> bool:
    """Return whether a server at this address answers this machine alone."""
    return _in_brackets(host) in LOOPBACK


def config_of(app: ASGIApp, *, header_seconds: float, stop_seconds: int) -> uvicorn.Config:
    """Return uvicorn's settings for an application."""
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=protocol(header_seconds),
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        ws="none",
        lifespan="off",
        log_config=None,  # logging is the program's business
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a client's word about its own address would lift the limit on its rate
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=stop_seconds,
    )


def listen(host: str, port: int | None, usual_port: int) -> socket.socket:
    """Return an open socket; of no port the usual one, or a free one if that is taken."""
    if port is None:
        try:
            return listen(host, usual_port, usual_port)
        except InputError:
            return listen(host, 0, usual_port)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=_MOST_CONNECTIONS)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"Cannot listen at {host}, port {port}: {error}. Choose another port, 0 for a free one, or another host."
        ) from error
    # else the end of a short answer waits 40 ms for the client's word that the beginning has come; inherited by all
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    notice_silence(listener)
    return listener


def address_of(host: str, listener: socket.socket) -> str:
    """Return the address to open; a server that listens everywhere is reached as 127.0.0.1 from here."""
    name = "127.0.0.1" if host in _ANY_ADDRESS else _in_brackets(host)
    return f"http://{name}:{listener.getsockname()[1]}"


@contextmanager
def in_thread(server: uvicorn.Server, listener: socket.socket, name: str) -> Iterator[None]:
    """Run a server in a thread until the end of the `with`."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name=name, daemon=True)
    with listener:
        thread.start()
        deadline = time.monotonic() + _SECONDS_TO_START
        while not server.started:
            if not thread.is_alive() or time.monotonic() > deadline:
                raise InfuserError("The server did not start. The log says more.")
            time.sleep(0.01)
        try:
            yield
        finally:
            server.should_exit = True
            thread.join((server.config.timeout_graceful_shutdown or 0) + 5)


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host
