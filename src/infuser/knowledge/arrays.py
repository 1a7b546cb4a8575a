"""How stores lay out strings and lists of different lengths: in flat arrays and tries, in memory or on disk."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import marisa_trie
import numpy as np
from numpy.typing import ArrayLike, NDArray

from infuser.errors import SourceError
from infuser.knowledge.artifact import Array, Parts


def begins_of(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return where lists of these lengths begin when they lie one after another, and, last, where they end."""
    lengths = np.asarray(lengths, np.int64)
    begins = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=begins[1:])
    return begins


def join_ranges(starts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Return the numbers of all these ranges, one range after another."""
    begins = begins_of(lengths)
    return np.arange(begins[-1]) + np.repeat(starts - begins[:-1], lengths)


class Strings:
    """Many strings in two arrays: where each begins, and their UTF-8 bytes one after another."""

    def __init__(self, offsets: Array, data: Array) -> None:
        self._offsets, self._data = offsets, data

    @classmethod
    def of(cls, strings: Iterable[str]) -> Strings:
        """Hold these strings in memory."""
        encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
        return cls(begins_of([len(one) for one in encoded]), np.frombuffer(b"".join(encoded), np.uint8))

    @classmethod
    def open(cls, parts: Parts, name: str) -> Strings:
        """Take them from a folder, or from a dict of parts."""
        return cls(parts[f"{name}.offsets"], parts[f"{name}.bytes"])

    def parts(self, name: str) -> dict[str, Array]:
        """Return them as parts of a folder."""
        return {f"{name}.offsets": self._offsets, f"{name}.bytes": self._data}

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> str:
        if not -len(self) <= number < len(self):
            raise IndexError(f"string {number} of {len(self)}")
        number %= len(self)
        start, end = self._offsets[number : number + 2].tolist()
        return bytes(self._data[start:end]).decode("utf-8", "surrogatepass")


def make_trie(strings: Collection[str]) -> marisa_trie.Trie:
    """Return a table of different strings, each with a number of its own; it cannot hold what is no proper text."""
    odd = next((string for string in strings if "\0" in string), None)
    try:
        if odd is None:
            return marisa_trie.Trie(strings, order=marisa_trie.LABEL_ORDER)  # half the time to build and to search
    except UnicodeEncodeError as error:
        odd = str(error.object)
    raise SourceError(
        f"A name or id holds a null character or half of a character (a lone surrogate): {odd[:60]!r}. Leave it out, "
        "or read the file with the right encoding."
    )


def number_strings(strings: Sequence[str]) -> tuple[marisa_trie.Trie, NDArray[np.int32], NDArray[np.int32]]:
    """Return a table of different strings, the key in it of each, and for each key the place of its string."""
    table = make_trie(strings)
    keys = np.fromiter(map(table.__getitem__, strings), np.int32, len(strings))
    places = np.empty_like(keys)
    places[keys] = np.arange(len(keys), dtype=np.int32)
    return table, keys, places


def key_in(table: marisa_trie.Trie, string: str) -> int:
    """Return the key of a string in a table, -1 if it is not there."""
    try:
        key: int = table.get(string, -1)
    except UnicodeEncodeError:  # half of a character: no table holds one
        return -1
    return key
