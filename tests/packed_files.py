"""Files that are packed as their names say."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa


def write_packed(folder: Path, name: str, content: str | bytes) -> Path:
    """Write a file, packed by gzip or zstd if its name ends so, and return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    if name.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    elif name.endswith(".zst"):
        data = pa.Codec("zstd").compress(data, asbytes=True)
    path.write_bytes(data)
    return path
