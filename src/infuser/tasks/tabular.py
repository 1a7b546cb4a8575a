"""Classes or scores of texts from any table: CSV, TSV, JSON Lines, JSON or Parquet, with named columns.

`data` is a folder, one file, or a name of the datasets library. A part without a file of its own is held out of the
training rows, always the same ones for the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.stats.metrics import get_metric
from infuser.tables.examples import (
    Columns,
    hold_out,
    hold_out_groups,
    list_labels,
    make_example,
    number_labels,
    read_score,
)
from infuser.tables.rows import Record, read_records
from infuser.tasks.base import Example, Split, Task, class_options
from infuser.tasks.official import dataset_records, is_datasets_name


@dataclass(frozen=True)
class Tabular(Task):
    """Where the rows of a task on tables come from."""

    train: str = "train.csv"
    """The file of the training part; with the datasets library, what stands before the dot names the split."""
    dev: str | None = None
    """The file of the dev part; None holds it out of the training rows."""
    test: str | None = None
    """The file of the test part; None holds it out of the training rows."""
    dev_share: float = 0.1
    """Share of the training rows for dev, and for test, where they have no file; with 0 there is no such part then."""
    label: str = "label"
    """The column that holds the label; a test part without it is read all the same."""
    seed: int = 0
    """Decides which rows are held out, whatever the seed of training is."""

    def __post_init__(self) -> None:
        if not 0 <= self.dev_share < 0.5:
            raise InputError(f"The setting dev_share is {self.dev_share!r}; give a share of at least 0 and below 0.5.")

    def rows(self, split: Split) -> list[Record]:
        """Return the examples of a part with their places, as `convert` makes them."""
        name: str | None = getattr(self, split)
        if split != "train" and name is not None:
            return self._load(name, split)
        if split != "train" and self.dev_share == 0:
            raise InputError(f"{self.data!r} has no {split} part. Name its file, {split} = FILE, or set dev_share.")
        left, held = self._load(self.train, "train"), {}
        for part in ("test", "dev") if self.dev_share else ():
            if getattr(self, part) is None:
                left, held[part] = self.divide(left)
        return left if split == "train" else held[split]

    def convert(self, record: Record, *, labelled: bool) -> Record:
        """Return a row as an example."""
        raise NotImplementedError

    def divide(self, rows: list[Record]) -> tuple[list[Record], list[Record]]:
        """Return the rows that stay and those that are held out."""
        raise NotImplementedError

    def _load(self, name: str, split: Split) -> list[Record]:
        records = list(self._records(name))
        if not records:
            raise InputError(f"The {split} part in {self.data!r} holds no rows. Give at least one.")
        labelled = split != "test" or self.label in records[0][1]
        return [self.convert(record, labelled=labelled) for record in records]

    def _records(self, name: str) -> Iterator[Record]:
        if is_datasets_name(self.data):
            return dataset_records(self.data, Path(name).stem)
        data = Path(self.data)
        if not data.is_file():
            return read_records(data / name)
        return read_records(data if name == self.train else data.with_name(name))


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
    """What is tuned for; None takes accuracy, or with `regression` Spearman's correlation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric is not None:
            get_metric(self.metric)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the scores, the chosen one first."""
        usual = ("spearman", "pearson", "mse") if self.regression else ("accuracy", "macro-f1")
        return usual if self.metric is None else tuple(dict.fromkeys((self.metric, *usual)))

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

    def divide(self, rows: list[Record]) -> tuple[list[Record], list[Record]]:
        """Hold out the same share of every label; of scores, any."""
        if not self.regression:
            return hold_out(rows, share=self.dev_share, seed=self.seed)
        return hold_out_groups(rows, [str(place) for place, _ in rows], share=self.dev_share, seed=self.seed)

    def _labels(self) -> list[str]:
        return list_labels(self.rows("train"))
