"""Streams of bytes cut into blocks of whole records, each byte looked at once and in bounded memory.

A record is a line; in CSV it may span several, since a quoted cell may hold line feeds. A line ends in a line feed,
with or without a carriage return before it; the last record needs no end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError

LONGEST_RECORD = 256 << 20
"""Bytes; a longer line or row is an error, for it must be held in memory as a whole."""
MARK = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_FEED, _RETURN, _QUOTE, _COMMA = b'\n\r",'
_CELL = re.compile(rb'"(?<![^,\n]")[^"]*+(?:""[^"]*+)*+("|\Z)')  # a quoted cell; a quote elsewhere is a character
_REST_OF_CELL = re.compile(rb'[^"]*+(?:""[^"]*+)*+("|\Z)')


class Ends(Protocol):
    """Finds where records end, piece by piece."""

    inside: bool
    """Whether the last piece ended inside quotes."""

    def find(self, piece: bytes) -> tuple[int, int]:
        """Return where the first record that ends in this piece does, and where the last; 0 and 0 when none does."""
        ...


class LineEnds:
    """Every line feed ends a record."""

    inside = False

    def find(self, piece: bytes) -> tuple[int, int]:
        return piece.find(b"\n") + 1, piece.rfind(b"\n") + 1


def line_ends(data: bytes) -> NDArray[np.int64]:
    """Return where lines end, behind each line feed."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == _FEED) + 1


class QuotedEnds:
    """A line feed outside quotes ends a record of a CSV file.

    As in Python's csv module a quote opens a cell only where the cell begins, and closes it unless a second one
    follows; any other quote is a character. So no piece but the last may end in a quote, and none is empty.
    """

    def __init__(self) -> None:
        self.inside = False
        self.tidy = True
        """Whether all quotes so far were where the rules of CSV want them."""
        self._before = _FEED

    def find(self, piece: bytes) -> tuple[int, int]:
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
        """Say whether every second quote begins a cell and the others end one; a doubled quote does both."""
        begin, end = quotes[int(self.inside) :: 2], quotes[1 - int(self.inside) :: 2]
        before = np.where(begin > 0, raw[begin - 1], self._before)
        behind = raw[end[end + 1 < len(raw)] + 1]
        return bool(np.isin(before, (_COMMA, _FEED, _QUOTE)).all()) and bool(
            np.isin(behind, (_COMMA, _FEED, _RETURN, _QUOTE)).all()
        )

    def _that_count(self, piece: bytes) -> NDArray[np.int64]:
        """Return the places of the quotes that open and close cells, where others are among them."""
        text = bytes([self._before]) + piece
        places: list[int] = []
        at = 1
        if self.inside and (rest := _REST_OF_CELL.match(text, 1)):
            at = rest.end()
            places += [at - 1] * bool(rest[1])
        for cell in _CELL.finditer(text, at):
            places += [cell.start(), cell.end() - 1] if cell[1] else [cell.start()]
        return np.array(places, np.int64) - 1


def cut_records(path: str, stream: BinaryIO, size: int, ends: Ends) -> Iterator[tuple[int, bytes]]:
    """Yield the records of a stream in blocks of about `size` bytes, each with the number of its first line.

    `path` is for messages.
    """
    first, rest, n_rest = 1, list[bytes](), 0  # what is left of earlier pieces belongs to one record
    pieces = _pieces(path, stream, size)
    for piece in _without_last_quotes(pieces) if isinstance(ends, QuotedEnds) else pieces:
        begin, end = ends.find(piece)
        if n_rest + (begin or len(piece)) > LONGEST_RECORD:
            raise _too_long(path, first, quoted=isinstance(ends, QuotedEnds))
        if end:
            data = b"".join([*rest, piece[:end]])
            yield first, data
            first, rest, n_rest = first + data.count(b"\n"), [], 0
        rest.append(piece[end:])
        n_rest += len(rest[-1])
    if ends.inside:
        raise InputError(
            f"{path}, line {first} opens a quote that is not closed before the end of the file, so the rows behind it "
            "cannot be told apart. Close it, or write the table again with quotes doubled inside cells."
        )
    if n_rest:
        yield first, b"".join(rest)


def _pieces(path: str, stream: BinaryIO, size: int) -> Iterator[bytes]:
    beginning = stream.read(max(size, len(MARK)))
    if beginning.startswith(_UTF_16):
        raise InputError(f"{path} is in UTF-16. Save it as UTF-8 and try again.")
    if piece := beginning.removeprefix(MARK):
        yield piece
    while piece := stream.read(size):
        yield piece


def _without_last_quotes(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes; quotes at the end of a piece go to the next, where one sees what follows them."""
    held = b""
    for piece in pieces:
        whole = held + piece
        tidy = whole.rstrip(b'"')
        held = whole[len(tidy) :]
        if len(held) > LONGEST_RECORD:
            break
        if tidy:
            yield tidy
    if held:
        yield held


def _too_long(path: str, line: int, *, quoted: bool) -> InputError:
    longest = f"{path}, line {line} begins a {'row' if quoted else 'line'} of more than {LONGEST_RECORD:,} bytes"
    if quoted:
        return InputError(f"{longest}. Look there for a quote that is not closed, and close it.")
    return InputError(f"{longest}. Break it into lines, one text each, or unpack the file if it is packed.")
