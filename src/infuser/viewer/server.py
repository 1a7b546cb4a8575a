"""The viewer's server: in the foreground until Ctrl-C, or in a thread as long as a `with` lasts."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import uvicorn

from infuser.viewer.app import make_app
from infuser.viewer.limits import Limits
from infuser.viewer.views import View
from infuser.web.listening import address_of, config_of, hosts_for, in_thread, listen

USUAL_PORT = 8765
"""Taken where no port is named and nobody else has it, so that bookmarks keep working."""
_SECONDS_TO_STOP = 3


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
        when_up(address_of(host, listener))  # who asks this early waits in the listener's queue
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
    with in_thread(server, listener, "infuser-viewer"):
        yield address_of(host, listener)


def _server(
    view: View, host: str, port: int | None, limits: Limits, allow: Sequence[str]
) -> tuple[uvicorn.Server, socket.socket]:
    """Return a server that is ready to run and the open socket it will listen on."""
    app = make_app(view, limits=limits, hosts=hosts_for(host, allow))
    config = config_of(app, header_seconds=limits.header_seconds, stop_seconds=_SECONDS_TO_STOP)
    return uvicorn.Server(config), listen(host, port, USUAL_PORT)
