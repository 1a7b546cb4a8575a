"""Finds the names of a list in texts: whole words, longest match, millions of names.

A text is cut into pieces, words and signs, each with a gap before it or none. A name matches where its pieces follow
each other. They are compared folded; any white space with at most one line break is the same gap; a paragraph break,
and so the break of a pair, is never crossed.

The names are kept as a tree of pieces in three arrays, and all places of a batch of texts walk down the tree at once:

    vocabulary   folded word or sign -> number, a compact trie (marisa) mapped from disk. The number of a piece is twice
                 that, plus 1 if a gap comes before it
    edges        parent node << 32 | piece, ascending; the edge at place i leads to node i + 1, and 0 is the root
    ends, names  the names that end at node i are names[ends[i] : ends[i + 1]], by their number in the list
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Self

import marisa_trie
import numpy as np
from numpy.typing import NDArray

from infuser.errors import SourceError
from infuser.knowledge.arrays import begins_of, key_in, make_trie
from infuser.knowledge.artifact import Parts, whole
from infuser.words import find_pieces, fold

_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_END = ""  # stands behind each text of a batch, so that no mention reaches into the next one
_NEVER = -1  # the number of a piece that no name has, of a paragraph break and of _END
_GAP = -2  # the number of white space that stands for itself; the piece behind it takes it over
_SIGN = 1 << 40  # added to the number of a piece that is a sign
_PIECES_AT_ONCE = 200_000
_MOST_REMEMBERED = 1_000_000
_LONGEST_REMEMBERED = 100  # characters; a text may be one word of megabytes
_MOST_NESTED = 16


class NameMatch(NamedTuple):
    """A place in a text and the names, by their number in the list, that are written there."""

    start: int
    end: int
    names: tuple[int, ...]


_make_mention = partial(tuple.__new__, NameMatch)  # a third of the time that NameMatch(...) takes


class Gazetteer:
    """A list of names, ready to be found in texts."""

    def __init__(self, parts: Parts, *, fold_case: bool, fold_accents: bool) -> None:
        self._vocabulary: marisa_trie.Trie = parts["vocabulary"]
        self._edges, self._ends, self._names = (whole(parts[name]) for name in ("edges", "ends", "names"))
        self.fold_case, self.fold_accents = fold_case, fold_accents
        of_root = self._edges[: np.searchsorted(self._edges, np.uint64(1 << 32))].astype(np.int64)
        self._first = np.zeros(len(self._vocabulary) + 1, np.int64)  # word to its node below the root, the last: none
        self._first[of_root >> 1] = np.arange(1, len(of_root) + 1)
        self._numbers = _Numbers(self._vocabulary, fold_case, fold_accents)
        self._names_of = _NamesOf(self._ends, self._names)

    @classmethod
    def build(cls, names: Iterable[str], *, fold_case: bool = True, fold_accents: bool = False) -> Self:
        """Make a gazetteer of names; their numbers are their places in the list."""
        pieces, lengths, vocabulary = _number_pieces(names, fold_case=fold_case, fold_accents=fold_accents)
        edges, last = _grow(pieces, lengths)
        order = np.argsort(last, kind="stable")
        ends = begins_of(np.bincount(last, minlength=len(edges) + 1))
        kind = np.int32 if len(last) < 2**31 else np.int64
        parts = {"vocabulary": vocabulary, "edges": edges, "ends": ends.astype(kind), "names": order.astype(kind)}
        return cls(parts, fold_case=fold_case, fold_accents=fold_accents)

    @classmethod
    def open(cls, parts: Parts, prefix: str, about: dict[str, Any]) -> Self:
        """Take a gazetteer from the parts of a folder, where `parts` and `about` put it."""
        inside = {name: parts[f"{prefix}.{name}"] for name in ("vocabulary", "edges", "ends", "names")}
        return cls(inside, fold_case=about["fold_case"], fold_accents=about["fold_accents"])

    def parts(self, prefix: str) -> dict[str, Any]:
        """Return what is to be written into a folder; `fold_case` and `fold_accents` go into its `about`."""
        parts = {"vocabulary": self._vocabulary, "edges": self._edges, "ends": self._ends, "names": self._names}
        return {f"{prefix}.{name}": part for name, part in parts.items()}

    def __len__(self) -> int:
        return len(self._names)

    def find(self, texts: Sequence[str], *, overlaps: bool = False, loose: bool = False) -> list[list[NameMatch]]:
        """Return the mentions in each text: leftmost-longest and apart, or all of them with `overlaps`.

        Of more than 16 that begin at one place, `overlaps` keeps the 16 shortest and the longest: 300 names, each
        within the next, would make 300 mentions of every word.

        With `loose` a gap beside a sign does not matter: "Parkinson ' s disease" is a mention of "Parkinson's disease".
        """
        found: list[list[NameMatch]] = []
        pieces: list[str] = []
        borders = [0]
        for text in texts:
            pieces += find_pieces(text)
            pieces.append(_END)
            borders.append(len(pieces))
            if len(pieces) > _PIECES_AT_ONCE:  # the arrays of a batch stay small whatever the number of texts
                found += self._find(pieces, borders, overlaps, loose)
                pieces, borders = [], [0]
        return found + self._find(pieces, borders, overlaps, loose)

    def lookup(self, name: str) -> tuple[int, ...]:
        """Return the numbers of the names that this whole string is a mention of."""
        name = name.strip()
        [mentions] = self.find([name])
        return next((mention.names for mention in mentions if (mention.start, mention.end) == (0, len(name))), ())

    def _find(self, pieces: list[str], borders: list[int], overlaps: bool, loose: bool) -> list[list[NameMatch]]:
        """Return the mentions in texts that are cut into pieces, each text between two borders."""
        if len(self._numbers) > _MOST_REMEMBERED:
            self._numbers.clear()
            self._names_of.clear()
        numbers = np.fromiter(map(self._numbers.__getitem__, pieces), np.int64, len(pieces))
        # piece to its first character, counted through all texts
        place = begins_of(np.fromiter(map(len, pieces), np.int64, len(pieces)))
        begins = place[borders]
        starts, ends = place[:-1] + (numbers & 1), place[1:]  # without the space that a piece may begin with
        gaps = np.flatnonzero(numbers == _GAP)
        if len(gaps):
            behind = numbers[gaps + 1]  # there always is one: at least _END
            numbers[gaps + 1] = np.where(behind >= 0, behind | 1, behind)
            kept = numbers != _GAP
            numbers, starts, ends = numbers[kept], starts[kept], ends[kept]
        signs = (numbers >= 0) & (numbers & _SIGN != 0)
        plain = np.where(signs, numbers ^ _SIGN, numbers)
        first, last, nodes = self._walk(plain, signs if loose else None, _MOST_NESTED if overlaps else 0)
        if not overlaps:
            apart = _apart(first, last)
            first, last, nodes = first[apart], last[apart], nodes[apart]
        starts, ends = starts[first], ends[last]
        cuts = np.searchsorted(starts, begins)
        begin = np.repeat(begins[:-1], np.diff(cuts))
        names = map(self._names_of.__getitem__, nodes.tolist())
        places = zip((starts - begin).tolist(), (ends - begin).tolist(), names, strict=True)
        mentions = list(map(_make_mention, places))
        return [mentions[one:other] for one, other in pairwise(cuts.tolist())]

    def _walk(
        self, numbers: NDArray[np.int64], signs: NDArray[np.bool_] | None, n_shortest: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return (first piece, last piece, node) of the matches, by first piece and then by length.

        Of each first piece these are the `n_shortest` and the longest. `signs` are the pieces beside which a gap may
        be missing, or be there for none.
        """
        node = self._first[numbers >> 1]
        here = np.flatnonzero(node)
        node = node[here]
        depth = 1
        # of each piece: how many matches begin there, and the longest of them so far
        n_matches, longest, its_node = np.zeros((3, len(numbers)), np.int64)
        matches: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
        while len(here):
            ends_here = self._ends[node + 1] > self._ends[node]
            first, last, its = here[ends_here], here[ends_here] + (depth - 1), node[ends_here]
            n_matches[first] += 1
            longest[first], its_node[first] = last, its
            short = n_matches[first] <= n_shortest
            if short.any():
                matches.append((first[short], last[short], its[short]))
            piece = numbers[here + depth]  # always there: the last piece of all is _NEVER, and no edge has it
            known = piece >= 0
            here, piece = here[known], piece[known]
            wanted = (node[known].astype(np.uint64) << np.uint64(32)) | piece.astype(np.uint64)
            place, leads = self._follow(wanted)
            if signs is not None:
                again = np.flatnonzero(~leads & (signs[here + depth] | signs[here + (depth - 1)]))
                place[again], leads[again] = self._follow(wanted[again] ^ np.uint64(1))
            here, node = here[leads], place[leads] + 1
            depth += 1
        longer = np.flatnonzero(n_matches > n_shortest)
        matches.append((longer, longest[longer], its_node[longer]))
        starts, ends, nodes = (np.concatenate(column) for column in zip(*matches, strict=True))
        order = np.argsort(starts, kind="stable")
        return starts[order], ends[order], nodes[order]

    def _follow(self, wanted: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the places of these edges, and which of them there are."""
        place = np.searchsorted(self._edges, wanted)
        place[place == len(self._edges)] = 0
        return place, self._edges[place] == wanted


class _Numbers(dict[str, int]):
    """Piece of a text to its number; each distinct piece is folded and looked up once."""

    def __init__(self, vocabulary: marisa_trie.Trie, fold_case: bool, fold_accents: bool) -> None:
        super().__init__()
        self._vocabulary, self._case, self._accents = vocabulary, fold_case, fold_accents

    def __missing__(self, piece: str) -> int:
        word = piece.removeprefix(" ")
        if not word or word.isspace():
            number = _GAP if piece != _END and _is_gap(piece) else _NEVER
        else:
            number = key_in(self._vocabulary, fold(word, case=self._case, accents=self._accents))
            if number != _NEVER:
                number = 2 * number + (word != piece) + (0 if _is_word(word) else _SIGN)
        if len(piece) <= _LONGEST_REMEMBERED:
            self[piece] = number
        return number


class _NamesOf(dict[int, tuple[int, ...]]):
    """Node to the numbers of the names that end there; those of frequent nodes are cached."""

    def __init__(self, ends: NDArray[np.int64], names: NDArray[np.int64]) -> None:
        super().__init__()
        self._ends, self._names = ends, names

    def __missing__(self, node: int) -> tuple[int, ...]:
        self[node] = names = tuple(self._names[self._ends[node] : self._ends[node + 1]].tolist())
        return names


def _is_word(piece: str) -> bool:
    return piece.isalnum() or any(char.isalnum() or char == "_" for char in piece)


def _is_gap(white: str) -> bool:
    return len(white) == 1 or len(_LINE_BREAK.findall(white)) < 2


def _apart(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[int]:
    """Return which matches do not begin inside an earlier one that is kept."""
    kept: list[int] = []
    free = 0
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        if start >= free:
            kept.append(i)
            free = end + 1
    return kept


def _number_pieces(
    names: Iterable[str], *, fold_case: bool, fold_accents: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], marisa_trie.Trie]:
    """Return the pieces of all names one after another, as numbers, how many each name has, and the vocabulary."""
    met: dict[str, int] = {}
    codes, lengths = array("q"), array("q")
    for name in names:
        # one kind of gap, so that every piece is a word or a sign
        pieces = find_pieces(name if name.isalnum() else " ".join(name.split()))
        codes.extend([met.setdefault(piece, len(met)) for piece in pieces])
        lengths.append(len(pieces))
    folded = [fold(piece.removeprefix(" "), case=fold_case, accents=fold_accents) for piece in met]
    vocabulary = make_trie(set(folded))
    numbers = np.array([2 * vocabulary[word] for word in folded], np.int64)
    numbers += np.array([piece.startswith(" ") for piece in met], np.int64)
    return numbers[np.frombuffer(codes, np.int64)], np.frombuffer(lengths, np.int64), vocabulary


def _grow(pieces: NDArray[np.int64], lengths: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the edges of the tree, level by level and so ascending, and for each name the node where it ends."""
    begins = np.cumsum(lengths) - lengths
    node = np.zeros(len(lengths), np.uint64)
    edges: list[NDArray[np.uint64]] = []
    n_nodes = 1
    for depth in range(int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > depth)
        keys = (node[longer] << np.uint64(32)) | pieces[begins[longer] + depth].astype(np.uint64)
        level, child = np.unique(keys, return_inverse=True)
        node[longer] = child.astype(np.uint64) + np.uint64(n_nodes)
        edges.append(level)
        n_nodes += len(level)
    return np.concatenate([np.zeros(0, np.uint64), *edges]), node.astype(np.int64)


def clean_names(names: Iterable[object], *, what: str) -> list[str]:
    """Return names without white space around them; refuse anything that is not a name."""
    if isinstance(names, str):
        raise SourceError(f"{what} were given as one string, {_short(names)}. Give a list: [{_short(names)}].")
    listed = list(names)
    wrong = [name for name in listed if not isinstance(name, str)]
    if wrong:
        raise SourceError(
            f"{len(wrong)} of {len(listed)} {what} are no text, for example {_short(wrong[0])}. Leave them out or "
            "write them as text."
        )
    cleaned = [str(name).strip() for name in listed]
    n_blank = sum(not name for name in cleaned)
    if n_blank:
        raise SourceError(
            f"{n_blank} of {len(listed)} {what} are empty or blank, the first is number {cleaned.index('') + 1}. Leave "
            "them out: [name for name in names if name.strip()]."
        )
    return cleaned


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
