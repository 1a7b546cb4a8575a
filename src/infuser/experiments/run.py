"""Runs cells, in this process or in several, on one machine or on many.

Each process looks for a cell that no other works on, computes it and writes its result. A process that dies releases
its cell, and another takes it up. So the same command can run at the same time in any number of processes that see the
same folder: workers of one call, processes of `accelerate launch` or `torchrun`, or other machines. Where all processes
are to train each cell together (a large model, many GPUs), `together` says so.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from infuser.errors import InfuserError
from infuser.experiments.cell import Cell, Result, run_cell
from infuser.experiments.data import Annotator
from infuser.experiments.run_folder import Results
from infuser.processes import launched_processes, watch_parent_and_call
from infuser.training import StepReport

Report = Callable[[Cell, StepReport | None], None]
"""Called with a cell and the state of its training; None when it has its result."""

_POLL = 0.5
_LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
"""Variables by which a process knows that it was launched as one of several."""


def run(
    cells: Sequence[Cell],
    folder: Path,
    *,
    workers: int = 1,
    together: bool = False,
    cache: Path | None = None,
    progress: Report = lambda cell, report: None,
) -> None:
    """Compute all cells that have no result in the folder yet.

    `progress` is called at every step of every training, and with None at its end. Small models train faster as several
    cells side by side, one thread each, than as one cell on all threads.
    """
    results = Results(folder)
    if together and launched_processes() > 1:
        _train_together(cells, results, cache, progress)
        return
    if launched_processes() > 1:
        _leave_launch()
    if workers > 1 and sum(not results.is_finished(cell) for cell in cells) > 1:
        jobs = [(cells, results, cache)] * workers
        run_side_by_side(_work_apart, jobs, workers, lambda number, report: progress(cells[number], report))
    else:
        _work(cells, results, cache, progress)


def _work(cells: Sequence[Cell], results: Results, cache: Path | None, progress: Report) -> None:
    """Compute what no other process computes, until every cell has its result."""
    annotator, made = Annotator(cache), dict[str, Any]()
    left = list(cells)
    while left := [cell for cell in left if not results.is_finished(cell)]:
        computed = False
        for cell in left:
            if not all(results.is_finished(one) for one in cell.after):
                continue
            with results.claim(cell) as mine:
                if mine and not results.is_finished(cell):
                    results.write(cell, _compute(cell, results, annotator, made, progress))
                    progress(cell, None)
                    computed = True
        if not computed:
            time.sleep(_POLL)  # others are at work on what is left


def _work_apart(cells: Sequence[Cell], results: Results, cache: Path | None, report: Callable[..., None]) -> None:
    """Work in a process of its own and report cells by number: a cell holds all its data, and steps are many."""
    numbers = {cell: number for number, cell in enumerate(cells)}
    _work(cells, results, cache, lambda cell, step: report(numbers[cell], step))


def _compute(cell: Cell, results: Results, annotator: Annotator, made: dict[str, Any], progress: Report) -> Result:
    assert cell.open is not None
    try:
        before = [result for one in cell.after if (result := results.read(one)) is not None]
        if len(before) < len(cell.after):
            raise InfuserError(f"it cannot be trained before its {len(cell.after)} trials are finished.")
        return run_cell(
            cell,
            cell.open(before, made),
            annotator,
            checkpoints=results.work(cell).checkpoints,
            model_folder=results.model(cell) if cell.keep_model else None,
            progress=lambda report: progress(cell, report),
        )[0]
    except InfuserError as error:
        error.args = (f"{cell}: {error}",)  # among many, people must know which
        raise


def _train_together(cells: Sequence[Cell], results: Results, cache: Path | None, progress: Report) -> None:
    """Train each cell with all processes that were launched; the first one writes."""
    from infuser.training.steps import make_accelerator

    accelerator = make_accelerator("no")
    annotator, made = Annotator(cache), dict[str, Any]()
    # all have the same list before the first result is written; cells with the same digest are trained once
    left = {cell.digest: cell for cell in cells if not results.is_finished(cell)}
    accelerator.wait_for_everyone()
    for cell in left.values():
        heard = progress if accelerator.is_main_process else lambda cell, report: None
        result = _compute(cell, results, annotator, made, heard)
        if accelerator.is_main_process:
            results.write(cell, result)
            progress(cell, None)
        accelerator.wait_for_everyone()


def _leave_launch() -> None:
    """Let a process that was launched as one of several train its cells alone, on its own GPU if there are any."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    for name in _LAUNCHED:
        os.environ.pop(name, None)


# Workers -------------------------------------------------------------------------------------------------------------

_queue: Any = None
"""In a worker process: where it reports progress."""


def run_side_by_side(
    work: Callable[..., None], jobs: Sequence[tuple[Any, ...]], n_workers: int, report: Callable[..., None]
) -> None:
    """Call `work(*job, report)` for every job in worker processes, and pass on what they report.

    `work` is a function of a module, so that a process can find it. When this process is killed, its workers end too.
    """
    import torch

    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    n_threads = max(1, torch.get_num_threads() // n_workers)
    reports = context.Queue()
    start = (__name__, _start_worker.__name__, reports, n_threads)  # by name: importing this module takes seconds
    pool = ProcessPoolExecutor(n_workers, context, initializer=watch_parent_and_call, initargs=start)
    try:
        waiting = {pool.submit(_do_job, work, job) for job in jobs}
        while waiting:
            done, waiting = wait(waiting, timeout=0.2)
            while not reports.empty():
                report(*reports.get())
            for future in done:
                future.result()  # raises here what was raised there
    except BaseException:
        for process in list((pool._processes or {}).values()):  # a training takes minutes: do not wait for the others
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    while not reports.empty():
        report(*reports.get())


def _start_worker(reports: Any, n_threads: int) -> None:
    import torch
    from transformers.utils import logging

    global _queue
    _queue = reports
    torch.set_num_threads(n_threads)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]


def _do_job(work: Callable[..., None], job: tuple[Any, ...]) -> None:
    work(*job, lambda *values: _queue.put(values))
