"""The folder that `annotate` wrote, as training examples: mapped from disk, opened by any number of processes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, overload

import pyarrow as pa

from infuser.errors import InputError
from infuser.sources.annotating.columns import SourceColumn
from infuser.sources.annotating.files import Written
from infuser.sources.annotating.folder import read_about
from infuser.sources.annotating.frequencies import ALL, Frequencies
from infuser.sources.annotating.shards import Shard
from infuser.types import Annotations, join_pair


def read_annotations(folder: str | Path) -> Annotated:
    """Open the folder that `infuser annotate` wrote."""
    return Annotated(folder)


def read_frequencies(folder: str | Path, source: int | None = None) -> Frequencies:
    """Return in how many texts of that folder each entity is mentioned: by one source, or by any of them."""
    return Annotated(folder).frequencies(source)


class Example(Mapping[str, Any]):
    """One text with its pair (or None), its annotations and perhaps a label; annotations are read when asked for."""

    __slots__ = ("_columns", "_row", "_values")

    def __init__(self, values: dict[str, Any], columns: Sequence[SourceColumn], row: int) -> None:
        self._values, self._columns, self._row = values, columns, row

    def __getitem__(self, name: str) -> Any:
        if name == "annotations" and name not in self._values:
            joined = join_pair(self._values["text"], self._values["pair"])
            self._values[name] = tuple([column.read(self._row, joined) for column in self._columns])
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._values, "annotations"]))

    def __len__(self) -> int:
        return len({*self._values, "annotations"})

    def __repr__(self) -> str:
        return f"Example({dict(self)!r})"


class Annotated(Sequence[Example]):
    """What `annotate` wrote, text by text in the order of the input; a data set for `train`, `DataLoader`, `Trainer`.

    Opening compares sizes. A file is compared with its digest when it is first touched; one that is damaged is a
    SourceError that names it. Workers receive the path and open the folder themselves.
    """

    def __init__(self, folder: str | Path, *, labels: Sequence[Any] | None = None) -> None:
        self.folder = Path(folder)
        self.about: dict[str, Any] = read_about(self.folder)
        """What the folder was made with and what it holds."""
        self._shards = [Shard.from_json(number, values) for number, values in enumerate(self.about["shards"])]
        for shard in self._shards:
            shard.written.check_size(self.folder)
        self._ends = list(accumulate(shard.n_texts for shard in self._shards))
        self._opened: dict[int, tuple[pa.RecordBatch, list[SourceColumn]]] = {}
        self._labels = labels
        if labels is not None and len(labels) != len(self):
            raise InputError(f"There are {len(self)} texts in {str(self.folder)!r} but {len(labels)} labels.")

    @property
    def source_names(self) -> list[str]:
        """The sources, in the order of each text's annotations."""
        return [source["name"] for source in self.about["made_with"]["sources"]]

    def with_labels(self, labels: Sequence[Any]) -> Annotated:
        """Return the same examples with one label each."""
        return Annotated(self.folder, labels=labels)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, place: int) -> Example: ...

    @overload
    def __getitem__(self, place: slice) -> list[Example]: ...

    def __getitem__(self, place: int | slice) -> Example | list[Example]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"text {place} of {len(self)}")
        place %= len(self)
        number = bisect_right(self._ends, place)
        row = place - (self._ends[number] - self._shards[number].n_texts)
        batch, columns = self._open(number)
        values = {"text": batch["text"][row].as_py(), "pair": batch["pair"][row].as_py()}
        if self._labels is not None:
            values["label"] = self._labels[place]
        return Example(values, columns, row)

    def annotations(self, place: int) -> tuple[Annotations, ...]:
        """Return what each source found in one text."""
        found: tuple[Annotations, ...] = self[place]["annotations"]
        return found

    def batches(self, size: int) -> Iterator[list[Example]]:
        """Yield the examples in order, so many at a time."""
        for start in range(0, len(self), size):
            yield self[start : start + size]

    def shards(self) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches themselves, checked, for work on whole columns."""
        for shard in self._shards:
            yield shard.written.open(self.folder)

    def frequencies(self, source: int | None = None) -> Frequencies:
        """Return in how many texts each entity is mentioned: by one source, or by any of them."""
        n_sources = len(self.source_names)
        if source is not None and not 0 <= source < n_sources:
            raise InputError(f"There is no source {source}; {str(self.folder)!r} has {n_sources}, counted from 0.")
        written = Written(**self.about["frequencies"])
        return Frequencies(written.open(self.folder), len(self), ALL if source is None else source)

    def _open(self, number: int) -> tuple[pa.RecordBatch, list[SourceColumn]]:
        if number not in self._opened:
            batch = self._shards[number].written.open(self.folder)
            columns = [SourceColumn(batch[f"source_{place}"]) for place in range(len(self.source_names))]
            self._opened[number] = batch, columns
        return self._opened[number]

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Annotated, labels=self._labels), (self.folder,)
