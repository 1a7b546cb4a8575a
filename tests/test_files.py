from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from infuser import files
from infuser.errors import InputError
from infuser.files import lock_folder, whole_file, whole_folder, write_whole


def fill(folder: Path, content: str) -> None:
    with whole_folder(folder) as draft:
        (draft / "one").write_text(content)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_is_replaced(can_exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not can_exchange:
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    fill(tmp_path / "kg", "old")
    fill(tmp_path / "kg", "new")
    assert (tmp_path / "kg" / "one").read_text() == "new" and names(tmp_path) == ["kg"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two folders in one step")
def test_there_is_no_moment_without_the_folder(tmp_path: Path) -> None:
    fill(tmp_path / "kg", "0")
    missed, done = [], threading.Event()

    def look() -> None:
        while not done.is_set():
            if not (tmp_path / "kg" / "one").exists():
                missed.append(1)

    watcher = threading.Thread(target=look)
    watcher.start()
    for round in range(100):
        fill(tmp_path / "kg", str(round))
    done.set()
    watcher.join()
    assert not missed


def test_left_overs_of_another_name_are_left_alone(tmp_path: Path) -> None:
    other = tmp_path / ".kg.v2.abcd1234.part"
    (other / "old").mkdir(parents=True)
    (other / "old" / "one").write_text("the only copy of kg.v2")
    own = tmp_path / ".kg.abcd1234.part"
    (own / "new").mkdir(parents=True)
    fill(tmp_path / "kg", "new")
    assert names(tmp_path) == [".kg.v2.abcd1234.part", "kg"]
    fill(tmp_path / "kg.v2", "newer")
    assert names(tmp_path) == ["kg", "kg.v2"]


def test_a_folder_whose_writer_was_killed_between_two_renames_comes_back(tmp_path: Path) -> None:
    old = tmp_path / ".kg.abcd1234.part" / "old"
    old.mkdir(parents=True)
    (old / "one").write_text("old")
    with pytest.raises(RuntimeError), whole_folder(tmp_path / "kg"):
        raise RuntimeError
    assert (tmp_path / "kg" / "one").read_text() == "old"


def test_unfinished_files_of_killed_processes_are_removed_and_those_of_living_ones_kept(tmp_path: Path) -> None:
    (tmp_path / ".a.json.77.part").write_text("half")
    (tmp_path / ".a.json.old.part").write_text("somebody's")
    (tmp_path / ".a.json.more.77.part").write_text("of a.json.more")
    with whole_file(tmp_path / "a.json") as first:
        first.write("first")
        write_whole(tmp_path / "a.json", "second")
        waiting = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from infuser.files import write_whole; write_whole({str(tmp_path)!r}+'/a.json','')",
            ]
        )
        assert waiting.wait() == 0
    assert (tmp_path / "a.json").read_text() == "first"
    assert names(tmp_path) == [".a.json.more.77.part", ".a.json.old.part", "a.json"]


def test_content_is_on_the_disk_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    sync, rename = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: happened.append("sync") or sync(handle))
    monkeypatch.setattr(Path, "replace", lambda *paths: happened.append("rename") or rename(*paths))
    monkeypatch.setenv("INFUSER_FSYNC", "1")
    write_whole(tmp_path / "a", "content")
    assert happened == ["sync", "rename", "sync"]
    happened.clear()
    with whole_folder(tmp_path / "kg") as draft:
        (draft / "inside").mkdir()
        (draft / "inside" / "one").write_text("1")
    assert happened == ["sync"] * 4  # the file, its folder, the new folder, and the one that has its name
    monkeypatch.setenv("INFUSER_FSYNC", "0")
    write_whole(tmp_path / "a", "content")
    assert happened == ["sync"] * 4 + ["rename"]


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space"), RuntimeError("I/O error: No space left on device (os error 28)")],
    ids=str,
)
def test_a_full_disk_is_named_and_changes_nothing(error: Exception, tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "old")
    fill(tmp_path / "kg", "old")
    with pytest.raises(InputError, match=r"Cannot write '.*/a': the disk is full"), whole_file(tmp_path / "a"):
        raise error
    with pytest.raises(InputError, match=r"Cannot write '.*/kg': the disk is full"), whole_folder(tmp_path / "kg"):
        raise error
    with pytest.raises(OSError, match="another"), whole_file(tmp_path / "a"):
        raise OSError(errno.EIO, "another")
    assert (tmp_path / "a").read_text() == "old" == (tmp_path / "kg" / "one").read_text()
    assert names(tmp_path) == ["a", "kg"]


def test_a_locked_folder_is_refused(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(BlockingIOError), lock_folder(tmp_path):
        pass


def test_a_finished_file_is_not_cleared_away_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.replace

    def replace(unfinished: Path, path: Path) -> Path:
        write_whole(path, "of another writer")
        return rename(unfinished, path)

    with whole_file(tmp_path / "a") as file:
        file.write("mine")
        monkeypatch.setattr(Path, "replace", lambda *paths: monkeypatch.undo() or replace(*paths))
    assert (tmp_path / "a").read_text() == "mine" and names(tmp_path) == ["a"]


def test_a_draft_that_another_writer_clears_away_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = files.make_draft

    def make_and_lose(folder: Path) -> Path:
        monkeypatch.undo()
        draft = make(folder)
        fill(folder, "of another writer")
        return draft

    monkeypatch.setattr(files, "make_draft", make_and_lose)
    fill(tmp_path / "kg", "mine")
    assert (tmp_path / "kg" / "one").read_text() == "mine" and names(tmp_path) == ["kg"]


def test_a_folder_that_its_last_owner_removed_meanwhile_is_not_taken_for_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lock = tmp_path / "kg.unfinished", files._lock
    folder.mkdir()

    def lock_after_all(handle: int) -> bool:
        folder.rmdir()  # the owner has finished
        folder.mkdir()  # and the next one begins
        return lock(handle)

    monkeypatch.setattr(files, "_lock", lock_after_all)
    with pytest.raises(BlockingIOError), lock_folder(folder):
        pass
