"""Processes that annotate shards. Each opens its sources once and writes its own files; texts go out, facts come back.

A worker that ends for any reason closes its end of the pipe, which is how we notice; and when we are killed, the worker
notices the same way and ends too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

from infuser.annotating.shards import Row, Shard, write_shard
from infuser.errors import InfuserError, InputError
from infuser.types import Source

Task = tuple[int, list[Row]]
"""The number of a shard and its rows."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def annotate_shards(
    tasks: Iterable[Task], sources: Sequence[Source], folder: Path, n_workers: int, tell: Callable[[int], None]
) -> Iterator[Shard]:
    """Yield shards as they are finished; with no workers they are made here, one after another."""
    if n_workers == 0:
        for number, rows in tasks:
            yield write_shard(folder, number, rows, sources, tell)
        return
    waiting = iter(tasks)
    with _team(sources, folder, n_workers) as team:
        busy = {worker.connection: worker for worker in team if worker.give(next(waiting, None))}
        while busy:
            for ready in wait(list(busy)):
                worker = busy[ready]  # type: ignore[index]  # they are the connections we gave
                answer = worker.hear()
                if isinstance(answer, int):
                    tell(answer)
                    continue
                if isinstance(answer, BaseException):
                    raise answer
                if not worker.give(next(waiting, None)):  # before yielding: whoever takes the shard may take a while
                    del busy[worker.connection]
                yield answer


@dataclass(frozen=True)
class _Worker:
    process: BaseProcess
    connection: Connection

    def give(self, task: Task | None) -> bool:
        """Hand over a task; False if there is none."""
        if task is None:
            return False
        try:
            self.connection.send(task)
        except OSError as error:
            raise self._dead() from error
        return True

    def hear(self) -> int | Shard | BaseException:
        """Return what the worker says: texts done, a shard, or what went wrong."""
        try:
            answer: int | Shard | BaseException = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._dead() from error
        return answer

    def _dead(self) -> InfuserError:
        self.process.join(timeout=5)
        code = self.process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        cause = " Signal 9 often means that memory ran out." if code == -9 else ""
        return InfuserError(
            f"A worker process {how} while it annotated.{cause} What is finished stays: run the same again, perhaps "
            "with fewer workers. (A script of your own needs `if __name__ == '__main__':` around its work.)"
        )


@contextmanager
def _team(sources: Sequence[Source], folder: Path, n_workers: int) -> Iterator[list[_Worker]]:
    """Start workers, and end them whatever happens."""
    try:
        message = bytes(ForkingPickler.dumps(list(sources)))
    except Exception as error:
        raise InputError(
            f"A source cannot be handed to worker processes: {error}. Functions among its settings must be defined in "
            "a module; or work without workers."
        ) from error
    spawning = multiprocessing.get_context("spawn")  # forking a process that runs threads (Arrow, torch) can hang
    with ExitStack() as clean_up:
        team = []
        for _ in range(n_workers):
            ours, theirs = spawning.Pipe()
            process = spawning.Process(target=_work, args=(theirs, message, folder), daemon=True)
            process.start()
            theirs.close()
            clean_up.callback(_end, process, ours)
            team.append(_Worker(process, ours))
        yield team


def _end(process: BaseProcess, connection: Connection) -> None:
    connection.close()  # a worker that waits for work ends by itself
    process.join(timeout=0.2)
    if process.is_alive():
        process.terminate()
        process.join()


def _work(connection: Connection, message: bytes, folder: Path) -> None:
    """Annotate what comes until nothing more can come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who presses Ctrl-C speaks to the parent, which ends us
    for name in _THREADS:
        os.environ.setdefault(name, "1")  # the workers are the parallelism
    sources: list[Source] | None = None
    with suppress(EOFError, OSError):  # when the parent is gone
        while True:
            number, rows = connection.recv()
            try:
                if sources is None:
                    sources = ForkingPickler.loads(message)
                answer: Shard | BaseException = write_shard(folder, number, rows, sources, connection.send)
            except BaseException as error:
                answer = _portable(error)
            connection.send(answer)


def _portable(error: BaseException) -> BaseException:
    """Return the error itself if it can travel, else one that says the same; with its traceback, for --debug."""
    error.add_note("In a worker process:\n" + "".join(traceback.format_exception(error)))
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:
        return InfuserError(f"{type(error).__name__}: {error}")
    return error
