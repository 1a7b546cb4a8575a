"""A corpus as Spark reads it: frames of lines, of rows, or of whole files, and how executors make blocks of each.

Lines of plain text and JSON and rows of Parquet are split among executors however large a file is. CSV, TSV and .zst
files go to an executor whole, because only a file's beginning says how to read the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from infuser.errors import InputError
from infuser.knowledge.counting.corpus import (
    CorpusBlock,
    CorpusFile,
    Format,
    check_schema,
    find_files,
    format_of,
    read_file,
    write_rows,
)
from infuser.tables.blocks import MARK, Block

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]
Reader = Callable[[Batches], Iterator[CorpusBlock]]
"""Makes raw blocks of the batches of a frame; it travels to the executors."""

BLOCK = 8 << 20
LARGEST_FILE = 1 << 30
"""Files that go to an executor whole may be so large, in bytes as they are on disk."""
_PATTERN_SIGNS = re.compile(r"([\[\]{}*?\\])")


def open_frames(
    session: SparkSession, paths: Sequence[str | Path], columns: Sequence[str], format: Format | None
) -> list[tuple[DataFrame, Reader]]:
    """Return the corpus as frames, each with what reads it; files of one kind share a frame."""
    from pyspark.sql import functions

    frames: list[tuple[DataFrame, Reader]] = []
    for kind, files in _by_kind(paths, format).items():
        places = [_address(file.path) for file in files]
        if kind in ("text", "jsonl"):
            lines = session.read.text(places, lineSep="\n")
            bytes_of_lines = lines.select(functions.col("value").cast("binary").alias("line"))
            frames.append((bytes_of_lines, partial(_line_blocks, CorpusFile(_named(files), files[0].format))))
        elif kind == "parquet":
            rows = session.read.parquet(*places)
            for file in files:
                check_schema(file.path, _schema(session, file), columns)
            cells = [functions.col(f"`{column}`").alias(column) for column in columns]
            frames.append((rows.select(*cells), partial(_row_blocks, CorpusFile(_named(files), "parquet"))))
        else:
            whole = session.read.format("binaryFile").load(places)
            large = whole.where(functions.col("length") > LARGEST_FILE).select("path", "length").head()
            if large is not None:
                raise InputError(
                    f"{large['path']} has {large['length']:,} bytes; of this kind an executor reads whole files, of up "
                    f"to {LARGEST_FILE:,}. Write it as Parquet or JSON lines, or in several files."
                )
            # one file per task: they may be large
            spread = whole.select("path", "content").repartition(max(1, whole.count()))
            frames.append((spread, partial(_file_blocks, files[0].format, tuple(columns))))
    return frames


def _by_kind(paths: Sequence[str | Path], format: Format | None) -> dict[str, list[CorpusFile]]:
    """Return the files by how Spark reads them."""
    remote = [str(path) for path in paths if "://" in str(path)]
    here = [path for path in paths if "://" not in str(path)]
    files = find_files(here, format) if here or not remote else []
    hidden = next((file.path for file in files if Path(file.path).name.startswith(("_", "."))), None)
    if hidden:
        raise InputError(f"Spark passes over files whose names begin with _ or a dot, such as {hidden}. Rename it.")
    for address in remote:  # only Spark can look there
        found = format or format_of(Path(address))
        if found is None:
            raise InputError(f"Cannot tell the format of {address} from its name. Name it with --format.")
        files.append(CorpusFile(address, found))
    kinds: dict[str, list[CorpusFile]] = {}
    for file in files:
        whole = file.format in ("csv", "tsv") or file.path.lower().endswith(".zst")
        kinds.setdefault(f"whole {file.format}" if whole else file.format, []).append(file)
    return kinds


def _schema(session: SparkSession, file: CorpusFile) -> pa.Schema:
    """Return the columns of a Parquet file; Spark takes those of one file for those of all."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "://" not in file.path:
        return pyarrow.parquet.read_schema(file.path)
    return to_arrow_schema(session.read.parquet(file.path).schema)


def _address(path: str) -> str:
    if "://" in path:
        return path
    return "file://" + _PATTERN_SIGNS.sub(r"\\\1", str(Path(path).absolute()))  # a name is no pattern


def _named(files: Sequence[CorpusFile]) -> str:
    return files[0].path if len(files) == 1 else f"{files[0].path} and {len(files) - 1} more"


def _line_blocks(file: CorpusFile, batches: Batches) -> Iterator[CorpusBlock]:
    held: list[bytes] = []
    n_bytes = 0
    for line in (line for batch in batches for line in batch["line"].to_pylist()):
        held.append(line.removeprefix(MARK) + b"\n")
        n_bytes += len(held[-1])
        if n_bytes >= BLOCK:
            yield CorpusBlock(file, 0, Block(1, b"".join(held)))
            held, n_bytes = [], 0
    if held:
        yield CorpusBlock(file, 0, Block(1, b"".join(held)))


def _row_blocks(file: CorpusFile, batches: Batches) -> Iterator[CorpusBlock]:
    for batch in batches:
        yield CorpusBlock(file, 0, Block(1, write_rows([batch])))


def _file_blocks(format: Format, columns: tuple[str, ...], batches: Batches) -> Iterator[CorpusBlock]:
    for batch in batches:
        for path, content in zip(batch["path"].to_pylist(), batch["content"], strict=True):
            file = CorpusFile(path, format)
            for block in read_file(file, columns, BLOCK, pa.BufferReader(content.as_buffer())):
                yield CorpusBlock(file, 0, block)
