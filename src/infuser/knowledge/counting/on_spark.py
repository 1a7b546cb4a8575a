"""A corpus on a cluster, counted with Spark: the same words, the same pairs, the same numbers.

The executors run the very functions that count a block here; Spark adds up what they found. The driver sees the
vocabulary and, packed, the pairs that are kept, but no row of the corpus.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from infuser.errors import InputError
from infuser.knowledge.counting.corpus import Format
from infuser.knowledge.counting.folder import open_counting_folder
from infuser.knowledge.counting.pairs import count_pairs
from infuser.knowledge.counting.settings import Counting
from infuser.knowledge.counting.shapes import CorpusCounts, Encoded
from infuser.knowledge.counting.spark_corpus import Batches, Reader, open_frames
from infuser.knowledge.counting.texts import read_texts
from infuser.knowledge.counting.tokens import encode
from infuser.knowledge.counting.words import WORDS, Vocabulary, choose_words, count_units, count_words
from infuser.progress import Report, no_progress
from infuser.spark import open_session
from infuser.tables.skipped import Skipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ReadWords = Callable[[Batches], Iterator[tuple[tuple[Encoded, ...], int, Skipped]]]
"""What executors do first: it yields the words of each block, the number of its texts, and its bad rows."""
Corpus = Sequence[tuple["DataFrame", ReadWords]]

_TOTALS = ("n_texts", "n_tokens", "n_units", "n_skipped")
_WORD_ROWS = pa.schema([*WORDS, *((name, pa.int64()) for name in _TOTALS), ("skipped", pa.string())])
"""A row counts a word, or describes a block: then it has no word."""
_PAIR_ROWS = pa.schema([("key", pa.int64()), ("n", pa.int64())])
_ROOM = 1 << 23
_PACK = 1 << 20
_SHOWN = 5


@contextmanager
def count_on_spark(
    paths: Sequence[str | Path],
    work: str | Path,
    settings: Counting | None = None,
    *,
    columns: Sequence[str] = (),
    format: Format | None = None,
    master: str | None = None,
    strict: bool = False,
    restart: bool = False,
    progress: Report | None = None,
) -> Iterator[CorpusCounts]:
    """Count a corpus on a cluster and yield what was found; the pairs lie in the folder `work` until the end.

    `paths` may be anything that Spark reads: files and folders that all nodes see, or addresses such as hdfs://... A
    run that was killed starts anew.
    """
    settings, progress = settings or Counting(), progress or no_progress
    columns = tuple(columns) or ("text", "pair")[: settings.n_sides]
    made_with = {"engine": "spark", "corpus": list(map(str, paths)), "settings": settings.to_json()}
    with (
        open_counting_folder(Path(work), made_with, restart=restart) as folder,
        open_session(master, "infuser correlation") as session,
    ):
        frames = open_frames(session, paths, columns, format)
        corpus = [(frame, partial(_read_words, reader, columns, settings, strict)) for frame, reader in frames]
        progress("counting words", 0, None)
        vocabulary, n_units, about = _count_words(corpus, settings)
        progress("counting pairs", 0, None)
        keys, counts = _count_pairs(corpus, settings, vocabulary, folder.path)
        yield CorpusCounts(settings, *vocabulary, n_units, keys, counts, about)
        folder.delete()


def _read_words(
    reader: Reader, columns: tuple[str, ...], settings: Counting, strict: bool, batches: Batches
) -> Iterator[tuple[tuple[Encoded, ...], int, Skipped]]:
    for block in reader(batches):
        skipped = Skipped(strict)
        texts = read_texts(block, columns, skipped)
        yield encode(texts, settings), texts[0].n_texts, skipped


def _word_rows(read: ReadWords, settings: Counting, batches: Batches) -> Batches:
    for sides, n_texts, skipped in read(batches):
        n_tokens = sum(side.n_words for side in sides)
        totals = dict(zip(_TOTALS, (n_texts, n_tokens, count_units(sides, settings), skipped.n), strict=True))
        first = [re.sub(r", (line|row) \d+:", ":", one) for one in skipped.first]  # Spark does not number lines
        rows: list[dict[str, Any]] = [totals, *({"skipped": one} for one in first)]
        yield pa.RecordBatch.from_pylist(rows, schema=_WORD_ROWS)
        for batch in count_words(sides).to_batches(max_chunksize=_PACK):
            nothing = [pa.nulls(len(batch), kind) for kind in _WORD_ROWS.types[len(WORDS) :]]
            yield pa.record_batch([*batch.columns, *nothing], schema=_WORD_ROWS)


def _count_words(corpus: Corpus, settings: Counting) -> tuple[Vocabulary, int, dict[str, Any]]:
    """Return the vocabulary, the number of units, and what else `CorpusCounts.about` holds."""
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(_WORD_ROWS)
    found = [frame.mapInArrow(partial(_word_rows, read, settings), schema) for frame, read in corpus]
    rows = reduce(lambda one, other: one.union(other), found).persist()
    try:
        totals = rows.agg(*[functions.sum(name).alias(name) for name in _TOTALS]).head()
        about = {name: int((totals and totals[name]) or 0) for name in _TOTALS}
        first = rows.where("skipped is not null").select("skipped").limit(_SHOWN).toArrow()["skipped"].to_pylist()
        if not about["n_units"]:
            why = f" {about['n_skipped']:,} rows cannot be read: {first[0]}." if first else ""
            raise InputError(f"There is not one word in the corpus.{why}")
        sums = [functions.sum(side).alias(side) for side in ("left", "right")]
        total = functions.col("left") + (functions.col("right") if settings.n_sides == 2 else 0)
        counted = rows.where("word is not null").groupBy("word").agg(*sums)
        often = counted.where((total >= settings.min_count) & ~functions.col("word").isin(list(settings.stop_words)))
        # in the order of the vocabulary, so that no more words come home than it may hold
        table = often.orderBy(total.desc(), "word").limit(settings.max_words).toArrow().cast(WORDS)
    finally:
        rows.unpersist()
    skipped = {"rows": about.pop("n_skipped"), "first": first}
    n_units = about.pop("n_units")
    return choose_words(lambda: [table], settings, table.num_rows + 1), n_units, {**about, "skipped": skipped}


def _pair_rows(read: ReadWords, settings: Counting, vocabulary: Vocabulary, batches: Batches) -> Batches:
    for sides, _, _ in read(batches):
        pairs = count_pairs(sides, vocabulary, settings, _ROOM)
        yield from pa.table([*pairs], schema=_PAIR_ROWS).to_batches(max_chunksize=_PACK)


def _count_pairs(corpus: Corpus, settings: Counting, vocabulary: Vocabulary, folder: Path) -> tuple[Any, Any]:
    """Return the pairs that are kept, sorted, in files that are mapped."""
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(_PAIR_ROWS)
    found = [frame.mapInArrow(partial(_pair_rows, read, settings, vocabulary), schema) for frame, read in corpus]
    rows = reduce(lambda one, other: one.union(other), found)
    summed = rows.groupBy("key").agg(functions.sum("n").alias("n")).where(f"n >= {settings.min_pairs}")
    packed = summed.orderBy("key").mapInArrow(_pack, "keys binary, counts binary")
    with (folder / "keys").open("wb") as keys, (folder / "counts").open("wb") as counts:
        for pack in packed.toLocalIterator(prefetchPartitions=True):  # some hundred thousand pairs each
            keys.write(pack["keys"])
            counts.write(pack["counts"])
    return _mapped(folder / "keys"), _mapped(folder / "counts")


def _pack(batches: Batches) -> Batches:
    """Return each batch of pairs as one row of bytes."""
    for batch in batches:
        data = [np.ascontiguousarray(batch[name].to_numpy(), np.int64).tobytes() for name in ("key", "n")]
        yield pa.record_batch([pa.array([one], pa.binary()) for one in data], names=["keys", "counts"])


def _mapped(path: Path) -> Any:
    return np.memmap(path, np.int64, "r") if path.stat().st_size else np.zeros(0, np.int64)
