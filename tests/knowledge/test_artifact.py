from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import marisa_trie
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import InputError, SourceError
from infuser.files import whole_folder
from infuser.knowledge import artifact
from infuser.knowledge.arrays import Strings
from infuser.knowledge.artifact import BLOCK, Folder, check_place, kind_of, whole, write_folder

WORDS = ["Bern", "Aare", "", "東京", "a\x00b"]


def parts() -> dict[str, object]:
    return {
        "numbers": np.arange(100_000, dtype=np.int64) * 3,
        "table": np.arange(60_000, dtype=np.uint8).reshape(-1, 6),
        "nothing": np.zeros(0, np.float32),
        "trie": marisa_trie.Trie(["Bern", "Aare"]),
        **Strings.of(WORDS).parts("words"),
    }


def answers(folder: Path) -> list[object]:
    """Ask for everything in small bites, as queries do."""
    opened = Folder(folder, "test")
    words = Strings.open(opened, "words")
    return [
        opened.about,
        [int(opened["numbers"][i]) for i in range(0, 100_000, 997)],
        opened["numbers"][np.array([99_999, 5, -1])].tolist(),
        opened["numbers"][20_000:20_005].tolist(),
        opened["table"][9_999].tolist(),
        opened["table"][np.array([10, 10_000 - 2])].tolist(),
        len(opened["nothing"]),
        opened["trie"].get("Aare"),
        [words[i] for i in range(len(words))],
        int(whole(opened["numbers"]).sum()),
        int(whole(opened["table"]).sum()),
        int(whole(opened["nothing"]).sum()),
    ]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_folder(tmp_path / "f", "test", parts(), n=3)
    about, some, few, slice_, row, rows, n_nothing, _, words, *_ = answers(tmp_path / "f")
    assert about == {"n": 3}
    assert some == [3 * i for i in range(0, 100_000, 997)]
    assert (few, slice_) == ([299_997, 15, 299_997], [60_000, 60_003, 60_006, 60_009, 60_012])
    assert row == [i % 256 for i in range(59_994, 60_000)]
    assert rows == [[i % 256 for i in range(60, 66)], [i % 256 for i in range(59_988, 59_994)]]
    assert (n_nothing, words) == (0, WORDS)
    assert kind_of(tmp_path / "f") == "test"


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_folder(tmp_path / name, "test", parts(), n=3)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "two").iterdir())
    assert all((tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes() for file in files)


def test_a_flipped_bit_is_an_error_that_names_the_file_and_never_a_wrong_answer(tmp_path: Path) -> None:
    write_folder(tmp_path / "f", "test", parts(), n=3)
    right = answers(tmp_path / "f")
    chance = random.Random(0)
    for path in sorted((tmp_path / "f").iterdir()):
        intact = path.read_bytes()
        for _ in range(12):
            bit = chance.randrange(8 * len(intact))
            flipped = bytearray(intact)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            with pytest.raises(SourceError, match=re.escape(path.name)):
                answers(tmp_path / "f")
        path.write_bytes(intact)
    assert answers(tmp_path / "f") == right


def test_a_truncated_or_missing_file_is_named_on_opening(tmp_path: Path) -> None:
    write_folder(tmp_path / "f", "test", parts())
    for file in ("numbers.npy", "trie.marisa", "checks.npy", "about.json"):
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "f", copy)
        path = copy / file
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(SourceError, match=file):
            Folder(copy, "test")
        path.unlink()
        with pytest.raises(SourceError, match=file):
            Folder(copy, "test")
        shutil.rmtree(copy)


