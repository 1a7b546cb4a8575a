"""The table of a bench: columns are tasks, rows are methods with a host, an entry is one method on one task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from infuser.errors import InputError
from infuser.files import nan_to_null
from infuser.stats.comparison import Difference
from infuser.stats.intervals import Interval


@dataclass(frozen=True)
class Column:
    """A task, or an average of tasks."""

    name: str
    metrics: tuple[str, ...]
    """The first is the main one."""
    split: str | None = None
    """Which part of its data was scored; None while nothing was."""
    learns: bool = True
    """A task that does not learn answers the same with every seed, so it is run with the first only."""


@dataclass(frozen=True)
class Measure:
    """The scores of a method by one metric."""

    metric: str
    seeds: tuple[int, ...] = ()
    per_seed: tuple[float, ...] = ()
    mean: float | None = None
    interval: Interval | None = None
    """95 % t-interval over seeds; None with one seed, or if all seeds are alike."""
    difference: Difference | None = None
    """Minus the baseline of the same host, on the seeds that both have."""
    published: float | None = None
    """The number of a paper, on our scale."""
    published_difference: float | None = None
    """Minus the published baseline of the same host."""


@dataclass(frozen=True)
class Entry:
    """One method on one task."""

    column: str
    measures: tuple[Measure, ...]
    """One per metric of the task, in its order."""
    n_missing: int = 0
    """Cells that have no result yet."""
    extra_weights: int | None = None
    """Weights that the plain encoder does not have."""
    seconds: float | None = None
    """Mean time of a cell for training and answering."""
    peak_mib: float | None = None
    """Most memory that a cell needed."""

    @property
    def first(self) -> Measure:
        """The main metric."""
        return self.measures[0]


@dataclass(frozen=True)
class BenchRow:
    """One method with one host."""

    host: str
    method: str
    entries: tuple[Entry, ...]
    """One per column."""
    runs: bool = True
    """Whether the bench runs it; a row that only papers have is not run."""
    published_weights: int | None = None
    """How many weights the paper's model has."""


@dataclass(frozen=True)
class BenchTable:
    """The scores of a bench, their differences to the baseline, and the published numbers."""

    title: str
    baseline: str
    scale: float
    """Numbers are shown this many times as large, as papers do; here they are not."""
    columns: tuple[Column, ...]
    rows: tuple[BenchRow, ...]
    n_cells: int
    n_missing: int
    rounds: int
    """Bootstrap rounds of metrics that are fast; others have fewer."""
    source: str = ""
    """Where the published numbers are from."""
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] | None = None

    def row(self, method: str, host: str | None = None) -> BenchRow:
        """Return the row of a method; without a host, of the first host that has it."""
        for row in self.rows:
            if row.method == method and host in (None, row.host):
                return row
        raise InputError(f"No row of this table is {method!r}. Rows: {', '.join(row.method for row in self.rows)}.")

    def to_json(self) -> str:
        """Return the table as JSON text."""
        return json.dumps(nan_to_null(asdict(self)), indent=1, ensure_ascii=False, allow_nan=False)
