"""Our own format: a text per line, as JSON.

    {"text": "Bern is the capital of Switzerland.", "name": "...",
     "triples": [{"head": [23, 34], "tail": [0, 4], "trigger": [12, 22], "relation": "P36", "label": "capital",
                  "negated": false}],
     "spans": [{"start": 0, "end": 4, "id": "Q70", "label": "city"}]}

Only the text must be there. Head, tail and trigger are [start, end] or objects like the spans. A head or tail given as
[start, end] takes id and label of the span at that place, if one is given. A relation that is missing, null, "NA" or
"no_relation" is none. Other keys are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.files import whole_file
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.relations.readers.common import Unreadable, read_each, relation_id
from infuser.tables.blocks import unpacked_name
from infuser.tables.rows import json_lines
from infuser.tables.skipped import Skipped
from infuser.tables.values import is_place, is_text, is_unicode
from infuser.types import Span


def read_own(path: str | Path, skipped: Skipped) -> Iterator[RelationText]:
    """Yield the texts; a triple or span that cannot be read is added to `skipped`, and the rest of its text is kept."""
    for line, record in json_lines(path, skipped):
        number, text, name = line.number, record.get("text"), record.get("name")
        triples, spans = ([] if record.get(field) is None else record[field] for field in ("triples", "spans"))
        if not is_text(text):
            skipped.add(path, number, "no text", record)
            continue
        if not isinstance(triples, list) or not isinstance(spans, list):
            skipped.add(path, number, "triples or spans is no list", record)
            continue
        known = read_each(spans, partial(_span, length=len(text), what="a span", places={}), skipped, path, number)
        places = {(span.start, span.end): span for span in reversed(known)}  # of several at a place the first counts
        read = read_each(triples, partial(_triple, length=len(text), places=places), skipped, path, number)
        mentions = {*known, *(span for triple in read for span in (triple.head, triple.tail))}
        ordered = sorted(mentions, key=lambda span: (span.start, span.end, span.id, span.label))
        yield RelationText(text, tuple(read), tuple(ordered), name if is_unicode(name) else "")


def write_relations(path: str | Path, texts: Iterable[RelationText]) -> Path:
    """Write texts with their triples as JSON lines, for `read_relations`; the file appears whole or not at all."""
    if unpacked_name(path) != Path(path).name.lower():
        raise InputError(f"{path} would not be packed: relations are written as plain JSON lines. Name it .jsonl.")
    with whole_file(path) as file:
        for number, text in enumerate(texts, start=1):
            line = json.dumps(_record(text, number), ensure_ascii=False, allow_nan=False)
            if not is_unicode(line):
                raise InputError(f"Text {number} cannot be written: it, an id or a label holds half of a character.")
            file.write(line + "\n")
    return Path(path)


def _triple(value: Any, length: int, places: Mapping[tuple[int, int], Span]) -> Triple:
    if not isinstance(value, Mapping):
        raise Unreadable("a triple is no JSON object")
    head, tail = (_span(value.get(part), length, f"the {part}", places) for part in ("head", "tail"))
    trigger = None if value.get("trigger") is None else _span(value["trigger"], length, "the trigger", {})
    label, negated = value.get("label"), value.get("negated")
    if label is not None and not is_unicode(label):
        raise Unreadable("the label of a relation is no text")
    if negated is not None and not isinstance(negated, bool):
        raise Unreadable("negated is neither true nor false")
    return Triple(head, tail, relation_id(value.get("relation")), trigger, label or "", bool(negated))


def _span(value: Any, length: int, what: str, places: Mapping[tuple[int, int], Span]) -> Span:
    place: Any = [value.get("start"), value.get("end")] if isinstance(value, Mapping) else value
    if not is_place(place, length):
        raise Unreadable(f"{what} is not inside the text of {length} characters")
    if place is value:
        return places.get((place[0], place[1]), Span(place[0], place[1]))
    id, label = ("" if value.get(field) is None else value[field] for field in ("id", "label"))
    if not is_unicode(id) or not is_unicode(label):
        raise Unreadable(f"id or label of {what.removeprefix('a ')} is no text")
    return Span(place[0], place[1], label, id)


def _record(text: RelationText, number: int) -> dict[str, Any]:
    length = len(text.text)
    spans = [*text.spans, *(span for one in text.triples for span in (one.head, one.tail, one.trigger) if span)]
    outside = [span for span in spans if not is_place([span.start, span.end], length)]
    if outside or not text.text.strip():
        wrong = f"{outside[0]} is not inside its {length} characters" if outside else "it is empty"
        raise InputError(f"Text {number} cannot be written: {wrong}. It begins {text.text[:60]!r}.")
    record: dict[str, Any] = {"text": text.text, "triples": [_triple_record(triple) for triple in text.triples]}
    if text.spans:
        record["spans"] = [_span_record(span) for span in text.spans]
    if text.name:
        record["name"] = text.name
    return record


def _triple_record(triple: Triple) -> dict[str, Any]:
    record: dict[str, Any] = {"head": _span_record(triple.head), "tail": _span_record(triple.tail)}
    if triple.trigger is not None:
        trigger = triple.trigger
        plain = not trigger.id and not trigger.label
        record["trigger"] = [trigger.start, trigger.end] if plain else _span_record(trigger)
    record["relation"] = None if triple.relation == NO_RELATION else triple.relation
    if triple.label:
        record["label"] = triple.label
    if triple.negated:
        record["negated"] = True
    return record


def _span_record(span: Span) -> dict[str, Any]:
    """Return a span as an object, which says all of it; a bare place would take the id of a span there."""
    record: dict[str, Any] = {"start": span.start, "end": span.end}
    return record | {field: value for field, value in (("id", span.id), ("label", span.label)) if value}
