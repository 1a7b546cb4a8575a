"""A list of names with labels and ids, in memory or as a folder: what the `Entities` source looks for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from infuser.knowledge.arrays import Strings
from infuser.knowledge.artifact import Array, Folder, whole, write_folder
from infuser.knowledge.names.gazetteer import Gazetteer

KIND = "gazetteer"


class Name(NamedTuple):
    """A name as it is written in the list, what kind of thing it names, and which one."""

    written: str
    label: str
    id: str


class NameStore:
    """Names that can be found in texts and looked up by number."""

    def __init__(
        self, gazetteer: Gazetteer, written: Strings, ids: Strings, label_of: Array, labels: Strings, digest: str = ""
    ) -> None:
        self.gazetteer = gazetteer
        self.digest = digest
        """Of the folder it was opened from; empty for a list in memory."""
        self._written, self._ids, self._label_of, self._labels = written, ids, label_of, labels
        self.name = lru_cache(maxsize=100_000)(self._name)

    @classmethod
    def build(
        cls,
        names: Sequence[str],
        labels: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        *,
        fold_case: bool = True,
        fold_accents: bool = False,
    ) -> Self:
        """Make a store of names; without labels they are "entity", without ids the names themselves are the ids."""
        kinds: dict[str, int] = {}
        codes = [kinds.setdefault(label, len(kinds)) for label in labels or ["entity"] * len(names)]
        written = Strings.of(names)
        return cls(
            Gazetteer.build(names, fold_case=fold_case, fold_accents=fold_accents),
            written,
            written if ids is None else Strings.of(ids),
            np.array(codes, np.int32),
            Strings.of(kinds),
        )

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open a folder that `save` wrote."""
        parts = Folder(folder, KIND)
        written = Strings.open(parts, "written")
        ids = Strings.open(parts, "ids") if "ids.bytes" in parts else written
        gazetteer = Gazetteer.open(parts, "names", parts.about)
        return cls(gazetteer, written, ids, parts["label_of"], Strings.open(parts, "labels"), parts.digest)

    def save(self, folder: str | Path) -> Path:
        """Write everything into a folder."""
        parts = {
            **self.gazetteer.parts("names"),
            **self._written.parts("written"),
            **({} if self._ids is self._written else self._ids.parts("ids")),
            "label_of": self._label_of,
            **self._labels.parts("labels"),
        }
        settings = {"fold_case": self.gazetteer.fold_case, "fold_accents": self.gazetteer.fold_accents}
        return write_folder(folder, KIND, parts, n_names=len(self), **settings)

    @property
    def n_entities(self) -> int:
        """How many different ids the names have."""
        return len({self._ids[number] for number in range(len(self))})

    def labels_by_count(self) -> tuple[str, ...]:
        """Return the labels of the names, the most frequent first; equals in the order in which they came."""
        counts = np.bincount(whole(self._label_of), minlength=len(self._labels))
        order = np.argsort(-counts, kind="stable").tolist()
        return tuple([self._labels[code] for code in order if counts[code]])

    def __len__(self) -> int:
        return len(self._written)

    def _name(self, number: int) -> Name:
        return Name(self._written[number], self._labels[int(self._label_of[number])], self._ids[number])
