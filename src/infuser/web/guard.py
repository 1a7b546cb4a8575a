"""Who may ask: known hosts, our own pages, JSON. And the headers that every answer carries."""

from __future__ import annotations

import json
import logging
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names under which only this machine reaches a server."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser may do with our page: our own files, pictures inside the page, nothing else."""

_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:\[\]/@]+)(?::\d{1,5})?", re.IGNORECASE)

logger = logging.getLogger(__name__)


def json_response(values: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer of JSON; what cannot be written as UTF-8 becomes a question mark."""
    content = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(content, status, headers, media_type="application/json")


class ErrorResponse(Protocol):
    """Returns an error as a server answers it: one sentence with its status."""

    def __call__(self, sentence: str, status: int, headers: Mapping[str, str] | None = None) -> Response: ...


def log_failure(error: BaseException) -> str:
    """Log an unexpected error, and return a sentence that gives nothing away but its kind."""
    logger.error("The server could not answer a request", exc_info=error)
    kind = type(error).__name__
    return f"Something went wrong while reading this text ({kind}); the server goes on. The log says more."


def http_sentence(request: Request, error: HTTPException) -> str:
    """Return what an error of HTTP says: where there is something, or which methods are allowed."""
    path = request.url.path[:100]
    sentences = {
        404: f"There is nothing at {path}. The page is at /.",
        405: f"{request.method} has no meaning at {path}. Allowed: {(error.headers or {}).get('Allow', '')}.",
    }
    return sentences.get(error.status_code, error.detail)


class Guard:
    """Turns away what may come from a foreign page, adds our headers to every answer, and lets no error out.

    is_api: tells the addresses of questions from those of pages, which another site may link to.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Sequence[str] = LOOPBACK,
        *,
        error_response: ErrorResponse,
        is_api: Callable[[str], bool],
    ) -> None:
        self._app, self._hosts = app, frozenset(host.lower() for host in hosts)
        self._error_response, self._is_api = error_response, is_api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers["Cache-Control"] = "no-store" if self._is_api(scope["path"]) else "no-cache"
            await send(message)

        refusal = self._refusal(scope)
        try:
            await (refusal or self._app)(scope, receive, send_guarded)
        except Exception as error:  # the server must not stop, and must not show how it looks inside
            failure = self._error_response(log_failure(error), 500)
            if not started:
                await failure(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that we do not take, or None."""
        headers = Headers(scope=scope)
        address, origin = headers.get("host", ""), headers.get("origin")
        named = _HOST.fullmatch(address)
        # a foreign page may point a name of its own at this machine (DNS rebinding); then the name is not ours
        if named is None or not self._hosts & {"*", named[1].lower()}:
            ours = ", ".join(sorted(self._hosts))
            return self._error_response(
                f"This server is not called {reprlib.repr(address)}. Ask it as one of: {ours}.", 421
            )
        if origin is not None and not _is_ours(origin, address):
            return self._error_response(
                f"A page of {reprlib.repr(origin)} may not ask this server. Open its own page instead.", 403
            )
        # a foreign page may ask for a picture or a script of ours without an origin; a link to our page is fine
        if headers.get("sec-fetch-site") == "cross-site" and self._is_api(scope["path"]):
            return self._error_response("Another page may not ask this server. Open its own page instead.", 403)
        # a foreign page can send a form or plain text without being asked first, but not JSON
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and kind != "application/json":
            return self._error_response(
                f"The request is of type {reprlib.repr(kind)}. Send content-type application/json.", 415
            )
        return None


def _is_ours(origin: str, address: str) -> bool:
    """Tell whether a page comes from this server: under the very name and port that the request was sent to."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and parts.netloc.lower() == address.lower()
