"""Classes or scores of texts from any table: CSV, TSV, JSON Lines, JSON or Parquet, with named columns.

`data` is a folder, one file, or a name of the datasets library; see `parts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.stats.metrics import get_metric
from infuser.tables.examples import Columns, list_labels, make_example, number_labels, read_score
from infuser.tables.rows import Record, read_records
from infuser.tasks.base import Example, Split, class_options
from infuser.tasks.official import dataset_records, is_datasets_name
from infuser.tasks.parts import InParts


@dataclass(frozen=True)
class Tabular(InParts):
    """A task whose parts are tables with named columns."""

    label: str = "label"
    """The column that holds the label; a test part without it is read all the same."""

    def load(self, name: str, split: Split) -> list[Record]:
        """Return the rows of a table as examples."""
        datasets = is_datasets_name(self.data)
        records = list(dataset_records(self.data, Path(name).stem) if datasets else read_records(self.path_of(name)))
        labelled = split != "test" or not records or self.label in records[0][1]
        return [self.convert(record, labelled=labelled) for record in records]

    def convert(self, record: Record, *, labelled: bool) -> Record:
        """Return a row as an example."""
        raise NotImplementedError


@TASKS.register("table")
@dataclass(frozen=True)
class Table(Tabular):
    """Classes or, with `regression`, scores of texts or pairs of texts."""

    text: str = "text"
    """The column that holds the text."""
    pair: str | None = None
    """The column that holds the other side; None takes "pair" if there is one."""
    regression: bool = False
    """Labels are numbers to come close to, not classes."""
    metric: str | None = None
    """What epochs and settings are chosen by; None takes AUC for two labels, accuracy for more, and with `regression`
    Spearman's correlation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric is not None:
            get_metric(self.metric)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the scores, the chosen one first."""
        if self.regression:
            usual: tuple[str, ...] = ("spearman", "pearson", "mse")
        else:
            usual = usual_metrics(self._n_labels)
        return usual if self.metric is None else tuple(dict.fromkeys((self.metric, *usual)))

    def load(self, name: str, split: Split) -> list[Record]:
        """Return the rows of a table as examples; those of the training part have at least two labels."""
        rows = super().load(name, split)
        if split == "train" and rows and not self.regression:
            list_labels(rows)  # raises if they are no classes
        return rows

    def read(self, split: Split) -> list[Example]:
        """Return the examples of a part; those of a test part without labels have none."""
        rows = self.rows(split)
        if self.regression or "label" not in rows[0][1]:
            return [example for _, example in rows]
        return number_labels(rows, self._labels())

    def head_options(self) -> dict[str, Any]:
        """Return how many labels there are in the training part and what they are called."""
        if self.regression:
            return {"num_labels": 1, "problem_type": "regression"}
        return class_options(self._labels())

    def convert(self, record: Record, *, labelled: bool) -> Record:
        """Return a row as an example, its label a word or, with `regression`, a number."""
        place, cells = record
        classes = labelled and not self.regression
        example = make_example(place, cells, Columns(self.text, self.pair, self.label if classes else None))
        if labelled and self.regression:
            example["label"] = read_score(place, cells, self.label)
        return place, example

    def _labels(self) -> list[str]:
        return list_labels(self.rows("train"))

    @cached_property
    def _n_labels(self) -> int:
        """How many labels there are; 0 for a task that judges predictions without its files."""
        try:
            return len(self._labels())
        except InputError:
            return 0


def usual_metrics(n_labels: int) -> tuple[str, ...]:
    """Return the metrics of a classification task; the first one chooses epochs and settings."""
    return ("auc", "accuracy", "f1") if n_labels == 2 else ("accuracy", "macro-f1")
