"""The parts of a bench's table: columns are tasks, rows are methods with a host, an entry is one on the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from infuser.errors import InputError
from infuser.stats.comparison import Difference
from infuser.stats.intervals import Interval
from infuser.stats.nulls import with_nulls


@dataclass(frozen=True)
class Column:
    """A task, or an average of tasks."""

    name: str
    metrics: tuple[str, ...]
    """The first is the one that counts."""
    split: str | None = None
    """Which part of its data was scored; None while nothing was."""
    learns: bool = True
    """What does not learn answers the same with every seed, so it is run with the first only."""


@dataclass(frozen=True)
class Measure:
    """What a method reached by one metric."""

    metric: str
    seeds: tuple[int, ...] = ()
    per_seed: tuple[float, ...] = ()
    mean: float | None = None
    interval: Interval | None = None
    """95 % t-interval over seeds; None with one seed, or if all seeds are alike."""
    difference: Difference | None = None
    """Minus the baseline of the same host, on the seeds that both have."""
    published: float | None = None
    """What a paper says, on our scale."""
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
    """Weights that the plain encoder has not."""
    seconds: float | None = None
    """Mean time of a cell for training and answering."""
    peak_mib: float | None = None
    """Most memory that a cell needed."""

    @property
    def first(self) -> Measure:
        """The metric that counts."""
        return self.measures[0]


@dataclass(frozen=True)
class Row:
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
    """All that a bench found out."""

    title: str
    baseline: str
    scale: float
    """Numbers are shown this many times as large, as papers do; here they are not."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    n_cells: int
    n_missing: int
    rounds: int
    """Bootstrap rounds of metrics that are fast; others have fewer."""
    source: str = ""
    """Where the published numbers are from."""
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] | None = None

    def row(self, method: str, host: str | None = None) -> Row:
        """Return the row of a method; without a host, of the first host that has it."""
        for row in self.rows:
            if row.method == method and host in (None, row.host):
                return row
        raise InputError(f"No row of this table is {method!r}. Rows: {', '.join(row.method for row in self.rows)}.")

    def to_json(self) -> str:
        """Return the table as JSON text."""
        return json.dumps(with_nulls(asdict(self)), indent=1, ensure_ascii=False, allow_nan=False)
