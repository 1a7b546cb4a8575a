"""Counters that worker processes share, written for Prometheus.

All numbers stand in one array with a row per worker, mapped from a file where there are several: a worker writes its
own row, and whichever is asked adds up all rows. A worker that is replaced counts on where the one before it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from infuser.serving.model import TASKS

PATHS = (
    *(f"/{task}" for task in TASKS),
    *("/knowledge/reload", "/health", "/model", "/metrics", "/openapi.json", "/"),
)
OTHER = "other"
STATUSES = (200, 400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 499, 500, 503, 504)
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)

_REQUESTS, _LATENCY, _BATCHES = "infuser_requests_total", "infuser_request_seconds", "infuser_batch_size"
_QUEUE, _VERSION, _UNDER_WAY = "infuser_queue_length", "infuser_knowledge_version", "infuser_requests_under_way"


def _names() -> list[str]:
    """Return the names of all numbers, as Prometheus reads them, in the order in which they stand."""
    paths = (*PATHS, OTHER)
    names = [f'{_REQUESTS}{{path="{path}",status="{status}"}}' for path in paths for status in (*STATUSES, OTHER)]
    for path in paths:
        names += [f'{_LATENCY}_bucket{{path="{path}",le="{end}"}}' for end in (*SECONDS, "+Inf")]
        names += [f'{_LATENCY}_sum{{path="{path}"}}', f'{_LATENCY}_count{{path="{path}"}}']
    names += [f'{_BATCHES}_bucket{{le="{end}"}}' for end in (*SIZES, "+Inf")]
    return [*names, f"{_BATCHES}_sum", f"{_BATCHES}_count", _QUEUE, _UNDER_WAY, _VERSION]


_NAMES = _names()
_PLACE = {name: place for place, name in enumerate(_NAMES)}
_HEADS = {
    _REQUESTS: ("counter", "Requests by path and status."),
    _LATENCY: ("histogram", "Seconds from a request's header to its answer, by path."),
    _BATCHES: ("histogram", "Texts that the model read at once."),
    _QUEUE: ("gauge", "Texts that wait for the model."),
    _UNDER_WAY: ("gauge", "Requests that are being answered."),
    _VERSION: ("gauge", "Version of the knowledge: 1 at the start, one more with each exchange."),
}


class Metrics:
    """The numbers of one worker among those of all."""

    def __init__(self, rows: NDArray[np.float64] | None = None, worker: int = 0) -> None:
        self._rows = np.zeros((1, len(_NAMES))) if rows is None else rows
        self._own = self._rows[worker]
        for gauge in (_QUEUE, _UNDER_WAY, _VERSION):  # of a worker that was replaced
            self._own[_PLACE[gauge]] = 0

    @classmethod
    def shared(cls, file: Path, worker: int) -> Metrics:
        """Return a worker's numbers in a file that `make_file` made."""
        rows = np.memmap(file, np.float64, "r+").reshape(-1, len(_NAMES))
        return cls(rows, worker)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count one request."""
        path = path if path in PATHS else OTHER
        self._add(f'{_REQUESTS}{{path="{path}",status="{status if status in STATUSES else OTHER}"}}')
        self._observe(_LATENCY, f'path="{path}",', f'{{path="{path}"}}', SECONDS, seconds)

    def batched(self, size: int) -> None:
        """Count one batch."""
        self._observe(_BATCHES, "", "", SIZES, size)

    def now(self, *, waiting: int, under_way: int, version: int) -> None:
        """Set what this worker is doing at the moment."""
        self._own[_PLACE[_QUEUE]] = waiting
        self._own[_PLACE[_UNDER_WAY]] = under_way
        self._own[_PLACE[_VERSION]] = version

    def _observe(self, name: str, inside: str, around: str, ends: tuple[float, ...], value: float) -> None:
        for end in (*(end for end in ends if value <= end), "+Inf"):
            self._add(f'{name}_bucket{{{inside}le="{end}"}}')
        self._add(f"{name}_sum{around}", value)
        self._add(f"{name}_count{around}")

    def _add(self, name: str, value: float = 1) -> None:
        self._own[_PLACE[name]] += value

    def text(self) -> str:
        """Return the numbers of all workers in Prometheus' text form."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        totals = self._rows.sum(axis=0)
        # every worker has all of the knowledge: the version is that of the slowest
        versions = self._rows[:, _PLACE[_VERSION]]
        totals[_PLACE[_VERSION]] = versions[versions > 0].min(initial=np.inf) if (versions > 0).any() else 0
        asked = {
            path for path in (*PATHS, OTHER) if totals[_PLACE[f'{_LATENCY}_count{{path="{path}"}}']]
        }  # others would be hundreds of lines of zeros
        for head, (kind, help) in _HEADS.items():
            yield f"# HELP {head} {help}"
            yield f"# TYPE {head} {kind}"
            for name, value in zip(_NAMES, totals.tolist(), strict=True):
                if name.partition("{")[0].removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") != head:
                    continue
                path = name.partition('path="')[2].partition('"')[0]
                if (path and path not in asked) or ("status=" in name and not value):
                    continue
                yield f"{name} {value:.15g}"


def make_file(file: Path, n_workers: int) -> None:
    """Write zeros for so many workers."""
    file.write_bytes(np.zeros((n_workers, len(_NAMES))).tobytes())
