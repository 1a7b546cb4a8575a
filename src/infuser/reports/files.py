"""Files appear whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import os
from pathlib import Path

from infuser.errors import InputError


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write a file so that no reader ever sees half of it; folders above it are made when missing."""
    path = Path(path)
    # "replace": a lone surrogate in somebody's text must not cost them the report
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(raw)
        unfinished.replace(path)
    except OSError as error:
        if unfinished.is_file():
            unfinished.unlink()
        raise InputError(f"Cannot write {str(path)!r}: {error}. Choose a file in a folder you may write to.") from error
    return path
