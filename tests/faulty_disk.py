"""A disk that fails at its n-th operation: full, broken once, or stopped for good as if the process or the power died.

    with FaultyDisk(folder, "killed", at=7) as disk:
        ...                   # whatever writes into the folder
    disk.done                 # the operations so far

An operation opens a file for writing, writes to it, syncs, renames, exchanges, creates a folder or removes something.

    full      from the n-th operation on nothing that takes space succeeds (ENOSPC); removing and renaming does
    broken    the n-th operation alone fails (EIO)
    killed    `Killed` at the n-th operation and at every later one, so that no clean-up reaches the disk

A write that fails has written its first half. What a killed process wrote is there; a machine without power has lost
what was not synced: see `cut_power`.

Not reached are writers that open files themselves, without Python: marisa_trie's and the tokenizers' `save`.
safetensors and NumPy are made to write through Python, with the same bytes. Memory maps for writing are not seen.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch

from infuser import files

Fault = Literal["full", "broken", "killed"]
TAKE_SPACE = ("create", "write", "mkdir", "allocate")


class Killed(BaseException):
    """The process is dead: no `except Exception` may go on."""


class FaultyDisk:
    """Counts the operations below a folder, and fails at one of them; without `at` it only counts."""

    def __init__(self, root: Path, fault: Fault = "killed", at: int | None = None) -> None:
        self.root, self.fault, self.at = str(root.resolve()), fault, at
        self.done: list[str] = []
        self._patch = pytest.MonkeyPatch()
        self._before = {path.stat().st_ino for path in root.rglob("*") if path.is_file()}
        self._synced: set[int] = set()

    def __enter__(self) -> Self:
        patch = self._patch.setattr
        patch(builtins, "open", self._open)
        patch(io, "open", self._open)
        patch(os, "open", self._os_open)
        patch(os, "fsync", self._fsync)
        for name in ("mkdir", "rename", "replace", "unlink", "remove", "rmdir"):
            patch(os, name, self._counted(name, getattr(os, name)))
        patch(os, "posix_fallocate", self._counted("allocate", os.posix_fallocate))
        patch(files, "_exchange", self._counted("exchange", files._exchange))
        # else NumPy writes to the handle itself
        self._patch.setitem(np.lib.format.write_array.__globals__, "isfileobj", lambda file: False)
        for module in (safetensors.torch, safetensors.numpy):
            patch(module, "serialize_file", self._serialize_file)
        return self

    def __exit__(self, *error: object) -> None:
        self._patch.undo()

    def step(self, what: str, path: Any = None) -> None:
        """Count an operation and raise if it is to fail."""
        named = isinstance(path, str | bytes | os.PathLike) and os.path.isabs(path)  # else it is in an open folder
        if named and not os.path.abspath(os.fsdecode(path)).startswith(self.root):
            return
        self.done.append(what)
        n = len(self.done)
        if self.at is None or n < self.at:
            return
        if self.fault == "killed":
            raise Killed(what)
        if self.fault == "broken" and n == self.at:
            raise OSError(errno.EIO, f"Input/output error ({what})", str(path))
        if self.fault == "full" and what in TAKE_SPACE:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    def cut_power(self, copy: Path) -> None:
        """Copy what is left when the machine loses power: files that were neither synced nor there before are empty."""
        shutil.copytree(self.root, copy)
        for path in Path(self.root).rglob("*"):
            if path.is_file() and path.stat().st_ino not in self._before | self._synced:
                os.truncate(copy / path.relative_to(self.root), 0)

    def _open(self, file: Any, mode: str = "r", buffering: int = -1, *text: Any, **how: Any) -> Any:
        if not set(mode) & set("wax+") or isinstance(file, int):
            return _real_open(file, mode, buffering, *text, **how)
        self.step("create", file)
        plain = {name: how.pop(name) for name in ("closefd", "opener") if name in how}
        raw = _Raw(self, file, mode.replace("b", "").replace("t", ""), **plain)
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *text, **how)

    def _os_open(self, path: Any, flags: int, *rest: Any, **how: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            self.step("create", path)
        return _real_os_open(path, flags, *rest, **how)

    def _fsync(self, handle: int) -> None:  # nothing waits for a real disk
        self.step("sync")
        self._synced.add(os.fstat(handle).st_ino)

    def _counted(self, what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(path: Any, *rest: Any, **how: Any) -> Any:
            self.step(what, path if "dir_fd" not in how else None)
            return call(path, *rest, **how)

        return counted

    def _serialize_file(self, tensors: Any, filename: Any, metadata: Any = None) -> None:
        try:
            with self._open(filename, "wb") as file:
                file.write(safetensors.serialize(tensors, metadata))
        except OSError as error:  # as the original says it
            raise safetensors.SafetensorError(f"Error while serializing: I/O error: {error}") from error


class _Raw(io.FileIO):
    """A file whose writes are operations."""

    def __init__(self, disk: FaultyDisk, file: Any, mode: str, **how: Any) -> None:
        super().__init__(file, mode, **how)
        self._disk, self._path = disk, file

    def write(self, data: Any) -> int:
        try:
            self._disk.step("write", self._path)
        except BaseException:
            if len(self._disk.done) == self._disk.at:
                super().write(bytes(data)[: len(data) // 2])
            raise
        return super().write(data)


_real_open, _real_os_open = io.open, os.open
