"""DocRED and Re-DocRED: a JSON list of documents, read as whole texts or sentence by sentence.

    [{"title": "...", "sents": [["Bern", "lies", ...], ...], "labels": [{"h": 0, "t": 1, "r": "P206", ...}, ...],
      "vertexSet": [[{"sent_id": 0, "pos": [0, 1], "type": "LOC", ...}, ...], ...]}]

Tokens and sentences are joined by single spaces. A mention's id is the number of its entity within the document, its
label the entity's type. A fact holds between entities; its triple stands on their two nearest mentions, those within
one sentence first. The evidence is not read. Names of relations come from rel_info.json beside the file, if there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

from infuser.errors import InputError
from infuser.linking.windows import moved
from infuser.relations.examples import RelationText, Triple
from infuser.relations.readers.common import Tokens, Unreadable, names_beside, nearest_pair, read_each, relation_id
from infuser.tables.rows import read_json
from infuser.tables.skipped import Skipped
from infuser.tables.values import is_place
from infuser.types import Span

_Mentions = Sequence[tuple[int, Span]]
"""The mentions of one entity, each with the number of its sentence."""


class DocredFact(NamedTuple):
    """A relation between two entities, by their numbers."""

    head: int
    tail: int
    relation: str


def read_docred(
    path: str | Path, skipped: Skipped, *, sentences: bool = False, left_out: Counter[str] | None = None
) -> Iterator[RelationText]:
    """Yield the documents, or with `sentences` the sentences of each, which lose facts that no sentence holds.

    A fact may be in several sentences; those that are in none are counted in `left_out`, by relation.
    """
    records = read_json(path)
    if not isinstance(records, list):
        raise InputError(f"{path} is no list of documents, as DocRED's files are. Is it of another format?")
    names = names_beside(path, "rel_info.json")
    left_out = Counter() if left_out is None else left_out
    for number, record in enumerate(records, start=1):
        try:
            yield from _texts(path, number, record, names, skipped, sentences, left_out)
        except Unreadable as error:
            skipped.add(path, number, str(error), record, unit="document")


def _texts(
    path: str | Path,
    number: int,
    record: Any,
    names: Mapping[str, str],
    skipped: Skipped,
    sentences: bool,
    left_out: Counter[str],
) -> Iterator[RelationText]:
    """Yield a document as one text or as its sentences, each with the facts whose two entities it mentions."""
    sents, vertices = _lists(record, "sents"), _lists(record, "vertexSet")
    tokens = Tokens(list(chain(*sents)))
    firsts = list(accumulate(map(len, sents), initial=0))
    entities: list[_Mentions] = []
    for place, values in enumerate(vertices):
        read = partial(_mention, id=str(place), sents=sents, firsts=firsts, tokens=tokens)
        # Re-DocRED says some of them twice
        entities.append(list(dict.fromkeys(read_each(values, read, skipped, path, number, "document"))))
    labels = record.get("labels", [])  # DocRED's own test file has none
    if not isinstance(labels, list):
        raise Unreadable("labels is no list")
    facts = list(dict.fromkeys(read_each(labels, partial(_fact, entities=entities), skipped, path, number, "document")))
    parts = [(0, len(tokens.text))]
    if sentences:
        parts = [(tokens.starts[first], tokens.ends[end - 1]) for first, end in pairwise(firsts) if first < end]
    title = record.get("title")
    held: set[DocredFact] = set()
    for start, end in parts:
        if not tokens.text[start:end].strip():
            continue
        inside = [
            [(at, moved(span, -start)) for at, span in mentions if start <= span.start and span.end <= end]
            for mentions in entities
        ]
        here = [fact for fact in facts if inside[fact.head] and inside[fact.tail]]
        held.update(here)
        triples = [
            Triple(*_nearest(inside[head], inside[tail]), relation, label=names.get(relation, ""))
            for head, tail, relation in here
        ]
        spans = sorted((span for _, span in chain(*inside)), key=lambda span: (span.start, span.end))
        yield RelationText(
            tokens.text[start:end], tuple(triples), tuple(spans), title if isinstance(title, str) else ""
        )
    left_out.update(fact.relation for fact in facts if fact not in held)


def _lists(record: Any, field: str) -> list[list[Any]]:
    value = record.get(field) if isinstance(record, dict) else None
    if not isinstance(value, list) or not all(isinstance(inner, list) for inner in value):
        raise Unreadable(f"no {field} that is a list of lists")
    return value


def _mention(value: Any, id: str, sents: list[list[Any]], firsts: list[int], tokens: Tokens) -> tuple[int, Span]:
    sentence = value.get("sent_id") if isinstance(value, dict) else None
    if type(sentence) is not int or not 0 <= sentence < len(sents):
        raise Unreadable(f"a mention is in none of the {len(sents)} sentences")
    if not is_place(value.get("pos"), len(sents[sentence])):
        raise Unreadable(f"a mention is not inside its sentence of {len(sents[sentence])} tokens")
    first, last = (firsts[sentence] + token for token in value["pos"])
    kind = value.get("type")
    return sentence, Span(*tokens.place(first, last - 1), label=kind if isinstance(kind, str) else "", id=id)


def _fact(value: Any, entities: Sequence[_Mentions]) -> DocredFact:
    head, tail = (value.get("h"), value.get("t")) if isinstance(value, dict) else (None, None)
    if type(head) is not int or type(tail) is not int or not all(0 <= end < len(entities) for end in (head, tail)):
        raise Unreadable(f"head and tail are not both among the {len(entities)} entities")
    if head == tail or not entities[head] or not entities[tail]:
        raise Unreadable("head and tail are one entity, or have no mention")
    return DocredFact(head, tail, relation_id(value.get("r")))


def _nearest(heads: _Mentions, tails: _Mentions) -> tuple[Span, Span]:
    """Return the two mentions that lie nearest together, those within one sentence first."""
    pairs = list(product(heads, tails))
    together = [pair for pair in pairs if pair[0][0] == pair[1][0]]
    return nearest_pair((head, tail) for (_, head), (_, tail) in together or pairs)
