"""Processes that work through tasks: each takes one after another, results come back as they are finished.

A process that ends for any reason closes its end of the pipe, which is how we notice; and when we are killed, it
notices the same way and ends too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

from infuser.errors import InfuserError, InputError

Task = TypeVar("Task")
Result = TypeVar("Result")
Tell = Callable[[int], None]
"""Hears how much was done since it was last told."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def spread(
    tasks: Iterable[Task], work: Callable[[Task, Tell], Result], n_workers: int, tell: Tell, *, doing: str = "worked"
) -> Iterator[Result]:
    """Yield work(task, tell) for every task, in the order in which they are finished.

    With no workers all is done here, one task after another. `work` travels to each process once, so what it opens it
    may keep; tasks are taken from their iterator only when a process is free. `doing` is for messages.
    """
    if n_workers == 0:
        for task in tasks:
            yield work(task, tell)
        return
    waiting = iter(tasks)
    with _team(work, n_workers, doing) as team:
        busy = {worker.connection: worker for worker in team if worker.take(waiting)}
        while busy:
            for ready in wait(list(busy)):
                worker = busy[ready]  # type: ignore[index]  # they are the connections we gave
                kind, answer = worker.hear()
                if kind == _TOLD:
                    tell(answer)
                    continue
                if kind == _FAILED:
                    raise answer
                if not worker.take(waiting):  # before yielding: whoever takes the result may take a while
                    del busy[worker.connection]
                yield answer


_TOLD, _FAILED, _DONE = range(3)


@dataclass(frozen=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    doing: str

    def take(self, waiting: Iterator[Any]) -> bool:
        """Hand over the next task; False if there is none."""
        for task in waiting:
            try:
                self.connection.send(task)
            except OSError as error:
                raise self._dead() from error
            return True
        return False

    def hear(self) -> tuple[int, Any]:
        """Return what the worker says: how much is done, a result, or what went wrong."""
        try:
            answer: tuple[int, Any] = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._dead() from error
        return answer

    def _dead(self) -> InfuserError:
        self.process.join(timeout=5)
        code = self.process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        cause = " Signal 9 often means that memory ran out." if code == -9 else ""
        return InfuserError(
            f"A worker process {how} while it {self.doing}.{cause} What is finished stays: run the same again, perhaps "
            "with fewer workers. (A script of your own needs `if __name__ == '__main__':` around its work.)"
        )


@contextmanager
def _team(work: Callable[..., Any], n_workers: int, doing: str) -> Iterator[list[_Worker]]:
    """Start workers, and end them whatever happens."""
    try:
        message = bytes(ForkingPickler.dumps(work))
    except Exception as error:
        raise InputError(
            f"The work cannot be handed to worker processes: {error}. Functions among the settings of a source must be "
            "defined in a module; or work without workers."
        ) from error
    spawning = multiprocessing.get_context("spawn")  # forking a process that runs threads (Arrow, torch) can hang
    with ExitStack() as clean_up:
        team = []
        for _ in range(n_workers):
            ours, theirs = spawning.Pipe()
            process = spawning.Process(target=_work, args=(theirs, message), daemon=True)
            process.start()
            theirs.close()
            clean_up.callback(_end, process, ours)
            team.append(_Worker(process, ours, doing))
        yield team


def _end(process: BaseProcess, connection: Connection) -> None:
    connection.close()  # a worker that waits for work ends by itself
    process.join(timeout=0.2)
    if process.is_alive():
        process.terminate()
        process.join()


def _work(connection: Connection, message: bytes) -> None:
    """Do what comes until nothing more can come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who presses Ctrl-C speaks to the parent, which ends us
    for name in _THREADS:
        os.environ.setdefault(name, "1")  # the workers are the parallelism
    work: Callable[[Any, Tell], Any] | None = None
    with suppress(EOFError, OSError):  # when the parent is gone
        while True:
            task = connection.recv()
            try:
                if work is None:
                    work = ForkingPickler.loads(message)
                answer = (_DONE, work(task, lambda n: connection.send((_TOLD, n))))
            except BaseException as error:
                answer = (_FAILED, _portable(error))
            connection.send(answer)


def _portable(error: BaseException) -> BaseException:
    """Return the error itself if it can travel, else one that says the same; with its traceback, for --debug."""
    error.add_note("In a worker process:\n" + "".join(traceback.format_exception(error)))
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:
        return InfuserError(f"{type(error).__name__}: {error}")
    return error
