"""Settings of sources as people write them, checked before Python would complain: known, complete, of the right type.

Only simple types are looked at, and lists of them; what a path or a table holds is the source's own matter.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from infuser.errors import InputError, did_you_mean
from infuser.registry import SOURCES

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_LISTED_WORDS = {int: "whole numbers", float: "numbers", str: "texts"}
_EXAMPLES = {
    "graph": "triples.tsv, or a built folder",
    "entities": "names.txt, or a built folder",
    "correlation": "pairs.tsv, or a built folder",
    "bracketed-phrases": "trees.txt",
    "candidates": "FOLDER, which infuser candidates build makes",
}


def fields_of(kind: str) -> list[dataclasses.Field[Any]]:
    """Return the settings that a kind of source has; none if its class does not list them."""
    cls = SOURCES[kind]
    return [field for field in dataclasses.fields(cls) if field.init] if dataclasses.is_dataclass(cls) else []


def first_setting(kind: str) -> str | None:
    """Return the setting that says where a source's knowledge lies; None if it has none."""
    return next((field.name for field in fields_of(kind) if not field.kw_only), None)


def check_settings(kind: str, settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return settings that a source of this kind has, each of a type that it takes."""
    known = [field.name for field in fields_of(kind)]
    wanted = _types_of(kind)
    for name, value in settings.items():
        if known and name not in known:
            hint = did_you_mean(name, known)
            raise InputError(f"{where}: {kind} has no setting {name!r}.{hint} Known: {', '.join(known)}.")
        if name == "aliases" and isinstance(value, str):  # the file they stand in
            continue
        if not has_type(value, wanted.get(name, Any)):
            file = " or the path of a file" if name == "aliases" else ""
            raise InputError(f"{where}: {name} is {_shown(value)}; give {describe_type(wanted[name], value)}{file}.")
    return dict(settings)


def check_complete(kind: str, settings: Mapping[str, Any], where: str) -> None:
    """See that nothing is missing that a source of this kind cannot do without."""
    none = (dataclasses.MISSING, dataclasses.MISSING)
    missing = [
        field
        for field in fields_of(kind)
        if (field.default, field.default_factory) == none and field.name not in settings
    ]
    if not missing:
        return
    place = first_setting(kind)
    others = "".join(f",{field.name}=VALUE" for field in missing if field.name != place)
    example = f"{kind}=PATH{others}" if others or kind not in _EXAMPLES else f"{kind}={_EXAMPLES[kind]}"
    raise InputError(
        f"{where}: {kind} needs {' and '.join(field.name for field in missing)}, as in --source {example}."
    )


def _types_of(kind: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(SOURCES[kind]) if fields_of(kind) else {}
    except NameError:  # a class of another package may name types that exist for type checkers only
        return {}


def has_type(value: Any, wanted: Any) -> bool:
    """Return whether a value is of a type, as far as simple types and lists of them go."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return any(has_type(value, one) for one in arguments)
    if origin is Literal:
        return value in arguments
    if wanted is types.NoneType:
        return value is None
    if wanted in _WORDS or wanted is Path:
        accepted = {float: int | float, Path: str | Path}.get(wanted, wanted)
        return isinstance(value, accepted) and (wanted is bool or not isinstance(value, bool))
    if origin is Sequence:
        simple = arguments[0] in _WORDS
        return isinstance(value, list | tuple) and (not simple or all(has_type(one, arguments[0]) for one in value))
    if origin in (Mapping, Callable):
        return isinstance(value, origin)
    return True


def describe_type(wanted: Any, value: Any) -> str:
    """Return in words what a setting takes."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        ways = [describe_type(one, value) for one in arguments if one not in (types.NoneType, Path)]
        return " or ".join(dict.fromkeys(ways))
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin is Sequence:
        example = f", as in {[value]!r}" if arguments[0] is type(value) else ""
        return f"a list of {_LISTED_WORDS[arguments[0]]}{example}" if arguments[0] in _LISTED_WORDS else "a list"
    if origin is Callable:
        return "a function, which can be given in Python only"
    return _WORDS.get(wanted, "a table")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."
