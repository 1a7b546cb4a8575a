"""A folder of arrays: written whole, opened in milliseconds, shared by processes, checked for damage when read.

    about.json   what kind of folder it is, its files with their sizes, and what else its writer records
    checks.npy   one CRC-32 per 64 KiB of every file
    *.npy        arrays, mapped from disk        *.marisa   tables of strings, mapped from disk

Opening compares sizes only. A block is compared with its checksum when it is first touched, so a flipped bit becomes
an error that names the file and costs nothing until then.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import marisa_trie
import numpy as np
from numpy.typing import ArrayLike, NDArray

from infuser.errors import InputError, SourceError
from infuser.files import parse_json, whole_file, whole_folder
from infuser.versions import __version__

BLOCK = 1 << 16
_ABOUT, _CHECKS = "about.json", "checks.npy"
_FORMAT = 1


class Array(Protocol):
    """What a NumPy array and a checked one on disk have in common."""

    def __getitem__(self, key: Any) -> Any: ...

    def __len__(self) -> int: ...


Part = Array | marisa_trie.Trie
Parts = Mapping[str, Any]
"""Arrays and tries by name: in memory (a dict) or on disk (a `Folder`)."""


def write_folder(folder: str | Path, kind: str, parts: Parts, **about: Any) -> Path:
    """Write arrays and tries as a folder of that kind, in place of an older one of the same kind."""
    folder = Path(folder)
    check_place(folder, kind)
    with whole_folder(folder) as draft:
        files: dict[str, dict[str, Any]] = {}
        checks: list[NDArray[np.uint32]] = []
        for name, part in parts.items():
            file = f"{name}.marisa" if isinstance(part, marisa_trie.Trie) else f"{name}.npy"
            if isinstance(part, marisa_trie.Trie):
                part.save(str(draft / file))
            else:
                np.save(draft / file, whole(part), allow_pickle=False)
            checks.append(_checksums(np.memmap(draft / file, np.uint8, "r")))
            files[name] = {"file": file, "bytes": (draft / file).stat().st_size}
        np.save(draft / _CHECKS, np.concatenate([np.zeros(0, np.uint32), *checks]), allow_pickle=False)
        content = {"kind": kind, "format": _FORMAT, "infuser": __version__, "files": files, "about": about}
        content["checks"] = _digest((draft / _CHECKS).read_bytes())
        content["digest"] = _digest(_canonical(content))
        with whole_file(draft / _ABOUT) as out:
            json.dump(content, out, indent=1, ensure_ascii=False, allow_nan=False)
    return folder


class Folder(Mapping[str, Any]):
    """A folder that `write_folder` made: its parts by name, opened at their first use."""

    def __init__(self, folder: str | Path, kind: str) -> None:
        self.path = Path(folder)
        content = _read_about(self.path, kind)
        self.about: dict[str, Any] = content["about"]
        self.digest: str = content["digest"]
        """Tells this content from any other."""
        checks = self.path / _CHECKS
        if not checks.is_file() or _digest(checks.read_bytes()) != content["checks"]:
            raise damaged(checks)
        sums = np.load(checks, allow_pickle=False)
        self._files: dict[str, tuple[Path, NDArray[np.uint32]]] = {}
        first = 0
        for name, entry in content["files"].items():
            path, size = self.path / entry["file"], entry["bytes"]
            # no part lies elsewhere: a manifest that somebody wrote must not open any other file
            if path.parent != self.path or not path.is_file() or path.stat().st_size != size:
                raise damaged(path)
            n_blocks = -(-size // BLOCK)
            self._files[name] = (path, sums[first : first + n_blocks])
            first += n_blocks
        self._opened: dict[str, Any] = {}

    @property
    def files(self) -> list[Path]:
        """All that belongs to the folder, and nothing else that lies in it."""
        return [self.path / _ABOUT, self.path / _CHECKS, *(path for path, _ in self._files.values())]

    def check(self) -> None:
        """Compare all files with their checksums now, and not when they are first touched."""
        for path, sums in self._files.values():
            if not np.array_equal(_checksums(np.memmap(path, np.uint8, "r")), sums):
                raise damaged(path)

    def __getitem__(self, name: str) -> Any:
        if name not in self._opened:
            path, sums = self._files[name]
            self._opened[name] = _open_trie(path, sums) if path.suffix == ".marisa" else CheckedArray(path, sums)
        return self._opened[name]

    def __iter__(self) -> Any:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


class CheckedArray:
    """An array mapped from disk whose blocks are compared with their checksums when they are first touched."""

    def __init__(self, path: Path, sums: NDArray[np.uint32]) -> None:
        self._path, self._sums = path, sums
        self._bytes = np.memmap(path, np.uint8, "r")
        self._seen = np.zeros(len(sums), bool)
        self._complete = False
        """Whether every block was checked; not counted, as two threads may check one block at the same time."""
        self._check(np.zeros(1, np.int64))  # the header has type and shape
        self._values: NDArray[Any] = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        self._begin = len(self._bytes) - self._values.nbytes
        self._row = self._values.itemsize * int(np.prod(self._values.shape[1:], dtype=np.int64))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the array's numbers."""
        return self._values.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        return self._values.shape

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key: Any) -> Any:
        """Return rows: by number, slice or array of numbers; all of them checked."""
        if not self._complete:
            if isinstance(key, slice):
                if taken := range(len(self))[key]:
                    self._check_rows(min(taken[0], taken[-1]), max(taken[0], taken[-1]))
            else:
                rows = np.atleast_1d(np.asarray(key))
                if rows.dtype == bool:
                    rows = np.flatnonzero(rows)
                if rows.size:
                    rows = np.where(rows < 0, rows + len(self), rows)
                    self._check(self._block(rows))
                    if self._row > BLOCK:
                        for row in np.unique(rows):
                            self._check_rows(row, row)
                    elif self._row > 8:  # a row may reach into the next block
                        self._check(self._block(rows + 1, last=True))
        return self._values[key]

    def whole(self) -> NDArray[Any]:
        """Return the whole array, all of it checked."""
        if not self._complete:
            self._check(np.arange(len(self._sums)))
        return self._values

    def _check_rows(self, first: int, last: int) -> None:
        self._check(np.arange(self._block(first), self._block(last + 1, last=True) + 1))

    def _block(self, row: Any, *, last: bool = False) -> Any:
        return (self._begin + row * self._row - last) // BLOCK

    def _check(self, blocks: NDArray[np.int64]) -> None:
        new = blocks[~self._seen[blocks]]
        if not len(new):
            return
        for number in np.unique(new):
            if zlib.crc32(self._bytes[number * BLOCK : (number + 1) * BLOCK].data) != self._sums[number]:
                raise damaged(self._path)
            self._seen[number] = True
        self._complete = bool(self._seen.all())


