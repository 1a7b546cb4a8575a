"""Text files read in blocks of whole lines, packed or not, in bounded memory.

A line ends in a line feed, with or without a carriage return before it; the last line
needs no end. A byte-order mark is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from infuser.errors import InputError

BLOCK = 1 << 22
"""Bytes per block, about; some 65,536 triples."""

_LONGEST_LINE = 1 << 26
_PACKINGS = {".gz": "gzip", ".zst": "zstd"}
_MARK = b"\xef\xbb\xbf"


class Block(NamedTuple):
    """Some whole lines of a file."""

    first: int
    """Number of the first line, from 1."""
    data: bytes

    @property
    def n_lines(self) -> int:
        """How many lines there are, also when the last has no end."""
        return self.data.count(b"\n") + (not self.data.endswith(b"\n"))

    def lines(self) -> list[bytes]:
        """Return the lines without their ends."""
        return [line.removesuffix(b"\r") for line in self.data.removesuffix(b"\n").split(b"\n")]


def unpacked_name(path: str | Path) -> str:
    """Return the file's name in lower case without .gz or .zst."""
    name = Path(path).name.lower()
    for suffix in _PACKINGS:
        name = name.removesuffix(suffix)
    return name


@contextmanager
def open_stream(path: str | Path) -> Iterator[pa.NativeFile]:
    """Open a file for reading bytes, unpacking .gz and .zst on the way; what goes wrong names the file."""
    with unpacked(path, str(path)) as stream:
        yield stream


@contextmanager
def unpacked(path: str | Path, source: Any) -> Iterator[pa.NativeFile]:
    """Open the bytes of a file, wherever they are, unpacking .gz and .zst on the way."""
    packing = _PACKINGS.get(Path(path).suffix.lower())
    try:
        with pa.input_stream(source, compression=packing) as stream:
            yield stream
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"No file at {path}. Check the name.") from None
    except OSError as error:
        wrong = "is cut off or damaged" if packing else "cannot be read"
        raise InputError(f"{path} {wrong} ({error}). Fetch or write it again.") from error


def read_blocks(path: str | Path, size: int = BLOCK) -> Iterator[Block]:
    """Yield the lines of a file in blocks of about `size` bytes."""
    first, rest = 1, b""
    with open_stream(path) as stream:
        piece = stream.read(size).removeprefix(_MARK)
        while piece:
            data, piece = rest + piece, stream.read(size)
            end = data.rfind(b"\n") + 1 if piece else len(data)  # the last line needs no end
            if end:
                block = Block(first, data[:end])
                yield block
                first += block.n_lines
            elif len(data) > _LONGEST_LINE:
                raise InputError(
                    f"{path}, line {first} is longer than {_LONGEST_LINE:,} bytes: no table has such rows."
                )
            rest = data[end:]
