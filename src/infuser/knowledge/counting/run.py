"""A corpus counted: in memory at once, or on disk, by worker processes, in bounded memory, and resumed if killed.

On disk it goes like this:

1. Blocks of the corpus become words as numbers, with a list of words of their own each.
2. All these lists together give the vocabulary.
3. The pairs of some blocks at a time are counted and sorted (`run_pairs`).
4. All these are added up, one range of first words after another (`run_pairs`).

The counts do not depend on blocks, ranges, memory or the number of processes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from infuser.errors import InputError
from infuser.knowledge.counting.corpus import CorpusBlock, CorpusFile, Format, find_files, read_corpus
from infuser.knowledge.counting.folder import CountingFolder, open_counting_folder
from infuser.knowledge.counting.pairs import add_pairs, count_pairs, leave_out_rare
from infuser.knowledge.counting.run_pairs import Share, add_up, count_groups, group_blocks, most_workers
from infuser.knowledge.counting.settings import Counting
from infuser.knowledge.counting.shapes import CorpusCounts, Encoded, Texts
from infuser.knowledge.counting.texts import read_texts
from infuser.knowledge.counting.tokens import encode
from infuser.knowledge.counting.words import choose_words, count_units, count_words
from infuser.processes import ReportDone, WorkerPool
from infuser.progress import Report, no_progress
from infuser.tables.skipped import Skipped

MEMORY = 2 << 30
BLOCK = 4 << 20
_FEW_BYTES = 24 << 20
_ROWS_AT_ONCE, _CHARACTERS_AT_ONCE = 1 << 14, 1 << 24
_PAIRS_IN_MEMORY = 1 << 24


def count_texts(texts: Iterable[str | tuple[str, str]], settings: Counting | None = None) -> CorpusCounts:
    """Return how often the words of texts are seen, alone and together; the unit "pair" wants pairs of texts."""
    settings = settings or Counting()
    if isinstance(texts, str):
        raise InputError("count_texts takes a list of texts, not one string.")
    encoded: list[tuple[Encoded, ...]] = []
    batch: list[tuple[str, ...]] = []
    n_texts = n_characters = 0
    for text in texts:
        row = (text,) if isinstance(text, str) else tuple(text)
        if len(row) != settings.n_sides:
            wanted = "two texts" if settings.n_sides == 2 else "one text"
            raise InputError(f"Row {n_texts} has {len(row)} texts; the unit {settings.unit!r} wants {wanted} in a row.")
        n_texts += 1
        batch.append(row)
        n_characters += sum(map(len, row))
        if len(batch) == _ROWS_AT_ONCE or n_characters > _CHARACTERS_AT_ONCE:
            encoded.append(_encode_rows(batch, settings))
            batch, n_characters = [], 0
    if batch:
        encoded.append(_encode_rows(batch, settings))
    vocabulary = choose_words(lambda: map(count_words, encoded), settings, _PAIRS_IN_MEMORY)
    pairs = add_pairs([count_pairs(sides, vocabulary, settings, _PAIRS_IN_MEMORY) for sides in encoded])
    return CorpusCounts(
        settings,
        *vocabulary,
        sum(count_units(sides, settings) for sides in encoded),
        *leave_out_rare(pairs, settings.min_pairs),
        {"n_texts": n_texts, "n_tokens": sum(side.n_words for sides in encoded for side in sides)},
    )


def _encode_rows(batch: Sequence[tuple[str, ...]], settings: Counting) -> tuple[Encoded, ...]:
    return encode([Texts.of([row[side] for row in batch]) for side in range(settings.n_sides)], settings)


@contextmanager
def count_corpus(
    paths: Sequence[str | Path],
    work: str | Path,
    settings: Counting | None = None,
    *,
    columns: Sequence[str] = (),
    format: Format | None = None,
    memory: int = MEMORY,
    workers: int | None = None,
    strict: bool = False,
    restart: bool = False,
    progress: Report | None = None,
) -> Iterator[CorpusCounts]:
    """Count a corpus and yield what was found; the pairs lie in the folder `work` until it is removed at the end.

    `paths` are files or folders: plain text with a text per line, .csv, .tsv, .jsonl, .parquet, packed or not.
    `columns` names the column of the text, for the unit "pair" of both texts. `workers` is how many processes count
    (None: one per core that memory allows, 0: this one), `memory` how many bytes all of them may take. A run that was
    killed goes on when it is made again.
    """
    settings, progress = settings or Counting(), progress or no_progress
    columns = tuple(columns) or ("text", "pair")[: settings.n_sides]
    if len(columns) != settings.n_sides:
        raise InputError(f"The unit {settings.unit!r} reads {settings.n_sides} column(s), but {columns} were given.")
    files = find_files(paths, format)
    n_workers = _n_workers(files, memory) if workers is None else workers
    share = Share.of(memory, n_workers)
    made_with = {
        "engine": "local",
        "corpus": [list(file) for file in files],
        "columns": list(columns),
        "settings": settings.to_json(),
        "block size": BLOCK,
    }
    with (
        open_counting_folder(Path(work), made_with, restart=restart) as folder,
        WorkerPool(n_workers, helping=True) as pool,
    ):
        n_blocks = _encode_blocks(folder, files, columns, settings, strict, pool, progress)
        abouts = [folder.block_about(number) or {} for number in range(n_blocks)]
        if not any(about["n_units"] for about in abouts):
            folder.delete()
            raise _nothing(files, abouts)
        _choose_words(folder, n_blocks, settings, share, progress)
        vocabulary = folder.read_words()
        groups = group_blocks([about["n_tokens"] for about in abouts])
        runs = count_groups(folder, groups, settings, share, pool, progress)
        keys, counts = add_up(folder, runs, settings, share, pool, progress)
        yield CorpusCounts(settings, *vocabulary, sum(one["n_units"] for one in abouts), keys, counts, _summed(abouts))
        folder.delete()


def _n_workers(files: Sequence[CorpusFile], memory: int) -> int:
    size = sum(os.path.getsize(file.path) for file in files)
    if size < _FEW_BYTES:  # starting a process takes longer than counting so little
        return 0
    return min(os.cpu_count() or 1, most_workers(memory))


def _encode_blocks(
    folder: CountingFolder,
    files: Sequence[CorpusFile],
    columns: Sequence[str],
    settings: Counting,
    strict: bool,
    pool: WorkerPool,
    progress: Report,
) -> int:
    """Make the words of every block that has none yet, and return how many blocks there are."""
    n_bytes = n_blocks = n_new = 0
    total = _size(files)

    def report(more: int) -> None:
        nonlocal n_bytes
        n_bytes += more
        progress("reading", n_bytes, total)

    def unfinished() -> Iterator[CorpusBlock]:
        nonlocal n_blocks, n_new
        for block in read_corpus(files, columns, BLOCK):
            n_blocks = block.number + 1
            about = folder.block_about(block.number)
            finished = about is not None and about["crc"] == zlib.crc32(block.block.data)
            if finished and not (strict and about and about["skipped"]["rows"]):
                report(len(block.block.data))
                continue
            if not n_new:  # what was made of other blocks before is worth nothing
                folder.remove_counts()
            n_new += 1
            yield block

    work = partial(_encode_block, folder, tuple(columns), settings, strict)
    for _ in pool.map_unordered(unfinished(), work, report, doing="read the corpus"):
        pass
    folder.remove_blocks(n_blocks)  # of a corpus that was longer before
    return n_blocks


def _encode_block(
    folder: CountingFolder,
    columns: tuple[str, ...],
    settings: Counting,
    strict: bool,
    block: CorpusBlock,
    report: ReportDone,
) -> None:
    skipped = Skipped(strict)
    texts = read_texts(block, columns, skipped)
    sides = encode(texts, settings)
    about = {
        "crc": zlib.crc32(block.block.data),
        "n_texts": texts[0].n_texts,
        "n_tokens": sum(side.n_words for side in sides),
        "n_units": count_units(sides, settings),
        "skipped": {"rows": skipped.n, "first": skipped.first},
    }
    folder.save_block(block.number, sides, about)
    report(len(block.block.data))


def _choose_words(folder: CountingFolder, n_blocks: int, settings: Counting, share: Share, progress: Report) -> None:
    if folder.has_words():
        return
    folder.remove("pairs-*", "part-*")

    def tables() -> Iterator[pa.Table]:
        for number in range(n_blocks):
            progress("choosing words", number, n_blocks)
            yield folder.read_block_words(number)

    folder.save_words(choose_words(tables, settings, share.n_words))


def _size(files: Sequence[CorpusFile]) -> int | None:
    """Return how many bytes will be read; None if a packed file hides it."""
    packed = any(file.path.lower().endswith((".gz", ".zst", ".parquet")) for file in files)
    return None if packed else sum(os.path.getsize(file.path) for file in files)


def _summed(abouts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = [row for about in abouts for row in about["skipped"]["first"]]
    skipped = {"rows": sum(about["skipped"]["rows"] for about in abouts), "first": first[:5]}
    return {
        "n_texts": sum(about["n_texts"] for about in abouts),
        "n_tokens": sum(about["n_tokens"] for about in abouts),
        "skipped": skipped,
    }


def _nothing(files: Sequence[CorpusFile], abouts: Sequence[dict[str, Any]]) -> InputError:
    skipped = _summed(abouts)["skipped"]
    why = f" {skipped['rows']:,} rows cannot be read: {skipped['first'][0]}." if skipped["rows"] else ""
    named = ", ".join(file.path for file in files[:3])
    return InputError(f"There is not one word in {named}{' ...' if len(files) > 3 else ''}.{why}")
