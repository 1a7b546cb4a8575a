"""The tasks of data of your own: files named one by one, a name of the datasets library, and examples in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from infuser.errors import InputError
from infuser.tables.examples import Columns
from infuser.tasks.base import Task, class_options
from infuser.tasks.ner import Ner
from infuser.tasks.official import DatasetSplit, dataset_splits, is_datasets_name
from infuser.tasks.tabular import Table, usual_metrics

TableTask: TypeAlias = Literal["table", "ner"]
"""Tasks on data of your own: labels of texts, or entities in them."""
Parts: TypeAlias = Mapping[str, Path | DatasetSplit | None]
"""Where "data" (the training examples), "dev" and "test" are read from; None is held out, and test may be missing."""


def find_parts(train: str | Path, dev: str | Path | None, test: str | Path | None) -> Parts:
    """Return files as paths; if train is `datasets:NAME`, dev and test name splits of it, see `dataset_splits`."""
    names = [None if one is None else str(one) for one in (dev, test)]
    if is_datasets_name(str(train)):
        return dataset_splits(str(train), dev=names[0], test=names[1])
    for name in names:
        if name is not None and is_datasets_name(name):
            raise InputError(
                f"{name!r} is a name of the datasets library, but the training examples are the file {str(train)!r}. "
                "Give files for all parts, or the name for the training examples: --dev and --test name its splits."
            )
    files = {"data": Path(train), "dev": None if dev is None else Path(dev)}
    return files if test is None else {**files, "test": Path(test)}


def task_of_parts(kind: TableTask, parts: Parts, columns: Columns | None, metric: str | None, seed: int) -> Table | Ner:
    """Return the task that reads these parts; without a dev part, it is held out of the training examples."""
    train = parts["data"]
    assert train is not None
    data, first = (train.dataset, train.split) if isinstance(train, DatasetSplit) else (str(train.parent), train.name)
    names: dict[str, Any] = {
        "train": first,
        "dev": _name_of(parts["dev"]),
        "test": _name_of(parts.get("test")),
        "held_out": ("dev",),
        "seed": seed,
    }
    if kind == "ner":
        return Ner(data, **names, metric=metric)
    columns = columns or Columns(label="label")
    return Table(
        data,
        **names,
        text=columns.text,
        pair=columns.pair,
        label=columns.label or "label",
        metric=metric,
    )


def _name_of(part: Path | DatasetSplit | None) -> str | None:
    if isinstance(part, DatasetSplit):
        return part.split
    return None if part is None else str(part.absolute())


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
