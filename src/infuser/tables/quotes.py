"""Where the records of a CSV file end: at line feeds outside quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

_FEED, _RETURN, _QUOTE = b'\n\r"'
_REST_OF_CELL = re.compile(rb'[^"]*+(?:""[^"]*+)*+("|\Z)')


def line_ends(data: bytes) -> NDArray[np.int64]:
    """Return where lines end, behind each line feed."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == _FEED) + 1


class QuotedEnds:
    """Finds where records end, piece by piece.

    As in Python's csv module a quote opens a cell only where the cell begins, and closes it unless a second one
    follows; any other quote is a character. So no piece but the last may end in a quote, and none is empty.
    """

    def __init__(self, separator: str = ",") -> None:
        self.inside = False
        """Whether the last piece ended inside quotes."""
        self.tidy = True
        """Whether all quotes so far were where the rules of CSV want them."""
        self._before = _FEED
        self._separator = ord(separator)
        # a quoted cell; a quote elsewhere is a character
        self._cell = re.compile(rb'"(?<![^%c\n]")[^"]*+(?:""[^"]*+)*+("|\Z)' % self._separator)

    def find(self, piece: bytes) -> tuple[int, int]:
        """Return where the first record that ends in this piece does, and where the last; 0 and 0 when none does."""
        if not self.inside and b'"' not in piece:  # no need to know all of them
            self._before = piece[-1]
            return piece.find(b"\n") + 1, piece.rfind(b"\n") + 1
        ends = self.find_all(piece)
        return (int(ends[0]), int(ends[-1])) if len(ends) else (0, 0)

    def find_all(self, piece: bytes) -> NDArray[np.int64]:
        """Return where the records that end in this piece do."""
        raw = np.frombuffer(piece, np.uint8)
        feeds, quotes = np.flatnonzero(raw == _FEED), np.flatnonzero(raw == _QUOTE)
        if not self._well_placed(raw, quotes):
            self.tidy = False
            quotes = self._that_count(piece)
        # a line feed is outside quotes when the number of quotes before it is even
        ends: NDArray[np.int64] = feeds[(np.searchsorted(quotes, feeds) + self.inside) % 2 == 0] + 1
        self.inside = bool((len(quotes) + self.inside) % 2)
        self._before = piece[-1]
        return ends

    def _well_placed(self, raw: NDArray[np.uint8], quotes: NDArray[np.int64]) -> bool:
        """Return whether every second quote begins a cell and the others end one; a doubled quote does both."""
        begin, end = quotes[int(self.inside) :: 2], quotes[1 - int(self.inside) :: 2]
        before = np.where(begin > 0, raw[begin - 1], self._before)
        behind = raw[end[end + 1 < len(raw)] + 1]
        return bool(np.isin(before, (self._separator, _FEED, _QUOTE)).all()) and bool(
            np.isin(behind, (self._separator, _FEED, _RETURN, _QUOTE)).all()
        )

    def _that_count(self, piece: bytes) -> NDArray[np.int64]:
        """Return the places of the quotes that open and close cells, where others are among them."""
        text = bytes([self._before]) + piece
        places: list[int] = []
        at = 1
        if self.inside and (rest := _REST_OF_CELL.match(text, 1)):
            at = rest.end()
            places += [at - 1] * bool(rest[1])
        for cell in self._cell.finditer(text, at):
            places += [cell.start(), cell.end() - 1] if cell[1] else [cell.start()]
        return np.array(places, np.int64) - 1


def without_last_quotes(pieces: Iterable[bytes], longest: int) -> Iterator[bytes]:
    """Yield the same bytes; quotes at the end of a piece go to the next, where one sees what follows them."""
    held = b""
    for piece in pieces:
        whole = held + piece
        tidy = whole.rstrip(b'"')
        held = whole[len(tidy) :]
        if len(held) > longest:
            break
        if tidy:
            yield tidy
    if held:
        yield held
