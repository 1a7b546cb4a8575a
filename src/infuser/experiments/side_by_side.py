"""Trainings side by side, each in a process of its own that tells how it goes.

Small models train faster as several trainings with few threads each than as one on all threads.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from typing import Any

from infuser.processes import end_with_parent

_heard: Any = None
"""In a worker process: where it tells what happens."""


def run_side_by_side(
    work: Callable[..., None], jobs: Sequence[tuple[Any, ...]], n_workers: int, tell: Callable[..., None]
) -> None:
    """Call `work(*job, tell=...)` for every job in worker processes, and pass on what they tell.

    `work` is a function of a module, so that a process can find it. When this process is killed, its workers end too.
    """
    import torch

    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    n_threads = max(1, torch.get_num_threads() // n_workers)
    heard = context.Queue()
    pool = ProcessPoolExecutor(n_workers, context, initializer=_begin, initargs=(heard, n_threads))
    try:
        waiting = {pool.submit(_work, work, job) for job in jobs}
        while waiting:
            done, waiting = wait(waiting, timeout=0.2)
            while not heard.empty():
                tell(*heard.get())
            for future in done:
                future.result()  # raises here what was raised there
    except BaseException:
        for process in list((pool._processes or {}).values()):  # a training takes minutes: nobody waits for the others
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    while not heard.empty():
        tell(*heard.get())


def _begin(heard: Any, n_threads: int) -> None:
    import torch
    from transformers.utils import logging

    global _heard
    _heard = heard
    threading.Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(n_threads)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]


def _work(work: Callable[..., None], job: tuple[Any, ...]) -> None:
    work(*job, tell=lambda *told: _heard.put(told))
