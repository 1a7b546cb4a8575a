r"""What a word is: one rule, for every source and for the spreading of values from words to subwords.

A word is a run of letters, digits and underscores (`\w`) together with the combining marks and joiners that
follow them, so that "cafe" + accent is one word and Devanagari vowel signs split nothing. In scripts written
without spaces (Han, kana, Thai, Lao, Khmer, Myanmar) every character is a word. A sign is any other visible
character; an emoji sequence or a flag is one sign. Words are compared folded, word by word, so that a folding
that changes lengths ("ß" to "ss") never moves an offset.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from infuser.types import PAIR_BREAK

_UNSPACED_BLOCKS = (  # blocks of scripts that put no space between words
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # Han radicals
    (0x3005, 0x3007),  # Han iteration mark, closing mark, zero
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),  # Katakana extensions
    (0x3400, 0x4DBF),  # Han extension A
    (0x4E00, 0x9FFF),  # Han
    (0xF900, 0xFAFF),  # Han compatibility
    (0xFF66, 0xFF9D),  # Katakana, half width
    (0x20000, 0x3FFFF),  # Han extensions B and later
)
_JOINERS = "\u200c\u200d"
_TAGS = "\U000e0020-\U000e007f"  # spell out regional flags such as Scotland's
_SKIN_TONES = "\U0001f3fb-\U0001f3ff"
_REGIONAL = "\U0001f1e6-\U0001f1ff"  # two of them are a flag
_LOOK_ALIKES = {ord("’"): "'", ord("‐"): "-", ord("‑"): "-", 0xFE0E: None, 0xFE0F: None}  # noqa: RUF001


_ASCII_PIECES = re.compile(r" ?\w+| ?[^\w\s]|\s+")
_ASCII_WORDS = re.compile(r"\w+", re.ASCII)


class Word(NamedTuple):
    """A word or sign of a text, with its place in the unfolded text."""

    start: int
    end: int
    folded: str


def fold(word: str, *, case: bool = True, accents: bool = False) -> str:
    """Return the form in which words are compared: canonical Unicode, lower case, on request without accents."""
    if word.isascii():
        return word.lower() if case else word
    text = unicodedata.normalize("NFD", word.translate(_LOOK_ALIKES))
    if case:
        text = unicodedata.normalize("NFD", text.casefold())
    if accents:  # combining classes below 10 are no accents: they change which letter it is (virama, kana voicing)
        text = "".join(char for char in text if unicodedata.combining(char) < 10)
    return unicodedata.normalize("NFC", text) or word


def word_borders(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of every word of a text, in order."""
    return (match.span() for match in _matches(text))


def _matches(text: str) -> Iterator[re.Match[str]]:
    # a text in ASCII has no marks and no unspaced scripts, and the short pattern takes a fifth of the time
    return (_ASCII_WORDS if text.isascii() else _patterns()[0]).finditer(text)


class WordBorders:
    """Where the words of one text begin and end, to widen spans to whole words."""

    def __init__(self, text: str) -> None:
        words = list(_matches(text))
        self._starts = [word.start() for word in words]
        self._ends = [word.end() for word in words]

    def widen(self, start: int, end: int) -> tuple[int, int]:
        """Return the span with both ends moved outwards to the borders of the words they cut."""
        first = bisect_right(self._starts, start) - 1
        last = bisect_right(self._starts, end - 1) - 1
        if first >= 0 and start < self._ends[first]:
            start = self._starts[first]
        if last >= 0 and end < self._ends[last]:
            end = self._ends[last]
        return start, end


def find_words(text: str) -> list[Word]:
    """Return the words of a text, folded, in order."""
    if text.isascii():  # no marks, no unspaced scripts, and folding is lower case: the same in half the time
        new = tuple.__new__
        return [new(Word, (match.start(), match.end(), match[0])) for match in _ASCII_WORDS.finditer(text.lower())]
    folding = _Folding(fold)
    return [Word(start, end, folding[text[start:end]]) for start, end in word_borders(text)]


