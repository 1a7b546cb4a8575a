"""All cells of a bench, in this process or in several, on one machine or on many.

Each process looks for a cell that nobody works on, computes it and writes its result. A process that dies lets go of
its cell, and another takes it up. So the same command can run at the same time in any number of processes that see the
same folder: workers of one call, processes of `accelerate launch` or `torchrun`, or other machines. Where all processes
are to train each cell together (a large model, many GPUs), `together` says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infuser.errors import InfuserError
from infuser.experiments.cells import Cell, Results, all_cells, digest, trials_of
from infuser.experiments.making import check
from infuser.experiments.settings import Bench
from infuser.experiments.side_by_side import run_side_by_side

_POLL = 0.5
_LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
"""By these variables a process knows that it was launched as one of several."""
Tell = Callable[[Cell, Any], None]


def launched_processes() -> int:
    """Return how many processes accelerate or torchrun launched."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Tell whether this is the process that speaks for all that were launched."""
    return int(os.environ.get("RANK", "0")) == 0


def planned(bench: Bench) -> list[Cell]:
    """Return all trials and cells in the order in which they are computed, each once."""
    cells = all_cells(bench)
    return list(dict.fromkeys(one for cell in cells for one in [*trials_of(bench, cell), cell]))


def run_bench(
    bench: Bench,
    folder: Path,
    *,
    n_workers: int = 1,
    together: bool = False,
    cache: Path | None = None,
    tell: Tell = lambda cell, report: None,
) -> None:
    """Compute all cells that have no result yet; `tell` hears every step of every training, and None at its end.

    Small models train faster as several cells side by side, one thread each, than as one cell on all threads.
    """
    results = Results(folder)
    if any(not results.is_finished(bench, cell) for cell in planned(bench)):
        check(bench)
    if together and launched_processes() > 1:
        _train_together(bench, results, cache, tell)
        return
    if launched_processes() > 1:
        _stand_alone()
    if n_workers > 1:
        run_side_by_side(_work, [(bench, results, cache)] * n_workers, n_workers, tell)
    else:
        _work(bench, results, cache, tell)


def _work(bench: Bench, results: Results, cache: Path | None, tell: Tell) -> None:
    """Compute what nobody else does, until every cell has its result."""
    from infuser.experiments.running import Workshop

    workshop = Workshop(bench, results, cache)
    left = planned(bench)
    while left := [cell for cell in left if not results.is_finished(bench, cell)]:
        computed = False
        for cell in left:
            if not all(results.is_finished(bench, one) for one in _before(bench, cell)):
                continue
            with results.claim(bench, cell) as mine:
                if mine and not results.is_finished(bench, cell):
                    results.write(bench, cell, _result(workshop, cell, tell))
                    tell(cell, None)
                    computed = True
        if not computed:
            time.sleep(_POLL)  # others are at work on what is left


def _before(bench: Bench, cell: Cell) -> list[Cell]:
    """Return what must be finished before a cell can be computed."""
    return trials_of(bench, cell) if cell.trial is None else []


def _result(workshop: Any, cell: Cell, tell: Tell) -> dict[str, Any]:
    from infuser.experiments.running import run_cell

    try:
        return run_cell(workshop, cell, tell)
    except InfuserError as error:
        error.args = (f"{cell}: {error}",)  # among many, people must know which
        raise


def _train_together(bench: Bench, results: Results, cache: Path | None, tell: Tell) -> None:
    """Train each cell with all processes that were launched; the first one writes."""
    from infuser.experiments.running import Workshop
    from infuser.training.steps import make_accelerator

    accelerator = make_accelerator("no")
    workshop = Workshop(bench, results, cache)
    # all have the same list before the first result is written; what is known by the same digest is trained once
    left = {digest(bench, cell): cell for cell in planned(bench) if not results.is_finished(bench, cell)}
    accelerator.wait_for_everyone()
    for cell in left.values():
        result = _result(workshop, cell, tell if accelerator.is_main_process else lambda cell, report: None)
        if accelerator.is_main_process:
            results.write(bench, cell, result)
            tell(cell, None)
        accelerator.wait_for_everyone()


def _stand_alone() -> None:
    """Let a process that was launched as one of several train its cells alone, on its own GPU if there are any."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    for name in _LAUNCHED:
        os.environ.pop(name, None)
