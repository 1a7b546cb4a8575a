"""Files and folders appear whole or not at all: written under a temporary name, then renamed.

What a killed process leaves behind starts with a dot and ends in ".part"; the next one that writes to the same place
clears it away.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from infuser.errors import InputError

T = TypeVar("T")


@contextmanager
def whole_folder(folder: str | Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` on success."""
    folder = Path(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _clear_left_overs(folder)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    except OSError as error:
        raise InputError(f"Cannot write {str(folder)!r}: {error}. Choose a place you may write to.") from error
    try:
        with lock_folder(draft):
            inside = draft / "new"
            inside.mkdir()
            yield inside
            if folder.exists():
                folder.rename(draft / "old")
            try:
                inside.rename(folder)
            except OSError:
                with suppress(FileNotFoundError):
                    (draft / "old").rename(folder)
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def whole_file(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file for writing under a temporary name; it gets its own when all went well, else nothing is left."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = unfinished.open(mode, **text)
    except OSError as error:
        raise InputError(f"Cannot write {str(path)!r}: {error}. Choose a file in a folder you may write to.") from error
    try:
        with file:
            yield file
        try:
            unfinished.replace(path)
        except OSError as error:
            raise InputError(f"Cannot write {str(path)!r}: {error}. Choose another name.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write a file so that no reader ever sees half of it; folders above it are made when missing."""
    # "replace": a lone surrogate in somebody's text must not cost them the report
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    with whole_file(path, "wb") as file:
        file.write(raw)
    return Path(path)


def check_writable(folder: str | Path, what: str) -> None:
    """Raise unless a folder can be made and written to; `what` names the option or setting that chose it."""
    place = Path(folder).resolve()
    there = next(one for one in (place, *place.parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{what}: nothing can be written in {str(there)!r}. Choose a folder you may write to.")


def _clear_left_overs(folder: Path) -> None:
    """Remove the drafts of processes that were killed; a living one has locked its draft."""
    for draft in folder.parent.glob(f".{folder.name}.*.part"):
        if not draft.is_dir():
            continue
        if (draft / "old").exists() and not folder.exists():  # killed between its two renames: nothing may be lost
            (draft / "old").rename(folder)
        with suppress(OSError), lock_folder(draft):
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder until the end, or until the process ends; OSError if another process has locked it."""
    if sys.platform == "win32":  # there, a folder with open files cannot be removed anyway
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def digest_of(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Return a short digest of plain values; `default` converts what JSON cannot hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=default).encode()).hexdigest()[:12]


def nan_to_null(value: Any) -> Any:
    """Return values that JSON can hold: null for NaN and infinity, lists for tuples and arrays."""
    import numpy as np

    if isinstance(value, Mapping):
        return {key: nan_to_null(inside) for key, inside in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return nan_to_null(value.tolist())
    if isinstance(value, list | tuple):
        return [nan_to_null(inside) for inside in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def from_plain(kind: type[T], value: Any, *, null: float = math.nan) -> T:
    """Return a dataclass from what `asdict` and JSON made of it; its fields are read by their type hints.

    Where a number must be, a null of JSON becomes `null`: `nan_to_null` wrote it.
    """
    return cast(T, _from_plain(kind, value, null))


def _from_plain(kind: Any, value: Any, null: float) -> Any:
    if value is None:
        return null if kind is float else None
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _type_hints(kind)
        return kind(**{name: _from_plain(hints[name], one, null) for name, one in value.items()})
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):  # "X | None"
        return _from_plain(next(one for one in inside if one is not NoneType), value, null)
    if origin in (dict, Mapping):
        return {key: _from_plain(inside[1], one, null) for key, one in value.items()}
    if origin in (list, Sequence):
        return [_from_plain(inside[0], one, null) for one in value]
    if origin is tuple:
        kinds = [inside[0]] * len(value) if inside[-1] is Ellipsis else inside
        return tuple(_from_plain(of_one, one, null) for of_one, one in zip(kinds, value, strict=True))
    return value


@cache
def _type_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
