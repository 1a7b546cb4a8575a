"""Many small trainings side by side, each finished one kept as a file: a stopped benchmark goes on where it was."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from infuser.files import write_whole


def run_cells(
    cells: Mapping[str, tuple[Any, ...]], work: Callable[..., dict[str, Any]], folder: Path, n_workers: int
) -> dict[str, dict[str, Any]]:
    """Return what `work(*arguments)` gave for each cell, one thread each; what lies in the folder is not done again.

    A cell that was made with other arguments is done anew; after a change of the benchmark itself, empty the folder.
    """
    missing = {name: given for name, given in cells.items() if not _is_known(folder / f"{name}.json", given)}
    print(f"{len(cells)} trainings, {len(cells) - len(missing)} known from before", flush=True)
    started = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_workers, context, initializer=_begin) as pool:
        running = {pool.submit(work, *given): name for name, given in missing.items()}
        for n_done, future in enumerate(as_completed(running), start=1):
            name, found = running[future], future.result()
            write_whole(folder / f"{name}.json", json.dumps({**found, "given": repr(missing[name])}))
            each = (time.perf_counter() - started) / n_done
            left = each * (len(missing) - n_done) / 60
            print(f"{n_done}/{len(missing)} {name}: {found['score']:.4f}   {left:.0f} min left", flush=True)
    return {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in cells}


def _is_known(path: Path, given: tuple[Any, ...]) -> bool:
    return path.exists() and json.loads(path.read_text(encoding="utf-8"))["given"] == repr(given)


def _begin() -> None:
    from transformers.utils import logging

    torch.set_num_threads(1)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
