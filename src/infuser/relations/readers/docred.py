"""DocRED and Re-DocRED: a JSON list of documents, read as whole texts or sentence by sentence.

    [{"title": "...", "sents": [["Bern", "lies", ...], ...], "labels": [{"h": 0, "t": 1, "r": "P206", ...}, ...],
      "vertexSet": [[{"sent_id": 0, "pos": [0, 1], "type": "LOC", ...}, ...], ...]}]

Tokens and sentences are joined by single spaces. A mention's id is the number of its entity within the document, its
label the entity's type. A fact holds between entities; its triple stands on their two nearest mentions, those within
one sentence first. The evidence is not read. Names of relations come from rel_info.json beside the file, if there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

from infuser.errors import InputError
from infuser.relations.examples import RelationText, Triple
from infuser.relations.readers.common import Tokens, Unreadable, names_beside, relation_id
from infuser.relations.readers.nearest_places import nearest_pair
from infuser.tables.rows import read_json
from infuser.tables.skipped import Skipped
from infuser.tables.values import is_place
from infuser.types import Span


class DocredMention(NamedTuple):
    """A mention and the number of its sentence."""

    sentence: int
    span: Span


class DocredFact(NamedTuple):
    """A relation between two entities, by their numbers."""

    head: int
    tail: int
    relation: str
    label: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document whose facts do not stand on mentions yet."""

    text: str
    sentences: tuple[tuple[int, int], ...]
    """Start and end of each, in characters."""
    entities: tuple[tuple[DocredMention, ...], ...]
    facts: tuple[DocredFact, ...]
    name: str

    def whole(self) -> RelationText:
        """Return the document as one text, each fact once."""
        triples = []
        for fact in self.facts:
            pairs = list(product(self.entities[fact.head], self.entities[fact.tail]))
            together = [pair for pair in pairs if pair[0].sentence == pair[1].sentence]
            triples.append(_placed(fact, together or pairs))
        spans = sorted((mention.span for mention in chain(*self.entities)), key=_order)
        return RelationText(self.text, tuple(triples), tuple(spans), self.name)

    def by_sentence(self, left_out: Counter[str]) -> Iterator[RelationText]:
        """Yield each sentence as a text, with the facts whose two entities are both mentioned in it.

        A fact may be in several sentences; those that are in none are counted in `left_out`, by relation.
        """
        homeless = set(self.facts)
        for number, (start, end) in enumerate(self.sentences):
            inside = [
                tuple(DocredMention(number, _moved(span, start)) for at, span in mentions if at == number)
                for mentions in self.entities
            ]
            triples = []
            for fact in self.facts:
                if inside[fact.head] and inside[fact.tail]:
                    triples.append(_placed(fact, product(inside[fact.head], inside[fact.tail])))
                    homeless.discard(fact)
            if self.text[start:end].strip():
                spans = sorted((mention.span for mention in chain(*inside)), key=_order)
                yield RelationText(self.text[start:end], tuple(triples), tuple(spans), self.name)
        left_out.update(fact.relation for fact in homeless)


def read_docred(
    path: str | Path, skipped: Skipped, *, sentences: bool = False, left_out: Counter[str] | None = None
) -> Iterator[RelationText]:
    """Yield the documents, or with `sentences` the sentences of each, which lose facts that no sentence holds."""
    records = read_json(path)
    if not isinstance(records, list):
        raise InputError(f"{path} is no list of documents, as DocRED's files are. Is it of another format?")
    names = names_beside(path, "rel_info.json")
    left_out = Counter() if left_out is None else left_out
    for number, record in enumerate(records, start=1):
        try:
            document = _document(path, number, record, names, skipped)
        except Unreadable as error:
            skipped.add(path, number, str(error), record, unit="document")
            continue
        if sentences:
            yield from document.by_sentence(left_out)
        else:
            yield document.whole()


def _document(path: str | Path, number: int, record: Any, names: Mapping[str, str], skipped: Skipped) -> Document:
    sents, entities = _lists(record, "sents"), _lists(record, "vertexSet")
    tokens = Tokens(list(chain(*sents)))
    firsts = [0]
    for sentence in sents:
        firsts.append(firsts[-1] + len(sentence))
    read = []
    for entity, mentions in enumerate(entities):
        found: dict[DocredMention, None] = {}  # Re-DocRED says some of them twice
        for mention in mentions:
            try:
                found[_mention(mention, str(entity), sents, firsts, tokens)] = None
            except Unreadable as error:
                skipped.add(path, number, str(error), mention, unit="document")
        read.append(tuple(found))
    labels = record.get("labels", [])  # DocRED's own test file has none
    if not isinstance(labels, list):
        raise Unreadable("labels is no list")
    facts: dict[DocredFact, None] = {}
    for label in labels:
        try:
            facts[_fact(label, read, names)] = None
        except Unreadable as error:
            skipped.add(path, number, str(error), label, unit="document")
    borders = [(tokens.starts[a], tokens.ends[b - 1]) if a < b else (0, 0) for a, b in pairwise(firsts)]
    title = record.get("title")
    return Document(tokens.text, tuple(borders), tuple(read), tuple(facts), title if isinstance(title, str) else "")


def _lists(record: Any, field: str) -> list[list[Any]]:
    value = record.get(field) if isinstance(record, dict) else None
    if not isinstance(value, list) or not all(isinstance(inner, list) for inner in value):
        raise Unreadable(f"no {field} that is a list of lists")
    return value


def _mention(value: Any, id: str, sents: list[list[Any]], firsts: list[int], tokens: Tokens) -> DocredMention:
    sentence = value.get("sent_id") if isinstance(value, dict) else None
    if type(sentence) is not int or not 0 <= sentence < len(sents):
        raise Unreadable(f"a mention is in none of the {len(sents)} sentences")
    if not is_place(value.get("pos"), len(sents[sentence])):
        raise Unreadable(f"a mention is not inside its sentence of {len(sents[sentence])} tokens")
    first, last = (firsts[sentence] + token for token in value["pos"])
    kind = value.get("type")
    return DocredMention(
        sentence, Span(*tokens.place(first, last - 1), label=kind if isinstance(kind, str) else "", id=id)
    )


def _fact(value: Any, entities: list[tuple[DocredMention, ...]], names: Mapping[str, str]) -> DocredFact:
    head, tail = (value.get("h"), value.get("t")) if isinstance(value, dict) else (None, None)
    if type(head) is not int or type(tail) is not int or not all(0 <= end < len(entities) for end in (head, tail)):
        raise Unreadable(f"head and tail are not both among the {len(entities)} entities")
    if head == tail or not entities[head] or not entities[tail]:
        raise Unreadable("head and tail are one entity, or have no mention")
    relation = relation_id(value.get("r"))
    return DocredFact(head, tail, relation, names.get(relation, ""))


def _placed(fact: DocredFact, pairs: Iterable[tuple[DocredMention, DocredMention]]) -> Triple:
    head, tail = nearest_pair((head.span, tail.span) for head, tail in pairs)
    return Triple(head, tail, fact.relation, label=fact.label)


def _moved(span: Span, start: int) -> Span:
    return Span(span.start - start, span.end - start, span.label, span.id)


def _order(span: Span) -> tuple[int, int]:
    return span.start, span.end