def test_opening_reads_no_block_that_is_not_asked_for(tmp_path: Path) -> None:
    write_folder(tmp_path / "f", "test", parts())
    path = tmp_path / "f" / "numbers.npy"
    damaged = bytearray(path.read_bytes())
    damaged[5 * BLOCK] ^= 1
    path.write_bytes(damaged)
    numbers = Folder(tmp_path / "f", "test")["numbers"]
    assert numbers[10] == 30
    with pytest.raises(SourceError, match=r"numbers\.npy is damaged"):
        numbers[5 * BLOCK // 8]


def damage(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_slices_backwards_and_rows_over_several_blocks_are_checked(tmp_path: Path) -> None:
    write_folder(tmp_path / "f", "test", {"numbers": np.arange(100_000), "wide": np.zeros((3, 4 * BLOCK), np.uint8)})
    damage(tmp_path / "f" / "numbers.npy", 5 * BLOCK)
    damage(tmp_path / "f" / "wide.npy", 6 * BLOCK)
    row = 5 * BLOCK // 8
    for taken in (
        slice(row + 5, row - 50, -1),
        slice(None, None, -1),
        slice(-1, None, -7),
        slice(row - 20, row + 20, 3),
    ):
        with pytest.raises(SourceError, match=r"numbers\.npy is damaged"):
            Folder(tmp_path / "f", "test")["numbers"][taken]
    numbers = Folder(tmp_path / "f", "test")["numbers"]
    assert numbers[5:0:-2].tolist() == [5, 3, 1] and numbers[5:5].tolist() == [] == numbers[0:5:-1].tolist()
    assert Folder(tmp_path / "f", "test")["wide"][0].sum() == 0
    for rows in (1, [0, 1], slice(2, 0, -1)):
        with pytest.raises(SourceError, match=r"wide\.npy is damaged"):
            Folder(tmp_path / "f", "test")["wide"][rows]


def test_threads_that_check_the_same_block_leave_no_other_unchecked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "f", "test", {"numbers": np.arange(5 * BLOCK // 8)})
    damage(tmp_path / "f" / "numbers.npy", 4 * BLOCK)
    numbers = Folder(tmp_path / "f", "test")["numbers"]
    together, crc32 = threading.Barrier(5), zlib.crc32
    monkeypatch.setattr(artifact.zlib, "crc32", lambda data: together.wait(10) >= 0 and crc32(data))
    with ThreadPoolExecutor(5) as pool:  # five times the second block, while five are unseen
        assert [int(one) for one in pool.map(lambda _: numbers[BLOCK // 8], range(5))] == [BLOCK // 8] * 5
    monkeypatch.undo()
    with pytest.raises(SourceError, match=r"numbers\.npy is damaged"):
        numbers[4 * BLOCK // 8]


def test_another_kind_of_folder_is_told_and_never_overwritten(tmp_path: Path) -> None:
    write_folder(tmp_path / "f", "test", parts())
    with pytest.raises(SourceError, match=r"holds test, it is no graph folder.* `infuser graph build`"):
        Folder(tmp_path / "f", "graph")
    with pytest.raises(InputError, match="is not a graph folder"):
        write_folder(tmp_path / "f", "graph", {})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="left alone"):
        write_folder(tmp_path / "mine", "test", parts())
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    with pytest.raises(SourceError, match="no test folder"):
        Folder(tmp_path / "nowhere", "test")
    with pytest.raises(SourceError, match=r"has no about\.json"):
        Folder(tmp_path / "mine", "test")


@pytest.mark.parametrize("content", ["no JSON", '{"kind": 3}', "[]", "[" * 9999, '{"kind": "tesu", "digest": "x"}'])
def test_a_folder_that_cannot_say_its_kind_any_more_is_damaged_and_may_be_built_again(
    tmp_path: Path, content: str
) -> None:
    folder = write_folder(tmp_path / "f", "test", parts())
    (folder / "about.json").write_text(content)
    for ask in (kind_of, lambda folder: Folder(folder, "test")):
        with pytest.raises(SourceError, match=r"about\.json is damaged.* Build the folder"):
            ask(folder)
    check_place(folder, "test")
    write_folder(folder, "test", parts())
    assert kind_of(folder) == "test"


def test_a_folder_of_somebody_else_has_no_kind_and_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "about.json").write_text("no JSON")
    assert kind_of(tmp_path) is None
    with pytest.raises(InputError, match="left alone"):
        check_place(tmp_path, "test")
    assert kind_of(tmp_path / "about.json") is None
    assert kind_of("a\0name") is None
    assert kind_of("x" * 9999) is None


def test_a_folder_of_another_format_says_build_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(artifact, "_FORMAT", 2)
        write_folder(tmp_path / "f", "test", {})
    with pytest.raises(SourceError, match=r"has format 2, .* reads 1\. Build it again"):
        Folder(tmp_path / "f", "test")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=8), max_size=20))
def test_strings_come_back_as_they_were(strings: list[str]) -> None:
    held = Strings.of(strings)
    assert [held[i] for i in range(len(held))] == strings
    with pytest.raises(IndexError):
        held[len(strings)]


def test_a_failed_write_leaves_the_old_folder_and_nothing_else(tmp_path: Path) -> None:
    write_folder(tmp_path / "f", "test", {}, n=1)

    def fail_half_way() -> None:
        with whole_folder(tmp_path / "f") as draft:
            (draft / "half").write_text("x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert Folder(tmp_path / "f", "test").about == {"n": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


WRITER = """
import sys, time
from infuser.files import whole_folder
with whole_folder(sys.argv[1]) as draft:
    (draft / "half").write_text("x")
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs kill -9")
def test_the_draft_of_a_killed_process_is_cleared_away_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    target = tmp_path / "f"
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "writing\n"
    with whole_folder(target):
        pass
    assert len(list(tmp_path.glob(".f.*.part"))) == 1
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    with whole_folder(target):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
