"""The shapes in which a corpus walks through this room: texts, words as numbers, counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from infuser.counting.settings import Counting

Progress = Callable[[str, int, int | None], None]
"""Called with what is done now, how much of it is done, and of how much (None if nobody knows)."""


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
        starts = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(one) + 1 for one in encoded], out=starts[1:])
        return cls(b"".join(one + b"\n" for one in encoded), starts)


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


class Counts(NamedTuple):
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
    """Like `Pairs.keys`, in memory or mapped from disk."""
    pair_counts: Any
    """Like `Pairs.counts`."""
    about: dict[str, Any]
    """What else is worth telling: n_texts, n_tokens, skipped rows."""
