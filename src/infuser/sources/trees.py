"""Phrases of trees in a file: any parser that writes brackets can be used.

Trees find their texts by their words: the characters of a paragraph, white space aside, must be those of one tree or of
several, one after the other. All quotation marks are equal there (`` '' " and the curly ones), as are a dash and "--",
an ellipsis and "...", and composed and decomposed accents. If two trees have the same words, the first counts.
"""

from __future__ import annotations

import heapq
import logging
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import ClassVar, Self

from infuser.errors import SourceError
from infuser.registry import SOURCES
from infuser.sources.constituents import Tree, phrases_at, read_trees, words_of
from infuser.sources.tagging import TINY, Finding, TaggerSource

_log = logging.getLogger(__name__)

_SAME = dict.fromkeys('"“”„‟«»＂″', "''") | dict.fromkeys("`‘’‚‛′", "'")  # noqa: RUF001
_SAME |= dict.fromkeys("–—―", "--") | {"…": "..."}  # noqa: RUF001
_TINY_TREES = (
    "( (S (VP (VB buy) (PP (IN in) (NP (NP (DT a) (NN shop)) (PP (IN near) (NP (PRP me))))))))",
    "(S (NP (NN nothing)) (VP (VBZ is) (VP (VBN known) (ADVP (RB here)))))",
    "(NP (NP (NNP Fred) (NNP Meyer) (NNP Pharmacy)) (PP (IN Near) (NP (PRP Me))))",
)


_Phrases = tuple[tuple[int, int, str], ...]
"""Start, end and label of each phrase of a tree, in characters as `_plain` writes them."""


@SOURCES.register("bracketed-phrases")
@dataclass(frozen=True)
class BracketedPhrases(TaggerSource):
    """Ties the words of each phrase at chosen levels of the trees in a file.

    Levels are explained in `constituents.py`: 1 is a part of speech, 2 a phrase of tagged words only. A phrase has at
    least two words; of nodes over the same words the lowest counts. A paragraph whose words are not those of one or
    more trees has no phrases; a warning says so once.
    """

    models: ClassVar[tuple[str, ...]] = ("file",)
    longest: ClassVar[int] = sys.maxsize  # a tree must not be cut

    file: str | Path
    """Trees in Penn format, as UTF-8; "tiny" stands for three trees in memory."""
    levels: Sequence[int] = (2,)
    """Which levels of a tree are phrases."""
    labels: Sequence[str] | None = None
    """Keep only phrases with these labels, such as ("NP", "VP"); None keeps all."""
    strict: bool = False
    """Whether a malformed tree is an error; otherwise such trees are left out, and a warning shows the first."""

    def _tag(self, paragraphs: list[str]) -> list[list[Finding]]:
        found = [self._find(paragraph) for paragraph in paragraphs]
        missed = [paragraph for paragraph, phrases in zip(paragraphs, found, strict=True) if phrases is None]
        if missed:
            level, self._index.warned = logging.DEBUG if self._index.warned else logging.WARNING, True
            _log.log(
                level,
                "%d of %d paragraphs are not among the %d trees of %s, for example %r. The words of the trees must "
                "be those of the text.",
                *(len(missed), len(paragraphs), len(self._index.trees), self.file, missed[0][:80]),
            )
        return [phrases or [] for phrases in found]

    def _find(self, paragraph: str) -> list[Finding] | None:
        """Return the phrases of a paragraph, or None if no trees have its words."""
        plain, places = _plain(paragraph)
        cover = self._index.cover(plain)
        if cover is None:
            return None
        return [
            Finding(places[start + first], places[start + end - 1] + 1, label)
            for start, phrases in cover
            for first, end, label in phrases
        ]

    def _known_labels(self) -> list[str]:
        counts = Counter(label for phrases in self._index.trees.values() for _, _, label in phrases)
        return [label for label, _ in counts.most_common()]

    @cached_property
    def _index(self) -> _Index:
        from infuser.tables.skipped import Skipped  # not above: pyarrow is slow to load

        skipped = Skipped(strict=self.strict)
        trees: dict[str, _Phrases] = {}
        for tree in read_trees(_lines(str(self.file)), lambda *what: skipped.add(self.file, *what)):
            plain, phrases = self._read(tree)
            trees.setdefault(plain, phrases)
        if skipped.n:
            _log.warning("%d malformed trees were left out. The first: %s", skipped.n, "; ".join(skipped.first))
        if not trees:
            raise SourceError(
                f"{self.file} holds no tree. Trees look like (S (NP (DT the) (NN cat)) (VP (VBD slept)))."
            )
        return _Index(trees)

    def _read(self, tree: Tree) -> tuple[str, _Phrases]:
        borders, plain = [0], ""
        for word in words_of(tree):
            plain += _plain(word)[0]
            borders.append(len(plain))
        phrases = phrases_at(tree, self.levels, self.labels)
        return plain, tuple((borders[phrase.first], borders[phrase.end], phrase.label) for phrase in phrases)

    @classmethod
    def tiny(cls) -> Self:
        """Return the base phrases of three trees."""
        return cls(TINY)


class _Index:
    """Finds trees by their words."""

    def __init__(self, trees: dict[str, _Phrases]) -> None:
        self.trees = trees
        self.warned = False  # one warning is enough: texts come in many batches
        self._lengths = sorted({len(plain) for plain in trees}, reverse=True)

    def cover(self, plain: str) -> list[tuple[int, _Phrases]] | None:
        """Return the trees that together have exactly these characters, each with its place; None if there are none."""
        if plain in self.trees:
            return [(0, self.trees[plain])]
        came_from = {0: 0}  # end of some trees in a row to the start of the last one
        ends = [0]  # a heap: nearest end first
        while ends:
            start = heapq.heappop(ends)
            for length in self._lengths:
                end = start + length
                if end <= len(plain) and end not in came_from and plain[start:end] in self.trees:
                    came_from[end] = start
                    heapq.heappush(ends, end)
        if len(plain) not in came_from:
            return None
        cover: list[tuple[int, _Phrases]] = []
        end = len(plain)
        while end > 0:
            cover.append((came_from[end], self.trees[plain[came_from[end] : end]]))
            end = came_from[end]
        return cover[::-1]


def _plain(text: str) -> tuple[str, list[int]]:
    """Return the characters by which trees and texts are compared, and the place in the text of each."""
    written = [_written(char) for char in text]
    return "".join(written), [place for place, chars in enumerate(written) for _ in chars]


@cache
def _written(char: str) -> str:
    return "" if char.isspace() else _SAME.get(char) or unicodedata.normalize("NFD", char)


def _lines(file: str) -> Iterable[str]:
    if file == TINY:
        yield from _TINY_TREES
        return
    try:
        with Path(file).open(encoding="utf-8-sig") as lines:
            yield from lines
    except OSError as error:
        raise SourceError(f"Cannot read the trees in {file!r}: {error}. Give a file of bracketed trees.") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{file!r} is not UTF-8 text: {error}. Write the trees as UTF-8.") from error
