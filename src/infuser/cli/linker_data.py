"""What the commands around linkers read: texts with links and without, checked against the knowledge base."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from infuser.cli.knowledge import tell_skipped
from infuser.cli.link import read_texts
from infuser.errors import InputError
from infuser.tables.blocks import STDIN, suffix_of
from infuser.tables.rows import read_lines
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.linking.examples import LinkedText
    from infuser.sources import KnowledgeBase

_Read = TypeVar("_Read")

LinkFormat = Annotated[
    Literal["auto", "jsonl", "elevant", "aida", "knowbert"],
    typer.Option("--format", help="How links are written; auto looks at the first line of each file."),
]
Restart = Annotated[bool, typer.Option("--restart", help="Start anew instead of going on from a checkpoint.")]
Corpus = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Texts without labels: .txt, .jsonl, .csv, .parquet ... Repeatable."),
]
Limit = Annotated[
    int | None, typer.Option(min=1, help="Read so many texts of --corpus, at most.", show_default="all of them")
]


def read_all_links(paths: Sequence[Path], format: Any) -> list[LinkedText]:
    """Return the linked texts of all files, and tell what was left out."""
    from infuser.linking.readers import read_links
    from infuser.tables.skipped import Skipped

    skipped = Skipped()
    texts = [one for path in paths for one in read_links(path, format, skipped=skipped)]
    tell_skipped(skipped)
    return texts


def check_entities(texts: Sequence[LinkedText], base: KnowledgeBase, files: Iterable[Path]) -> None:
    """Refuse links to entities of which the knowledge base knows none: their ids are of another kind."""
    named = ", ".join(map(str, files))
    ids = list(dict.fromkeys(span.id for one in texts for span in one.spans))
    if not ids:
        raise InputError(f"None of the {counted(len(texts), 'text')} in {named} says which entity a mention means.")
    if not (base.store.rows(ids) >= 0).any():
        raise InputError(
            f"None of the {counted(len(ids), 'entity', 'entities')} in {named} is in the knowledge base {base.name!r}: "
            f"they are called such as {ids[0]!r}, its own such as {base.store.id_of(0)!r}. Name entities by the same "
            "ids in both."
        )


def check_examples(examples: Sequence[dict[str, Any]], texts: Sequence[LinkedText], base: KnowledgeBase) -> None:
    """Refuse linked texts in which the knowledge base offers no right entity: a linker would learn to link nothing."""
    found = [example["annotations"][0] for example in examples]
    check_found(sum(len(one.spans) for one in found), len(texts), base)
    is_offered = (
        any(candidate.id == meant for candidate in candidates)
        for example, one in zip(examples, found, strict=True)
        for meant, candidates in zip(example["gold"][base.name], one.candidates, strict=True)
    )
    if not any(is_offered):
        linked = next(one for one in texts if one.spans)
        span = linked.spans[0]
        raise InputError(
            f"The knowledge base {base.name!r} offers the right entity for none of the mentions in these texts; the "
            f"first is {linked.text[span.start : span.end]!r}, which means {span.id!r}. See what it offers: infuser "
            "candidates lookup DIR --text TEXT"
        )


def check_found(n_mentions: int, n_texts: int, base: KnowledgeBase) -> None:
    """Refuse texts in which a knowledge base finds nothing at all."""
    if not n_mentions:
        raise InputError(
            f"The knowledge base {base.name!r} finds no mention in any of {counted(n_texts, 'text')}. Are names "
            "spelled as in them? See what it knows: infuser candidates lookup DIR NAME"
        )


def read_corpus(paths: Sequence[Path], column: str, limit: int | None, max_words: int) -> list[str]:
    """Return the texts of all files, long ones as windows."""
    from infuser.linking.windows import cut_windows

    texts = (text for path in paths for text in read_texts(path, column) if text.strip())
    windows = [text[a:b] for text in islice(texts, limit) for a, b in cut_windows(text, max_words)]
    return _some(windows, paths)


def read_documents(paths: Sequence[Path], column: str, limit: int | None, max_words: int) -> list[list[str]]:
    """Return the documents of all files as lists of short parts.

    In a .txt a line is a sentence and a blank line ends a document, as for BERT; in a table each row is a document,
    which is cut where sentences end.
    """
    from infuser.linking.windows import cut_windows

    documents = (document for path in paths for document in _documents(path, column))
    cut = [
        [part[a:b] for part in document for a, b in cut_windows(part, max_words)]
        for document in islice(documents, limit)
    ]
    return _some(cut, paths)


def _documents(path: Path, column: str) -> Iterator[list[str]]:
    if path == STDIN or suffix_of(path) != ".txt":
        yield from ([text] for text in read_texts(path, column) if text.strip())
        return
    document: list[str] = []
    for _, line in read_lines(path):
        if line.strip():
            document.append(line.strip())
        elif document:
            yield document
            document = []
    if document:
        yield document


def _some(read: list[_Read], paths: Sequence[Path]) -> list[_Read]:
    if not read:
        raise InputError(f"There is not one text in {', '.join(map(str, paths))}.")
    return read


def digest_texts(texts: Iterable[object]) -> str:
    """Return a short digest of texts, of which there may be many."""
    total = hashlib.sha256()
    for text in texts:
        total.update(repr(text).encode("utf-8", "replace") + b"\0")
    return total.hexdigest()[:12]
