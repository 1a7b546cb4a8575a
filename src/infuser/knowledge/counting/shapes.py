"""The shapes in which a corpus walks through this room: texts, words as numbers, counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from infuser.knowledge.arrays import begins_of
from infuser.knowledge.counting.settings import Counting


class Texts(NamedTuple):
    """Texts as bytes in UTF-8, one after another.

    Text i begins at starts[i] and ends before starts[i + 1]; its last byte is a line feed that does not belong to it,
    so no two texts touch. Line feeds inside a text are allowed.
    """

    data: bytes
    starts: NDArray[np.int64]
    """One more than there are texts."""

    @property
    def n_texts(self) -> int:
        """How many texts there are."""
        return len(self.starts) - 1

    @classmethod
    def of(cls, texts: Sequence[str | bytes]) -> Texts:
        """Hold these texts."""
        encoded = [text if isinstance(text, bytes) else text.encode("utf-8", "replace") for text in texts]
        return cls(b"".join(one + b"\n" for one in encoded), begins_of([len(one) + 1 for one in encoded]))


class Encoded(NamedTuple):
    """The words of some texts as numbers.

    In the unit "window" the ids stand in the order of the text; in all others a unit's ids are distinct and ascend.
    """

    words: pa.Array
    """The distinct folded words (an Arrow string array without nulls); ids are places in it."""
    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    """Place in `ids` where each unit begins, and, last, their number; a unit may be empty."""
    n_words: int
    """How many words the texts have, repeated ones too."""


class Pairs(NamedTuple):
    """How often pairs were seen: keys ascend and are distinct.

    A key is first * n_words + second, numbers of words in the vocabulary. Units "sentence", "document" and "window"
    have first <= second (first == second in windows only); in the unit "pair", first is the left side's word.
    """

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]


class PackedPairs(NamedTuple):
    """Counted pairs in as few bytes as they take, row by row: a row has the pairs with the same first word."""

    begins: NDArray[np.int64]
    """Where each row begins, and, last, their number."""
    seconds: NDArray[np.uint32]
    """The second words, ascending in each row."""
    counts: NDArray[Any]

    def rows(self, low: int, high: int) -> Pairs:
        """Return the pairs whose first word has a number from `low` up to, not including, `high`."""
        begins = self.begins[low : high + 1]
        begin, end = int(begins[0]), int(begins[-1])
        first = np.repeat(np.arange(low, high), np.diff(begins))
        n_words = len(self.begins) - 1
        return Pairs(first * n_words + self.seconds[begin:end], self.counts[begin:end].astype(np.int64))

    @classmethod
    def of(cls, pairs: Pairs, n_words: int) -> PackedPairs:
        """Return pairs as a run."""
        first, second = np.divmod(pairs.keys, max(n_words, 1))
        largest = int(pairs.counts.max()) if len(pairs.counts) else 0
        return cls(
            np.searchsorted(first, np.arange(n_words + 1)),
            second.astype(np.uint32),
            pairs.counts.astype(np.min_scalar_type(largest)),
        )


class Chained:
    """Arrays one after another, read as one, a slice at a time."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._arrays = arrays
        self._starts = np.cumsum([0, *map(len, arrays)]).tolist()

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, key: slice) -> NDArray[np.int64]:
        start, stop, _ = key.indices(len(self))
        cut = [
            array[max(start - at, 0) : max(stop - at, 0)] for array, at in zip(self._arrays, self._starts, strict=False)
        ]
        return np.concatenate([np.zeros(0, np.int64), *cut])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or np.int64)


class RowKeys:
    """The keys of pairs that are kept row by row, a slice at a time: all at once they may not fit into memory."""

    def __init__(self, begins: NDArray[np.int64], seconds: Any) -> None:
        self._begins, self._seconds = begins, seconds

    def __len__(self) -> int:
        return len(self._seconds)

    def __getitem__(self, key: slice) -> NDArray[np.int64]:
        start, stop, _ = key.indices(len(self))
        low, high = (np.searchsorted(self._begins, [start, stop], side="right") - [1, 0]).tolist()
        ends = self._begins[low : high + 1].clip(start, max(start, stop))
        first = np.repeat(np.arange(low, low + len(ends) - 1), np.diff(ends))
        keys: NDArray[np.int64] = first * (len(self._begins) - 1) + self._seconds[start:stop]
        return keys

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or np.int64)


class CorpusCounts(NamedTuple):
    """A counted corpus: what both engines hand over."""

    settings: Counting
    words: pa.Array
    """The vocabulary: most frequent first, words of the same frequency in the order of their bytes."""
    left: NDArray[np.int64]
    """In how many units each word is (in windows: how often it is there); of a pair, the left side."""
    right: NDArray[np.int64]
    """The same, of a pair the right side."""
    n_units: int
    """What these are fractions of: the number of units, in windows the number of words."""
    keys: Any
    """Like `Pairs.keys`; perhaps on disk, so take a slice at a time."""
    pair_counts: Any
    """Like `Pairs.counts`; likewise."""
    about: dict[str, Any]
    """Further figures: n_texts, n_tokens, skipped rows."""
