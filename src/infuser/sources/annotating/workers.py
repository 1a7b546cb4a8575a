"""Shards annotated by several processes: each opens the sources once and writes its own files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from infuser.processes import spread
from infuser.sources.annotating.shards import Row, Shard, write_shard
from infuser.types import Source

Task = tuple[int, list[Row]]
"""The number of a shard and its rows."""


@dataclass(frozen=True)
class _Annotating:
    folder: Path
    sources: Sequence[Source]

    def __call__(self, task: Task, tell: Callable[[int], None]) -> Shard:
        number, rows = task
        return write_shard(self.folder, number, rows, self.sources, tell)


def annotate_shards(
    tasks: Iterable[Task], sources: Sequence[Source], folder: Path, n_workers: int, tell: Callable[[int], None]
) -> Iterator[Shard]:
    """Yield shards as they are finished; with no workers they are made here, one after another."""
    return spread(tasks, _Annotating(folder, tuple(sources)), n_workers, tell, doing="annotated")
