"""What may be taken from an archive: so many bytes, and no pickle, under whatever name, also inside a zip archive."""

from __future__ import annotations

import lzma
import pickletools
import re
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

MOST_BYTES = 8 << 30
"""All files of an asset together; the largest has 1 GB."""
LONGEST_MEMBER = 256 << 20
"""Bytes of a file that is read into memory as a whole."""
DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, struct.error, KeyError, ValueError),
    *(NotImplementedError, RuntimeError),  # an unknown compression method; a password
)
"""What the standard library raises for damaged archives."""

_SUFFIXES = {".pickle", ".pkl", ".joblib", ".pt", ".pth", ".ckpt"}
_BEGINNINGS = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
_IMPORT = re.compile(r"[\w.]+ [\w.]+")
"""A module and a name in it, as `pickletools` gives them; two lines of plain text are rarely one word each."""
_CALLS = {"REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"}
"""Without one of these a pickle of the older protocols, which have no beginning of their own, runs nothing."""


def is_named_like_a_pickle(name: str) -> bool:
    """Return whether a file is called as pickles are."""
    return PurePosixPath(name).suffix.lower() in _SUFFIXES


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a file of an archive; BadZipFile if it says that it is too large for memory (it is not read beyond)."""
    size = archive.getinfo(name).file_size
    if size > LONGEST_MEMBER:
        raise zipfile.BadZipFile(f"{name!r} has {size:,} bytes, more than the {LONGEST_MEMBER:,} that are read")
    return archive.read(name)


def holds_pickle(path: Path) -> bool:
    """Return whether a file is a pickle, an array of pickles, or a package of tensors or arrays with one inside."""
    with path.open("rb") as file:
        if _is_pickle(file):
            return True
        if not zipfile.is_zipfile(file):
            return False
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                with archive.open(name) as inside:
                    if is_named_like_a_pickle(name) or _is_pickle(inside):
                        return True
    return False


def _is_pickle(file: IO[bytes]) -> bool:
    file.seek(0)
    start = file.read(6)
    if start.startswith(b"\x93NUMPY"):
        return _holds_objects(file)
    return start.startswith(_BEGINNINGS) or _calls_something(file)


def _holds_objects(file: IO[bytes]) -> bool:
    from numpy.lib import format

    file.seek(0)
    try:
        version = format.read_magic(file)
        read = format.read_array_header_1_0 if version == (1, 0) else format.read_array_header_2_0
        return bool(read(file)[2].hasobject)
    except ValueError:
        return True  # its content is unknown


def _calls_something(file: IO[bytes]) -> bool:
    """Return whether a file would call a function if it were unpickled, even if only up to where it is damaged.

    It is parsed, and nothing of it is run.
    """
    file.seek(0)
    imported = False
    try:
        for opcode, argument, _ in pickletools.genops(file):
            if opcode.name in ("GLOBAL", "INST"):
                imported = _IMPORT.fullmatch(str(argument)) is not None
                if not imported:
                    return False  # `pickle` fails here
            imported |= opcode.name in ("STACK_GLOBAL", "EXT1", "EXT2", "EXT4")
            if imported and opcode.name in _CALLS:
                return True
    except Exception:  # `pickle` gets no further either
        return False
    return False
