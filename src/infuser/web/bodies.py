"""Bodies of requests: received within bounds of size and time, and the JSON inside."""

from __future__ import annotations

import asyncio
import reprlib
from collections.abc import Mapping, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from infuser.errors import InputError
from infuser.files import parse_json


async def receive_body(request: Request, *, most_bytes: int, seconds: float) -> bytes:
    """Return the body of a request, if it is neither too large nor too slow."""
    length = request.headers.get("content-length", "")
    _check_size(int(length) if length.isdecimal() else 0, most_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                body += piece
                _check_size(len(body), most_bytes)
    except TimeoutError as error:
        sentence = f"The question did not arrive within {seconds:g} seconds. Send it again."
        raise HTTPException(408, sentence, {"Connection": "close"}) from error
    except ClientDisconnect as error:
        raise HTTPException(499, "The question was broken off. Send it again.") from error
    return bytes(body)


def _check_size(n_bytes: int, most_bytes: int) -> None:
    if n_bytes > most_bytes:
        raise HTTPException(413, f"The question is too large: at most {most_bytes:,} bytes. Send a shorter text.")


def read_body(body: bytes) -> object:
    """Parse a body of JSON."""
    try:
        return parse_json(body, "it")
    except InputError as error:
        raise InputError(f"The request is not JSON that can be read ({error}). Send an object with a text.") from error


def read_object(body: object, known: Sequence[str], example: str) -> Mapping[str, object]:
    """Return a parsed body that is an object without unknown names."""
    if not isinstance(body, Mapping):
        raise InputError(f"The request is {reprlib.repr(body)}. Send an object such as {example}.")
    unknown = [name for name in body if name not in known]
    if unknown:
        raise InputError(
            f"The request says {reprlib.repr(unknown[0])}, which has no meaning. Known: {', '.join(known)}."
        )
    return body


def read_text(name: str, value: object) -> str:
    """Return a text of a parsed body."""
    if not isinstance(value, str):
        raise unfit(name, value, "a text")
    # half of a sign, which no tokenizer reads, becomes the sign for unreadable ones
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def unfit(name: str, value: object, wanted: str) -> InputError:
    """Return the error for a value of another kind than is wanted."""
    return InputError(f"{name!r} is {reprlib.repr(value)}; it must be {wanted}.")
