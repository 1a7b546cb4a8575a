r"""Texts whose links are known, read from files, as `LinkedText`.

    jsonl     {"text": "...", "spans": [{"start": 0, "end": 4, "id": "Q70"}], "labelled": [0, 90], "name": "..."}
    elevant   {"text": "...", "labels": [{"span": [0, 4], "entity_id": "Q70"}], "evaluation_span": [0, 90]}
    aida      the AIDA-CoNLL-YAGO table: a token per line, with \t B or I \t mention \t title ... where a mention stands
    knowbert  KnowBERT's AIDA: a word per line, mentions between MMSTART_id \t title and MMEND, *NL* for a new line
    pubtator  documents of PubTator with the ids of their mentions, such as BioRED, see `tables.pubtator`

Of jsonl only the text and its spans must be there. Texts of AIDA's two formats are put together again with a space
between words, and a new line where a sentence (AIDA) or a paragraph (KnowBERT) ends. The files may be packed (.gz,
.zst).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from infuser.errors import InputError
from infuser.knowledge.candidates.files import NO_ENTITY
from infuser.linking.examples import LinkedText
from infuser.tables.pubtator import PASSAGE, read_pubtator
from infuser.tables.rows import filled_lines, json_lines
from infuser.tables.skipped import Skipped
from infuser.tables.values import is_place, is_text
from infuser.types import Span

Format = Literal["auto", "jsonl", "elevant", "aida", "knowbert", "pubtator"]
_RawMention = tuple[Any, Any, bool]
"""The place of a mention, its entity, and whether that is none."""
_WIKIDATA = re.compile(r"Q\d+")
_DOCUMENT = re.compile(r"-DOCSTART-\s*\(?(.*?)\)?\s*$")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")  # YAGO writes "Java_\u0028island\u0029"
_NO_YAGO_ENTITY = "--NME--"


def read_links(
    path: str | Path,
    format: Format = "auto",
    *,
    skipped: Skipped | None = None,
    left_out: Counter[str] | None = None,
) -> list[LinkedText]:
    """Read texts with their gold mentions; the format is seen from the first line unless it is given.

    A mention without an entity (NIL, a date, --NME-- ...) is no gold mention; `left_out` counts these by what stands in
    the entity's place. What cannot be read is counted by `skipped`, and reading goes on.
    """
    skipped, left_out = Skipped() if skipped is None else skipped, Counter() if left_out is None else left_out
    readers: dict[str, Callable[[str | Path, Skipped, Counter[str]], Iterator[LinkedText]]] = {
        "jsonl": partial(_read_json, fields=("spans", "labelled", "name"), read=_own_mention),
        "elevant": partial(_read_json, fields=("labels", "evaluation_span", "title"), read=_elevant_mention),
        "aida": _read_aida,
        "knowbert": _read_knowbert,
        "pubtator": _read_pubtator,
    }
    if format == "auto":
        format = _recognised(path)
    if format not in readers:
        raise InputError(f"No format of linked texts is called {format!r}. Known: auto, {', '.join(readers)}.")
    before = skipped.n
    texts = list(readers[format](path, skipped, left_out))
    if not texts:
        why = f" The first line that could not be read: {skipped.first[-1]}." if skipped.n > before else ""
        raise InputError(f"{path} holds no linked texts of the format {format!r}.{why}")
    return texts


def _recognised(path: str | Path) -> Format:
    passed_over = Skipped()
    for _, line in filled_lines(path, passed_over):
        if line.startswith("-DOCSTART-"):
            return "aida"
        if line.startswith(("DOCSTART_", "MMSTART_")):
            return "knowbert"
        if PASSAGE.fullmatch(line):
            return "pubtator"
        break
    for _, record in json_lines(path, passed_over):
        if "labels" in record or "spans" in record:
            return "jsonl" if "spans" in record else "elevant"
        break
    raise InputError(
        f"Cannot tell how links are written in {path}. JSON lines have 'text' with 'spans' (our own format) or "
        "'labels' (ELEVANT); AIDA begins with -DOCSTART-, KnowBERT's AIDA with DOCSTART_, PubTator with "
        "ID|t|TITLE. Or say which: format='jsonl'."
    )


def _own_mention(span: Mapping[str, Any]) -> _RawMention:
    id = span.get("id")
    return [span.get("start"), span.get("end")], id, id in (None, "", *NO_ENTITY)


def _elevant_mention(label: Mapping[str, Any]) -> _RawMention:
    id = label.get("entity_id")
    # its entities are Wikidata ids; what else stands there ("<NIL>", "QUANTITY", a name by mistake) is none
    return label.get("span"), id, id is None or (isinstance(id, str) and not _WIKIDATA.fullmatch(id))


def _read_json(
    path: str | Path,
    skipped: Skipped,
    left_out: Counter[str],
    *,
    fields: tuple[str, str, str],
    read: Callable[[Mapping[str, Any]], _RawMention],
) -> Iterator[LinkedText]:
    """Yield the texts of JSON lines; `fields` are those of the mentions, the labelled part and the document's name."""
    for line, record in json_lines(path, skipped):
        number, text = line.number, record.get("text")
        mentions, part, name = (record.get(field) for field in fields)
        if not is_text(text) or not isinstance(mentions, list):
            skipped.add(path, number, f"no text with {fields[0]}", record)
            continue
        if part is not None and not is_place(part, len(text)):
            skipped.add(path, number, f"{fields[1]} is not inside the text of {len(text)} characters", part)
            continue
        gold: dict[Span, None] = {}
        for value in mentions:
            mention: _RawMention = read(value) if isinstance(value, Mapping) else (None, value, False)
            place, id, is_none = mention
            if is_none:
                left_out[id or ""] += 1
            elif not is_text(id):
                skipped.add(path, number, "the entity of a mention is no text", id)
            elif not is_place(place, len(text)):
                skipped.add(path, number, f"a mention is not inside the text of {len(text)} characters", place)
            else:
                gold[Span(place[0], place[1], id=id)] = None
        spans = tuple(sorted(gold, key=lambda span: (span.start, span.end)))
        labelled = None if part is None or part == [0, len(text)] else (part[0], part[1])
        yield LinkedText(text, spans, labelled, name if isinstance(name, str) else "")


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


def _read_aida(path: str | Path, skipped: Skipped, left_out: Counter[str]) -> Iterator[LinkedText]:
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
            left_out.update([cells[2]] if cells[2] == _NO_YAGO_ENTITY else [])
            text.spans.append(Span(start, end, id="" if cells[2] == _NO_YAGO_ENTITY else _title(cells[2])))
        else:
            text.spans[-1] = Span(text.spans[-1].start, end, id=text.spans[-1].id)
    yield from text.linked()


def _read_knowbert(path: str | Path, skipped: Skipped, left_out: Counter[str]) -> Iterator[LinkedText]:
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


def _read_pubtator(path: str | Path, skipped: Skipped, left_out: Counter[str]) -> Iterator[LinkedText]:
    """Yield the documents of PubTator; a mention of several entities is a span for each of them."""
    for document in read_pubtator(path, skipped):
        left_out.update("no id" for span in document.spans if not span.ids)
        spans = dict.fromkeys(Span(span.start, span.end, id=id) for span in document.spans for id in span.ids)
        ordered = tuple(sorted(spans, key=lambda span: (span.start, span.end)))
        yield LinkedText(document.text, ordered, name=document.name)


def _title(written: str) -> str:
    """Return a title without YAGO's escapes; two halves of a character become one."""
    title = _ESCAPED.sub(lambda code: chr(int(code[1], 16)), written)
    return title.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
