"""A corpus on disk: the same counts whatever the blocks, the processes and the memory; runs that were stopped go on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from knowledge.counting.by_hand import as_plain, counted_by_hand, sentences

from infuser.errors import InputError
from infuser.knowledge.counting import Counting, run, run_pairs
from infuser.knowledge.counting.run import count_corpus
from infuser.knowledge.counting.run_pairs import Share

CHILD = Path(__file__).with_name("child.py")
N_KILLS = 10


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(sentences(400)), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BLOCK", 1000)
    monkeypatch.setattr(run_pairs, "_LEAST_TOKENS", 100)


@pytest.mark.parametrize("unit", ["sentence", "document", "window"])
def test_counts_are_those_of_counting_by_hand(corpus: Path, tmp_path: Path, unit: str) -> None:
    settings = Counting(unit=unit)
    with count_corpus([corpus], tmp_path / "work", settings) as counts:
        assert as_plain(counts) == counted_by_hand(sentences(400), settings)
        assert counts.about["n_texts"] == 400 and counts.about["skipped"]["rows"] == 0
    assert not (tmp_path / "work").exists()


def test_pairs_of_two_columns_are_those_of_counting_by_hand(tmp_path: Path) -> None:
    rows = list(zip(sentences(200, 1), sentences(200, 2), strict=True))
    path = tmp_path / "pairs.tsv"
    path.write_text("query\tad\n" + "".join(f"{one}\t{other}\n" for one, other in rows), encoding="utf-8")
    settings = Counting(unit="pair")
    with count_corpus([path], tmp_path / "work", settings, columns=("query", "ad")) as counts:
        assert as_plain(counts) == counted_by_hand(rows, settings)


@pytest.mark.slow
def test_workers_and_little_room_change_nothing(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Counting(unit="document")
    with count_corpus([corpus], tmp_path / "one", settings, workers=0) as counts:
        expected = as_plain(counts)
    monkeypatch.setattr(Share, "of", lambda memory, n_workers: Share(n_pairs=2000, n_rows=150, n_words=5))
    with count_corpus([corpus], tmp_path / "two", settings, workers=2) as counts:
        assert len(list((tmp_path / "two").glob("part-*.begins.npy"))) > 3
        assert as_plain(counts) == expected


class Stopped(Exception):
    """Stands for whatever ends a run."""


def stop_at(phase: str, after: int):
    def progress(what: str, done: int, total: int | None) -> None:
        if what == phase and done >= after:
            raise Stopped

    return progress


@pytest.mark.parametrize(("phase", "after"), [("reading", 5000), ("choosing words", 2), ("counting pairs", 3)])
def test_a_run_that_was_stopped_goes_on(corpus: Path, tmp_path: Path, phase: str, after: int) -> None:
    work, settings = tmp_path / "work", Counting(unit="window")
    with pytest.raises(Stopped), count_corpus([corpus], work, settings, progress=stop_at(phase, after)):
        pass
    before = {path.name: path.stat().st_mtime_ns for path in work.iterdir() if path.name != "made-with.json"}
    assert before
    with count_corpus([corpus], work, settings) as counts:
        now = {path.name: path.stat().st_mtime_ns for path in work.iterdir()}
        assert before.items() <= now.items(), "what was finished was made again"
        assert as_plain(counts) == counted_by_hand(sentences(400), settings)


def test_a_corpus_that_changed_meanwhile_is_read_anew_where_it_changed(corpus: Path, tmp_path: Path) -> None:
    work, settings = tmp_path / "work", Counting()
    with pytest.raises(Stopped), count_corpus([corpus], work, settings, progress=stop_at("counting pairs", 3)):
        pass
    changed = [text.replace("Zürich", "Geneve") for text in sentences(400)]
    corpus.write_text("\n".join(changed), encoding="utf-8")
    with count_corpus([corpus], work, settings) as counts:
        assert as_plain(counts) == counted_by_hand(changed, settings)


def test_a_corpus_that_changed_between_two_kills_is_not_mixed_up(corpus: Path, tmp_path: Path) -> None:
    work, settings = tmp_path / "work", Counting()
    with pytest.raises(Stopped), count_corpus([corpus], work, settings, progress=stop_at("counting pairs", 3)):
        pass
    changed = ["Geneve and Geneve.", *sentences(400)[1:]]
    corpus.write_text("\n".join(changed), encoding="utf-8")
    with pytest.raises(Stopped), count_corpus([corpus], work, settings, progress=stop_at("reading", 5000)):
        pass  # the block that changed is made, the others are only compared
    with count_corpus([corpus], work, settings) as counts:
        assert as_plain(counts) == counted_by_hand(changed, settings)


def test_a_corpus_that_became_shorter_is_counted_as_it_is(corpus: Path, tmp_path: Path) -> None:
    work, settings = tmp_path / "work", Counting()
    more = tmp_path / "more.txt"
    more.write_text("\n".join(sentences(99, 7)), encoding="utf-8")
    with pytest.raises(Stopped), count_corpus([corpus, more], work, settings, progress=stop_at("counting pairs", 3)):
        pass
    more.write_text("")
    with count_corpus([corpus, more], work, settings) as counts:
        assert as_plain(counts) == counted_by_hand(sentences(400), settings)


def test_strict_stops_at_rows_that_an_earlier_run_skipped(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "one two"}\nno json\n' * 50)
    with pytest.raises(Stopped), count_corpus([path], tmp_path / "work", progress=stop_at("choosing words", 0)):
        pass
    with pytest.raises(InputError, match="--strict"), count_corpus([path], tmp_path / "work", strict=True):
        pass


def test_an_unfinished_build_with_other_settings_is_not_lost(corpus: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    with pytest.raises(Stopped), count_corpus([corpus], work, Counting(), progress=stop_at("counting pairs", 3)):
        pass
    with (
        pytest.raises(InputError, match=r"settings\.unit was sentence, is window.*--restart"),
        count_corpus([corpus], work, Counting("window")),
    ):
        pass
    with count_corpus([corpus], work, Counting("window"), restart=True) as counts:
        assert as_plain(counts) == counted_by_hand(sentences(400), Counting("window"))


def test_a_mistake_in_the_first_try_binds_nobody(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("body\none two\n" * 9, encoding="utf-8")
    with pytest.raises(InputError, match="'text'"), count_corpus([path], tmp_path / "work"):
        pass
    with count_corpus([path], tmp_path / "work", columns=("body",)) as counts:
        assert counts.n_units == 17  # the name of the column again and again


def test_two_runs_in_one_place_are_refused(corpus: Path, tmp_path: Path) -> None:
    with (
        count_corpus([corpus], tmp_path / "work"),
        pytest.raises(InputError, match="Another process"),
        count_corpus([corpus], tmp_path / "work"),
    ):
        pass


def test_a_folder_with_other_files_is_left_alone(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match=r"diary\.txt"), count_corpus([corpus], tmp_path / "work"):
        pass
    assert (tmp_path / "work" / "diary.txt").read_text() == "mine"


def test_junk_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    chance = random.Random(3)
    junk = bytes(chance.randrange(256) for _ in range(20_000))
    (tmp_path / "junk.txt").write_bytes(junk)
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "good.txt").write_text("\n".join(["one two"] * 9) + "\nbad \udcff\n", "utf-8", "surrogateescape")
    with count_corpus([tmp_path], tmp_path / "work") as counts:
        plain = as_plain(counts)
        assert plain["pairs"][("one", "two")] == 9
        assert counts.about["skipped"]["rows"] > 50
        assert any("junk.txt, line" in said for said in counts.about["skipped"]["first"])


def test_a_corpus_without_a_word_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n...\n")
    with pytest.raises(InputError, match="not one word"), count_corpus([tmp_path / "empty.txt"], tmp_path / "work"):
        pass
    assert not (tmp_path / "work").exists()


def test_too_little_memory_is_said() -> None:
    with pytest.raises(InputError, match="too little"):
        Share.of(1 << 20, 0)
    with pytest.raises(InputError, match="64 processes"):
        Share.of(1 << 30, 64)


def start(corpus: Path, out: Path, workers: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(CHILD.parent.parent), *sys.path])}
    command = [sys.executable, str(CHILD), str(corpus), str(out), str(workers)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def n_finished(work: Path) -> int:
    return len([path for path in work.glob("*") if path.suffix in (".npz", ".npy", ".arrow")]) if work.is_dir() else 0


def kill_at_random(child: subprocess.Popen[str], work: Path, chance: random.Random) -> None:
    if chance.random() < 0.2:
        time.sleep(chance.uniform(0, 0.6))
    else:
        wanted = n_finished(work) + chance.randrange(1, 4)
        while n_finished(work) < wanted and child.poll() is None:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.03))
    assert child.poll() is None, f"the run ended before it was killed: {child.communicate()}"
    helpers = psutil.Process(child.pid).children()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not psutil.wait_procs(helpers, timeout=20)[1], "a worker outlived its parent"


@pytest.mark.slow
def test_ten_kills_at_random_moments_leave_the_same_folder(corpus: Path, tmp_path: Path) -> None:
    out, chance = tmp_path / "out", random.Random(0)
    corpus.write_text("\n".join(sentences(1200)), encoding="utf-8")  # some 70 blocks: ten kills leave work to do
    for kill in range(N_KILLS):  # alone and with helpers in turn: either goes on with what the other left
        kill_at_random(start(corpus, out, workers=(0, 2)[kill % 2]), Path(f"{out}.unfinished"), chance)
        assert not out.exists(), "half a folder appeared"
    for place, workers in ((out, 2), (tmp_path / "untouched", 0)):
        child = start(corpus, place, workers)
        _, said = child.communicate(timeout=300)
        assert child.returncode == 0, said
    assert files_of(out) == files_of(tmp_path / "untouched")
    assert not Path(f"{out}.unfinished").exists()
