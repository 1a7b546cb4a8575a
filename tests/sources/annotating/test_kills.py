"""kill -9 at random moments, rerun: the same bytes as a run that was left alone."""

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
from sources.annotating.child import files_of

CHILD = Path(__file__).with_name("child.py")
N_KILLS = 10


def start(data: Path, out: Path, cache: str, workers: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(CHILD), str(data), str(out), cache, str(workers)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(CHILD.parent.parent), *sys.path])}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def run(data: Path, out: Path, cache: str, workers: int) -> None:
    child = start(data, out, cache, workers)
    _, said = child.communicate(timeout=300)
    assert child.returncode == 0, said


@pytest.fixture
def data(tmp_path: Path) -> Path:
    chance = random.Random(0)
    words = ["Bern", "Aare", "lies", "on", "the", "river", "🙂", "Zürich"]
    path = tmp_path / "texts.txt"
    path.write_text("".join(" ".join(chance.choices(words, k=5)) + f" {n}\n" for n in range(3000)), encoding="utf-8")
    return path


def n_finished(out: Path) -> int:
    return len(list(out.glob("shard-*.arrow")))


def kill_at_random(child: subprocess.Popen[str], out: Path, chance: random.Random) -> bool:
    """Kill a child while it starts, or after it has made a few shards and some part of the next."""
    if chance.random() < 0.2:
        time.sleep(chance.uniform(0, 0.5))
    else:
        wanted = n_finished(out) + chance.randrange(4)
        while n_finished(out) < wanted and child.poll() is None:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.05))
    alive = child.poll() is None
    helpers = psutil.Process(child.pid).children() if alive else []
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not psutil.wait_procs(helpers, timeout=20)[1], "a worker outlived its parent"
    return alive


@pytest.mark.slow
def test_ten_kills_at_random_moments_leave_the_same_bytes(data: Path, tmp_path: Path) -> None:
    out, chance = tmp_path / "out", random.Random(0)
    ways = ((0, "-"), (2, str(tmp_path / "cache")))  # in turn: either goes on with what the other left
    finished = [0]
    for kill in range(N_KILLS):
        workers, cache = ways[kill % 2]
        assert kill_at_random(start(data, out, cache, workers), out, chance), "the run ended before it was killed"
        finished.append(n_finished(out))
    assert finished == sorted(finished) and finished[-1] >= 5, "what was finished must stay"
    assert finished[-1] < 60, "the last run must have something left to do"
    workers, cache = ways[1]
    run(data, out, cache, workers)
    run(data, tmp_path / "untouched", "-", 0)
    assert files_of(out) == files_of(tmp_path / "untouched")
