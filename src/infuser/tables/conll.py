"""Sentences of words with tags, one word per line, as CoNLL and its descendants write them.

    Selegiline  B-Chemical          the word first, its tag last, any columns between them;
    -           O                   tabs or spaces; a blank line ends a sentence
    induced     O

Lines that begin with -DOCSTART- are skipped, and so are comments before the first word of a sentence ("# id 17"). The
word "#" has the columns of the other words, a comment has not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from infuser.tables.rows import read_lines
from infuser.tables.skipped import BadRow, Place

_OUTSIDE = "O"
_BEGINS, _ENDS = "BSUW", "ELSUW"
"""Prefixes of tags on the first and on the last word of an entity: IOB, IOBES, BILOU, BMEWO."""
_PREFIXES = frozenset("BIM" + _ENDS)
_UNNAMED = "entity"
"""The type where tags are prefixes alone."""


class Sentence(NamedTuple):
    """The words of a sentence, their tags, and where it begins."""

    place: Place
    words: list[str]
    tags: list[str]


class WordSpan(NamedTuple):
    """An entity: words `first` up to, not including, `last`."""

    first: int
    last: int
    label: str


def read_sentences(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a file; a line that cannot be read is an error with its number."""
    place, words, tags = Place(path, 1), list[str](), list[str]()
    lines, columns = _with_columns(read_lines(path))
    for number, line in lines:
        cells = _cells(line)
        if not any(cells) or cells[0] == "-DOCSTART-":
            if words:
                yield Sentence(place, words, tags)
                words, tags = [], []
            continue
        if not words:
            if cells[0].startswith("#") and not (_is_tag(cells[-1]) and columns in (None, _columns(line))):
                continue
            place = Place(path, number)
        if len(cells) < 2 or not cells[0]:
            advice = "Write the word first and its tag last, with a tab between them."
            raise BadRow(Place(path, number), f"has no word and tag but {line[:40]!r}", line, advice=advice)
        if not _is_tag(cells[-1]):
            raise _bad_tag(Place(path, number), cells[-1])
        words.append(cells[0])
        tags.append(cells[-1])
    if words:
        yield Sentence(place, words, tags)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()


def _columns(line: str) -> tuple[bool, int]:
    """Return how a line is divided: by tabs or by spaces, and into how many cells."""
    return "\t" in line, len(_cells(line))


def _with_columns(lines: Iterator[tuple[int, str]]) -> tuple[Iterator[tuple[int, str]], tuple[bool, int] | None]:
    """Return all lines, and the columns of the first one that cannot be a comment; None if there is no such line."""
    passed = []
    for numbered in lines:
        passed.append(numbered)
        line = numbered[1]
        if line.strip() and not line.lstrip().startswith(("#", "-DOCSTART-")):
            return chain(passed, lines), _columns(line)
    return iter(passed), None


def spans_of(place: Place, tags: Sequence[str]) -> list[WordSpan]:
    """Return the entities that tags mark, whichever scheme they follow.

    An entity begins with B (S, U), with another type, after O and after an end (E, L, S, U). That reads IOB1, IOB2,
    IOBES and BILOU alike, and is how seqeval reads tags unless it is told to be strict.
    """
    spans: list[WordSpan] = []
    open_label, open_first = None, 0
    for at, tag in enumerate([*tags, _OUTSIDE]):
        if not _is_tag(tag):
            raise _bad_tag(place, tag)
        prefix, label = _split(tag)
        if open_label is not None and (label != open_label or prefix in _BEGINS):
            spans.append(WordSpan(open_first, at, open_label))
            open_label = None
        if label is not None and open_label is None:
            open_label, open_first = label, at
        if open_label is not None and prefix in _ENDS:
            spans.append(WordSpan(open_first, at + 1, open_label))
            open_label = None
    return spans


def _split(tag: str) -> tuple[str, str | None]:
    """Return the prefix of a tag and its type; O has none."""
    prefix, _, label = tag.partition("-")
    return prefix, None if prefix == _OUTSIDE else label or _UNNAMED


def _is_tag(tag: str) -> bool:
    return tag == _OUTSIDE or (tag[:1] in _PREFIXES and tag[1:2] in ("", "-"))


def _bad_tag(place: Place, tag: str) -> BadRow:
    advice = "It is O, or B-, I-, E- or L-, S- or U- and a type, as in B-city, and stands in the last column."
    return BadRow(place, f"has the tag {tag!r}", tag, advice=advice)
