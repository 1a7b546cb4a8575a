r"""Candidates as KnowBERT and ERNIE keep them, read as batches of (mention, entity, count).

Their files, with a tab written as \t:

    KnowBERT           mention \t total \t id,prior,name \t id,prior,name ...
    KnowBERT, WordNet  {"type": "lemma", "id": "cat%1:05:00::", "synset": "cat.n.01", "count": 3}
    ERNIE              entity2id.txt: how many, then Q42 \t 0;  entity_map.txt: name \t Q42
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from infuser.knowledge.candidates.files import checked_row
from infuser.knowledge.facts import Facts, MentionRow, pack_mentions
from infuser.tables.rows import filled_lines, json_lines
from infuser.tables.skipped import Skipped
from infuser.words import whole_number

_FURTHER = re.compile(r"\s\d+,(?:[01](?:\.\d*)?|\.\d+|\d(?:\.\d+)?[eE]-\d+),")
"""What begins a candidate, id and prior, after a space: a name with it holds another candidate."""


def read_knowbert(path: str | Path, skipped: Skipped | None = None, *, entity: Literal["id", "name"] = "name") -> Facts:
    """Read KnowBERT's candidates: mention, total and then id,prior,name of each; they count total x prior.

    `entity` says which of the two is the entity: the name (a Wikipedia title) or the id before the prior.
    """
    return pack_mentions(_knowbert_rows(path, Skipped() if skipped is None else skipped, 0 if entity == "id" else 2))


def read_knowbert_wordnet(path: str | Path, skipped: Skipped | None = None) -> Facts:
    """Read KnowBERT's WordNet entities: lemmas mean their synset, each 1 + `count` times; synsets are passed over."""
    return pack_mentions(_wordnet_rows(path, Skipped() if skipped is None else skipped))


def read_ernie(entity2id: str | Path, entity_map: str | Path, skipped: Skipped | None = None) -> Facts:
    """Read the names of ERNIE's entities, each counting 1; names of entities that have no number are passed over."""
    skipped = Skipped() if skipped is None else skipped
    return pack_mentions(_ernie_rows(entity_map, _ernie_entities(entity2id, skipped), skipped))


def _knowbert_rows(path: str | Path, skipped: Skipped, entity_at: int) -> Iterator[MentionRow]:
    for number, line in filled_lines(path, skipped):
        mention, *rest = line.split("\t")
        total = _number(rest[0]) if rest else math.nan
        if not 0 < total < math.inf or len(rest) < 2:
            skipped.add(path, number, "not mention, total, candidates", line)
            continue
        for cell in filter(None, rest[1:]):
            parts = cell.split(",", 2)  # names may hold commas
            if len(parts) != 3:
                skipped.add(path, number, "a candidate is not id,prior,name", cell)
            elif _FURTHER.search(parts[2]):
                skipped.add(path, number, "two candidates without a tab between them", cell)
            elif row := checked_row([mention, parts[entity_at], total * _number(parts[1])], path, number, skipped):
                yield row


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _wordnet_rows(path: str | Path, skipped: Skipped) -> Iterator[MentionRow]:
    for place, record in json_lines(path, skipped):
        if record.get("type") == "synset":
            continue
        if record.get("type") != "lemma":
            skipped.add(path, place.number, 'its "type" is neither lemma nor synset', record)
            continue
        lemma, percent, _ = str(record.get("id", "")).rpartition("%")
        count = record.get("count", 0)
        if not percent or type(count) is not int or count < 0:
            skipped.add(path, place.number, "not a lemma with a sense key and a count", record)
        elif row := checked_row(
            [lemma.replace("_", " "), record.get("synset"), 1 + count], path, place.number, skipped
        ):
            yield row


def _ernie_entities(path: str | Path, skipped: Skipped) -> set[str]:
    """Return the entities that ERNIE has vectors for: a line with their place.number, then entity and place."""
    entities: set[str] = set()
    announced: int | None = None
    for number, line in filled_lines(path, skipped):
        if number == 1 and line.strip().isdecimal():
            announced = whole_number(line.strip())
            continue
        entity, _, place = line.partition("\t")
        if not entity.strip() or not place.strip().isdecimal():
            skipped.add(path, number, "not entity and number", line)
            continue
        entities.add(entity.strip())
    if announced is not None and announced != len(entities):
        skipped.add(path, 1, f"{announced} entities announced, {len(entities)} found", str(announced))
    return entities


def _ernie_rows(path: str | Path, entities: set[str], skipped: Skipped) -> Iterator[MentionRow]:
    for number, line in filled_lines(path, skipped):
        name, _, entity = line.partition("\t")
        if (row := checked_row([name, entity, 1], path, number, skipped)) and row[1] in entities:
            yield row
