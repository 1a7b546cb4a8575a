"""Reads texts with entities; each example keeps its file and line.

| file                       | holds                                                                              |
|----------------------------|------------------------------------------------------------------------------------|
| .jsonl, .json, .parquet    | text and entities (or spans), [[0, 4, "city"]] or [{"start": 0, "end": 4, ...}];    |
|                            | or tokens and tags (or ner_tags)                                                    |
| .spacy                     | a DocBin of spaCy: the texts and `doc.ents`                                         |
| .pubtator                  | titles with abstracts, mentions and types, see `tables.pubtator`                    |
| .ann, a folder             | pairs of .txt and .ann files of BRAT, see `tables.brat`                             |
| any other                  | words and tags in columns, see `tables.conll`; the words are joined by one space    |
| datasets:NAME              | the columns of the first row, tags as names or as class labels                      |

Documents of PubTator and BRAT are one text each: most abstracts fit into an encoder of 512 tokens, and a sentence
splitter would decide which mentions are cut. Of mentions that overlap one is kept, see `MarkedDocument.flat_spans`, and
a warning counts the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from infuser.errors import InputError, MissingExtraError
from infuser.tables.blocks import suffix_of
from infuser.tables.brat import read_brat
from infuser.tables.conll import read_sentences, spans_of
from infuser.tables.documents import MarkedDocument
from infuser.tables.pubtator import read_pubtator
from infuser.tables.rows import Record, read_records
from infuser.tables.skipped import BadRow, Place
from infuser.tables.values import is_unicode
from infuser.tasks.official import dataset_records

logger = logging.getLogger(__name__)

Entity = tuple[int, int, str]
"""Characters `start` up to, not including, `end`, and the type."""
_TAGS, _SPANS = ("ner_tags", "tags"), ("entities", "spans")


def read_entities(path: Path) -> Iterator[Record]:
    """Yield the examples of a file, text and entities, each with its place."""
    suffix = suffix_of(path)
    if suffix in (".jsonl", ".ndjson", ".json", ".parquet"):
        return ((place, _example(place, record)) for place, record in read_records(path))
    if suffix == ".spacy":
        return _docs(path)
    if suffix == ".pubtator":
        return _documents(path, read_pubtator(path))
    if suffix == ".ann" or path.is_dir():
        return _documents(path, read_brat(path))
    return ((one.place, _joined(one.place, one.words, one.tags)) for one in read_sentences(path))


def dataset_entities(data: str, split: str) -> Iterator[Record]:
    """Yield the examples of a split of the datasets library."""
    return ((place, _example(place, row)) for place, row in dataset_records(data, split, name_classes=_TAGS))


def _example(place: Place, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the example of a row: text and entities, or tokens and tags; without entities, the text alone."""
    if "tokens" in record:
        words: Any = record["tokens"]
        tags: Any = next((record[name] for name in _TAGS if name in record), None)
        if not _are_texts(words) or not _are_texts(tags) or len(words) != len(tags):
            why = f"has no tag for each token: {str(words)[:60]} and {str(tags)[:60]}"
            raise BadRow(place, why, record, advice=f"Give tokens and {' or '.join(_TAGS)}, names of the same number.")
        return _joined(place, words, tags)
    text = record.get("text")
    if not is_unicode(text):
        advice = 'Write {"text": "Bern lies on the Aare.", "entities": [[0, 4, "city"]]}, or tokens and tags.'
        raise BadRow(place, f"has no text but {sorted(map(str, record))}", record, advice=advice)
    spans = next((record[name] for name in _SPANS if record.get(name) is not None), None)
    return {"text": text} if spans is None else {"text": text, "entities": _checked(place, text, spans)}


def _joined(place: Place, words: Sequence[str], tags: Sequence[str]) -> dict[str, Any]:
    """Return words as one text, with one space between two of them, and their entities in its characters."""
    starts, at = [], 0
    for word in words:
        starts.append(at)
        at += len(word) + 1
    spans = spans_of(place, tags)
    entities = [(starts[first], starts[last - 1] + len(words[last - 1]), label) for first, last, label in spans]
    return {"text": " ".join(words), "entities": entities}


def _docs(path: Path) -> Iterator[Record]:
    try:
        import spacy
        from spacy.tokens import DocBin
    except ImportError as error:
        raise MissingExtraError(f"{str(path)!r} needs spaCy: pip install 'infuser[spacy]'.") from error

    try:
        docs = DocBin().from_disk(path).get_docs(spacy.blank("xx").vocab)
        for number, doc in enumerate(docs, start=1):
            place = Place(path, number, "document")
            spans = [(span.start_char, span.end_char, span.label_) for span in doc.ents]
            yield place, {"text": doc.text, "entities": _checked(place, doc.text, spans)}
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"There is no file {str(path)!r}.") from error
    except Exception as error:  # damaged files raise many kinds
        raise InputError(f"{path} is no DocBin of spaCy ({error}). Write one with DocBin(docs=...).to_disk.") from error


def _documents(path: Path, documents: Iterable[MarkedDocument]) -> Iterator[Record]:
    n_spans = n_overlapping = 0
    for one in documents:
        kept = one.flat_spans()
        n_spans, n_overlapping = n_spans + len(one.spans), n_overlapping + len(one.spans) - len(kept)
        spans = [(span.start, span.end, span.label) for span in kept]
        yield one.place, {"text": one.text, "entities": _checked(one.place, one.text, spans)}
    if n_overlapping:
        logger.warning(
            "%d of %d mentions in %s overlap others and are left out: a word has one type at most",
            n_overlapping,
            n_spans,
            path,
        )


def _checked(place: Place, text: str, spans: Any) -> list[Entity]:
    """Return the entities of a text, in order and without spaces at their ends; raise BadRow if they cannot be."""
    advice = 'Give [start, end, label] or {"start": 0, "end": 4, "label": "city"}, in characters of the text.'
    if not isinstance(spans, list | tuple):
        raise BadRow(place, f"has the entities {str(spans)[:60]!r}, not a list", advice=advice)
    entities: list[Entity] = []
    for span in spans:
        given: list[Any] = list(span) if isinstance(span, list | tuple) else []
        if isinstance(span, dict):
            given = [span.get(name) for name in ("start", "end", "label")]
        if len(given) != 3 or type(given[0]) is not int or type(given[1]) is not int or not is_unicode(given[2]):
            raise BadRow(place, f"has the entity {str(span)[:60]}", advice=advice)
        start, end, label = given
        if not 0 <= start < end <= len(text):
            raise BadRow(place, f"has the entity {given}, which lies outside its {len(text)} characters", advice=advice)
        inside = text[start:end]
        start, end = start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())
        if start >= end or not label.strip():
            raise BadRow(place, f"has the entity {given}, which has no words or no label", advice=advice)
        entities.append((start, end, label.strip()))
    entities.sort()
    for one, other in pairwise(entities):
        if other[0] < one[1]:
            why = f"has two entities that overlap, {list(one)} and {list(other)}"
            raise BadRow(place, why, advice="Each word has one type at most: keep one of the two.")
    return entities


def _are_texts(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, str) for value in values)
