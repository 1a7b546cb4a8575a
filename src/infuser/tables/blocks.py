"""Files opened (plain, .gz, .zst, standard input) and cut into blocks of whole records, in bounded memory.

A record is a line; in CSV it may span several, since a quoted cell may hold line feeds. A line ends in a line feed,
with or without a carriage return before it; the last record needs no end. A byte-order mark is left out.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from infuser.errors import InputError
from infuser.words import counted

STDIN = Path("-")
"""Stands for the standard input."""
BLOCK = 1 << 22
"""Bytes per block, about; some 65,536 triples."""
LONGEST_RECORD = 256 << 20
"""Bytes; a longer line or row is an error, for it must be held in memory as a whole."""
MARK = b"\xef\xbb\xbf"
"""The byte-order mark of UTF-8."""

_PACKINGS = {".gz": "gzip", ".zst": "zstd"}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_LONGEST_CELL = 2**31 - 1  # the csv module stops at 128 kB otherwise, less than a long document
_RETURN = "\udc0d"  # stands for a carriage return; no text in UTF-8 has it, whatever way it is decoded


class Block(NamedTuple):
    """Some whole records of a file; plain values, so that it can be sent to another process."""

    first: int
    """Number of the first line, from 1."""
    data: bytes
    separator: str = ""
    """What stands between cells: a tab, a comma or a semicolon (then cells may be quoted); "" for plain lines."""
    names: tuple[str, ...] = ()
    """Names of the columns, where they are known."""

    @property
    def may_quote(self) -> bool:
        """Whether cells may be quoted and then hold separators and line feeds."""
        return self.separator in (",", ";")

    @property
    def has_lone_returns(self) -> bool:
        """Whether a carriage return stands anywhere but before a line feed."""
        return b"\r" in self.data and self.data.count(b"\r") != self.data.count(b"\r\n")

    def lines(self) -> list[bytes]:
        """Return the lines without their ends."""
        return [line.removesuffix(b"\r") for line in self.data.removesuffix(b"\n").split(b"\n")]

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Yield the records without their ends, each with the number of its first line."""
        if not self.may_quote or b'"' not in self.data:
            number, begin = self.first, 0
            while begin < len(self.data):  # one by one: often only the first is wanted
                end = self.data.find(b"\n", begin) + 1 or len(self.data)
                yield number, self.data[begin:end].removesuffix(b"\n").removesuffix(b"\r")
                number, begin = number + 1, end
            return
        from infuser.tables.quotes import QuotedEnds

        number, begin = self.first, 0
        for end in [*QuotedEnds(self.separator).find_all(self.data).tolist(), len(self.data)]:
            if end > begin:
                yield number, self.data[begin:end].removesuffix(b"\n").removesuffix(b"\r")
                number += self.data.count(b"\n", begin, end)
                begin = end


def unpacked_name(path: str | Path) -> str:
    """Return the file's name in lower case without .gz or .zst."""
    name = Path(path).name.lower()
    for suffix in _PACKINGS:
        name = name.removesuffix(suffix)
    return name


def suffix_of(path: str | Path) -> str:
    """Return the ending that says what a file is, packed or not: ".csv" of "A.CSV.gz"."""
    return Path(unpacked_name(path)).suffix


def packed_or_not(path: Path) -> Path | None:
    """Return this file, or the one with .gz or .zst behind its name; None if there is neither."""
    names = (path, *(path.with_name(f"{path.name}{suffix}") for suffix in _PACKINGS))
    return next((name for name in names if name.is_file()), None)


@contextmanager
def open_stream(path: str | Path, source: Any = None) -> Iterator[BinaryIO]:
    """Open a file (or `source`, which holds its bytes) for reading, unpacking .gz and .zst; errors name the file."""
    if Path(path) == STDIN and source is None:
        yield sys.stdin.buffer
        return
    packing = _PACKINGS.get(Path(path).suffix.lower())
    try:
        if packing is None and source is None:
            with Path(path).open("rb") as file:
                yield file
            return
        import pyarrow as pa  # slow to load

        if source is None:  # Arrow itself opens no pipes; it closes what it is given
            source = str(path) if Path(path).is_file() else Path(path).open("rb")  # noqa: SIM115
        with pa.input_stream(source, compression=packing) as stream:
            yield cast(BinaryIO, stream)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"No file at {path}. Check the name; it starts from {Path.cwd()}.") from None
    except IsADirectoryError:
        raise InputError(f"{str(path)!r} is a folder. Give a file.") from None
    except OSError as error:
        wrong = f"is cut off or damaged, or no {packing} file" if packing else "cannot be read"
        raise InputError(f"{path} {wrong} ({error}). Fetch or write it again.") from error


def read_blocks(path: str | Path, size: int = BLOCK, *, format: str = "", source: Any = None) -> Iterator[Block]:
    """Yield a file in blocks of about `size` bytes of whole records: rows of "csv" or "tsv", else lines."""
    with open_stream(path, source) as stream:
        pieces = _pieces(path, stream, size)
        if format != "csv":
            yield from _cut(path, pieces, size, "\t" if format == "tsv" else "")
            return
        head = b""
        for piece in pieces:
            head += piece
            if b"\n" in piece or len(head) > LONGEST_RECORD:
                break
        line = head.partition(b"\n")[0]
        # a semicolon is what spreadsheets write where the comma is the decimal sign
        separator = ";" if b";" in line and b"," not in line else ","
        yield from _cut(path, chain([head] if head else [], pieces), size, separator)


