"""Counts of documents with precision, recall and F1 over all of them (micro), and bootstrap intervals of each."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from infuser.stats.intervals import Interval, bootstrap, percentile_interval
from infuser.stats.metrics import Metric
from infuser.stats.weighted import Floats


@dataclass(frozen=True)
class Counts:
    """Whole numbers counted in one document or in several; a subclass has the numbers, precision and recall."""

    measures: ClassVar[tuple[str, ...]] = ("precision", "recall", "f1")
    """Names of the properties that are shares between 0 and 1."""

    @property
    def precision(self) -> float:
        """The share of what was found that is right; 0 if nothing was found."""
        raise NotImplementedError

    @property
    def recall(self) -> float:
        """The share of what is gold that was found."""
        raise NotImplementedError

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return share(2 * self.precision * self.recall, self.precision + self.recall)


C = TypeVar("C", bound=Counts)


@dataclass(frozen=True)
class CountedDocuments(Generic[C]):
    """The counts of every document, and over all of them (micro)."""

    documents: tuple[C, ...]
    """In the order of the texts."""
    counts_type: ClassVar[type[Counts]] = Counts

    @property
    def total(self) -> C:
        """The sums over the documents."""
        return cast(C, self.counts_type(*self._table().sum(axis=0).tolist()))

    def intervals(self, *, rounds: int = 2000) -> dict[str, Interval | None]:
        """Return the 95 % interval of each measure by a bootstrap that draws whole documents; None for too few."""
        if len(self.documents) < 2:
            return dict.fromkeys(self.counts_type.measures)
        table = self._table()
        return {
            name: percentile_interval(bootstrap(count_metric(name, self.counts_type), [table], table, rounds=rounds))
            for name in self.counts_type.measures
        }

    def to_json(self) -> dict[str, Any]:
        """Return counts, measures, intervals and the counts of each document, enough to draw every table again."""
        total, columns = self.total, [field.name for field in fields(self.counts_type)]
        return {
            "counts": dict(zip(columns, astuple(total), strict=True)),
            "measures": {name: getattr(total, name) for name in total.measures},
            "intervals": {name: list(ends) if ends else None for name, ends in self.intervals().items()},
            "documents": {"columns": columns, "rows": [list(astuple(one)) for one in self.documents]},
        }

    def _table(self) -> NDArray[np.int64]:
        n_columns = len(fields(self.counts_type))
        return np.array([astuple(one) for one in self.documents], np.int64).reshape(-1, n_columns)


def count_metric(name: str, counts_type: type[Counts]) -> Metric:
    """Return a measure of counts as a metric of predictions that are rows of counts, one per document."""

    def weigh(rows: Any, _: Any, weights: Floats) -> Floats:
        return np.array([getattr(counts_type(*sums), name) for sums in weights @ np.asarray(rows, np.float64)])

    return Metric(name, lambda rows, golds: weigh(rows, golds, np.ones((1, len(rows))))[0], weigh, kind="own")


def share(part: float, whole: float) -> float:
    """Return part / whole; 0 of nothing."""
    return part / whole if whole else 0.0
