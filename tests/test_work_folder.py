"""A work folder resumes what was made with the same, refuses what was not, and is written by one process at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from infuser.errors import InputError
from infuser.work_folder import WorkFolder, differences, name_differences

MADE_WITH = {"corpus": ["a.txt"], "settings": {"unit": "sentence", "window": 5}}


@pytest.fixture
def folder(tmp_path: Path) -> WorkFolder:
    return WorkFolder(tmp_path / "work", record="made-with.json", parts=("part-*",))


def begun(folder: WorkFolder) -> WorkFolder:
    """Begin a run and finish one part."""
    with folder.locked():
        folder.begin(MADE_WITH)
        with folder.write_part("part-0") as file:
            file.write("one")
    return folder


def test_the_same_run_is_resumed_with_its_parts(folder: WorkFolder) -> None:
    begun(folder)
    assert folder.begin(MADE_WITH) is True
    assert [path.name for path in folder.finished()] == ["part-0"]


def test_another_run_is_refused_and_the_message_names_what_differs(folder: WorkFolder) -> None:
    begun(folder)
    with pytest.raises(InputError, match=r"settings\.window was 5, is 6\. Resume with the same.*--restart"):
        folder.begin({"corpus": ["a.txt"], "settings": {"unit": "sentence", "window": 6}})
    assert folder.finished()


def test_restart_removes_the_parts_of_another_run(folder: WorkFolder) -> None:
    begun(folder)
    assert folder.begin({"corpus": ["b.txt"]}, restart=True) is False
    assert folder.finished() == []
    assert folder.read() == {"made_with": {"corpus": ["b.txt"]}}


def test_a_run_that_finished_no_part_binds_nobody(folder: WorkFolder) -> None:
    folder.begin(MADE_WITH)
    assert folder.begin({"corpus": ["b.txt"]}) is False


def test_what_else_is_recorded_is_kept_but_not_compared(folder: WorkFolder) -> None:
    begun(folder)
    folder.update(finished=True)
    folder.begin(MADE_WITH, files=["elsewhere.csv"])
    assert folder.read() == {"made_with": MADE_WITH, "finished": True, "files": ["elsewhere.csv"]}


def test_other_files_are_left_alone(folder: WorkFolder) -> None:
    folder.path.mkdir()
    (folder.path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"holds other files \(thesis.tex\)"):
        folder.begin(MADE_WITH, restart=True)
    shared = WorkFolder(folder.path, record="made-with.json", parts=("part-*",), shared=True)
    shared.begin(MADE_WITH)
    assert (folder.path / "thesis.tex").read_text() == "mine"


def test_parts_without_a_record_are_refused_even_in_a_shared_folder(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_text("of whom?")
    with pytest.raises(InputError, match=r"part-0.*no made-with.json"):
        WorkFolder(tmp_path, record="made-with.json", parts=("part-*",), shared=True).begin(MADE_WITH, restart=True)


def test_a_part_that_was_being_written_is_not_finished(folder: WorkFolder) -> None:
    begun(folder)
    with suppress(RuntimeError), folder.write_part("part-1") as file:
        file.write("half")
        raise RuntimeError
    assert [path.name for path in folder.finished()] == ["part-0"]
    (folder.path / ".part-2.77.part").write_text("of a killed process")
    folder.begin(MADE_WITH)
    assert sorted(path.name for path in folder.path.iterdir()) == ["made-with.json", "part-0"]


def test_a_record_with_another_value_is_damaged_and_one_without_a_digest_is_old(folder: WorkFolder) -> None:
    path = begun(folder).path / "made-with.json"
    path.write_text(path.read_text().replace("sentence", "sentense"))
    with pytest.raises(InputError, match=r"made-with\.json.*is damaged \(its content has another digest"):
        folder.read()
    path.write_text(json.dumps({"made_with": MADE_WITH}))
    assert folder.read() == {"made_with": MADE_WITH}


def test_a_record_is_valid_json_whatever_numbers_it_holds(folder: WorkFolder) -> None:
    folder.begin({"rate": float("nan")}, best=float("inf"))
    assert "NaN" not in (text := (folder.path / folder.record).read_text()) and "Infinity" not in text
    assert (folder.read() or {})["best"] is None
    with folder.write_part("part-0.txt"):
        pass
    assert folder.begin({"rate": float("nan")})


def test_a_damaged_record_is_named(folder: WorkFolder) -> None:
    begun(folder)
    (folder.path / "made-with.json").write_text(json.dumps(MADE_WITH)[:-3])
    with pytest.raises(InputError, match=r"made-with\.json.*is damaged"):
        folder.begin(MADE_WITH)


@pytest.mark.skipif(sys.platform == "win32", reason="folders are not locked there")
def test_two_processes_do_not_write_it_at_once(folder: WorkFolder) -> None:
    code = f"""
from infuser.work_folder import WorkFolder
with WorkFolder({str(folder.path)!r}, record="r.json", parts=()).locked(): pass
"""
    with folder.locked():
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "InputError: Another process is writing to" in other.stderr
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_differences_go_into_nested_settings() -> None:
    found = differences({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 4}})
    assert found == [("a.c", "2", "4"), ("d", "3", "None")]
    assert differences({"sources": [{"name": "a"}, {"name": "b"}]}, {"sources": [{"name": "a"}, {"name": "c"}]}) == [
        ("sources.1.name", "b", "c")
    ]
    assert name_differences(found) == "a.c was 2, is 4; d was 3, is None"
