"""Classes or scores of texts from any table: CSV, TSV, JSON Lines, JSON or Parquet, with named columns.

`data` is a folder, one file, or a name of the datasets library. A part without a file of its own is held out of the
training rows, always the same ones for the same seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.stats.metrics import get_metric
from infuser.tables.examples import Columns, list_labels, make_example, number_labels, read_score
from infuser.tables.rows import Record, read_records
from infuser.tasks.base import Example, Split, Task, class_options
from infuser.tasks.official import dataset_records, is_datasets_name
from infuser.tasks.splitting import DATA_SEED, hold_out


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
    seed: int = DATA_SEED
    """Decides which rows are held out, whatever the seed of training is."""
    held_out: tuple[str, ...] = ("test", "dev")
    """Which parts are held out of the training rows where they have no file; others do not exist then."""

    def __post_init__(self) -> None:
        if not 0 <= self.dev_share < 0.5:
            raise InputError(f"The setting dev_share is {self.dev_share!r}; give a share of at least 0 and below 0.5.")

    def rows(self, split: Split) -> list[Record]:
        """Return the examples of a part with their places, as `convert` makes them."""
        name: str | None = getattr(self, split)
        if split != "train" and name is not None:
            return self._load(name, split)
        left, held = self._parts
        if split != "train" and split not in held:
            raise InputError(f"{self.data!r} has no {split} part. Name its file, {split} = FILE, or set dev_share.")
        return left if split == "train" else held[split]

    @cached_property
    def _parts(self) -> tuple[list[Record], dict[str, list[Record]]]:
        """The training rows that stay, and the parts that are held out of them."""
        left, held = self._load(self.train, "train"), {}
        for part in self.held_out if self.dev_share else ():
            if getattr(self, part) is None:
                left, held[part] = self._divide(left)
        return left, held

    def convert(self, record: Record, *, labelled: bool) -> Record:
        """Return a row as an example."""
        raise NotImplementedError

    def dev_beside(self, scored: Split) -> list[Example] | None:
        """Return the dev part, unless it is scored itself or does not exist."""
        there = self.dev is not None or (self.dev_share > 0 and "dev" in self.held_out)
        return self.read("dev") if there and scored != "dev" else None

    def _divide(self, rows: list[Record]) -> tuple[list[Record], list[Record]]:
        examples = [example for _, example in rows]
        strata, groups = self.strata(examples), self.held_out_groups(examples)
        for label, n in Counter(strata if groups is None else ()).items() if strata else ():
            if n < 2:
                raise InputError(
                    f"There is one example of the label {label!r}, so none can be held out for evaluation. Give more, "
                    "or a file of its own: --dev FILE, in settings dev = FILE."
                )
        held = hold_out(len(rows), share=self.dev_share, seed=self.seed, strata=strata, groups=groups)
        return [row for place, row in enumerate(rows) if place not in held], [rows[place] for place in sorted(held)]

    def _load(self, name: str, split: Split) -> list[Record]:
        records = list(self._records(name))
        if not records:
            raise InputError(f"The {split} part in {self.data!r} holds no examples. Give at least one row.")
        labelled = split != "test" or self.label in records[0][1]
        return [self.convert(record, labelled=labelled) for record in records]

    def _records(self, name: str) -> Iterator[Record]:
        if is_datasets_name(self.data):
            return dataset_records(self.data, Path(name).stem)
        data = Path(self.data)
        if not data.is_file():
            return read_records(data / name)
        return read_records(data if name == self.train else data.parent / name)


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

    def _load(self, name: str, split: Split) -> list[Record]:
        rows = super()._load(name, split)
        if split == "train" and not self.regression:
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
