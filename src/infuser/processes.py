"""Processes that work through tasks: each takes one after another, results come back as they are finished.

A process that ends for any reason closes its end of the pipe, which is how we notice; and when we are killed, it
notices the same way and ends too.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

from infuser.errors import InfuserError, InputError

Task = TypeVar("Task")
Result = TypeVar("Result")
ReportDone = Callable[[int], None]
"""Called with how much was done since the last call."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def launched_processes() -> int:
    """Return how many processes accelerate or torchrun launched."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Return whether this process is the first of those that accelerate or torchrun launched."""
    return int(os.environ.get("RANK", "0")) == 0


class WorkerPool:
    """Worker processes for several pieces of work; they start with the first and end with the `with` block.

    With `helping`, this process does tasks too while the others start, which takes them a second or so each.
    """

    def __init__(self, n_workers: int, *, helping: bool = False) -> None:
        self.n_workers, self._helping = n_workers, helping
        self._workers: list[_Worker] = []
        self._n_works, self._started = 0, False
        self._clean_up = ExitStack()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *error: object) -> None:
        self._clean_up.close()

    def map_unordered(
        self,
        tasks: Iterable[Task],
        work: Callable[[Task, ReportDone], Result],
        report: ReportDone,
        *,
        doing: str = "worked",
    ) -> Iterator[Result]:
        """Yield work(task, report) for every task, in the order in which they are finished.

        With no workers all is done here, one task after another. `work` travels to each process once, so what it opens
        it may keep; tasks are taken from their iterator only when a process is free. `doing` is for messages.
        """
        if self.n_workers == 0:
            for task in tasks:
                yield work(task, report)
            return
        waiting = iter(tasks)
        self._send_work(work, doing)
        busy = {worker.connection: worker for worker in self._workers}
        while busy:
            patience = 0 if self._helping and not self._started else None
            for ready in wait(list(busy), patience):
                worker = busy[ready]  # type: ignore[index]  # they are the connections we gave
                kind, answer = worker.receive(doing)
                if kind == _PROGRESS:
                    report(answer)
                    continue
                if kind == _FAILED:
                    raise answer
                self._started = True
                if kind == _READY and answer != self._n_works:  # for work that was over before the process had started
                    continue
                if not worker.take(waiting, doing):  # before yielding: the caller may take a while with the result
                    del busy[worker.connection]
                if kind == _DONE:
                    yield answer
            if patience == 0 and not self._started:
                for task in waiting:
                    yield work(task, report)
                    break
                else:
                    return

    def _send_work(self, work: Callable[..., Any], doing: str) -> None:
        try:
            message = bytes(ForkingPickler.dumps(work))
        except Exception as error:
            raise InputError(
                f"The work cannot be handed to worker processes: {error}. Functions among the settings of a source "
                "must be defined in a module; or work without workers."
            ) from error
        if not self._workers:
            self._start()
        self._n_works += 1
        for worker in self._workers:
            worker.send((_WORK, (self._n_works, message)), doing)

    def _start(self) -> None:
        spawning = multiprocessing.get_context("spawn")  # forking a process that runs threads (Arrow, torch) can hang
        for _ in range(self.n_workers):
            ours, theirs = spawning.Pipe()
            process = spawning.Process(target=_work, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._clean_up.callback(_end, process, ours)
            self._workers.append(_Worker(process, ours))


_PROGRESS, _FAILED, _DONE, _READY = range(4)
_WORK, _TASK = range(2)


@dataclass(frozen=True)
class _Worker:
    process: BaseProcess
    connection: Connection

    def take(self, waiting: Iterator[Any], doing: str) -> bool:
        """Hand over the next task; False if there is none."""
        for task in waiting:
            self.send((_TASK, task), doing)
            return True
        return False

    def send(self, message: tuple[int, Any], doing: str) -> None:
        """Send work or a task."""
        try:
            self.connection.send(message)
        except OSError as error:
            raise self._dead(doing) from error

    def receive(self, doing: str) -> tuple[int, Any]:
        """Return what the worker says: how much is done, a result, or what went wrong."""
        try:
            answer: tuple[int, Any] = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._dead(doing) from error
        return answer

    def _dead(self, doing: str) -> InfuserError:
        self.process.join(timeout=5)
        code = self.process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        cause = " Signal 9 often means that memory ran out." if code == -9 else ""
        return InfuserError(
            f"A worker process {how} while it {doing}.{cause} What is finished stays: run the same again, perhaps with "
            "fewer workers. (A script of your own needs `if __name__ == '__main__':` around its work.)"
        )


def _end(process: BaseProcess, connection: Connection) -> None:
    connection.close()  # a worker that waits for work ends by itself
    process.join(timeout=0.2)
    if process.is_alive():
        process.terminate()
        process.join()


def _work(connection: Connection) -> None:
    """Run tasks until the queue closes; exit with the parent."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who presses Ctrl-C speaks to the parent, which ends us
    for name in _THREADS:
        os.environ.setdefault(name, "1")  # the workers are the parallelism
    work: Callable[[Any, ReportDone], Any] | None = None
    with suppress(EOFError, OSError):  # when the parent is gone
        while True:
            kind, content = connection.recv()
            try:
                if kind == _WORK:
                    number, message = content
                    work = ForkingPickler.loads(message)
                    answer = (_READY, number)
                else:
                    assert work is not None, "work comes before tasks"
                    answer = (_DONE, work(content, lambda n: connection.send((_PROGRESS, n))))
            except BaseException as error:
                answer = (_FAILED, _portable(error))
            connection.send(answer)


def watch_parent_and_call(module: str, name: str, *arguments: Any) -> None:
    """Call a function of a module that takes seconds to import, in a worker that ends with its parent even then."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    getattr(importlib.import_module(module), name)(*arguments)


def end_with_parent() -> None:
    """End this worker process as soon as its parent is gone, in the middle of whatever it does."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # the process that continues the work must not find this one still writing


def _portable(error: BaseException) -> BaseException:
    """Return the error itself if it can travel, else one that says the same; with its traceback, for --debug."""
    error.add_note("In a worker process:\n" + "".join(traceback.format_exception(error)))
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:
        return InfuserError(f"{type(error).__name__}: {error}")
    return error