def whole(array: ArrayLike | Array) -> NDArray[Any]:
    """Return an array of a folder or of memory as a NumPy array, checked."""
    return array.whole() if isinstance(array, CheckedArray) else np.ascontiguousarray(cast(ArrayLike, array))


def damaged(path: Path) -> SourceError:
    """Return the error for a file that is not what was written."""
    what = "is damaged: its content is not what was written" if path.is_file() else "is missing"
    return SourceError(f"{path} {what}. Build the folder {str(path.parent)!r} again, or copy it again from its origin.")


def kind_of(folder: str | Path) -> str | None:
    """Return which kind of artifact a folder is, None if it is none; one that cannot say it any more is an error."""
    path = Path(folder) / _ABOUT
    if not os.path.isfile(path):  # Path.is_file has no answer for a name that is too long
        return None
    content = _intact(path)
    if content is None and path.with_name(_CHECKS).is_file():  # nobody else writes these two
        raise damaged(path)
    return str(content["kind"]) if content else None


def check_place(folder: str | Path, kind: str) -> None:
    """Refuse a place where something else lies; an empty folder and an older or damaged one of ours may be replaced."""
    folder = Path(folder)
    try:
        ours = not folder.exists() or kind_of(folder) == kind or (folder.is_dir() and not any(folder.iterdir()))
    except SourceError:
        ours = True  # building a damaged one again is the cure
    if not ours:
        what = f"exists and is not a {kind} folder of infuser; it was left alone"
        raise InputError(f"{str(folder)!r} {what}. Choose another place, or remove it first.")


def _intact(path: Path) -> dict[str, Any] | None:
    """Return what about.json says, or None if it is not what `write_folder` wrote."""
    try:
        content = parse_json(path, "it")
        digest = content.pop("digest")
        intact = _digest(_canonical(content)) == digest and "kind" in content
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    return {**content, "digest": digest} if intact else None


def _read_about(folder: Path, kind: str) -> dict[str, Any]:
    path = folder / _ABOUT
    if not folder.is_dir():
        raise SourceError(
            f"There is no {kind} folder at {str(folder)!r}. Check the path, or build one: infuser {kind} build."
        )
    if not path.is_file():
        raise SourceError(f"{str(folder)!r} is no {kind} folder: it has no {_ABOUT}. Build one with infuser.")
    content = _intact(path)
    if content is None:
        raise damaged(path)
    if content["kind"] != kind:
        raise SourceError(
            f"{str(folder)!r} holds {content['kind']}, it is no {kind} folder. Name another folder, or build one "
            f"with `infuser {kind} build`."
        )
    if content["format"] != _FORMAT:
        raise SourceError(
            f"{str(folder)!r} has format {content['format']}, this version of infuser reads {_FORMAT}. Build it again."
        )
    return content


def _open_trie(path: Path, sums: NDArray[np.uint32]) -> marisa_trie.Trie:
    if not np.array_equal(_checksums(np.memmap(path, np.uint8, "r")), sums):
        raise damaged(path)
    return marisa_trie.Trie().mmap(str(path))


def _checksums(data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    return np.array([zlib.crc32(data[start : start + BLOCK].data) for start in range(0, len(data), BLOCK)], np.uint32)


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
