from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from infuser.errors import InfuserError, InputError
from infuser.processes import ReportDone, WorkerPool


def double(task: int, report: ReportDone) -> tuple[int, int]:
    report(1)
    return 2 * task, os.getpid()


def slow(task: int, report: ReportDone) -> int:
    time.sleep(0.05)
    return os.getpid()


def fail(task: int, report: ReportDone) -> int:
    raise InputError(f"task {task} is wrong")


def die(task: int, report: ReportDone) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


@pytest.mark.parametrize("n_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_every_task_is_done_and_told(n_workers: int) -> None:
    told: list[int] = []
    with WorkerPool(n_workers) as pool:
        done = list(pool.map_unordered(range(20), double, told.append))
    assert sorted(result for result, _ in done) == [2 * task for task in range(20)]
    assert sum(told) == 20
    assert (os.getpid() in {where for _, where in done}) == (n_workers == 0)


@pytest.mark.slow
def test_a_crew_does_one_work_after_another_and_its_parent_helps_until_it_has_started() -> None:
    with WorkerPool(2, helping=True) as pool:
        assert sorted(result for result, _ in pool.map_unordered([1, 2], double, lambda n: None)) == [
            2,
            4,
        ]  # over at once
        assert len(list(pool.map_unordered(range(100), slow, lambda n: None))) == 100
        where = set(pool.map_unordered(range(20), slow, lambda n: None))
        assert os.getpid() not in where and len(where) == 2, "they are up, so they do it alone"


@pytest.mark.slow
@pytest.mark.parametrize("helping", [False, True])
def test_what_goes_wrong_comes_home(helping: bool) -> None:
    with WorkerPool(1, helping=helping) as pool, pytest.raises(InputError, match="task 7 is wrong"):
        list(pool.map_unordered([7], fail, lambda n: None))
    with WorkerPool(1) as pool, pytest.raises(InfuserError, match="killed by signal 9 while it counted"):
        list(pool.map_unordered([1], die, lambda n: None, doing="counted"))


def test_work_that_cannot_travel_is_refused() -> None:
    with WorkerPool(1) as pool, pytest.raises(InputError, match="cannot be handed"):
        list(pool.map_unordered([1], lambda task, report: task, lambda n: None))


_PARENT = """
import sys, time
sys.path[:0] = sys.argv[1:]
from infuser.processes import WorkerPool
from test_processes import sleep_long
if __name__ == "__main__":
    print("started", flush=True)
    with WorkerPool(2) as pool:
        list(pool.map_unordered([1, 2], sleep_long, lambda n: None))
"""


def sleep_long(task: int, report: ReportDone) -> None:
    time.sleep(60)


@pytest.mark.slow
def test_a_worker_ends_with_its_parent_in_the_middle_of_a_task(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(_PARENT)
    parent = subprocess.Popen(
        [sys.executable, str(script), str(Path(__file__).parent), *sys.path], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None and parent.stdout.readline() == b"started\n"
    time.sleep(3)
    workers = psutil.Process(parent.pid).children()
    assert len(workers) >= 2
    parent.kill()
    parent.wait()
    assert not psutil.wait_procs(workers, timeout=10)[1]
