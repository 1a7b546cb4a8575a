"""Every write of every kind of artifact fails once: the place then holds the old one or the new one, and nothing else.

What the faulty disk does not reach (see there) is reached by the kernel, which limits the size of files.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from artifact_kinds import KINDS, Kind
from faulty_disk import TAKE_SPACE, FaultyDisk, Killed
from safetensors import SafetensorError

from infuser.errors import InfuserError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the faulty disk knows Linux")

ALL = [pytest.param(name, marks=pytest.mark.slow if kind.slow else ()) for name, kind in KINDS.items()]
RESUMED = [param for param in ALL if not KINDS[str(param.values[0])].stays]


Files = dict[str, bytes | None]
"""The content of all files below a folder by name, None for a folder."""


class Place:
    """A folder in which version 1 of an artifact is written over version 0 many times; or `first`, over nothing."""

    def __init__(self, kind: Kind, base: Path, *, first: bool = False) -> None:
        self.kind, self.version, self.old, self.folder = kind, 0 if first else 1, base / "old", base / "folder"
        self.old.mkdir(parents=True)
        if not first:
            kind.write(self.old, 0)
        self.whole = [] if first else [(files_of(self.old), kind.read(self.old))]
        with FaultyDisk(self.reset()) as disk:
            self.write()
        self.operations = disk.done
        self.whole.append((files_of(self.folder), kind.read(self.folder)))
        self.seen: list[Files] = []

    def reset(self) -> Path:
        """Return the folder with the old artifact alone."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.old, self.folder)
        return self.folder

    def write(self) -> None:
        """Write the new artifact."""
        self.kind.write(self.folder, self.version)

    def check(self, folder: Path) -> None:
        """See that the old or the new artifact is there; that the next run succeeds and leaves nothing else."""
        found = files_of(folder)
        if found in self.seen or any(found == files for files, _ in self.whole):
            return  # and the next run is one as any other
        self.seen.append(found)
        visible = {name: content for name, content in found.items() if not name.startswith(".")}
        if not any(visible == files for files, _ in self.whole):
            try:
                answers = self.kind.read(folder)
            except InfuserError:
                if self.kind.stays:
                    raise  # the old artifact is gone, and the new one is not there
            else:
                assert answers in [whole for _, whole in self.whole], "it is neither the old artifact nor the new one"
        self.kind.write(folder, self.version)
        files, whole = self.whole[-1]
        found = files_of(folder)
        assert found.keys() == files.keys(), "something is left over"
        assert found == files or self.kind.read(folder) == whole


def files_of(folder: Path) -> Files:
    """Return all that lies below a folder, hidden files too; but for locks, which say nothing."""
    found = (path for path in folder.rglob("*") if not path.name.endswith(".lock"))
    return {_named(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in found}


def _named(path: Path) -> str:
    return re.sub(r"\.\w+\.part", ".part", str(path))  # temporary names are random


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A folder on a disk in memory, where there is one: some disks take milliseconds to remove a file."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def _syncing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFUSER_FSYNC", "1")


@pytest.fixture(scope="module")
def places() -> dict[str, Place]:
    return {}


@pytest.fixture
def place(name: str, memory: Path, places: dict[str, Place]) -> Place:
    if name not in places:
        places[name] = Place(KINDS[name], memory / name)
    return places[name]


def kill_at_every_operation(place: Place) -> None:
    for at in range(1, len(place.operations) + 1):
        with pytest.raises(Killed), FaultyDisk(place.reset(), "killed", at) as disk:
            place.write()
        without_power = place.folder.with_name("without power")
        shutil.rmtree(without_power, ignore_errors=True)
        disk.cut_power(without_power)
        place.check(place.folder)
        place.check(without_power)


@pytest.mark.parametrize("name", ALL)
def test_a_process_or_machine_that_dies_at_any_moment_leaves_the_old_or_the_new_artifact(place: Place) -> None:
    kill_at_every_operation(place)


@pytest.mark.parametrize("name", RESUMED)
def test_a_first_run_that_dies_at_any_moment_is_resumed(name: str, memory: Path) -> None:
    kill_at_every_operation(Place(KINDS[name], memory / f"first {name}", first=True))


@pytest.mark.parametrize("name", ALL)
def test_a_disk_that_is_full_at_any_moment_is_named_and_leaves_the_old_or_the_new_artifact(place: Place) -> None:
    for at, operation in enumerate(place.operations, start=1):
        if operation not in TAKE_SPACE:
            continue
        error = ""
        with FaultyDisk(place.reset(), "full", at):
            try:
                place.write()
            except InfuserError as raised:
                error = str(raised)
        assert not error or (str(place.folder) in error and re.search("disk is full|No space", error)), error
        assert place.kind.resumes or not [name for name in files_of(place.folder) if name.startswith(".")]
        place.check(place.folder)


@pytest.mark.parametrize("name", ALL)
def test_an_error_at_any_moment_leaves_the_old_or_the_new_artifact(place: Place) -> None:
    for at in range(1, len(place.operations) + 1):
        with FaultyDisk(place.reset(), "broken", at), suppress(InfuserError, OSError, SafetensorError):
            place.write()
        place.check(place.folder)


@pytest.mark.parametrize("name", ALL)
def test_a_file_that_the_system_does_not_let_grow_leaves_the_old_or_the_new_artifact(place: Place) -> None:
    place.reset()
    place.write()
    sizes = {len(content or b"") for content in files_of(place.folder).values()} - {0}
    for size in sorted(sizes):
        place.reset()
        with files_of_at_most(size - 1), suppress(InfuserError, OSError, SafetensorError):
            place.write()
        place.check(place.folder)


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
