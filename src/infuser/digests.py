"""Digests: what tells files and plain values from others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infuser.reading.files import opened


def digest_of_file(path: Path) -> str:
    """Return a digest of a file's bytes."""
    digest = hashlib.sha256()
    with opened(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def digest_of(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Return a short digest of plain values; `default` makes plain what is not."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=default).encode()).hexdigest()[:12]
