"""Sources as people name them in words and files.

    spacy-entities                      a kind with its default settings
    graph=triples.tsv,hops=2            a kind, where its knowledge lies, and settings (values as in TOML)
    knowledge/wordnet                   a folder that infuser built; its kind is read from it
    sources.toml                        all sources of a TOML or JSON file

Each becomes one source and so one map. What list files hold is explained in `lists.py`. Settings are checked before
Python would complain: known, complete, of the right type. Only simple types are looked at, and lists of them; what a
path or a table holds is the source's own matter.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import infuser.sources  # noqa: F401  # enters the classes into the registry
from infuser.errors import InputError, did_you_mean
from infuser.knowledge.artifact import kind_of
from infuser.registry import SOURCES
from infuser.sources.knowledge_base import KnowledgeBase
from infuser.sources.lists import LISTED, read_aliases, read_list
from infuser.sources.selective import bare
from infuser.sources.storage import name_of
from infuser.tables.rows import read_json, read_toml
from infuser.types import Source

_KIND_OF_FOLDER = {
    "graph": "graph",
    "gazetteer": "entities",
    "entities": "entities",
    "candidates": "candidates",
    "correlation": "correlation",
}
"""Which source reads which kind of folder that infuser built."""
_SETTING = re.compile(r",(?=\w+=)")
_OPENING = "\"'[{"
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_LISTED_WORDS = {int: "whole numbers", float: "numbers", str: "texts"}
_EXAMPLES = {
    "graph": "triples.tsv, or a built folder",
    "entities": "names.txt, or a built folder",
    "correlation": "pairs.tsv, or a built folder",
    "bracketed-phrases": "trees.txt",
    "candidates": "FOLDER, which infuser candidates build makes",
}


def read_named(given: str) -> list[Source]:
    """Return what one --source names."""
    first, settings = split_settings(given)
    kind, equals, place = first.partition("=")
    if equals and kind in SOURCES:
        return [from_path(kind, Path(place), check_settings(kind, settings, f"--source {given}"))]
    path = Path(first)
    if path.is_dir():
        return [_from_folder(path, settings, given)]
    if path.suffix.lower() in (".toml", ".json"):
        if settings:
            raise InputError(f"--source {given}: the settings of a sources file's sources stand in the file.")
        return from_file(path)
    if equals:
        SOURCES[kind]  # raises with the known kinds
    if "/" in first or "\\" in first:
        raise InputError(f"--source {given}: there is no folder {first!r}. A file needs its kind, as in graph={first}.")
    return [from_entry({"kind": first, **settings}, f"--source {given}", Path())]


def split_settings(given: str) -> tuple[str, dict[str, Any]]:
    """Return what stands before the settings in "what,name=value,...", and the settings."""
    first, *parts = _SETTING.split(given)
    settings: dict[str, Any] = {}
    while parts:
        name, _, written = parts.pop(0).partition("=")
        value = _value(written)
        while value is None and written[:1] in _OPENING and parts:  # a comma inside quotes or brackets
            written = f"{written},{parts.pop(0)}"
            value = _value(written)
        settings[name] = written if value is None else value
    return first, settings


def _value(written: str) -> Any:
    """Return a value as TOML reads it; None for what is no TOML: a word or a path without quotes."""
    try:
        return tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return None


def _from_folder(path: Path, settings: Mapping[str, Any], given: str) -> Source:
    built = kind_of(path)
    if built not in _KIND_OF_FOLDER:
        what = "is no folder that infuser built" if built is None else f"holds {built}, which is no source"
        raise InputError(f"--source {given}: {str(path)!r} {what}. Name its kind, as in KIND={path}.")
    kind = _KIND_OF_FOLDER[built]
    return from_path(kind, path, check_settings(kind, settings, f"--source {given}"))


def from_path(kind: str, path: Path, settings: Mapping[str, Any]) -> Source:
    """Return the source of a list file, or of any other place that its first setting names."""
    settings = _with_aliases(settings)
    if kind in LISTED and not path.is_dir():
        return read_list(kind, path, settings)
    if kind in LISTED and kind_of(path) is None:
        raise InputError(f"{str(path)!r} is a folder, but none that infuser built. Give a file, or a built folder.")
    first = first_setting(kind)
    if first is None:
        raise InputError(f"A {kind} source takes no path. Give its settings: {kind},setting=value.")
    return _made(kind, {first: str(path), **settings}, str(path))


def from_file(path: Path) -> list[Source]:
    """Return the sources that a TOML or JSON file lists; its paths start from where it lies."""
    listed = read_json(path) if path.suffix.lower() == ".json" else read_toml(path, "sources file")
    entries = listed.get("source") if isinstance(listed, dict) else listed
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path} lists no sources. Write [[source]] tables with kind = 'entities' and file = '...'.")
    return [from_entry(entry, f"{path}, source {number}", path.parent) for number, entry in enumerate(entries, start=1)]


def from_entry(entry: object, where: str, folder: Path) -> Source:
    """Return the source of one table of a file: kind, and if it needs them file and settings."""
    if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
        raise InputError(f"{where} has no kind. Known kinds: {', '.join(SOURCES)}.")
    kind = entry["kind"]
    # some kinds have a setting of their own called file, which is then the first one
    given = {name: value for name, value in entry.items() if name not in ("kind", "file")}
    settings = check_settings(kind, given, where)
    if isinstance(settings.get("aliases"), str):
        settings["aliases"] = str(folder / settings["aliases"])
    if "file" in entry:
        return from_path(kind, _found(folder, str(entry["file"])), settings)
    return _made(kind, _with_aliases(settings), where)


def _with_aliases(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings with the names of a graph's entities themselves where a file of them was given."""
    given = settings.get("aliases")
    return {**settings, "aliases": read_aliases([Path(given)])} if isinstance(given, str) else settings


def _found(folder: Path, written: str) -> Path:
    """Return a path that starts from a folder; what is no path there, such as a pipeline's name, stays as it is."""
    return folder / written if (folder / written).exists() or Path(written).suffix else Path(written)


def _made(kind: str, settings: Mapping[str, Any], where: str) -> Source:
    check_complete(kind, settings, where)
    try:
        source: Source = SOURCES[kind](**settings)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}") from error
    return source


def source_names(sources: Sequence[Source]) -> list[str]:
    """Return a name for each source that people recognise, numbered where two are of one kind."""
    wrapped = [bare(source) for source in sources]  # what a selection selects from is what people know
    several_bases = sum(isinstance(source, KnowledgeBase) for source in wrapped) > 1
    kinds = [
        source.name if several_bases and isinstance(source, KnowledgeBase) else name_of(source) for source in wrapped
    ]
    return [f"{kind} {kinds[: at + 1].count(kind)}" if kinds.count(kind) > 1 else kind for at, kind in enumerate(kinds)]


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
