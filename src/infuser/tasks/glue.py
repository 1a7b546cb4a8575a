"""GLUE (Wang et al., 2019): nine sets of sentences and sentence pairs.

Read from a folder with the official files (`train.tsv`, `dev.tsv`, `test.tsv`; MNLI has `dev_matched.tsv` and so on),
or from `datasets:nyu-mll/glue,cola` and its siblings. The official files have tabs between cells and no quoting: a
quote is part of the text. Labels are numbered as the hub numbers them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.tables.blocks import wrong_width
from infuser.tables.rows import Record, read_lines
from infuser.tables.skipped import BadRow, Place, Skipped
from infuser.tasks.base import Example, Split, Task, class_options
from infuser.tasks.official import dataset_records, find_file, is_datasets_name
from infuser.words import counted, listed

logger = logging.getLogger(__name__)

Sides = tuple[str, str | None]
"""Which columns hold the text and its pair."""

_BROKEN = "A line break or a tab inside a text is often the cause; skip_bad = true leaves out such training rows."


@dataclass(frozen=True)
class Glue(Task):
    """What the nine have in common."""

    skip_bad: bool = False
    """Leave out training rows that cannot be read, and log how many; the official file of QQP has some."""

    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    sides: ClassVar[Sides]
    """Of the official files."""
    hub_sides: ClassVar[Sides]
    """Of the version in the datasets library; the label is always "label" there, -1 where it is hidden."""
    label: ClassVar[str] = "label"
    """The column of the official files that holds the label."""
    labels: ClassVar[tuple[str, ...]] = ()
    """Names of the classes; none where the answer is a number."""
    named: ClassVar[bool] = False
    """Whether the files write the name of a label and not its number."""

    def read(self, split: Split) -> list[Example]:
        """Return the examples of a split; those of the test part have no label."""
        if is_datasets_name(self.data):
            rows = dataset_records(self.data, self._hub_split(split))
            return [make_example(place, row, self.hub_sides, self._hub_label(place, row, split)) for place, row in rows]
        skipped = Skipped() if self.skip_bad and split == "train" else None
        examples = []
        for place, cells in self._rows(split, skipped):
            try:
                labelled = split != "test" or self.label in cells
                examples.append(make_example(place, cells, self.sides, self._label(place, cells) if labelled else None))
            except BadRow as bad:
                bad.settle(skipped)
        if skipped is not None and skipped.n:
            logger.warning("%s that cannot be read left out of %s", counted(skipped.n, "training row"), self.data)
        if not examples:
            raise InputError(f"The {split} part in {self.data!r} holds no rows. Download the file again.")
        return examples

    def head_options(self) -> dict[str, Any]:
        """Return how many labels there are and what they are called."""
        return class_options(self.labels) if self.labels else {"num_labels": 1, "problem_type": "regression"}

    def spell(self, label: int) -> str:
        """Return a label as the official files write it."""
        return self.labels[label] if self.named else str(label)

    def _hub_split(self, split: Split) -> str:
        return split

    def _rows(self, split: Split, skipped: Skipped | None) -> Iterator[Record]:
        return tsv_records(find_file(self.data, self._file(split)), skipped)

    def _file(self, split: Split) -> str:
        return f"{split}.tsv"

    def _label(self, place: Place, cells: Mapping[str, Any]) -> int | float:
        written = text_cell(place, cells, self.label)
        if not self.labels:
            return read_similarity(place, written)
        spellings = [self.spell(label) for label in range(len(self.labels))]
        if written not in spellings:
            raise BadRow(place, f"has the label {written[:40]!r}, not one of {', '.join(spellings)}", str(cells))
        return spellings.index(written)

    def _hub_label(self, place: Place, row: Mapping[str, Any], split: Split) -> int | float | None:
        label = row.get("label")
        if split == "test" and label in (None, -1):
            return None
        if not self.labels:
            return read_similarity(place, str(label))
        if label is None or label not in range(len(self.labels)):
            raise BadRow(place, f"has the label {label!r}; the hub's labels are 0 to {len(self.labels) - 1}", str(row))
        return int(label)


@TASKS.register("cola")
class Cola(Glue):
    """Is this sentence acceptable English? Matthews correlation. 8,551 / 1,043 / 1,063 sentences."""

    metrics = ("matthews",)
    sides = hub_sides = ("sentence", None)
    labels = ("unacceptable", "acceptable")

    def _rows(self, split: Split, skipped: Skipped | None) -> Iterator[Record]:
        header = None if split == "test" else ("source", "label", "mark", "sentence")
        return tsv_records(find_file(self.data, f"{split}.tsv"), skipped, header)


@TASKS.register("sst-2")
@dataclass(frozen=True)
class Sst2(Glue):
    """Does this piece of a film review speak well of the film? Accuracy. 67,349 / 872 / 1,821 pieces."""

    labelled_test: bool = False
    """Read the test part from `test-labeled.tsv`, which some distributions have."""

    sides = hub_sides = ("sentence", None)
    labels = ("negative", "positive")

    def _file(self, split: Split) -> str:
        return "test-labeled.tsv" if split == "test" and self.labelled_test else f"{split}.tsv"


@TASKS.register("mrpc")
class Mrpc(Glue):
    """Do two sentences of the news say the same? F1 and accuracy. 3,668 / 408 / 1,725 pairs.

    Where there is no `train.tsv`, the files of the corpus itself are read: `msr_paraphrase_train.txt`, less the pairs
    of ids in GLUE's `dev_ids.tsv`, which are the dev part, and `msr_paraphrase_test.txt`, which has labels.
    """

    metrics = ("f1", "accuracy")
    sides = ("#1 String", "#2 String")
    label = "Quality"
    hub_sides = ("sentence1", "sentence2")
    labels = ("not_equivalent", "equivalent")

    def _rows(self, split: Split, skipped: Skipped | None) -> Iterator[Record]:
        corpus = "test" if split == "test" else "train"
        path = find_file(self.data, f"{split}.tsv", f"msr_paraphrase_{corpus}.txt")
        rows = tsv_records(path, skipped)
        if split == "test" or not path.name.startswith("msr_"):
            return rows
        of_dev = {_ids(row) for row in tsv_records(find_file(self.data, "dev_ids.tsv"), header=("#1 ID", "#2 ID"))}
        return (row for row in rows if (_ids(row) in of_dev) == (split == "dev"))


def _ids(row: Record) -> tuple[str, str]:
    place, cells = row
    return text_cell(place, cells, "#1 ID"), text_cell(place, cells, "#2 ID")


@TASKS.register("sts-b")
class StsB(Glue):
    """How similar in meaning are two sentences, from 0 to 5? Pearson and Spearman. 5,749 / 1,500 / 1,379 pairs."""

    metrics = ("pearson", "spearman")
    sides = hub_sides = ("sentence1", "sentence2")
    label = "score"


@TASKS.register("qqp")
class Qqp(Glue):
    """Do two questions of Quora ask the same? F1 and accuracy. 363,846 / 40,430 / 390,965 pairs."""

    metrics = ("f1", "accuracy")
    sides = hub_sides = ("question1", "question2")
    label = "is_duplicate"
    labels = ("not_duplicate", "duplicate")


@TASKS.register("mnli")
@dataclass(frozen=True)
class Mnli(Glue):
    """Does the first sentence entail the second, contradict it, or neither? Accuracy. 392,702 training pairs.

    There are two dev and two test parts: 9,815 and 9,796 pairs of the genres of training (matched), 9,832 and 9,847
    pairs of others (mismatched).
    """

    matched: bool = True
    """Read the matched dev and test parts; else the mismatched ones."""

    sides = ("sentence1", "sentence2")
    label = "gold_label"
    hub_sides = ("premise", "hypothesis")
    labels = ("entailment", "neutral", "contradiction")
    named = True

    def _hub_split(self, split: Split) -> str:
        return self._part(split).replace("dev_", "validation_")

    def _file(self, split: Split) -> str:
        return f"{self._part(split)}.tsv"

    def _part(self, split: Split) -> str:
        return split if split == "train" else f"{split}_{'matched' if self.matched else 'mismatched'}"


@TASKS.register("qnli")
class Qnli(Glue):
    """Does the sentence hold the answer to the question? Accuracy. 104,743 / 5,463 / 5,463 pairs."""

    sides = hub_sides = ("question", "sentence")
    labels = ("entailment", "not_entailment")
    named = True


@TASKS.register("rte")
class Rte(Glue):
    """Does the first text entail the second? Accuracy. 2,490 / 277 / 3,000 pairs."""

    sides = hub_sides = ("sentence1", "sentence2")
    labels = ("entailment", "not_entailment")
    named = True


@TASKS.register("wnli")
class Wnli(Glue):
    """Does the sentence follow with its pronoun replaced? Accuracy. 635 / 71 / 146 pairs."""

    sides = hub_sides = ("sentence1", "sentence2")
    labels = ("not_entailment", "entailment")


def tsv_records(path: Path, skipped: Skipped | None = None, header: tuple[str, ...] | None = None) -> Iterator[Record]:
    """Yield the rows of an official file by the names in its first line, or by `header` where it has none."""
    names = header
    for number, line in read_lines(path, skipped):
        cells = line.split("\t")
        if cells == [""]:
            continue
        if names is None:
            names = tuple(cells)
        elif len(cells) != len(names):
            why = f"{wrong_width(len(cells), len(names))}: {listed(names)}"
            BadRow(Place(path, number), why, line, advice=_BROKEN).settle(skipped)
        else:
            yield Place(path, number), dict(zip(names, cells, strict=True))


def make_example(place: Place, cells: Mapping[str, Any], sides: Sides, label: int | float | None) -> Example:
    """Return the example that a row holds."""
    text, pair = sides
    example = {"text": text_cell(place, cells, text), "pair": None if pair is None else text_cell(place, cells, pair)}
    return example if label is None else {**example, "label": label}


def text_cell(place: Place, cells: Mapping[str, Any], column: str) -> str:
    """Return the text in a column."""
    if column not in cells:
        raise InputError(f"{place} has no column {column!r} but {', '.join(cells)}. Is it another set's file?")
    if not isinstance(cells[column], str):
        raise BadRow(place, f"has {str(cells[column])[:40]!r} as {column!r}, not a text", str(cells))
    return str(cells[column])


def read_similarity(place: Place, written: str) -> float:
    """Return a score of STS-B as a number."""
    try:
        score = float(written)
    except ValueError:
        score = math.nan
    if not 0 <= score <= 5:
        raise BadRow(place, f"has the score {written[:40]!r}, not a number from 0 to 5", written)
    return score
