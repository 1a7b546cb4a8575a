"""The tasks of data of your own: files named one by one, and examples in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from infuser.tables.examples import Columns
from infuser.tasks.base import Task, class_options
from infuser.tasks.ner import Ner
from infuser.tasks.tabular import Table, usual_metrics

TableTask: TypeAlias = Literal["table", "ner"]
"""Tasks on files of your own: labels of texts, or entities in them."""


def task_of_files(
    kind: TableTask,
    train: str | Path,
    dev: str | Path | None,
    test: str | Path | None,
    columns: Columns | None,
    metric: str | None,
    seed: int,
) -> Table | Ner:
    """Return the task that reads these files; without a dev file, it is held out of the training examples."""
    parts: dict[str, Any] = {
        "train": Path(train).name,
        "dev": None if dev is None else str(Path(dev).absolute()),
        "test": None if test is None else str(Path(test).absolute()),
        "held_out": ("dev",),
        "seed": seed,
    }
    if kind == "ner":
        return Ner(str(Path(train).parent), **parts, metric=metric)
    columns = columns or Columns(label="label")
    return Table(
        str(Path(train).parent),
        **parts,
        text=columns.text,
        pair=columns.pair,
        label=columns.label or "label",
        metric=metric,
    )


@dataclass(frozen=True)
class _Examples(Task):
    """Classification of examples in memory."""

    labels: tuple[str, ...] = ()
    metric: str | None = None

    @property
    def metrics(self) -> tuple[str, ...]:
        usual = usual_metrics(len(self.labels))
        return usual if self.metric is None else tuple(dict.fromkeys((self.metric, *usual)))

    def head_options(self) -> dict[str, Any]:
        return class_options(self.labels)


@dataclass(frozen=True)
class _Entities(Ner):
    """Entities in texts in memory."""

    given: tuple[str, ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        return self.given


def task_of_examples(train: Sequence[Mapping[str, Any]], labels: Sequence[str] | None, metric: str | None) -> Task:
    """Return the task of examples in memory: classes, or entities where they have some."""
    if "entities" in train[0]:
        types = labels or sorted({one[2] for example in train for one in example["entities"]})
        return _Entities("", metric=metric, given=tuple(types))
    n_labels = 1 + max(int(example["label"]) for example in train)
    return _Examples("", tuple(labels or map(str, range(n_labels))), metric)