def find_tokens(text: str, *, case: bool = True, accents: bool = False) -> list[Word]:
    """Return the words and signs of a text, folded as asked; together they cover all but white space."""
    pattern = _patterns()[1]
    folding = _Folding(lambda word: fold(word, case=case, accents=accents))
    return [Word(match.start(), match.end(), folding[match.group()]) for match in pattern.finditer(text)]


def find_pieces(text: str) -> list[str]:
    """Return the words and signs of a text, unfolded, and its white space; joined they are the text.

    A single space stands at the beginning of the word or sign that follows it; other white space is a piece of its
    own. So a text has hardly more pieces than words.
    """
    # a text in ASCII has no marks and no unspaced scripts, and the short pattern takes half the time
    return (_ASCII_PIECES if text.isascii() else _patterns()[2]).findall(text)


def readable(text: str, starts: Sequence[int], limit: int) -> list[int]:
    """Return which of the things that start at `starts` (ascending) an encoder can get to read.

    These are the first `limit` of the text and of what follows its first and its last paragraph break: one of
    the two is the break of a pair, whose second side is read from its own beginning however long the first is.
    """
    if len(starts) <= limit:
        return list(range(len(starts)))
    breaks = [place for place in (text.find(PAIR_BREAK), text.rfind(PAIR_BREAK)) if place >= 0]
    kept: set[int] = set()
    for beginning in [0, *breaks]:
        first = bisect_left(starts, beginning)
        kept.update(range(first, min(first + limit, len(starts))))
    return sorted(kept)


class _Folding(dict[str, str]):
    """Folds each distinct word of a text once."""

    def __init__(self, folder: Callable[[str], str]) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, word: str) -> str:
        self[word] = folded = self._folder(word)
        return folded


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a word, of a word or sign, and of any piece; built when first needed (some 20 ms)."""
    marks = _ranges(code for code in range(0x300, 0x20000) if unicodedata.category(chr(code))[0] == "M")
    marks += "\U000e0100-\U000e01ef"  # the only ones further up
    unspaced = _ranges(
        code for low, high in _UNSPACED_BLOCKS if high < 0x20000 for code in range(low, high + 1) if chr(code).isalnum()
    )
    unspaced += f"{chr(0x20000)}-{chr(0x3FFFF)}"
    letter = rf"[^\W{unspaced}]"
    inside = rf"[{marks}{_JOINERS}]"
    word = rf"{letter}+(?:{inside}+{letter}*)*|(?=\w)[{unspaced}]{inside}*"
    clothes = rf"[{marks}{_SKIN_TONES}{_TAGS}]*"
    sign = rf"[{_REGIONAL}]{{2}}|[^\w\s]{clothes}(?:\u200d[^\w\s]{clothes})*"
    return re.compile(word), re.compile(f"{word}|{sign}"), re.compile(rf" ?(?:{word}|{sign})|\s+")


def _ranges(codes: Iterable[int]) -> str:
    """Write ascending code points as the inside of a character class."""
    runs: list[list[int]] = []
    for code in codes:
        if runs and code == runs[-1][1] + 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in runs)


def one_line(text: str) -> str:
    """Return a text with single spaces for its gaps, as messages quote it."""
    return " ".join(text.split())


def listed(names: Iterable[object], most: int = 20) -> str:
    """Return names from a file with commas between them: in one line, and not thousands of them."""
    every = [one_line(str(name)) for name in names]
    more = [f"and {len(every) - most:,} more"] if len(every) > most else []
    return ", ".join([*every[:most], *more])


def whole_number(digits: str | bytes) -> int:
    """Return the number that digits write; of absurdly many the first ones, since Python refuses to read them all."""
    return int(digits[:18])


def counted(n: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: "1 row", "2 rows"."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"
