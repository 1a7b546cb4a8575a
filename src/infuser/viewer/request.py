"""What the page asks about a text, read from a request's body or refused with one error that says why."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, fields

from infuser.analysis.explain import Layer
from infuser.errors import InputError
from infuser.files import parse_json


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """One text or pair, and how it is shown."""

    text: str
    pair: str | None = None
    off: frozenset[str] = frozenset()
    """Names of sources, or of several methods, that are left out."""
    layer: Layer = -1
    head: int | None = None
    """None is the mean over heads."""


_KNOWN = tuple(field.name for field in fields(ViewRequest))


def read_body(body: bytes) -> object:
    """Parse a body of JSON."""
    try:
        return parse_json(body, "it")
    except InputError as error:
        raise InputError(f"The request is not JSON that can be read ({error}). Send an object with a text.") from error


def request_of(body: object) -> ViewRequest:
    """Return the request of a parsed body; only "text" must be there."""
    if not isinstance(body, Mapping):
        raise InputError(f"The request is {reprlib.repr(body)}. Send an object such as {{'text': 'Bern'}}.")
    unknown = [name for name in body if name not in _KNOWN]
    if unknown:
        raise InputError(
            f"The request says {reprlib.repr(unknown[0])}, which has no meaning. Known: {', '.join(_KNOWN)}."
        )
    if "text" not in body:
        raise InputError("The request has no 'text'. Send an object such as {'text': 'Bern'}.")
    pair, off, head = body.get("pair"), body.get("off", []), body.get("head")
    if not isinstance(off, list):
        raise _unfit("off", off, "a list of names of sources and methods")
    return ViewRequest(
        text=_text("text", body["text"]),
        pair=None if pair is None else _text("pair", pair),
        off=frozenset(_text("off", name) for name in off),
        layer=_layer(body.get("layer", -1)),
        head=None if head is None else _number("head", head, "a whole number, or null for the mean over heads"),
    )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _unfit(name, value, "a text")
    # half of a sign, which no tokenizer reads, becomes the sign for unreadable ones
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _layer(value: object) -> Layer:
    return "strongest" if value == "strongest" else _number("layer", value, "a whole number or 'strongest'")


def _number(name: str, value: object, wanted: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):  # to Python, true is 1
        raise _unfit(name, value, wanted)
    return value


def _unfit(name: str, value: object, wanted: str) -> InputError:
    return InputError(f"{name!r} is {reprlib.repr(value)}; it must be {wanted}.")
