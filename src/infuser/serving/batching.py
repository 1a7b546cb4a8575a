"""Requests become batches: texts of different requests that ask the same are read at once, by one thread.

The first text of a batch waits a few milliseconds for others; those that came while the model worked do not wait again.
Within a batch, texts are sorted by length and read in parts of similar length, so that little is padding.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from infuser.serving.limits import ServingLimits
from infuser.serving.model import Question

Work = Callable[[Sequence[Question]], list[dict[str, Any]]]

_MOST_PADDING = 1.5
"""A part of a batch takes at most so many times the length of its texts."""
_COST_OF_A_TEXT = 32
"""In characters: what a text costs beside its length."""
_SLEEPING_TWICE_S = 1e-4

logger = logging.getLogger(__name__)


class BusyError(Exception):
    """More texts wait for the model than `ServingLimits.most_waiting`."""


class GoneError(Exception):
    """Nobody waits for this answer any more."""


@dataclass(slots=True, eq=False)
class _Job:
    """The texts of one request."""

    key: Hashable
    """Jobs of one key go into the same batches: the same model, knowledge and question."""
    work: Work
    questions: Sequence[Question]
    is_gone: Callable[[], Awaitable[bool]]
    done: asyncio.Future[list[dict[str, Any]]]
    came: float
    answers: dict[int, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """One text of a job."""

    job: _Job
    place: int

    @property
    def question(self) -> Question:
        return self.job.questions[self.place]


class Batcher:
    """Answers questions in batches, in one thread; `note` is called with the size of each batch."""

    def __init__(self, limits: ServingLimits, note: Callable[[int], None] = lambda size: None) -> None:
        self._limits, self._note = limits, note
        self._rows: deque[_Row] = deque()
        self._more = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._jobs: set[_Job] = set()
        self.n_failures = 0
        """How often the loop that makes batches has ended by an error, and was started again."""
        self._working_since: float | None = None
        # always the same thread: torch starts its helpers anew for every thread that it meets
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="infuser-serve-model")

    @property
    def n_waiting(self) -> int:
        """How many texts wait for the model."""
        return len(self._rows)

    @property
    def seconds_at_work(self) -> float:
        """How long the model has been reading the batch that it reads now."""
        return 0.0 if self._working_since is None else time.monotonic() - self._working_since

    async def ask(
        self,
        key: Hashable,
        work: Work,
        questions: Sequence[Question],
        is_gone: Callable[[], Awaitable[bool]],
        *,
        urgent: bool = False,
    ) -> list[dict[str, Any]]:
        """Return what `work` answers, in one batch or several, perhaps together with other jobs of the same key."""
        if len(self._rows) + len(questions) > self._limits.most_waiting and not urgent:
            raise BusyError
        loop = asyncio.get_running_loop()
        job = _Job(key, work, questions, is_gone, loop.create_future(), time.monotonic())
        rows = [_Row(job, place) for place in range(len(questions))]
        self._rows.extendleft(reversed(rows)) if urgent else self._rows.extend(rows)
        self._more.set()
        if self._loop is None or self._loop.done():
            self._loop = loop.create_task(self._work())
            self._loop.add_done_callback(self._ended)
        self._jobs.add(job)
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await job.done
        except TimeoutError:
            self._rows = deque(row for row in self._rows if row.job is not job)  # others may wait in their place
            raise
        finally:
            self._jobs.discard(job)

    def _ended(self, loop: asyncio.Task[None]) -> None:
        """Fail all waiting requests after an unexpected end of the loop; the next request starts it again."""
        error = None if loop.cancelled() else loop.exception()
        self.n_failures += 1
        if error is not None:
            logger.error("The loop that makes batches has ended; the next request starts it again", exc_info=error)
        self._rows.clear()
        for job in self._jobs:
            _end(job, error or RuntimeError("the loop that makes batches was cancelled"))

    async def _work(self) -> None:
        while True:
            while not self._rows:
                self._more.clear()
                await self._more.wait()
            await self._wait_for_others(self._rows[0].job)
            for part in by_length(await self._take()):
                await self._answer(part)

    async def _wait_for_others(self, first: _Job) -> None:
        """Wait until a batch is full, or its first text has waited long enough."""
        until = first.came + self._limits.batch_ms / 1e3
        while len(self._rows) < self._limits.batch_size and (left := until - time.monotonic()) > _SLEEPING_TWICE_S:
            self._more.clear()
            try:
                async with asyncio.timeout(left):
                    await self._more.wait()
            except TimeoutError:
                return

    async def _take(self) -> list[_Row]:
        """Return the oldest texts that somebody waits for and others of the same key, up to a batch; at least one."""
        taken: list[_Row] = []
        others: list[_Row] = []
        known: dict[_Job, bool] = {}
        n_characters = 0
        while self._rows and len(taken) < self._limits.batch_size:
            row = self._rows.popleft()
            if row.job not in known:
                known[row.job] = await self._is_waited_for(row.job)
            if not known[row.job]:
                continue
            if taken and row.job.key != taken[0].job.key:
                others.append(row)
                continue
            if taken and n_characters + row.question.size > self._limits.batch_characters:
                others.append(row)
                break
            taken.append(row)
            n_characters += row.question.size
        self._rows.extendleft(reversed(others))
        return taken

    async def _is_waited_for(self, job: _Job) -> bool:
        if not job.done.done() and await job.is_gone():
            _end(job, GoneError())
        return not job.done.done()

    async def _answer(self, rows: Sequence[_Row]) -> None:
        """Let the model read some texts; where one of them cannot be read, the requests of the others do not suffer."""
        work, questions = rows[0].job.work, [row.question for row in rows]
        self._working_since = time.monotonic()
        try:
            answers = await asyncio.get_running_loop().run_in_executor(self._thread, _guarded, work, questions)
        finally:
            self._working_since = None
        self._note(len(rows))
        jobs = list(dict.fromkeys(row.job for row in rows))
        if isinstance(answers, BaseException):
            if len(jobs) == 1:
                _end(jobs[0], answers)
                return
            for job in jobs:
                await self._answer([row for row in rows if row.job is job])
            return
        for row, answer in zip(rows, answers, strict=True):
            row.job.answers[row.place] = answer
        for job in jobs:
            if len(job.answers) == len(job.questions) and not job.done.done():
                job.done.set_result([job.answers[place] for place in range(len(job.questions))])


def _guarded(work: Work, questions: Sequence[Question]) -> list[dict[str, Any]] | BaseException:
    """Return the answers or the error; some errors, such as a StopIteration, would not survive the way back."""
    try:
        answers = work(questions)
        assert len(answers) == len(questions), f"{len(answers)} answers for {len(questions)} texts"
        return answers
    except BaseException as error:  # Ctrl-C never arrives in this thread, but a panic of a Rust tokenizer does
        return error


class WorkError(Exception):
    """Carries what went wrong inside the model; `args[0]` is the error itself."""


def _end(job: _Job, error: BaseException) -> None:
    if not job.done.done():
        job.done.set_exception(error if isinstance(error, GoneError) else WorkError(error))


def by_length(rows: Iterable[_Row]) -> list[list[_Row]]:
    """Return the texts in parts of similar length, the shortest first."""
    parts: list[list[_Row]] = []
    total = 0
    for row in sorted(rows, key=lambda row: row.question.size):
        cost = _COST_OF_A_TEXT + row.question.size
        if not parts or cost * (len(parts[-1]) + 1) > _MOST_PADDING * (total + cost):
            parts.append([])
            total = 0
        parts[-1].append(row)
        total += cost
    return parts
