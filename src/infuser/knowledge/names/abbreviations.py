"""Abbreviations that a text defines: "acute myocardial infarction (AMI)", and where they are used again.

The algorithm of Schwartz and Hearst ("A simple algorithm for identifying abbreviation definitions in biomedical text",
PSB 2003). A short form has two to ten characters and at most two words, begins with a letter or digit and has a letter.
Its long form stands before the bracket (or in it, with the short form before the bracket), in the same sentence. It has
at most min(n + 5, 2 n) words for a short form of n characters. Letters and digits of the short form are sought from its
end to its beginning in the long form, from right to left; its first one must begin a word there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from infuser.types import PAIR_BREAK

_BRACKETS = re.compile(r"\(([^()]{2,200})\)")
_SENTENCE_END = re.compile(rf"[.!?;]\s|{PAIR_BREAK}")
_WORD = re.compile(r"\S+")
_LONGEST, _MOST_WORDS = 10, 2
_FAR = 500
"""Characters before a bracket that are looked at."""

Place = tuple[int, int]
"""Start and end in characters."""


class Abbreviation(NamedTuple):
    """A short form where it is defined, and the long form that it stands for."""

    short: Place
    long: Place


def find_abbreviations(text: str) -> list[Abbreviation]:
    """Return the abbreviations that a text defines, in its order."""
    found = []
    for match in _BRACKETS.finditer(text):
        inside = _trimmed(text, *match.span(1))
        cut = re.search(r"[,;]\s", text[inside[0] : inside[1]])  # "(AMI, n = 5)"
        first = _trimmed(text, inside[0], inside[0] + cut.start()) if cut else inside
        if _is_short(text[slice(*first)]):
            long = find_long_form(text, first, _before(text, match.start(), first[1] - first[0]))
            short = first
        else:
            short = _last_word(text, match.start())
            long = find_long_form(text, short, inside) if _is_short(text[slice(*short)]) else None
        if long is not None:
            found.append(Abbreviation(short, long))
    return found


def find_long_form(text: str, short: Place, room: Place) -> Place | None:
    """Return the shortest end of a room that spells out a short form; None if there is none."""
    written = text[slice(*short)]
    place = room[1]
    for number in range(len(written) - 1, -1, -1):
        char = written[number].lower()
        if not char.isalnum():
            continue
        place -= 1
        while place >= room[0] and (
            text[place].lower() != char or (number == 0 and place > room[0] and text[place - 1].isalnum())
        ):
            place -= 1
        if place < room[0]:
            return None
    # "Gcn5-related" from its "G", "(poly)ADP" from its bracket
    while place > room[0] and not text[place - 1].isspace():
        place -= 1
    long = _trimmed(text, place, room[1])
    words = text[slice(*long)].split()
    n = len(written)
    if long[1] - long[0] <= n or len(words) > min(n + 5, 2 * n) or written in words:
        return None
    return long


def _is_short(written: str) -> bool:
    return (
        2 <= len(written) <= _LONGEST
        and sum(any(char.isalnum() for char in word) for word in written.split()) <= _MOST_WORDS
        and written[0].isalnum()
        and any(char.isalpha() for char in written)
    )


def _before(text: str, end: int, n: int) -> Place:
    """Return the words before a bracket in which the long form of n characters may stand."""
    window = text[max(0, end - _FAR) : end]
    begin = max((match.end() for match in _SENTENCE_END.finditer(window)), default=0)
    words = [match.start() for match in _WORD.finditer(window, begin)][-min(n + 5, 2 * n) :]
    return _trimmed(text, end - len(window) + (words[0] if words else len(window)), end)


def _last_word(text: str, end: int) -> Place:
    start, end = _trimmed(text, max(0, end - _FAR), end)
    words = [match.start() for match in _WORD.finditer(text, start, end)]
    return (words[-1] if words else end), end


def _trimmed(text: str, start: int, end: int) -> Place:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
