"""Processes of their own for tests that kill them or need two: a server loads torch once and forks itself for each.

    process = start_forked(target, *arguments, log=folder / "log.txt")
    assert exit_codes(process) == [0]

Loading torch takes seconds, a fork takes milliseconds. The server only imports, so a forked process begins where a new
one stands after its imports; it has its own memory and dies alone. Its target is a function that can be imported.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_LOADED = ["infuser.linking.training", "sklearn.metrics", "transformers.models.bert.modeling_bert"]
"""What the server imports: nearly all that takes time in what tests start."""


def start_forked(
    target: Callable[..., None], *arguments: Any, log: Path, environment: Mapping[str, str] | None = None, **more: Any
) -> BaseProcess:
    """Call a function in a process of its own, which writes what it says into `log`."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(_LOADED)  # it starts with the first process and serves all others
    process = server.Process(target=_run, args=(partial(target, *arguments, **more), log, dict(environment or {})))
    process.start()
    return process


def start_ranks(target: Callable[..., None], *arguments: Any, logs: Path, **more: Any) -> list[BaseProcess]:
    """Call a function in two processes that find each other through gloo; what they say is in `logs`/log-*.txt."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {"ACCELERATE_USE_CPU": "true", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [
        start_forked(
            target,
            *arguments,
            log=logs / f"log-{rank}.txt",
            environment={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            **more,
        )
        for rank in range(2)
    ]


def exit_codes(*processes: BaseProcess, timeout: float = 300) -> list[int | None]:
    """Wait for processes and return how they ended; None for one that had to be killed after the time was over."""
    until = time.monotonic() + timeout
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
    ended = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
        process.join(30)
    return ended


def _run(call: Callable[[], None], log: Path, environment: dict[str, str]) -> None:
    import torch

    with log.open("wb") as file:
        for stream in (1, 2):  # as a whole process would, whatever writes to it
            os.dup2(file.fileno(), stream)
    os.environ.update(environment)
    torch.set_num_threads(1)  # the server's number of threads was settled when it loaded torch
    call()
