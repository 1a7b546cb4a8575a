"""The sources in use, those that take their place, and folders kept as they were when they were opened.

A folder may be built anew at any time, by `infuser graph build` for example, in the place of the one that a server
reads. So the server reads a copy that shares the files' content (hard links beside the folder, or a real copy where
the file system has none): workers that start later still open what all others have, until the knowledge is exchanged.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

from infuser.errors import InputError, SourceError, did_you_mean
from infuser.files import lock_folder, make_draft
from infuser.knowledge.artifact import Folder
from infuser.knowledge.vectors.store import KIND as VECTORS
from infuser.sources.knowledge_base import KnowledgeBase
from infuser.sources.naming import source_names
from infuser.sources.selective import Selective
from infuser.sources.storage import FolderSource
from infuser.types import Source

Wanted: TypeAlias = Mapping[str, str | Mapping[str, str]]
"""By a source's name the folder that it is to read; a knowledge base has "candidates", "vectors" and "graph"."""
_Place: TypeAlias = Callable[[Path, str], Path]
"""Takes a folder and its kind, and returns the one that is read in its place."""


@dataclass(frozen=True, slots=True, eq=False)
class Pinned:
    """A source that reads its own copies of the folders that it names."""

    named: Source
    """The source as it was given: with the folders that people know."""
    opened: Source
    """The same, with the copies."""
    folders: tuple[tuple[str, str], ...]
    """Path and digest of each folder."""
    copies: ExitStack
    """Removes the copies."""


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """All sources of a model; each exchange makes a new version."""

    version: int
    pinned: tuple[Pinned, ...]

    @classmethod
    def of(cls, sources: Sequence[Source]) -> Knowledge:
        """Return the first version."""
        pinned: list[Pinned] = []
        with ExitStack() as if_it_fails:
            if_it_fails.callback(release, pinned)
            pinned.extend(map(pin, sources))
            if_it_fails.pop_all()
        return cls(1, tuple(pinned))

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that read the copies."""
        return tuple(one.opened for one in self.pinned)

    def about(self) -> dict[str, Any]:
        """Return version, names, folders and digests as JSON values."""
        names = source_names([one.named for one in self.pinned])
        return {
            "version": self.version,
            "sources": [
                {"name": name, "folders": [{"path": path, "digest": digest[:12]} for path, digest in one.folders]}
                for name, one in zip(names, self.pinned, strict=True)
            ],
        }

    def changes_from(self, other: Knowledge) -> dict[int, Source]:
        """Return the sources that are not those of another version, by their places."""
        both = enumerate(zip(self.pinned, other.pinned, strict=True))
        return {place: one.opened for place, (one, before) in both if one is not before}

    def exchanged(self, wanted: Wanted) -> Knowledge:
        """Return the next version: named sources read other folders, or if none is named, all open theirs again.

        Every file of the new folders is compared with its checksums.
        """
        names = source_names([one.named for one in self.pinned])
        for name in wanted:
            if name not in names:
                raise InputError(
                    f"This model has no source {name!r}.{did_you_mean(name, names)} Its sources: {', '.join(names)}."
                )
        if not wanted and not any(one.folders for one in self.pinned):
            raise InputError(
                "None of this model's sources reads a folder that infuser built, so there is nothing to open again. "
                f"Name one: {{{names[0]!r}: '/path/of/folder'}}."
                if names
                else "This model has no sources."
            )
        new: list[Pinned] = []
        try:
            for name, one in zip(names, self.pinned, strict=True):
                if name in wanted:
                    new.append(pin(_reading(name, one.named, wanted[name]), check=True))
                elif not wanted and one.folders:
                    new.append(pin(one.named, check=True))
                else:
                    new.append(one)
        except BaseException:
            release(one for one in new if one not in self.pinned)
            raise
        return Knowledge(self.version + 1, tuple(new))


def release(pinned: Iterable[Pinned]) -> None:
    """Remove copies of sources that are no longer in use."""
    for one in pinned:
        one.copies.close()


def pin(source: Source, *, check: bool = False) -> Pinned:
    """Return a source that reads copies of its folders, which stay as they are."""
    folders: list[tuple[str, str]] = []
    with ExitStack() as copies:

        def copied(folder: Path, kind: str) -> Path:
            if not folder.is_dir():
                raise SourceError(f"There is no folder at {str(folder)!r}. Check the path, or build it.")
            try:
                files = Folder(folder, kind).files  # before any copy: what infuser did not build is left alone
            except OSError as error:
                raise _unreadable(folder, error) from error
            copy = _copy(folder, files, copies)
            try:
                opened = Folder(copy, kind)
                if check:
                    opened.check()
            except SourceError as error:
                raise SourceError(str(error).replace(str(copy), str(folder))) from error
            folders.append((str(folder), opened.digest))
            return copy

        opened = _with_folders(source, copied)
        return Pinned(source, opened, tuple(folders), copies.pop_all())


def _copy(folder: Path, files: Iterable[Path], copies: ExitStack) -> Path:
    """Return a folder with these files."""
    try:
        linked = make_draft(folder)
        copies.callback(shutil.rmtree, linked, ignore_errors=True)
        copies.enter_context(lock_folder(linked))  # else it would be cleared as left-over of a killed process
        for path in files:
            os.link(path, linked / path.name)
        return linked
    except OSError:  # a file system without links, another owner's files, a folder that is read-only
        copy = Path(copies.enter_context(tempfile.TemporaryDirectory(prefix="infuser-serve-")))
        try:
            for path in files:
                shutil.copyfile(path, copy / path.name)
        except OSError as error:
            raise _unreadable(folder, error) from error
        return copy


def _unreadable(folder: Path, error: OSError) -> SourceError:
    return SourceError(f"{str(folder)!r} cannot be read: {error}. Build it again.")


def _with_folders(source: Source, place: _Place) -> Source:
    """Return a source in which each built folder is replaced by what `place` returns for it."""
    if isinstance(source, Selective):
        return replace(source, source=_with_folders(source.source, place))
    if isinstance(source, KnowledgeBase):
        changes: dict[str, Any] = {"candidates": _with_folders(source.candidates, place)}
        if isinstance(source.vectors, str | Path):
            changes["vectors"] = place(Path(source.vectors), VECTORS)
        if isinstance(source.graph, Source):
            changes["graph"] = _with_folders(source.graph, place)
        return replace(source, **changes)
    if isinstance(source, FolderSource):
        field, kind = source.folder
        folder = getattr(source, field)
        if isinstance(folder, str | Path):
            return _made_again(source, field, place(Path(folder), kind))
    return source


def _reading(name: str, source: Source, wanted: str | Mapping[str, str]) -> Source:
    """Return a source that reads other folders than it does."""
    if isinstance(source, Selective):
        return replace(source, source=_reading(name, source.source, wanted))
    if isinstance(source, KnowledgeBase):
        parts = ("candidates", "vectors", "graph")
        if isinstance(wanted, str) or not set(wanted) <= set(parts):
            raise InputError(
                f"{name!r} is a knowledge base. Name the folders of its {', '.join(parts)}, as in "
                f"{{{name!r}: {{'candidates': '/data/candidates', 'vectors': '/data/vectors'}}}}."
            )
        changes: dict[str, Any] = {}
        for part, folder in wanted.items():
            inside = getattr(source, part)
            is_source = part != "vectors" and isinstance(inside, Source)
            changes[part] = _reading(f"{name}.{part}", inside, folder) if is_source else str(_absolute(folder))
        return replace(source, **changes)
    if not isinstance(source, FolderSource):
        raise InputError(f"{name!r} is a {type(source).__name__}, which reads no folder that infuser built.")
    if not isinstance(wanted, str):
        raise InputError(f"{name!r} reads one folder. Give its path: {{{name!r}: '/path/of/folder'}}.")
    return _made_again(source, source.folder[0], _absolute(wanted))


def _made_again(source: Any, field: str, folder: Path) -> Source:
    """Return a new source with the same settings and another folder, which has its own names of entities."""
    own: dict[str, Any] = {"aliases": {}} if any(one.name == "aliases" for one in fields(source)) else {}
    made: Source = replace(source, **{field: folder, **own})
    return made


def _absolute(folder: str) -> Path:
    return Path(folder).expanduser().absolute()
