"""What the page asks about a text, read from a request's body or refused with one error that says why."""

from __future__ import annotations

from dataclasses import dataclass, fields

from infuser.analysis.explain import Layer
from infuser.errors import InputError
from infuser.web.bodies import read_object, read_text, unfit


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


def request_of(body: object) -> ViewRequest:
    """Return the request of a parsed body; only "text" must be there."""
    body = read_object(body, _KNOWN, "{'text': 'Bern'}")
    if "text" not in body:
        raise InputError("The request has no 'text'. Send an object such as {'text': 'Bern'}.")
    pair, off, head = body.get("pair"), body.get("off", []), body.get("head")
    if not isinstance(off, list):
        raise unfit("off", off, "a list of names of sources and methods")
    return ViewRequest(
        text=read_text("text", body["text"]),
        pair=None if pair is None else read_text("pair", pair),
        off=frozenset(read_text("off", name) for name in off),
        layer=_layer(body.get("layer", -1)),
        head=None if head is None else _number("head", head, "a whole number, or null for the mean over heads"),
    )


def _layer(value: object) -> Layer:
    return "strongest" if value == "strongest" else _number("layer", value, "a whole number or 'strongest'")


def _number(name: str, value: object, wanted: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):  # to Python, true is 1
        raise unfit(name, value, wanted)
    return value
