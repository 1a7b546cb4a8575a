"""Small corpora written and read, for the tests of this room."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infuser.knowledge.counting.corpus import CorpusBlock, Format, find_files, read_corpus
from infuser.knowledge.counting.shapes import Texts
from infuser.knowledge.counting.texts import read_texts
from infuser.tables.skipped import Skipped


def texts_in(texts: Texts) -> list[str]:
    """Return texts as strings; each must end in its line feed, and none be outside the data."""
    assert texts.starts.dtype == "int64" and texts.starts[0] >= 0 and texts.starts[-1] <= len(texts.data)
    ends = texts.starts[1:] - 1
    assert all(texts.data[end] == ord("\n") for end in ends)
    return [texts.data[start:end].decode() for start, end in zip(texts.starts[:-1], ends, strict=True)]


def rows_in(block: CorpusBlock, columns: Sequence[str], skipped: Skipped) -> list[tuple[str, ...]]:
    sides = read_texts(block, columns, skipped)
    assert len(sides) == len(columns)
    return list(zip(*map(texts_in, sides), strict=True))


def read(
    *paths: str | Path,
    columns: Sequence[str] = ("text",),
    size: int = 8 << 20,
    skipped: Skipped | None = None,
    format: Format | None = None,
) -> list[tuple[str, ...]]:
    """Return all rows of a corpus; any bad row is an error unless a `skipped` is given."""
    skipped = skipped or Skipped(strict=True)
    rows = []
    for number, block in enumerate(read_corpus(find_files(paths, format), columns, size)):
        assert block.number == number and isinstance(block.block.data, bytes) and block.block.data
        rows += rows_in(block, columns, skipped)
    return rows
