"""How often each word was seen, and which words are kept: the vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from infuser.knowledge.counting.settings import Counting
from infuser.knowledge.counting.shapes import Encoded

WORDS = pa.schema([("word", pa.string()), ("left", pa.int64()), ("right", pa.int64())])
"""Words with their number on the left and on the right side; where there is one side, they are the same."""


class Vocabulary(NamedTuple):
    """The words that are kept: most frequent first, words of the same frequency in the order of their bytes."""

    words: pa.Array
    left: NDArray[np.int64]
    right: NDArray[np.int64]

    def numbers_of(self, words: pa.Array) -> NDArray[np.int64]:
        """Return the number of each word, -1 for one that is not kept."""
        found = pc.index_in(words, value_set=self.words)
        numbers: NDArray[np.int64] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers


def count_units(sides: Sequence[Encoded], settings: Counting) -> int:
    """Return what the counts are fractions of: the number of units, in windows the number of words."""
    return sides[0].n_words if settings.unit == "window" else len(sides[0].starts) - 1


def count_words(sides: Sequence[Encoded]) -> pa.Table:
    """Return how often each word is in these units, as WORDS."""
    counts = [np.bincount(side.ids, minlength=len(side.words)) for side in sides]
    if len(sides) == 1:
        return pa.table([sides[0].words, counts[0], counts[0]], schema=WORDS)
    none = [np.zeros(len(one), np.int64) for one in counts]
    tables = [
        pa.table([sides[0].words, counts[0], none[0]], schema=WORDS),
        pa.table([sides[1].words, none[1], counts[1]], schema=WORDS),
    ]
    return add_words(tables)


def add_words(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the sum of word counts, as WORDS."""
    both = pa.concat_tables([WORDS.empty_table(), *tables])
    summed = both.group_by("word", use_threads=False).aggregate([("left", "sum"), ("right", "sum")])
    return pa.table([summed["word"], summed["left_sum"], summed["right_sum"]], schema=WORDS).combine_chunks()


def choose_words(read: Callable[[], Iterable[pa.Table]], settings: Counting, room: int) -> Vocabulary:
    """Return the words worth keeping, of tables that may together be larger than memory.

    `read` gives the tables, again and again: words are looked at in parts of about `room`, parted by their content.
    """
    whole = _add_within(read(), room)
    if whole is None:  # more distinct words than there is room for
        n_parts = 2 + sum(table.num_rows for table in read()) // room
        kept = [_most_frequent(_add_part(read(), part, n_parts), settings) for part in range(n_parts)]
        whole = pa.concat_tables(kept)
    found = _most_frequent(whole, settings)
    words = found["word"].combine_chunks()
    return Vocabulary(words, found["left"].to_numpy(), found["right"].to_numpy())


def _most_frequent(table: pa.Table, settings: Counting) -> pa.Table:
    total = _total(table, settings)
    wanted = pc.greater_equal(total, settings.min_count)
    if settings.stop_words:
        wanted = pc.and_(wanted, pc.invert(pc.is_in(table["word"], pa.array(settings.stop_words, pa.string()))))
    table = table.filter(wanted)
    table = table.append_column("total", _total(table, settings))
    table = table.append_column("bytes", table["word"].cast(pa.binary()))  # the order of bytes, in whatever engine
    order = [("total", "descending"), ("bytes", "ascending")]
    return table.sort_by(order).slice(0, settings.max_words).select(WORDS.names).combine_chunks()


def _total(table: pa.Table, settings: Counting) -> pa.ChunkedArray:
    return pc.add(table["left"], table["right"]) if settings.n_sides == 2 else table["left"]


def _add_within(tables: Iterable[pa.Table], room: int) -> pa.Table | None:
    """Return the sum of word counts, added up whenever there are many; None if the distinct words are too many."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(one.num_rows for one in held) > room:
            held = [add_words(held)]
            if held[0].num_rows > room // 2:
                return None
    return add_words(held)


def _add_part(tables: Iterable[pa.Table], part: int, n_parts: int) -> pa.Table:
    return add_words(table.filter(pa.array(_parts(table["word"], n_parts) == part)) for table in tables)


def _parts(words: pa.ChunkedArray, n_parts: int) -> NDArray[np.uint64]:
    """Return to which part each word belongs, by a sum over its bytes that depends on their order."""
    whole = words.combine_chunks() if isinstance(words, pa.ChunkedArray) else words
    if not len(whole):
        return np.zeros(0, np.uint64)
    _, offsets, data = whole.buffers()
    starts = np.frombuffer(offsets, np.int32)[whole.offset : whole.offset + len(whole) + 1].astype(np.int64)
    lengths = np.diff(starts)
    places = np.arange(starts[-1] - starts[0]) - np.repeat(starts[:-1] - starts[0], lengths)
    signs = np.frombuffer(data, np.uint8)[starts[0] : starts[-1]].astype(np.uint64)
    mixed = (signs + np.uint64(1)) * ((places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))
    mixed ^= mixed >> np.uint64(29)
    sums: NDArray[np.uint64] = np.add.reduceat(mixed, starts[:-1] - starts[0])
    return (sums ^ (sums >> np.uint64(32))) % np.uint64(n_parts)
