"""Files and folders appear whole or not at all: written under a temporary name, then renamed.

Content reaches the disk before the name does, so this also holds for a machine that loses power; INFUSER_FSYNC=0 saves
the time for that. What a killed process leaves behind starts with a dot and ends in ".part"; the next one that writes
to the same place clears it away.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import itertools
import json
import math
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from infuser.errors import InputError

T = TypeVar("T")
_BLOCK = 2**20
"""Bytes that are read at once."""
_NUMBERS = itertools.count()
"""Tells the files that one process writes at a time."""
_FULL = re.compile(r"No space left on device|^\d+ requested and \d+ written$|MARISA_IO_ERROR: size_written <= 0")
"""What safetensors, NumPy and marisa_trie say when a disk is full."""


@contextmanager
def whole_folder(folder: str | Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` on success."""
    folder = Path(folder)
    with locked_draft(folder) as draft:
        inside = draft / "new"
        with naming_full_disks(folder):
            inside.mkdir()
            yield inside
            sync_tree(inside)
        if not (folder.exists() and _exchange(inside, folder)):
            _put_in_place(inside, folder, draft / "old")
        _sync(folder.parent)


@contextmanager
def locked_draft(folder: Path) -> Iterator[Path]:
    """Yield a new folder beside this one that no other writer clears away; it is removed at the end."""
    with ExitStack() as stack:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            _clear_left_overs(folder)
            draft = _lock_new_draft(folder, stack)
        except OSError as error:
            raise InputError(f"Cannot write {str(folder)!r}: {error}. Choose a place you may write to.") from error
        yield draft


def _lock_new_draft(folder: Path, stack: ExitStack) -> Path:
    while True:
        draft = make_draft(folder)
        stack.callback(shutil.rmtree, draft, ignore_errors=True)
        # until it is locked, another writer may take it for one of a killed process
        with suppress(FileNotFoundError, BlockingIOError):
            stack.enter_context(lock_folder(draft))
            return draft


def make_draft(folder: Path) -> Path:
    """Return a new folder beside this one, which `whole_folder` clears away if its process is killed."""
    return Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))


def _put_in_place(inside: Path, folder: Path, old: Path) -> None:
    """Rename a finished folder to its place and keep what stood there under another name until then."""
    if folder.exists():
        folder.rename(old)
    try:
        inside.rename(folder)
    except OSError:
        with suppress(FileNotFoundError):
            old.rename(folder)
        raise


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    rename = getattr(_libc(), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


@cache
def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None


@contextmanager
def whole_file(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file for writing under a temporary name; it gets its own when all went well, else nothing is left."""
    path = Path(path)
    unfinished = _unfinished(path)
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_files(path)
        file = _open_locked(unfinished, mode, text)
    except OSError as error:
        raise InputError(f"Cannot write {str(path)!r}: {error}. Choose a file in a folder you may write to.") from error
    try:
        with naming_full_disks(path), file:
            yield file
            file.flush()
            if _syncs():
                os.fsync(file.fileno())
            if sys.platform == "win32":  # an open file cannot be renamed there; elsewhere it stays locked until it is
                file.close()
            try:
                unfinished.replace(path)
                _sync(path.parent)
            except OSError as error:
                raise InputError(f"Cannot write {str(path)!r}: {error}. Choose another name.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def scratch_file(path: Path) -> IO[bytes]:
    """Open a file for work beside `path`, and remove those of killed processes; its maker removes it at the end."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_files(path)
        file: IO[bytes] = _open_locked(_unfinished(path), "w+b", {})
    except OSError as error:
        raise InputError(f"Cannot write {str(path)!r}: {error}. Choose a place you may write to.") from error
    return file


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}{next(_NUMBERS) % 10**6:06d}.part")


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


@contextmanager
def naming_full_disks(path: Path) -> Iterator[None]:
    """Say which file or folder could not be written for want of space; few writers do."""
    try:
        yield
    except Exception as error:  # some libraries have errors of their own
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or _FULL.search(str(error))
        if not full or isinstance(error, InputError):
            raise
        raise InputError(
            f"Cannot write {str(path)!r}: the disk is full. Nothing was changed there; free some space, or choose "
            "another place."
        ) from error


def _syncs() -> bool:
    return os.environ.get("INFUSER_FSYNC", "1") != "0"


def _sync(path: Path) -> None:
    """Wait until a file or the names in a folder are on the disk."""
    if not _syncs() or (sys.platform == "win32" and path.is_dir()):
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Wait until a folder with everything in it is on the disk."""
    for path in (*folder.rglob("*"), folder) if _syncs() else ():
        if path.is_dir() or path.is_file():
            _sync(path)


def _left_overs(path: Path, middle: str) -> list[Path]:
    """Return what lies beside this file or folder under one of its own temporary names, not those of "NAME.more"."""
    name = re.compile(rf"\.{re.escape(path.name)}\.{middle}\.part")
    with os.scandir(path.parent) as entries:
        return [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]


def _clear_files(path: Path) -> None:
    """Remove unfinished files of processes that were killed; a living one has locked its own."""
    for left in _left_overs(path, r"\d+"):
        with suppress(OSError), left.open("rb") as file:
            if _lock(file.fileno()):
                left.unlink()


def _open_locked(path: Path, mode: str, text: Mapping[str, Any]) -> IO[Any]:
    """Open a file for writing and lock it; another process may have removed it before it was locked."""
    while True:
        file = path.open(mode, **text)
        if _lock(file.fileno()):
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
        file.close()


def _lock(handle: int) -> bool:
    """Lock an open file until it is closed; False if another process has it."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _clear_left_overs(folder: Path) -> None:
    """Remove the drafts of processes that were killed; a living one has locked its draft."""
    for draft in _left_overs(folder, "[a-z0-9_]{8}"):
        if not draft.is_dir():
            continue
        with suppress(OSError), lock_folder(draft):
            if (draft / "old").exists() and not folder.exists():  # killed between its two renames: nothing may be lost
                (draft / "old").rename(folder)
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder until the end, or until the process ends; OSError if another process has locked or removed it."""
    if sys.platform == "win32":  # there, a folder with open files cannot be removed anyway
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        # one that finished in this moment may have removed the folder, and a third one made it again
        if not (_lock(handle) and os.path.samestat(os.fstat(handle), folder.stat())):
            raise BlockingIOError(errno.EWOULDBLOCK, "another process has locked it", str(folder))
        yield
    finally:
        os.close(handle)


def json_of(value: Any) -> str:
    """Return a value as JSON for a file; ValueError for NaN and infinity, which other readers refuse."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def parse_json(given: str | bytes | Path, whose: str = "") -> Any:
    """Return what a text or a file in JSON holds; InputError says whose it is and what is wrong, nesting included.

    A file that is missing is an OSError, as everywhere.
    """
    try:
        return json.loads(given.read_bytes() if isinstance(given, Path) else given)
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, a number of 5,000 digits; 10,000 brackets
        name = whose or (str(given) if isinstance(given, Path) else "")
        raise InputError(f"{name} is not JSON: {error}".lstrip()) from error


def digest_of(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Return a short digest of plain values; `default` converts what JSON cannot hold."""
    return sha256_of(value, default)[:12]


def sha256_of(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Return the SHA-256 of plain values, in whatever order a mapping holds them."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=default).encode()).hexdigest()


def crc32_of_file(path: Path) -> int:
    """Return the CRC-32 of a file's bytes."""
    found = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found = zlib.crc32(block, found)
    return found


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
