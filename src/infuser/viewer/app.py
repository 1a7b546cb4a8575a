"""The addresses of the viewer: its page, its files, and what the page asks."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from infuser.analysis.explanation import Explanation
from infuser.errors import InfuserError, InputError
from infuser.reports.page import look_css, look_js
from infuser.reports.sections import explanation_parts
from infuser.viewer.asking import question_of, read_body
from infuser.viewer.guarding import LOOPBACK, Guard, as_json, told, told_as_failure
from infuser.viewer.limits import Buckets, BusyError, Limits, ModelThread
from infuser.viewer.looking import Question, View

_STATIC = Path(__file__).parent / "static"
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}

Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(view: View, *, limits: Limits = Limits(), hosts: Sequence[str] = LOOPBACK) -> Starlette:  # noqa: B008
    """Return the viewer of a view as an ASGI application that answers under these host names only ("*": under any)."""
    about = {**view.about(), "most_characters": limits.most_characters}
    model, buckets = ModelThread(limits.most_waiting), Buckets(limits)

    def asked(tell: Callable[[Explanation, float], dict[str, Any]]) -> Endpoint:
        """Return what answers a question with what `tell` makes of the explanation and the time it began."""

        async def answer(request: Request) -> Response:
            try:
                question = await _question(request, limits)
            except InputError as error:
                return told(str(error), 400)
            given = await model.run(lambda: _answer(view, question, tell), request.is_disconnected)
            return given or told("Nobody waits for this answer any more.", 499)

        return _in_time(answer, buckets)

    async def tell_about(request: Request) -> Response:
        return as_json(about)

    routes = [
        *(_file(address, content) for address, content in _files().items()),
        Route("/api/model", _in_time(tell_about, buckets)),
        Route("/api/see", asked(_parts), methods=["POST"]),
        Route("/api/explain", asked(lambda explanation, _: explanation.to_dict()), methods=["POST"]),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, hosts=hosts)],
        exception_handlers={HTTPException: _tell_status, BusyError: _tell_busy},
    )
    app.router.redirect_slashes = False
    return app


def _answer(view: View, question: Question, tell: Callable[[Explanation, float], dict[str, Any]]) -> Response:
    """Return the whole answer to a question, an error included; runs in the model's thread."""
    began = time.perf_counter()
    try:
        return as_json(tell(view.see(question), began))
    except InfuserError as error:
        return told(str(error), 422)
    except BaseException as error:  # Ctrl-C never arrives in this thread, but a panic of a Rust tokenizer does
        return told_as_failure(error)


def _parts(explanation: Explanation, began: float) -> dict[str, Any]:
    """Return what the page puts in its places."""
    return {
        "layer": explanation.layer,
        "head": explanation.head,
        "place": explanation.place,
        "parts": explanation_parts(explanation),
        "seconds": round(time.perf_counter() - began, 4),
    }


def _in_time(answer: Endpoint, buckets: Buckets) -> Endpoint:
    """Return an endpoint that asks clients who ask too often to wait."""

    async def slowed(request: Request) -> Response:
        seconds = buckets.wait(request.client.host if request.client else "")
        if not seconds:
            return await answer(request)
        wait = math.ceil(seconds)
        sentence = f"Too many questions from one address. Ask again in {wait} second{'s' * (wait > 1)}."
        return told(sentence, 429, {"Retry-After": str(wait)})

    return slowed


async def _question(request: Request, limits: Limits) -> Question:
    """Return the question of a request that is neither too large nor too slow."""
    length = request.headers.get("content-length", "")
    _check_size(int(length) if length.isdecimal() else 0, limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for piece in request.stream():
                body += piece
                _check_size(len(body), limits)
    except TimeoutError as error:
        sentence = f"The question did not arrive within {limits.body_seconds:g} seconds. Send it again."
        raise HTTPException(408, sentence, {"Connection": "close"}) from error
    except ClientDisconnect as error:
        raise HTTPException(499, "The question was broken off. Send it again.") from error
    question = question_of(read_body(bytes(body)))
    for side in (question.text, question.pair or ""):
        if len(side) > limits.most_characters:
            raise HTTPException(
                413, f"A text of {len(side):,} characters is too long: at most {limits.most_characters:,}. Shorten it."
            )
    return question


def _check_size(n_bytes: int, limits: Limits) -> None:
    if n_bytes > limits.most_bytes:
        raise HTTPException(
            413, f"The question is too large: at most {limits.most_bytes:,} bytes. Send a shorter text."
        )


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


async def _tell_status(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path[:100]
    sentences = {
        404: f"There is nothing at {path}. The page is at /.",
        405: f"{request.method} has no meaning at {path}. Allowed: {(error.headers or {}).get('Allow', '')}.",
    }
    return told(sentences.get(error.status_code, error.detail), error.status_code, error.headers)


async def _tell_busy(request: Request, error: Exception) -> Response:
    return told("Too many questions wait for the model. Ask again in a second.", 503, {"Retry-After": "1"})
