r"""Texts whose links are known, read from files, as `LinkedText`.

    jsonl     {"text": "...", "spans": [{"start": 0, "end": 4, "id": "Q70"}], "labelled": [0, 90], "name": "..."}
    elevant   {"text": "...", "labels": [{"span": [0, 4], "entity_id": "Q70"}], "evaluation_span": [0, 90]}
    aida      the AIDA-CoNLL-YAGO table: a token per line, with \t B or I \t mention \t title ... where a mention stands
    knowbert  KnowBERT's AIDA: a word per line, mentions between MMSTART_id \t title and MMEND, *NL* for a new line

Of jsonl only the text and its spans must be there. The files may be packed (.gz, .zst).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from infuser.errors import InputError
from infuser.knowledge.candidates.files import NO_ENTITY
from infuser.linking.aida import read_aida, read_knowbert_aida
from infuser.linking.examples import LinkedText
from infuser.tables.rows import filled_lines, json_lines
from infuser.tables.skipped import Skipped
from infuser.tables.values import is_place, is_text
from infuser.types import Span

Format = Literal["auto", "jsonl", "elevant", "aida", "knowbert"]
_RawMention = tuple[Any, Any, bool]
"""The place of a mention, its entity, and whether that is none."""
_WIKIDATA = re.compile(r"Q\d+")


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
    readers = {"jsonl": _read_own, "elevant": _read_elevant, "aida": read_aida, "knowbert": read_knowbert_aida}
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
        break
    for _, record in json_lines(path, passed_over):
        if "labels" in record or "spans" in record:
            return "jsonl" if "spans" in record else "elevant"
        break
    raise InputError(
        f"Cannot tell how links are written in {path}. JSON lines have 'text' with 'spans' (our own format) or "
        "'labels' (ELEVANT); AIDA begins with -DOCSTART-, KnowBERT's AIDA with DOCSTART_. Or say which: format='jsonl'."
    )


def _read_own(path: str | Path, skipped: Skipped, left_out: Counter[str]) -> Iterator[LinkedText]:
    return _read_json(path, skipped, left_out, _own_mentions, ("labelled", "name"))


def _read_elevant(path: str | Path, skipped: Skipped, left_out: Counter[str]) -> Iterator[LinkedText]:
    return _read_json(path, skipped, left_out, _elevant_mentions, ("evaluation_span", "title"))


def _own_mentions(record: Mapping[str, Any]) -> Iterator[_RawMention]:
    for span in record["spans"]:
        if isinstance(span, Mapping):
            yield [span.get("start"), span.get("end")], span.get("id"), span.get("id") in (None, "", *NO_ENTITY)
        else:
            yield None, span, False


def _elevant_mentions(record: Mapping[str, Any]) -> Iterator[_RawMention]:
    for label in record["labels"]:
        if isinstance(label, Mapping):
            id = label.get("entity_id")
            # its entities are Wikidata ids; what else stands there ("<NIL>", "QUANTITY", a name by mistake) is none
            yield label.get("span"), id, id is None or (isinstance(id, str) and not _WIKIDATA.fullmatch(id))
        else:
            yield None, label, False


def _read_json(
    path: str | Path,
    skipped: Skipped,
    left_out: Counter[str],
    mentions_in: Callable[[Mapping[str, Any]], Iterator[_RawMention]],
    beside: tuple[str, str],
) -> Iterator[LinkedText]:
    """Yield the texts of JSON lines; `beside` names the fields of the labelled part and of the document's name."""
    field = "spans" if mentions_in is _own_mentions else "labels"
    for line, record in json_lines(path, skipped):
        number = line.number
        text, part, name = record.get("text"), record.get(beside[0]), record.get(beside[1])
        if not is_text(text) or not isinstance(record.get(field), list):
            skipped.add(path, number, f"no text with {field}", record)
            continue
        if part is not None and not is_place(part, len(text)):
            skipped.add(path, number, f"{beside[0]} is not inside the text of {len(text)} characters", part)
            continue
        gold: dict[Span, None] = {}
        for place, id, is_none in mentions_in(record):
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
