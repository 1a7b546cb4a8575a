"""Cells and their results: which there are, what each is made with, and where its JSON file lies.

RUN/bench.json      the settings, complete
RUN/trials/*.json   results of trials, by which every method was tuned
RUN/cells/*.json    results of cells: task--host--method--seed--digest.json
RUN/locks/          who works on what; a process that dies lets go

The digest is of all settings that decide a result and of nothing else. So a cell that was computed once is found again
under any name, such as "kam" as "kam alpha=0.2", and changed settings give new cells beside the old ones.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.experiments.making import make_method, make_task, make_training
from infuser.experiments.settings import Arm, Bench
from infuser.files import digest_of, write_whole

FORMAT = 1
_UNDECIDED = ("n_workers", "checkpoint_every", "seed", "metric")
"""Settings of training that decide nothing here, or are decided by the cell or its task."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One training and what it scores."""

    host: str
    method: str
    task: str
    seed: int
    trial: int | None = None
    """Number of the trial that this is for tuning; None is the real thing."""

    def __str__(self) -> str:
        which = f"seed {self.seed}" if self.trial is None else f"trial {self.trial + 1}"
        return f"{self.task}, {self.host}, {self.method}, {which}"


def grid(bench: Bench) -> list[dict[str, Any]]:
    """Return the training settings of each trial; none where nothing is tuned."""
    tried = {name: values for name, values in bench.tune.items() if isinstance(values, list)}
    return [dict(zip(tried, values, strict=True)) for values in itertools.product(*tried.values())] if tried else []


def trial_settings(bench: Bench) -> dict[str, Any]:
    """Return how trials differ from the real thing: fewer epochs, or fewer examples (n_train)."""
    return {name: value for name, value in bench.tune.items() if not isinstance(value, list)}


def all_cells(bench: Bench) -> list[Cell]:
    """Return the cells in the order of their computation: seed by seed, so that a stopped bench has whole pairs.

    What does not learn answers the same with every seed, so it has one cell.
    """
    return [
        Cell(host, method, task, seed)
        for task, entry in bench.tasks.items()
        for seed in (bench.seeds if make_task(bench, entry).learns else bench.seeds[:1])
        for host in bench.hosts
        for method in bench.arms
    ]


def trials_of(bench: Bench, cell: Cell) -> list[Cell]:
    """Return the trials that decide what a cell is trained with."""
    if not make_task(bench, bench.tasks[cell.task]).learns:
        return []
    tuned = bench.arms[cell.method].tuned_as or cell.method
    return [Cell(cell.host, tuned, cell.task, bench.seeds[0], trial) for trial in range(len(grid(bench)))]


def made_with(bench: Bench, cell: Cell) -> dict[str, Any]:
    """Return all settings that decide the result of a cell, defaults too, without the names people gave them."""
    arm, entry = bench.arms[cell.method], bench.tasks[cell.task]
    trials = grid(bench)
    of_trial = {} if cell.trial is None else {**trial_settings(bench), **trials[cell.trial]}
    training = asdict(make_training(bench, cell.task, of_trial))
    made: dict[str, Any] = {
        "host": {key: value for key, value in asdict(bench.hosts[cell.host]).items() if key != "name"},
        "method": _method(bench, arm),
        "task": {key: value for key, value in asdict(entry).items() if key not in ("name", "train")},
        "train": {key: value for key, value in training.items() if key not in _UNDECIDED},
        "seed": cell.seed,
    }
    if cell.trial is not None:
        made |= {"trial": True, "n_train": of_trial.get("n_train")}
    elif trials_of(bench, cell):
        made |= {
            "trials": trials,
            "smaller": trial_settings(bench),
            "tuned_for": _method(bench, bench.arms[arm.tuned_as or arm.name]),
            "tuning_seed": bench.seeds[0],
        }
    plain: dict[str, Any] = _same_numbers(made)
    return plain


def digest(bench: Bench, cell: Cell) -> str:
    """Return by what a cell is known."""
    return digest_of(made_with(bench, cell))


def _method(bench: Bench, arm: Arm) -> dict[str, Any]:
    told = {key: value for key, value in asdict(arm).items() if key not in ("name", "tuned_as")}
    method = make_method(arm)
    settings = {} if method is None else asdict(method)
    return {**told, "settings": settings, "sources": [dict(bench.sources[name]) for name in arm.sources]}


def _same_numbers(value: Any) -> Any:
    """Return plain values in which 0 and 0.0 are the same."""
    if isinstance(value, dict):
        return {name: _same_numbers(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_same_numbers(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a run that lie in its folder."""

    folder: Path

    def path(self, bench: Bench, cell: Cell) -> Path:
        """Return where the result of a cell lies, or will lie."""
        mark = digest(bench, cell)
        place = self.folder / ("cells" if cell.trial is None else "trials")
        found = next(place.glob(f"*--{mark}.json"), None)  # perhaps computed under another name
        parts = (cell.task, cell.host, cell.method, str(cell.seed), mark)
        name = "--".join(re.sub(r"[^\w.=+-]+", "-", part) for part in parts)
        return found or place / f"{name}.json"

    def read(self, bench: Bench, cell: Cell) -> dict[str, Any] | None:
        """Return the result of a cell under the names that this bench gives it; None if it is not finished."""
        path = self.path(bench, cell)
        if not path.exists():
            return None
        try:
            result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if result["format"] != FORMAT:
                told = f"{path} was written by another version of infuser (format {result['format']})"
                raise InputError(f"{told}. Choose another --out.")
            return {**result, "cell": asdict(cell)}
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path} is damaged ({error!r}). Remove it; the cell is then computed again.") from error

    def is_finished(self, bench: Bench, cell: Cell) -> bool:
        """Tell whether a cell has its result."""
        return self.path(bench, cell).exists()

    def write(self, bench: Bench, cell: Cell, result: Mapping[str, Any]) -> Path:
        """Write the result of a cell, whole or not at all."""
        text = json.dumps({"format": FORMAT, **result}, ensure_ascii=False, allow_nan=False)
        return write_whole(self.path(bench, cell), text)

    @contextmanager
    def claim(self, bench: Bench, cell: Cell) -> Iterator[bool]:
        """Try to get a cell for this process alone; the system frees it when the process ends, however it ends."""
        from filelock import FileLock, Timeout

        locks = self.folder / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        lock = FileLock(locks / f"{digest(bench, cell)}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def keep_settings(self, bench: Bench, name: str = "bench") -> None:
        """Write the settings beside the results, complete."""
        write_whole(self.folder / f"{name}.json", json.dumps(bench.to_json(), indent=1, ensure_ascii=False))

    def settings(self, name: str = "bench") -> Bench:
        """Return the settings that were written beside the results."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            there = ", ".join(sorted(one.stem for one in self.folder.glob("*.json"))) or "none"
            raise InputError(f"{str(self.folder)!r} holds no bench called {name!r}. Those it holds: {there}.")
        try:
            return Bench.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path} is damaged ({error!r}). Run the bench again; finished cells stay.") from error


def best_trial(results: list[dict[str, Any]], *, metric: str, higher_is_better: bool) -> int:
    """Return the number of the trial that was best by a metric; of equals the first. One that diverged is never it."""
    values = {at: one["scores"][metric] for at, one in enumerate(results) if metric in one["scores"]}
    if not values:
        raise InputError(f"All {len(results)} trials diverged. Try lower learning rates in [tune].")
    return max(values, key=lambda at: (values[at] if higher_is_better else -values[at], -at))
