"""Reads texts, documents and labels for linkers and extractors from files of any kind."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from infuser.errors import InputError
from infuser.knowledge.artifact import kind_of
from infuser.knowledge.graph.store import KIND, GraphStore
from infuser.knowledge.vectors.descriptions import read_described
from infuser.signals.windows import cut_windows
from infuser.tables.blocks import STDIN, suffix_of
from infuser.tables.examples import Columns, read_examples
from infuser.tables.rows import read_lines

_T = TypeVar("_T")


def read_texts(path: Path, column: str = "text") -> Iterator[str]:
    """Yield the texts of a file: every line of a .txt as it is, else the rows of a table."""
    if path != STDIN and suffix_of(path) == ".txt":
        yield from (line for _, line in read_lines(path))
        return
    for _, example in read_examples(path, Columns(column)):
        # on standard input, a tab would part a text from its pair; here it is a space like any other
        both = path == STDIN and example["pair"] is not None
        yield f"{example['text']}\t{example['pair']}" if both else example["text"]


def read_documents(path: Path, column: str = "text") -> Iterator[list[str]]:
    """Yield the documents of a file as lists of parts, as BERT's pretraining reads them.

    In a .txt a line is a sentence and a blank line ends a document; in a table each row is a document of one part.
    """
    if path == STDIN or suffix_of(path) != ".txt":
        yield from ([text] for text in read_texts(path, column) if text.strip())
        return
    document: list[str] = []
    for line in read_texts(path):
        if line.strip():
            document.append(line.strip())
        elif document:
            yield document
            document = []
    if document:
        yield document


def read_windows(paths: Sequence[Path], column: str, limit: int | None, max_words: int) -> list[str]:
    """Return the texts of all files, the first `limit` of them, long ones as windows."""
    texts = (text for path in paths for text in read_texts(path, column) if text.strip())
    return _some(paths, [text[a:b] for text in islice(texts, limit) for a, b in cut_windows(text, max_words)])


def read_document_windows(paths: Sequence[Path], column: str, limit: int | None, max_words: int) -> list[list[str]]:
    """Return the documents of all files, the first `limit` of them, as lists of parts of up to `max_words` words."""
    documents = islice((one for path in paths for one in read_documents(path, column)), limit)
    return _some(paths, [[part[a:b] for part in one for a, b in cut_windows(part, max_words)] for one in documents])


def read_labels(path: Path) -> Callable[[str], str]:
    """Return a function from an entity's id to its label, "" if it has none; from a built graph or a table."""
    if kind_of(path) == KIND:
        graph = GraphStore.open(path)

        def label_of(id: str) -> str:
            number = graph.number_of(id)
            return "" if number is None else graph.entity(number).label

        return label_of
    labels = {one.id: one.label for one in read_described(path)}
    return lambda id: labels.get(id, "")


def digest_texts(texts: Iterable[object]) -> str:
    """Return a short digest of texts, of which there may be many."""
    total = hashlib.sha256()
    for text in texts:
        total.update(repr(text).encode("utf-8", "replace") + b"\0")
    return total.hexdigest()[:12]


def _some(paths: Sequence[Path], read: list[_T]) -> list[_T]:
    if not read:
        raise InputError(f"There is not one text in {', '.join(map(str, paths))}.")
    return read
