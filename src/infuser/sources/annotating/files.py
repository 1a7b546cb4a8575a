"""Arrow files: written whole, mapped from disk, compared with their digest when they are first touched."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from infuser.files import whole_file
from infuser.knowledge.artifact import damaged


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written: its name, and what it must be when it is opened again."""

    file: str
    bytes: int
    sha256: str

    def check_size(self, folder: Path) -> None:
        """See that the file is there and as long as it was."""
        path = folder / self.file
        if not path.is_file() or path.stat().st_size != self.bytes:
            raise damaged(path)

    def open(self, folder: Path) -> pa.RecordBatch:
        """Return what the file holds, mapped from disk; SourceError if it is not what was written."""
        path = folder / self.file
        self.check_size(folder)
        content = _mapped(path)
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise damaged(path)
        return pa.ipc.open_file(pa.BufferReader(content)).get_batch(0)


def serialise(batch: pa.RecordBatch) -> pa.Buffer:
    """Return the bytes of an Arrow file: uncompressed, so that it can be mapped; the same for the same content."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def write_arrow(path: Path, batch: pa.RecordBatch) -> Written:
    """Write one batch as an Arrow file, whole or not at all."""
    content = serialise(batch)
    with whole_file(path, "wb") as file:
        file.write(content)
    return Written(path.name, content.size, hashlib.sha256(content).hexdigest())


def canonical(content: Any) -> bytes:
    """Return plain values as JSON that is the same for equal values."""
    return json.dumps(content, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")


def digest(content: bytes) -> str:
    """Return the digest of some bytes."""
    return hashlib.sha256(content).hexdigest()


def _mapped(path: Path) -> pa.Buffer:
    if not path.stat().st_size:
        return pa.py_buffer(b"")
    with pa.memory_map(str(path)) as file:  # closed at once: the buffer keeps the mapping, and no file stays open
        return file.read_buffer()
