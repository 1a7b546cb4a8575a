"""The addresses of the server: what they take, and what they give."""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infuser.errors import InfuserError, InputError
from infuser.serving.batching import BusyError, GoneError, WorkError
from infuser.serving.knowledge import Wanted
from infuser.serving.model import ANSWERS, TASKS
from infuser.serving.openapi import document, page_files
from infuser.serving.requests import read_questions, read_wanted
from infuser.serving.service import Service
from infuser.web.bodies import read_body, receive_body
from infuser.web.guard import LOOPBACK, Guard, http_sentence, json_response, log_failure

Exchange = Callable[[Wanted], Awaitable[Mapping[str, Any]]]
"""Exchanges the knowledge of all worker processes and returns what is known now, or raises and leaves it as it was."""

_WHY_NOT = {
    "predict": "This model has no head for labels of texts or words, nor for answers to questions. Train one: "
    "infuser train CHECKPOINT DATA",
    "annotate": "This model has no sources, so nothing can be annotated. Serve one that infuser train wrote.",
    "explain": "This model cannot be explained here. Serve the saved model instead of its export.",
    "link": "This model does not link. Serve one that infuser linker train wrote, and not its export.",
}
_STUCK_SECONDS = 60
"""A model that reads one batch for longer than this, beside the time of a request, will hardly come back."""


def make_app(
    service: Service, exchange: Exchange, *, hosts: Sequence[str] = LOOPBACK, token: str | None = None
) -> Starlette:
    """Return the server of a service as an ASGI application.

    hosts: the only names under which it answers ("*": under any). token: what every client must send, but for pages
    and /health.
    """
    openapi = document(service.current.model.tasks, service.limits, with_token=token is not None)

    async def health(request: Request) -> Response:
        edition, seconds = service.current, service.batcher.seconds_at_work
        if seconds > service.limits.seconds + _STUCK_SECONDS:
            return error_response(f"The model has been reading one batch for {seconds:.0f} seconds. Restart it.", 503)
        answer = {"status": "ok", "knowledge": edition.version}
        if n_failures := service.batcher.n_failures:
            answer["batching_failures"] = n_failures
        return json_response(answer)

    async def measured(request: Request) -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def describe(request: Request) -> Response:
        return json_response(openapi)

    async def about(request: Request) -> Response:
        edition = service.current
        answer = {**edition.model.about(), "tasks": sorted(edition.model.tasks), "knowledge": edition.knowledge}
        return json_response(answer)

    async def reload(request: Request) -> Response:
        wanted = read_wanted(await _body(request, service))
        began = time.perf_counter()
        try:
            known = await exchange(wanted)
        except InfuserError as error:
            return error_response(f"{error} The knowledge in use stays as it was.", 422)
        return json_response({"knowledge": known, "seconds": round(time.perf_counter() - began, 3)})

    routes = [
        *(Route(f"/{task}", _answering(service, task), methods=["POST"]) for task in TASKS),
        Route("/knowledge/reload", reload, methods=["POST"]),
        Route("/health", health),
        Route("/metrics", measured),
        Route("/model", about),
        Route("/openapi.json", describe),
        *(_file(address, content, kind) for address, (content, kind) in page_files(openapi).items()),
    ]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(_Measured, service=service),
            Middleware(Guard, hosts=hosts, error_response=error_response, is_api=lambda path: path not in _OPEN),
            Middleware(_TokenChecked, token=token),
        ],
        exception_handlers={HTTPException: _http_error, InputError: _bad_request},
    )
    app.router.redirect_slashes = False
    return app


def error_response(sentence: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as a sentence with its status."""
    return json_response({"error": {"status": status, "message": sentence}}, status, headers)


def _answering(service: Service, task: str) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a task."""
    limits = service.limits

    async def answer(request: Request) -> Response:
        edition = service.current  # a request ends with the knowledge that it began with
        if task not in edition.model.tasks:
            return error_response(_WHY_NOT[task], 404)
        asked = read_questions(await _body(request, service), task, limits)
        try:
            answers = await service.ask(edition, task, asked, request.is_disconnected)
        except BusyError:
            sentence = f"More than {limits.most_waiting:,} texts would wait for the model. Ask again in a second."
            return error_response(sentence, 503, {"Retry-After": "1"})
        except TimeoutError:
            sentence = f"There was no answer within {limits.seconds:g} seconds. Send fewer texts at once."
            return error_response(sentence, 504)
        except GoneError:
            return error_response("The client abandoned this request.", 499)
        except WorkError as error:
            return _failed(error.args[0])
        return json_response({ANSWERS[task]: answers, "knowledge": edition.version})

    return answer


def _failed(error: BaseException) -> Response:
    if isinstance(error, InfuserError):
        return error_response(str(error), 422)
    return error_response(log_failure(error), 500)


async def _body(request: Request, service: Service) -> object:
    limits = service.limits
    return read_body(await receive_body(request, most_bytes=limits.most_bytes, seconds=limits.body_seconds))


def _file(address: str, content: str, kind: str) -> Route:
    async def give(request: Request) -> Response:
        return Response(content, media_type=kind)

    return Route(address, give)


_OPEN = {"/", "/page.css", "/page.js", "/openapi.json"}
"""Pages: they say what can be asked, and nothing about the model."""


class _Measured:
    """Counts requests by path, status and seconds."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._n_under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._change(1)
        try:
            await self._app(scope, receive, send_noted)
        finally:
            self._change(-1)
            self._service.metrics.answered(scope["path"], status, time.perf_counter() - began)

    def _change(self, n: int) -> None:
        self._n_under_way += n
        service = self._service
        service.metrics.now(
            waiting=service.batcher.n_waiting, under_way=self._n_under_way, version=service.current.version
        )


class _TokenChecked:
    """Turns away requests without the token, but for pages and /health."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._wanted = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._wanted is None or scope["type"] != "http" or scope["path"] in {*_OPEN, "/health"}:
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        kind, _, token = given.partition(b" ")
        if kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._wanted):
            await self._app(scope, receive, send)
            return
        refusal = error_response(
            "This server requires a token. Send the header Authorization: Bearer TOKEN.",
            401,
            {"WWW-Authenticate": "Bearer"},
        )
        await refusal(scope, receive, send)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(http_sentence(request, error), error.status_code, error.headers)


async def _bad_request(request: Request, error: Exception) -> Response:
    return error_response(str(error), 400)
