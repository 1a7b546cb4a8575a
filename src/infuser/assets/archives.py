"""What may be taken from an archive: so many bytes, and no pickle, under whatever name and in whatever wrapping."""

from __future__ import annotations

import lzma
import pickletools
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
_IMPORTS = {"GLOBAL", "STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}
"""Without one of these a pickle of the older protocols, which have no beginning of their own, is inert."""


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
        if not zipfile.is_zipfile(file):
            return _is_pickle(file)
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
    return start.startswith(_BEGINNINGS) or _imports_something(file)


def _holds_objects(file: IO[bytes]) -> bool:
    from numpy.lib import format

    file.seek(0)
    try:
        version = format.read_magic(file)
        read = format.read_array_header_1_0 if version == (1, 0) else format.read_array_header_2_0
        return bool(read(file)[2].hasobject)
    except ValueError:
        return True  # its content is unknown


def _imports_something(file: IO[bytes]) -> bool:
    """Return whether a file is a whole pickle that imports; it is parsed, and nothing of it is run."""
    file.seek(0)
    try:
        met = {opcode.name for opcode, _, _ in pickletools.genops(file)}
    except Exception:  # whatever it is, `pickle` cannot read it to its end either
        return False
    return bool(met & _IMPORTS)
