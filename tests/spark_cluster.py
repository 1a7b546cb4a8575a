"""Spark for tests: a session on this machine, and a real cluster of a master and two workers on loopback.

    from spark_cluster import needs_spark, spark_local, spark_standalone

    pytestmark = [pytest.mark.slow, needs_spark]

    def test_...(spark_local: SparkSession): ...     # local[2], one for all tests of a process
    def test_...(spark_standalone: str): ...         # the master's URL, for `run_driver` or a child of your own

One process has one session, so whatever talks to the cluster runs in a child process: `run_driver`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infuser.spark import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2]"
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that lives for seconds need not optimise
SMALL = (
    f"--driver-memory 768m --driver-java-options '{_QUICK}' --conf spark.executor.memory=512m "
    f"--conf 'spark.executor.extraJavaOptions={_QUICK}' --conf spark.sql.shuffle.partitions=4 pyspark-shell"
)
"""PYSPARK_SUBMIT_ARGS with which the tests stay small."""
_PATIENCE = 90


def _reason_to_skip() -> str | None:
    for package in ("pyspark", "pandas"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed: pip install 'infuser[spark]'"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        return "there is no Java, which Spark needs"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    return None if version and int(version[1]) >= 17 else f"Spark needs Java 17 or newer, this is {told[:40]!r}"


_REASON = _reason_to_skip()
needs_spark = pytest.mark.skipif(_REASON is not None, reason=_REASON or "")


@pytest.fixture(scope="session")
def spark_local() -> Iterator[SparkSession]:
    """A session with two slots on this machine; `open_session` finds it and leaves it running."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", SMALL)
        with open_session(MASTER, "infuser tests") as session:
            yield session


@pytest.fixture(scope="session")
def spark_standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a standalone master with two workers of one core each, all of them processes of their own."""
    folder = tmp_path_factory.mktemp("cluster")
    port, page = _free_port(), _free_port()
    url = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
    worker = ["worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "768m", url]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes.append(_start(master, folder / "master"))
        _wait_for_workers(page, 0, processes, folder)
        processes += [_start(worker, folder / f"worker-{n}") for n in range(2)]
        _wait_for_workers(page, 2, processes, folder)
        yield url
    finally:
        for process in reversed(processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the executors, which are in its group
            process.wait()


def run_driver(code: str, *arguments: object, timeout: float = 180) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, as small as the tests, which can import what we can."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYSPARK_SUBMIT_ARGS": SMALL}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout, check=False)


def _start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    folder.mkdir()
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_WORKER_DIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder),
    }
    environment |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _QUICK}
    program = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{command[0]}", *command[1:]]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(program, stdout=log, stderr=log, env=environment, cwd=folder, start_new_session=True)


def _wait_for_workers(page: int, n_workers: int, processes: list[subprocess.Popen[bytes]], folder: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and all(process.poll() is None for process in processes):
        with suppress(OSError, ValueError), urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as told:
            if json.load(told)["aliveworkers"] == n_workers:
                return
        time.sleep(0.2)
    logs = "\n".join(f"{path}:\n{path.read_text(errors='replace')[-2000:]}" for path in folder.glob("*/log"))
    pytest.fail(f"The Spark cluster did not come up.\n{logs}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
