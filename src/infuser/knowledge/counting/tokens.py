r"""Texts as numbers of words: exactly the words of `words.find_words`, many times faster.

An ASCII character that is no letter, digit or underscore always parts two words, so a block of bytes is cut there at
once, by table. A piece in ASCII is one word. A piece with other characters is handed to `find_words`, each distinct one
once: it may be one word, several, or none.

A sentence ends with a line feed, or with ".", "!" or "?" (and perhaps a closing quote or bracket) before white space,
or with one of their wide forms. That is a simple rule: "Dr. Smith" is two sentences by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from infuser.knowledge.arrays import begins_of, join_ranges
from infuser.knowledge.counting.settings import Counting
from infuser.knowledge.counting.shapes import Encoded, Texts
from infuser.words import find_words

_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789_"
_PIECES = bytes(
    code if code >= 128 or code in _LETTERS else code + 32 if chr(code).isupper() else 0 for code in range(256)
)
"""Byte to itself if it belongs to a piece, in lower case; to 0 if it parts two."""
_ENDS, _SPACES, _CLOSING = (np.isin(np.arange(256), list(some)) for some in (b".!?", b" \t\n\v\f\r", b"\"')]}"))
_FULL_STOPS = ("。", "！", "？")  # noqa: RUF001


def encode(sides: Sequence[Texts], settings: Counting) -> tuple[Encoded, ...]:
    """Return the words of texts as numbers, unit by unit; of pairs, both sides of the same rows.

    A unit without words is left out; a pair, if one of its sides has none.
    """
    cut = [_encode_side(texts, sentences=settings.unit == "sentence") for texts in sides]
    filled = np.logical_and.reduce([np.diff(side.starts) > 0 for side in cut])
    kept = [_keep_units(side, filled) for side in cut]
    return tuple(kept) if settings.unit == "window" else tuple(_distinct(side) for side in kept)


def _encode_side(texts: Texts, *, sentences: bool) -> Encoded:
    data = texts.data
    if sentences:
        for sign in _FULL_STOPS:  # signs that stand inside a piece; the replacement has as many bytes
            data = data.replace(sign.encode(), b".  ")
    pieces = _cut(data)
    borders = _sentence_starts(data, texts.starts) if sentences else texts.starts
    starts = np.searchsorted(pieces.starts, borders)
    words, ids, firsts = _words_of(pieces.coded)
    return Encoded(words, ids, starts if firsts is None else firsts[starts], len(ids))


class _Pieces(NamedTuple):
    coded: pa.DictionaryArray
    starts: NDArray[np.int64]
    """Where each piece begins."""


def _cut(data: bytes) -> _Pieces:
    lower = data.translate(_PIECES)
    inside = np.zeros(len(lower) + 2, bool)  # with nothing before and behind
    np.not_equal(np.frombuffer(lower, np.uint8), 0, out=inside[1:-1])
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    starts, ends = edges[::2], edges[1::2]
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(ends - starts, out=offsets[1:])
    # cut off by bytes in ASCII, so that every piece is UTF-8 too
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(lower.translate(None, b"\0"))]
    return _Pieces(pa.Array.from_buffers(pa.string(), len(starts), buffers).dictionary_encode(), starts)


def _words_of(coded: pa.DictionaryArray) -> tuple[pa.Array, NDArray[np.int32], NDArray[np.int64] | None]:
    """Return distinct words, the ids of all words, and at which word each piece begins (None: pieces are words)."""
    pieces, ids = coded.dictionary, coded.indices.to_numpy()
    plain = pc.string_is_ascii(pieces).to_numpy(zero_copy_only=False)
    if plain.all():
        return pieces, ids, None
    found, n_found = _find_in_each(pieces.filter(pa.array(~plain)).to_pylist())
    merged = pa.concat_arrays([pieces.filter(pa.array(plain)), pa.array(found, pa.string())]).dictionary_encode()
    n_words = np.ones(len(pieces), np.int64)
    n_words[~plain] = n_found
    # the words of each distinct piece, one piece after another
    at = np.cumsum(n_words) - n_words
    flat = np.empty(n_words.sum(), np.int32)
    n_plain = int(plain.sum())
    numbers = merged.indices.to_numpy()
    flat[at[plain]] = numbers[:n_plain]
    flat[np.repeat(~plain, n_words)] = numbers[n_plain:]
    repeats = n_words[ids]
    return merged.dictionary, flat[join_ranges(at[ids], repeats)], begins_of(repeats)


def _find_in_each(pieces: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the words of all pieces, and how many each has."""
    words = find_words("\n".join(pieces))
    starts = np.cumsum([0, *(len(piece) + 1 for piece in pieces)])
    places = np.searchsorted([word.start for word in words], starts)
    return [word.folded for word in words], np.diff(places)


def _sentence_starts(data: bytes, text_starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where sentences begin: behind their ends, and where texts begin."""
    signs = np.frombuffer(data + b"  ", np.uint8)
    ends = np.flatnonzero(_ENDS[signs[:-2]])
    before_space = _SPACES[signs[ends + 1]] | (_CLOSING[signs[ends + 1]] & _SPACES[signs[ends + 2]])
    lines = np.flatnonzero(signs[:-2] == ord("\n"))
    starts = np.concatenate([text_starts, ends[before_space] + 1, lines + 1])  # twice the same is an empty sentence
    return np.sort(starts[(starts >= text_starts[0]) & (starts <= text_starts[-1])])


def _keep_units(side: Encoded, wanted: NDArray[np.bool_]) -> Encoded:
    """Return only these units."""
    if wanted.all():
        return side
    lengths = np.diff(side.starts)
    ids = side.ids[np.repeat(wanted, lengths)]
    return Encoded(side.words, ids, begins_of(lengths[wanted]), len(ids))


def _distinct(side: Encoded) -> Encoded:
    """Return each unit's words once, in ascending order."""
    n_units, n_distinct = len(side.starts) - 1, max(len(side.words), 1)
    units = np.repeat(np.arange(n_units), np.diff(side.starts))
    keys = np.sort(units * n_distinct + side.ids)
    keys = keys[np.diff(keys, prepend=-1) != 0]
    units, ids = np.divmod(keys, n_distinct)
    starts = np.searchsorted(units, np.arange(n_units + 1))
    return Encoded(side.words, ids.astype(np.int32), starts, side.n_words)
