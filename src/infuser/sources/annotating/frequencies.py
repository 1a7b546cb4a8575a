"""In how many texts each entity is mentioned, and how often: per source, and over all sources together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from infuser.sources.annotating.columns import span_ids

ALL = -1
"""Stands for all sources together: a text counts once, whichever of them found the entity."""
_MOST_ROWS = 1 << 21
"""Counts of shards are added up when there are so many of them, which bounds memory."""


class Count(NamedTuple):
    """How often an entity was met."""

    id: str
    n_texts: int
    n_mentions: int


def count(shards: Iterable[pa.RecordBatch], n_sources: int) -> pa.RecordBatch:
    """Return the counts over all shards, sorted by source and id: source, id, n_texts, n_mentions."""
    counts = [_counted(ALL, [])]
    n_rows = 0
    for shard in shards:
        mentions = [_mentions(shard[f"source_{place}"]) for place in range(n_sources)]
        new = [_counted(place, [found]) for place, found in enumerate(mentions)] + [_counted(ALL, mentions)]
        counts += new
        n_rows += sum(len(table) for table in new)
        if n_rows > _MOST_ROWS:
            counts = [_added(counts)]
            n_rows = 0
    whole = _added(counts).sort_by([("source", "ascending"), ("id", "ascending")]).combine_chunks()
    return pa.record_batch([column.combine_chunks() for column in whole.columns], names=whole.column_names)


def _mentions(column: pa.StructArray) -> pa.Table:
    rows, ids = span_ids(column)
    table = pa.table({"row": pa.array(rows, pa.int64()), "id": ids.cast(pa.large_string())})
    return table.filter(pc.not_equal(table["id"], ""))


def _counted(source: int, mentions: Sequence[pa.Table]) -> pa.Table:
    """Return the counts of one shard: first per text, then over texts."""
    empty = pa.table({"row": pa.array([], pa.int64()), "id": pa.array([], pa.large_string())})
    per_text = pa.concat_tables([empty, *mentions]).group_by(["row", "id"], use_threads=False)
    per_id = per_text.aggregate([([], "count_all")]).group_by("id", use_threads=False)
    counted = per_id.aggregate([([], "count_all"), ("count_all", "sum")])
    return pa.table(
        {
            "source": pa.array(np.full(len(counted), source, np.int32)),
            "id": counted["id"],
            "n_texts": counted["count_all"],
            "n_mentions": counted["count_all_sum"],
        }
    )


def _added(counts: Sequence[pa.Table]) -> pa.Table:
    grouped = pa.concat_tables(counts).group_by(["source", "id"], use_threads=False)
    added = grouped.aggregate([("n_texts", "sum"), ("n_mentions", "sum")])
    return added.rename_columns(["source", "id", "n_texts", "n_mentions"])


class Frequencies(Mapping[str, int]):
    """Entity id to the number of texts that mention it, mapped from disk; see `read_frequencies`."""

    def __init__(self, counts: pa.RecordBatch, n_texts: int, source: int = ALL) -> None:
        self.n_texts = n_texts
        """How many texts were counted in all."""
        sources: NDArray[np.int32] = counts["source"].to_numpy()
        first, last = np.searchsorted(sources, [source, source + 1]).tolist()
        part = counts.slice(first, last - first)
        self._ids = part["id"]
        self._texts: NDArray[np.int64] = part["n_texts"].to_numpy()
        self._mentions: NDArray[np.int64] = part["n_mentions"].to_numpy()
        self._found: dict[str, int] = {}  # the same ids are looked up again and again

    def __getitem__(self, id: str) -> int:
        place = self._place(id)
        if place < 0:
            raise KeyError(id)
        return int(self._texts[place])

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[str]:
        return (id.as_py() for id in self._ids)

    def mentions(self, id: str) -> int:
        """Return how often an entity is mentioned, several times in one text included; 0 if never."""
        place = self._place(id)
        return 0 if place < 0 else int(self._mentions[place])

    def counts(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return in how many texts each of these entities is mentioned; 0 for one that never is."""
        places = np.fromiter((self._place(id) for id in ids), np.int64, len(ids))
        if not len(self):
            return np.zeros(len(ids), np.int64)
        return np.where(places < 0, 0, self._texts[places])

    def most_frequent(self, n: int) -> list[Count]:
        """Return the entities of most texts, of equals those of most mentions, then in the order of their ids."""
        order = np.lexsort((-self._mentions, -self._texts))[:n]
        return [Count(self._ids[at].as_py(), int(self._texts[at]), int(self._mentions[at])) for at in order.tolist()]

    def _place(self, id: str) -> int:
        if id not in self._found:
            # Arrow sorts strings by code point, as Python does
            at = bisect_left(range(len(self._ids)), id, key=lambda place: self._ids[place].as_py())
            self._found[id] = at if at < len(self._ids) and self._ids[at].as_py() == id else -1
        return self._found[id]
