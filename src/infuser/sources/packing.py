"""Folders that sources name, when a model is saved and loaded: named by path and digest, or taken along.

A saved model names a built folder by its path, as it may be large. Of a model that is to move, the folder lies inside,
under its digest: hard-linked where the disk allows that, else copied. A record then says `"inside": true`, and its path
is the name below `sources/folders`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infuser.errors import SourceError
from infuser.knowledge.artifact import Folder

INSIDE = "folders"
"""Where folders lie that were taken along, below the sources of a saved model."""


@dataclass
class Packing:
    """How the folders are saved that sources name, and which they are."""

    sources: Path
    """The folder of all sources of the model that is saved."""
    portable: bool = False
    """Take all folders along, not only those that came with a model."""
    named: list[dict[str, Any]] = field(default_factory=list)
    """Kind, digest and bytes of the folders named so far, and whether they are taken along."""

    def pack(self, folder: Folder, kind: str) -> dict[str, Any]:
        """Return where a folder is to be found again; what lies inside a saved model goes along with it."""
        files = [path for path in folder.path.iterdir() if path.is_file()]
        n_bytes = sum(path.stat().st_size for path in files)
        name = folder.digest[:16]
        inside = self.portable or (folder.path.name == name and folder.path.parent.name == INSIDE)
        self.named.append({"kind": kind, "digest": folder.digest, "bytes": n_bytes, "inside": inside})
        if not inside:
            return {"path": str(folder.path)}
        place = self.sources / INSIDE / name
        if not place.exists():  # two sources may read one folder
            place.mkdir(parents=True)
            for path in files:
                _link(path, place / path.name)
        return {"path": name, "inside": True}


_PACKING: ContextVar[Packing | None] = ContextVar("infuser_packing", default=None)
_SOURCES: ContextVar[Path | None] = ContextVar("infuser_sources", default=None)
"""The folder of all sources of the model that is being loaded."""
_REBUILT: ContextVar[bool] = ContextVar("infuser_rebuilt", default=False)
"""Whether the folders of the model that is being loaded may have been built again since it was saved."""


@contextmanager
def packing(sources: Path, *, portable: bool = False) -> Iterator[Packing]:
    """Save sources of a model in this block."""
    made = Packing(sources, portable)
    token = _PACKING.set(made)
    try:
        yield made
    finally:
        _PACKING.reset(token)


@contextmanager
def unpacking(sources: Path, *, rebuilt: bool = False) -> Iterator[None]:
    """Load sources of a model in this block; their folders may be `rebuilt`, else they must hold what they held."""
    tokens = _SOURCES.set(sources), _REBUILT.set(rebuilt)
    try:
        yield
    finally:
        _SOURCES.reset(tokens[0])
        _REBUILT.reset(tokens[1])


def pack(folder: Folder, kind: str) -> dict[str, Any]:
    """Return where a folder is to be found again: its path; while a model is saved, perhaps its name inside."""
    current = _PACKING.get()
    return {"path": str(folder.path)} if current is None else current.pack(folder, kind)


def may_be_rebuilt() -> bool:
    """Return whether folders may hold something else than when the model was saved that is being loaded."""
    return _REBUILT.get()


def unpack(name: str) -> Path:
    """Return where a folder lies that was taken along with the model which is being loaded."""
    sources = _SOURCES.get()
    if sources is None or Path(name).name != name:
        raise SourceError(f"the folder {name!r} lies inside a saved model; load it with infuser.load.")
    return sources.absolute() / INSIDE / name


def check_portable(settings: object) -> None:
    """Raise if settings of a source name a place on this machine while a model is saved that is to move."""
    current = _PACKING.get()
    if current is None or not current.portable or not isinstance(settings, dict):
        return
    for name, value in settings.items():
        if isinstance(value, str) and os.path.isabs(value) and os.path.exists(value):
            raise SourceError(f"Its {name} lies on the machine where the model was saved, and does not come along.")


def _link(path: Path, place: Path) -> None:
    """Give a file a second name, or copy it where that is not possible; built folders are never changed in place."""
    try:
        os.link(path, place)
    except OSError:
        shutil.copyfile(path, place)
