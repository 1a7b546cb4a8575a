"""Where words begin and end, in characters: a subword takes the value of its whole word."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right

# Scripts written without spaces between words. A run of their letters is a
# clause, not a word, so each letter stands for itself and a span in them stays as the source gave it.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"  # Thai, Lao, Myanmar, Khmer
    "\u3005-\u3007\u3190-\u319f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001aff0-\U0001b16f"  # kana
)
_JOINER = "\u200d"


class Words:
    """The words of one text: maximal runs of letters, digits, underscores, combining marks and joiners."""

    def __init__(self, text: str) -> None:
        found = list(_pattern(text).finditer(text))
        self._starts = [word.start() for word in found]
        self._ends = [word.end() for word in found]

    def widen(self, start: int, end: int) -> tuple[int, int]:
        """Return the span with both ends moved outwards to the borders of the words they cut."""
        first = bisect_right(self._starts, start) - 1
        last = bisect_right(self._starts, end - 1) - 1
        if first >= 0 and start < self._ends[first]:
            start = self._starts[first]
        if last >= 0 and end < self._ends[last]:
            end = self._ends[last]
        return start, end


def _pattern(text: str) -> re.Pattern[str]:
    marks = "" if text.isascii() else "".join(sorted(filter(_is_mark, set(text))))
    if not marks:
        return _PLAIN
    marks = re.escape(marks)  # few in any one text, while all of Unicode's would be slow to collect and to search
    return re.compile(f"(?=\\w)[{_UNSPACED}][{marks}]*|(?:[^\\W{_UNSPACED}]|[{marks}])+")


def _is_mark(character: str) -> bool:
    return character == _JOINER or unicodedata.category(character).startswith("M")


_PLAIN = re.compile(f"(?=\\w)[{_UNSPACED}]|[^\\W{_UNSPACED}]+")
