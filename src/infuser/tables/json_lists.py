"""A JSON file that is one list, read entry by entry."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

from infuser.errors import InputError
from infuser.tables.blocks import open_stream

_CHUNK = 1 << 20


def json_entries(path: Path) -> Iterator[object]:
    """Yield the entries of a JSON list one by one, so that the file may be larger than memory."""
    decoder = json.JSONDecoder()
    with open_stream(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig") as file:
        try:
            buffer, at, wanted = file.read(_CHUNK), 0, _CHUNK
            at = _skip(buffer, at)
            if buffer[at : at + 1] != "[":
                raise InputError(f"{path} holds no list; give a list of objects, one per example.")
            at = _skip(buffer, at + 1)
            while buffer[at : at + 1] != "]":
                try:
                    entry, end = decoder.raw_decode(buffer, at)
                    end = _skip(buffer, end)
                except ValueError:
                    end = len(buffer)  # cut off by the end of the buffer, or really broken
                if end >= len(buffer):
                    more = file.read(wanted)
                    if not more:
                        decoder.raw_decode(buffer, at)  # says what is wrong
                        raise ValueError("the list is not closed")
                    buffer, at, wanted = buffer[at:] + more, 0, wanted * 2
                    at = _skip(buffer, at)
                    continue
                if buffer[end] not in ",]":
                    raise ValueError(f"expected a comma behind entry {buffer[at:end][:40]!r}")
                yield entry
                at, wanted = end if buffer[end] == "]" else _skip(buffer, end + 1), _CHUNK
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8 ({error.reason}). Save it as UTF-8 and try again.") from error
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON: {error}.") from error


def _skip(text: str, at: int) -> int:
    """Return the place of the next character that is no white space."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
