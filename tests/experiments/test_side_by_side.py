"""Trainings side by side are never left alone; that all are done and heard is tested with `compare`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

SCRIPT = """
import sys

if __name__ == "__main__":  # workers import this file, and nothing before they watch
    from infuser.experiments.run import run_side_by_side
    import jobs

    heard = []
    work = getattr(jobs, sys.argv[1])
    run_side_by_side(work, [(n, sys.argv[2]) for n in range(3)], 2, lambda *values: heard.append(values))
    print(sorted(heard))
elif sys.argv[1] == "import":
    import time

    class Slowly:
        def find_spec(self, name, *more):
            if name.startswith("infuser.experiments"):
                time.sleep(1200)

    sys.meta_path.insert(0, Slowly())
"""
JOBS = """
import os, time
from pathlib import Path

def fail(n, folder, report):
    if n == 1:
        raise ValueError("job 1 went wrong")
    time.sleep(1200)

def wait(n, folder, report):
    (Path(folder) / f"{os.getpid()}.pid").touch()
    time.sleep(1200)

locals()["import"] = wait
"""


@pytest.fixture
def start(tmp_path: Path) -> Callable[[str], subprocess.Popen[str]]:
    (tmp_path / "jobs.py").write_text(JOBS, encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")

    def starting(job: str) -> subprocess.Popen[str]:
        command = [sys.executable, "script.py", job, str(tmp_path)]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return starting


@pytest.mark.slow
def test_a_job_that_fails_ends_the_others_at_once(start: Callable[[str], subprocess.Popen[str]]) -> None:
    process = start("fail")
    _, problem = process.communicate(timeout=600)  # the others would work for twice as long
    assert process.returncode != 0 and "job 1 went wrong" in problem


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed(start: Callable[[str], subprocess.Popen[str]], tmp_path: Path) -> None:
    process = start("wait")
    deadline = time.monotonic() + 100
    while len(workers := list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(workers) == 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    alive = {int(path.stem) for path in workers}
    while alive and time.monotonic() < deadline:
        alive = {pid for pid in alive if _is_running(pid)}
        time.sleep(0.1)
    assert not alive


@pytest.mark.slow
@pytest.mark.parametrize(
    ("delay", "job"), [(0, "wait"), (0.1, "wait"), (1, "wait"), pytest.param(5, "import", id="while they import")]
)
def test_workers_end_when_their_parent_is_killed_while_they_start(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path, delay: float, job: str
) -> None:
    process = start(job)
    deadline = time.monotonic() + 100
    while not (started := _others_in(tmp_path, process.pid)) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert started
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # looked for again and again: the last one may have been started when its parent was killed
    while (alive := _others_in(tmp_path, process.pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for one in alive:
        one.kill()
    assert not alive


def _others_in(folder: Path, parent: int) -> list[psutil.Process]:
    """Return the processes that work in a folder, whoever started them."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd() == str(folder) and process.pid != parent and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")
