"""AIDA's two formats, a word per line: texts are put together again with a space between words.

A new line of the text stands where a sentence (AIDA) or a paragraph (KnowBERT) ends.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infuser.linking.examples import LinkedText
from infuser.tables.rows import filled_lines
from infuser.tables.skipped import Skipped
from infuser.types import Span

_DOCUMENT = re.compile(r"-DOCSTART-\s*\(?(.*?)\)?\s*$")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")  # YAGO writes "Java_\u0028island\u0029"
_NO_ENTITY = "--NME--"


class _Text:
    """A text that grows word by word."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.spans: list[Span] = []
        """The mentions, those without an entity too: their id is empty."""
        self._parts: list[str] = []
        self._length = 0
        self._gap = ""

    def add(self, word: str) -> tuple[int, int]:
        """Write a word and return where it stands."""
        start = self._length + len(self._gap)
        self._parts += (self._gap, word)
        self._length, self._gap = start + len(word), " "
        return start, self._length

    def new_line(self) -> None:
        if self._parts:
            self._gap = "\n"

    def linked(self) -> Iterator[LinkedText]:
        """Yield what was written, if anything was."""
        if self._parts:
            yield LinkedText("".join(self._parts), tuple(span for span in self.spans if span.id), name=self.name)


def read_aida(path: str | Path, skipped: Skipped, left_out: Counter[str]) -> Iterator[LinkedText]:
    """Yield the documents of the AIDA-CoNLL-YAGO table; entities are Wikipedia titles with underscores."""
    text, last, mention = _Text(), 0, False
    for number, line in filled_lines(path, skipped):
        if begins := _DOCUMENT.match(line):
            yield from text.linked()
            text, last, mention = _Text(begins[1]), number, False
            continue
        if number > last + 1:  # blank lines are not handed over
            text.new_line()
            mention = False
        last = number
        word, *cells = (cell.strip() for cell in line.split("\t"))
        if not word:
            skipped.add(path, number, "a line without a word", line)
            continue
        start, end = text.add(word)
        if not any(cells):
            mention = False
        elif len(cells) < 3 or cells[0] not in ("B", "I") or not cells[2] or (cells[0] == "I" and not mention):
            skipped.add(path, number, "not word, B or I, mention, entity", line)
            mention = False
        elif cells[0] == "B":
            mention = True
            left_out.update([cells[2]] if cells[2] == _NO_ENTITY else [])
            text.spans.append(Span(start, end, id="" if cells[2] == _NO_ENTITY else _title(cells[2])))
        else:
            text.spans[-1] = Span(text.spans[-1].start, end, id=text.spans[-1].id)
    yield from text.linked()


def read_knowbert_aida(path: str | Path, skipped: Skipped, left_out: Counter[str]) -> Iterator[LinkedText]:
    """Yield the documents of KnowBERT's file; entities are the titles beside MMSTART, or its numbers where none are."""
    text = _Text()
    open_at, id, places = 0, "", list[tuple[int, int]]()  # open_at: the line on which a mention began
    for number, line in filled_lines(path, skipped):
        line = line.strip()
        if line.startswith(("DOCSTART_", "DOCEND", "MMSTART_")) and open_at:
            skipped.add(path, open_at, "MMSTART without MMEND", id)
            open_at = 0
        if line.startswith(("DOCSTART_", "DOCEND")):
            yield from text.linked()
            text = _Text(line.removeprefix("DOCSTART_") if line.startswith("DOCSTART_") else "")
        elif line.startswith("MMSTART_"):
            wikipedia_id, _, title = line.removeprefix("MMSTART_").partition("\t")
            open_at, id, places = number, title.strip() or wikipedia_id, []
        elif line == "MMEND":
            if not open_at or not places:
                skipped.add(path, number, "MMEND without MMSTART and a word", line)
            else:
                left_out.update([] if id else [id])
                text.spans.append(Span(places[0][0], places[-1][1], id=id))
            open_at = 0
        elif line == "*NL*":
            text.new_line()
        else:
            place = text.add(line)
            if open_at:
                places.append(place)
    if open_at:
        skipped.add(path, open_at, "MMSTART without MMEND", id)
    yield from text.linked()


def _title(written: str) -> str:
    """Return a title without YAGO's escapes; two halves of a character become one."""
    title = _ESCAPED.sub(lambda code: chr(int(code[1], 16)), written)
    return title.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
