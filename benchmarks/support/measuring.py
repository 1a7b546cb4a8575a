"""What benchmarks share: rounds of timing, a process per measurement, memory, facts about the machine, result files."""

from __future__ import annotations

import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from infuser import __version__
from infuser.files import write_whole

RESULTS = Path(__file__).resolve().parents[1] / "results"


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a call takes, and its result."""
    started = time.perf_counter()
    result = call()
    return time.perf_counter() - started, result


def rounds_of(
    calls: Mapping[str, Callable[[], Any]], rounds: int, *, warm_up: int = 0, collect: bool = False
) -> dict[str, list[float]]:
    """Return the seconds of each call in each round; the calls take turns, so that a slow moment hits all of them.

    The first `warm_up` rounds are not counted. With `collect`, garbage is collected before each call.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(warm_up + rounds):
        for name, call in calls.items():
            if collect:
                gc.collect()
            taken, _ = timed(call)
            if turn >= warm_up:
                seconds[name].append(taken)
    return seconds


def fastest(calls: Mapping[str, Callable[[], Any]], rounds: int, **how: Any) -> dict[str, float]:
    """Return the seconds of the fastest round of each call."""
    return {name: min(seconds) for name, seconds in rounds_of(calls, rounds, **how).items()}


def medians(calls: Mapping[str, Callable[[], Any]], rounds: int, **how: Any) -> dict[str, float]:
    """Return the median seconds of each call."""
    return {name: statistics.median(seconds) for name, seconds in rounds_of(calls, rounds, **how).items()}


def in_new_process(script: str, *arguments: object) -> Any:
    """Run a script with arguments in a new process, and return the JSON value in the last line that it prints."""
    command = [sys.executable, script, *map(str, arguments)]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(printed.splitlines()[-1])


def memory_mb(what: str = "VmHWM") -> float:
    """Return the peak memory of this process in MB, or what it holds now ("VmRSS", "RssAnon")."""
    status = Path("/proc/self/status")
    if not status.exists():  # elsewhere the peak of the parent may be reported if it was higher
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
    return int(lines[what].split()[0]) / 1e3


def about(*packages: str, **facts: Any) -> dict[str, Any]:
    """Return the versions of infuser, Python and these packages, the machine, and further facts about a run."""
    versions = {"infuser": __version__, "python": platform.python_version(), **{one: version(one) for one in packages}}
    return {**versions, "machine": platform.machine(), "cores": os.cpu_count(), **facts}


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
