"""The addresses of the viewer: its page, its files, and what the page asks."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from infuser.analysis.explanation import Explanation
from infuser.errors import InfuserError, InputError
from infuser.reports.explanation_page import explanation_parts
from infuser.reports.page import look_css, look_js
from infuser.viewer.limits import Buckets, BusyError, Limits, ModelThread
from infuser.viewer.request import ViewRequest, request_of
from infuser.viewer.views import View
from infuser.web.bodies import read_body, receive_body
from infuser.web.guard import LOOPBACK, Guard, http_sentence, json_response, log_failure

_STATIC = Path(__file__).parent / "static"
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}

Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(view: View, *, limits: Limits = Limits(), hosts: Sequence[str] = LOOPBACK) -> Starlette:  # noqa: B008
    """Return the viewer of a view as an ASGI application that answers under these host names only ("*": under any)."""
    about = {**view.about(), "most_characters": limits.most_characters}
    model, buckets = ModelThread(limits.most_waiting), Buckets(limits)

    def explaining(to_json: Callable[[Explanation, float], dict[str, Any]]) -> Endpoint:
        """Return an endpoint that answers with what `to_json` makes of the explanation and the time it began."""

        async def answer(request: Request) -> Response:
            try:
                asked = await _read_request(request, limits)
            except InputError as error:
                return error_response(str(error), 400)
            response = await model.run(lambda: _answer(view, asked, to_json), request.is_disconnected)
            return response or error_response("Nobody waits for this answer any more.", 499)

        return _rate_limited(answer, buckets)

    async def describe(request: Request) -> Response:
        return json_response(about)

    routes = [
        *(_file(address, content) for address, content in _files().items()),
        Route("/api/model", _rate_limited(describe, buckets)),
        Route("/api/see", explaining(_parts), methods=["POST"]),
        Route("/api/explain", explaining(lambda explanation, _: explanation.to_dict()), methods=["POST"]),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, hosts=hosts, error_response=error_response, is_api=_is_api)],
        exception_handlers={HTTPException: _http_error, BusyError: _busy},
    )
    app.router.redirect_slashes = False
    return app


def error_response(sentence: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as a sentence."""
    return json_response({"error": sentence}, status, headers)


def _is_api(path: str) -> bool:
    return path.startswith("/api/")


def _answer(view: View, asked: ViewRequest, to_json: Callable[[Explanation, float], dict[str, Any]]) -> Response:
    """Return the whole answer to a request, an error included; runs in the model's thread."""
    began = time.perf_counter()
    try:
        return json_response(to_json(view.see(asked), began))
    except InfuserError as error:
        return error_response(str(error), 422)
    except BaseException as error:  # Ctrl-C never arrives in this thread, but a panic of a Rust tokenizer does
        return error_response(log_failure(error), 500)


def _parts(explanation: Explanation, began: float) -> dict[str, Any]:
    """Return what the page puts in its places."""
    return {
        "layer": explanation.layer,
        "head": explanation.head,
        "place": explanation.place,
        "parts": explanation_parts(explanation),
        "seconds": round(time.perf_counter() - began, 4),
    }


def _rate_limited(answer: Endpoint, buckets: Buckets) -> Endpoint:
    """Return an endpoint that tells clients who ask too often to wait."""

    async def limited(request: Request) -> Response:
        seconds = buckets.wait(request.client.host if request.client else "")
        if not seconds:
            return await answer(request)
        wait = math.ceil(seconds)
        sentence = f"Too many questions from one address. Ask again in {wait} second{'s' * (wait > 1)}."
        return error_response(sentence, 429, {"Retry-After": str(wait)})

    return limited


async def _read_request(request: Request, limits: Limits) -> ViewRequest:
    """Return what a request asks, if it is neither too large nor too slow."""
    body = await receive_body(request, most_bytes=limits.most_bytes, seconds=limits.body_seconds)
    asked = request_of(read_body(body))
    for side in (asked.text, asked.pair or ""):
        if len(side) > limits.most_characters:
            raise HTTPException(
                413, f"A text of {len(side):,} characters is too long: at most {limits.most_characters:,}. Shorten it."
            )
    return asked


def _files() -> dict[str, str]:
    """Return the page and its files by their addresses; all are read now, so no address can lead to another file."""
    own = {path.name: path.read_text(encoding="utf-8") for path in _STATIC.iterdir() if path.suffix in _KINDS}
    return {"/": own.pop("index.html"), "/look.css": look_css(), "/look.js": look_js()} | {
        f"/{name}": content for name, content in own.items()
    }


def _file(address: str, content: str) -> Route:
    kind = _KINDS[Path(address).suffix or ".html"]

    async def give(request: Request) -> Response:
        return Response(content, media_type=kind)

    return Route(address, give)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(http_sentence(request, error), error.status_code, error.headers)


async def _busy(request: Request, error: Exception) -> Response:
    return error_response("Too many questions wait for the model. Ask again in a second.", 503, {"Retry-After": "1"})
