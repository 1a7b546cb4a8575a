"""The viewer's server: in the foreground until Ctrl-C, or in a thread as long as a `with` lasts."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import uvicorn

from infuser.errors import InfuserError, InputError
from infuser.viewer.app import make_app
from infuser.viewer.connections import MOST_HEADER_BYTES, notice_silence, protocol
from infuser.viewer.guard import LOOPBACK
from infuser.viewer.limits import Limits
from infuser.viewer.views import View

USUAL_PORT = 8765
"""Taken where no port is named and nobody else has it, so that bookmarks keep working."""
_ANY_ADDRESS = {"0.0.0.0", "::"}
_MOST_CONNECTIONS = 512
_SECONDS_TO_START, _SECONDS_TO_STOP = 30, 3


def serve(
    view: View,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    allow: Sequence[str] = (),
    limits: Limits = Limits(),  # noqa: B008
    when_up: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve a view until Ctrl-C; `when_up` is called with the address that a browser can open.

    port: 0 takes a free one, None the usual one, or a free one if that is taken.
    allow: further names under which the server may be asked; needed if it listens at every address.
    """
    server, listener = _server(view, host, port, limits, allow)
    with listener:
        when_up(_address(host, listener))  # who asks this early waits in the listener's queue
        with suppress(KeyboardInterrupt):  # the server has ended in good order by then
            server.run(sockets=[listener])


@contextmanager
def running(
    view: View,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    allow: Sequence[str] = (),
    limits: Limits = Limits(),  # noqa: B008
) -> Iterator[str]:
    """Serve a view in a thread and yield its address; the server ends with the `with`."""
    server, listener = _server(view, host, port, limits, allow)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="infuser-viewer", daemon=True)
    with listener:
        thread.start()
        deadline = time.monotonic() + _SECONDS_TO_START
        while not server.started:
            if not thread.is_alive() or time.monotonic() > deadline:
                raise InfuserError("The viewer's server did not start. The log says more.")
            time.sleep(0.01)
        try:
            yield _address(host, listener)
        finally:
            server.should_exit = True
            thread.join(_SECONDS_TO_STOP + 5)


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


def _server(
    view: View, host: str, port: int | None, limits: Limits, allow: Sequence[str]
) -> tuple[uvicorn.Server, socket.socket]:
    """Return a server that is ready to run and the open socket it will listen on."""
    config = uvicorn.Config(
        make_app(view, limits=limits, hosts=hosts_for(host, allow)),
        loop="asyncio",
        http=protocol(limits.header_seconds),
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        ws="none",
        lifespan="off",
        log_config=None,  # logging is the program's business
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a client's word about its own address would lift the limit on its rate
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_SECONDS_TO_STOP,
    )
    return uvicorn.Server(config), _listen(host, port)


def _listen(host: str, port: int | None) -> socket.socket:
    if port is None:
        try:
            return _listen(host, USUAL_PORT)
        except InputError:
            return _listen(host, 0)
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


def _address(host: str, listener: socket.socket) -> str:
    """Return the address to open; a server that listens everywhere is reached as 127.0.0.1 from here."""
    name = "127.0.0.1" if host in _ANY_ADDRESS else _in_brackets(host)
    return f"http://{name}:{listener.getsockname()[1]}"


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host
