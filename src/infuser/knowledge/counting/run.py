"""A corpus on disk, counted: by worker processes, in bounded memory, and from where it stopped if it was killed.

1. Blocks of the corpus become words as numbers, with a list of words of their own each.
2. All these lists together give the vocabulary.
3. The pairs of some blocks at a time are counted and sorted (`run_pairs`).
4. All these are added up, one range of first words after another (`run_pairs`).

The counts do not depend on blocks, ranges, memory or the number of processes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from infuser.errors import InputError
from infuser.knowledge.counting.corpus import CorpusBlock, CorpusFile, Format, find_files, read_corpus
from infuser.knowledge.counting.folder import CountingFolder, open_counting_folder
from infuser.knowledge.counting.run_pairs import Share, add_up, count_groups, group_blocks, most_workers
from infuser.knowledge.counting.settings import Counting
from infuser.knowledge.counting.shapes import CorpusCounts, Progress
from infuser.knowledge.counting.texts import read_texts
from infuser.knowledge.counting.tokens import encode
from infuser.knowledge.counting.words import choose_words, count_units
from infuser.processes import ReportDone, WorkerPool
from infuser.tables.skipped import Skipped

MEMORY = 2 << 30
BLOCK = 4 << 20
_FEW_BYTES = 24 << 20


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
    progress: Progress | None = None,
) -> Iterator[CorpusCounts]:
    """Count a corpus and yield what was found; the pairs lie in the folder `work` until it is removed at the end.

    `paths` are files or folders: plain text with a text per line, .csv, .tsv, .jsonl, .parquet, packed or not.
    `columns` names the column of the text, for the unit "pair" of both texts. `workers` is how many processes count
    (None: one per core that memory allows, 0: this one), `memory` how many bytes all of them may take. A run that was
    killed goes on when it is made again.
    """
    settings, progress = settings or Counting(), progress or _no_progress
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
    progress: Progress,
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

    work = _Encode(folder, tuple(columns), settings, strict)
    for _ in pool.map_unordered(unfinished(), work, report, doing="read the corpus"):
        pass
    folder.remove_blocks(n_blocks)  # of a corpus that was longer before
    return n_blocks


@dataclass(frozen=True)
class _Encode:
    folder: CountingFolder
    columns: tuple[str, ...]
    settings: Counting
    strict: bool

    def __call__(self, block: CorpusBlock, report: ReportDone) -> None:
        skipped = Skipped(self.strict)
        texts = read_texts(block, self.columns, skipped)
        sides = encode(texts, self.settings)
        about = {
            "crc": zlib.crc32(block.block.data),
            "n_texts": texts[0].n_texts,
            "n_tokens": sum(side.n_words for side in sides),
            "n_units": count_units(sides, self.settings),
            "skipped": {"rows": skipped.n, "first": skipped.first},
        }
        self.folder.save_block(block.number, sides, about)
        report(len(block.block.data))


def _choose_words(folder: CountingFolder, n_blocks: int, settings: Counting, share: Share, progress: Progress) -> None:
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


def _no_progress(what: str, done: int, total: int | None) -> None:
    pass
