"""Valid files made hostile: bits flipped, odd bytes put in, parts cut, doubled, moved; what readers make of it."""

from __future__ import annotations

import json
import random
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from fuzz.readers import Reader

from infuser.errors import InfuserError

ODD = (
    *(bytes([byte]) for byte in b"\0\r\n\t,\"'\\{}[]|<>#. \x85\xc3\xff"),
    *(b"\n\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\xbd", b"\xe2\x80\xa8", b"\xe2\x80\xae", b"\x1b[2J"),
    *(b"-1", b"0", b"1e999", b"-1e-999", b"NaN", b"-Infinity", b"9" * 30, b"9" * 5000, b"0x10", b"1_0"),
    *(b"\xd9\xa3", b"\xc2\xb2", b"[red]", b"__class__"),  # digits of other scripts; what somebody may interpret
    *(b"null", b"true", b"{}", b"[]", b'""', b'"\\ud800"', b'"\\u0000"', b"[[1]]", b'{"a": 1}'),
    *(b"[" * 400, b"[" * 990, b"[" * 100_000, b'{"a":' * 900, b"(" * 400, b"a" * 70_000, b"a," * 3000, b"\n" * 3000),
)
"""What breaks readers: other kinds of the same thing, ends of lines and cells, numbers beyond all bounds, nesting."""
SECONDS = 20
"""A reader that needs longer for a small file hangs."""
MOST_MEMORY = 500_000
"""Kilobytes that a small file may cost beyond what the process had at its peak before."""


def damaged(sample: bytes, chance: random.Random) -> bytes:
    """Return a file with one to four things done to it."""
    data = sample
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        data = chance.choice(_WAYS)(data, chance)
    return data


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data or b" ")
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _insert(data: bytes, chance: random.Random) -> bytes:
    place = chance.choice((0, len(data), chance.randint(0, len(data))))
    return data[:place] + chance.choice(ODD) + data[place:]


def _replace(data: bytes, chance: random.Random) -> bytes:
    """Put something odd in the place of a cell, a number, a value."""
    begin = chance.randint(0, len(data))
    end = begin + chance.choice((1, 2, 4, 8))
    return data[:begin] + chance.choice(ODD) + data[end:]


def _value(data: bytes, chance: random.Random) -> bytes:
    """Put something else in the place of one value of JSON, or of one line of it."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    try:
        whole, place = (json.loads(data), None) if chance.random() < 0.5 else (json.loads(lines[at]), at)
    except (ValueError, RecursionError):
        return _replace(data, chance)
    found = list(_inside(whole))
    if not found:
        return _replace(data, chance)
    holder, key = chance.choice(found)
    odd: tuple[object, ...] = (
        None,
        True,
        -1,
        0,
        10**30,
        1.5,
        1e308,
        float("nan"),
        "",
        "x",
        "\ud800",
        "\0",
        [],
        {},
        [[]],
        {"a": 1},
    )
    if chance.random() < 0.2:
        del holder[key]
    else:
        holder[key] = chance.choice(odd)
    written = json.dumps(whole).encode()
    return written if place is None else b"\n".join([*lines[:place], written, *lines[place + 1 :]])


def _inside(value: object) -> Iterator[tuple[object, object]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _inside(value[key])  # type: ignore[index]


def _cut(data: bytes, chance: random.Random) -> bytes:
    begin = chance.randint(0, len(data))
    return data[:begin] if chance.random() < 0.5 else data[:begin] + data[begin + chance.randint(0, 40) :]


def _double(data: bytes, chance: random.Random) -> bytes:
    begin = chance.randint(0, len(data))
    part = data[begin : begin + chance.randint(1, 60)]
    return data[:begin] + part * chance.choice((2, 2, 50)) + data[begin + len(part) :]


def _shuffle(data: bytes, chance: random.Random) -> bytes:
    separator = chance.choice((b"\n", b"\t", b",", b" "))
    parts = data.split(separator)
    chance.shuffle(parts)
    return separator.join(parts)


_WAYS = (_flip, _insert, _insert, _replace, _replace, _value, _value, _cut, _double, _shuffle)


def fault_of(reader: Reader, path: Path) -> str:
    """Return what a reader did with a file that it may not do; nothing if it gave a result or one of our errors."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with _limited():
            reader.read(path)
    except InfuserError as error:
        told = str(error)
        if "\n" in told:
            return f"an error of several lines: {told!r}"
        if reader.names_file and not any(name in told for name in (path.name, path.stem, path.parent.name)):
            return f"an error that does not name the file: {told!r}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {str(error)[:300]}"
    cost = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return f"{cost:,} kB for {path.stat().st_size:,} bytes" if cost > MOST_MEMORY else ""


class _TooSlowError(BaseException):
    """Nobody catches it by mistake."""


@contextmanager
def _limited() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooSlowError(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