def named_blocks(path: str | Path, blocks: Iterable[Block]) -> Iterator[Block]:
    """Take the names of the columns from the first record that is not blank; the first block may be left empty."""
    names: tuple[str, ...] = ()
    for block in blocks:
        if not names:
            for number, record in block.records():
                if record.strip():
                    names = _names(path, number, record, block.separator)
                    block = block_behind(block, record)
                    break
            else:
                continue
        yield block._replace(names=names)


def block_behind(block: Block, record: bytes) -> Block:
    """Return what follows a block's first record of these bytes."""
    end = block.data.index(record) + len(record)
    end = block.data.find(b"\n", end) + 1 or len(block.data)
    return block._replace(first=block.first + block.data.count(b"\n", 0, end), data=block.data[end:])


def split_record(record: str, separator: str) -> list[str]:
    """Return the cells of one record without its end; InputError if its quotes are wrong.

    A carriage return alone is a character like any other, though the csv module itself would not have it: there are
    programs that write it without quotes.
    """
    if separator == "\t" or '"' not in record:
        return record.split(separator)
    csv.field_size_limit(_LONGEST_CELL)
    try:
        cells = next(csv.reader([record.replace("\r", _RETURN)], delimiter=separator, strict=True))
    except csv.Error as error:
        raise InputError(f"is not CSV ({error})") from error
    return [cell.replace(_RETURN, "\r") for cell in cells] if "\r" in record else cells


def wrong_width(n_cells: int, width: int, n_optional: int = 0) -> str:
    """Return what is wrong with a row of so many cells."""
    wanted = " or ".join(str(n) for n in range(width - n_optional, width + 1))
    return f"has {counted(n_cells, 'cell')} instead of {wanted}"


def _names(path: str | Path, number: int, record: bytes, separator: str) -> tuple[str, ...]:
    where = f"{path}, line {number}"
    try:
        names = tuple(name.strip() for name in split_record(record.decode(), separator))
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not UTF-8 ({error.reason}). Save the file as UTF-8 and try again.") from error
    except InputError as error:
        raise InputError(f"{where} should name the columns, but {error}. Mend its quotes.") from error
    if "\r" in record.decode():
        raise InputError(f"{where}: its lines end in carriage returns alone: write it again with line feeds.")
    return names


def _pieces(path: str | Path, stream: BinaryIO, size: int) -> Iterator[bytes]:
    # what a person or a pipe writes to the standard input is wanted at once
    read = stream.read1 if Path(path) == STDIN else stream.read  # type: ignore[attr-defined]
    beginning = read(max(size, len(MARK)))
    if beginning.startswith(_UTF_16):
        raise InputError(f"{path} is in UTF-16. Save it as UTF-8 and try again.")
    if piece := beginning.removeprefix(MARK):
        yield piece
    while piece := read(size):
        yield piece


def _cut(path: str | Path, pieces: Iterable[bytes], size: int, separator: str) -> Iterator[Block]:
    """Yield the records of a stream of bytes in blocks; each byte is looked at once."""
    quoted = separator in (",", ";")
    if quoted:
        from infuser.tables.quotes import QuotedEnds, without_last_quotes

        quotes = QuotedEnds(separator)
        pieces = without_last_quotes(pieces, LONGEST_RECORD)
    first, rest, n_rest = 1, list[bytes](), 0  # what is left of earlier pieces belongs to one record
    for piece, last in _with_last(pieces, 0 if Path(path) == STDIN else size):
        begin, end = quotes.find(piece) if quoted else (piece.find(b"\n") + 1, piece.rfind(b"\n") + 1)
        if last and not (quoted and quotes.inside):
            end = len(piece)
        if n_rest + (begin or len(piece)) > LONGEST_RECORD:
            raise _too_long(path, first, quoted=quoted)
        if end:
            data = b"".join([*rest, piece[:end]])
            yield Block(first, data, separator)
            first, rest, n_rest = first + data.count(b"\n"), [], 0
        rest.append(piece[end:])
        n_rest += len(rest[-1])
    if quoted and quotes.inside:
        raise InputError(
            f"{path}, line {first} opens a quote that is not closed before the end of the file, so the rows behind it "
            "cannot be told apart. Close it, or write the table again with quotes doubled inside cells."
        )
    if n_rest:
        yield Block(first, b"".join(rest), separator)


def _with_last(pieces: Iterable[bytes], size: int) -> Iterator[tuple[bytes, bool]]:
    """Yield pieces and whether each is the last one, for which one shorter than `size` waits for the next."""
    held = b""
    for piece in pieces:
        if held:
            yield held, False
            held = b""
        if len(piece) < size:
            held = piece
        else:
            yield piece, False
    if held:
        yield held, True


def _too_long(path: str | Path, line: int, *, quoted: bool) -> InputError:
    longest = f"{path}, line {line} begins a {'row' if quoted else 'line'} of more than {LONGEST_RECORD:,} bytes"
    if quoted:
        return InputError(f"{longest}. Look there for a quote that is not closed, and close it.")
    return InputError(f"{longest}. Break it into lines, one text each, or unpack the file if it is packed.")
