"""Files that say what mentions mean, read as batches of (mention, entity, count).

| reader               | file                                                                                    |
|----------------------|-----------------------------------------------------------------------------------------|
| read_mention_counts  | a table of mention, entity, count: .tsv, .csv, .jsonl, .parquet                         |
| read_tagged          | JSON lines of texts with spans and their entities                                       |
| name_mentions        | labels and aliases of entities, as `facts` has them                                     |
| graph_mentions       | those of a built graph                                                                  |

The formats of KnowBERT and ERNIE are in `knowbert_ernie`. Text files may be packed (.gz, .zst). A row that cannot
be read is counted by a `Skipped`, and reading continues.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from infuser.errors import InputError
from infuser.knowledge.arrays import Strings
from infuser.knowledge.artifact import whole
from infuser.knowledge.facts import ENTITIES, Facts, MentionRow, pack_mentions
from infuser.tables.blocks import split_record, suffix_of
from infuser.tables.rows import Record, filled_lines, json_lines, read_records
from infuser.tables.skipped import Skipped
from infuser.tables.values import is_place, is_unicode

if TYPE_CHECKING:
    from infuser.knowledge.graph.store import GraphStore

NO_ENTITY = ("NIL", "<NIL>", "<NO_MAPPING>", "QUANTITY", "DATETIME")
"""What tagged corpora write where a mention has no entity."""

_COLUMNS = {
    "mention": ("mention", "name", "alias", "anchor", "surface", "text"),
    "entity": ("entity", "entity_id", "id", "qid", "candidate"),
    "count": ("count", "frequency", "freq", "n_links", "prior"),
}


def read_mention_counts(path: str | Path, skipped: Skipped | None = None) -> Facts:
    """Read a table of mention, entity and count; a missing count is 1, and rows with a count of 0 are passed over.

    Without a line of column names the columns stand in this order. Further columns are allowed beside named ones.
    """
    skipped = Skipped() if skipped is None else skipped
    suffix = suffix_of(path)
    if suffix in (".tsv", ".txt", ".csv"):
        return pack_mentions(_count_rows(path, _cells(path, "," if suffix == ".csv" else "\t", skipped), skipped))
    if suffix in (".jsonl", ".ndjson"):
        return pack_mentions(_named_rows(path, json_lines(path, skipped), skipped))
    if suffix == ".parquet":
        return pack_mentions(_named_rows(path, _parquet_records(path), skipped))
    raise InputError(f"Cannot tell what kind of table {str(path)!r} is. Name it .tsv, .csv, .jsonl or .parquet.")


def read_tagged(path: str | Path, skipped: Skipped | None = None, *, no_entity: Collection[str] = NO_ENTITY) -> Facts:
    """Count the mentions of a tagged corpus: JSON lines with a text and its spans.

    {"text": "...", "spans": [{"start": 0, "end": 4, "id": "Q70"}]}, or as ELEVANT writes it,
    {"text": "...", "labels": [{"span": [0, 4], "entity_id": "Q70"}]}. Spans without an entity are passed over.
    """
    return pack_mentions(_tagged_rows(path, Skipped() if skipped is None else skipped, frozenset(no_entity)))


def name_mentions(facts: Iterable[pa.RecordBatch], *, alias_weight: float = 0.5) -> Facts:
    """Return labels and aliases as mentions: a label counts 1 + the entity's count, an alias `alias_weight` of that.

    The 1 lets entities that were never met be candidates too. Batches of triples are passed over.
    """
    if not 0 < alias_weight < math.inf:
        raise InputError(f"alias_weight is {alias_weight}; it must be above 0.")
    return pack_mentions(_name_rows(facts, alias_weight))


def graph_mentions(folder: str | Path, *, alias_weight: float = 0.5) -> Facts:
    """Return the names of a built graph's entities as mentions, counted as `name_mentions` does.

    An entity without names is called by its id, underscores read as spaces, as it is when the graph itself is used.
    """
    from infuser.knowledge.graph.store import GraphStore

    return pack_mentions(_graph_rows(GraphStore.open(folder), alias_weight))


def _graph_rows(graph: GraphStore, alias_weight: float) -> Iterator[MentionRow]:
    called = Strings(whole(graph.parts["called.offsets"]), whole(graph.parts["called.bytes"]))  # see `entity_table`
    begins, labelled, counts = (whole(graph.parts[name]).tolist() for name in ("called.begins", "labelled", "counts"))
    for number, (first, last) in enumerate(pairwise(begins)):
        id = graph.id_of(number)
        names: list[str | None] = [called[place] for place in range(first, last)] or [id.replace("_", " ")]
        if first < last and not labelled[number]:
            names.insert(0, None)
        yield from _weighed(id, names[0], names[1:], counts[number], alias_weight)


def _name_rows(facts: Iterable[pa.RecordBatch], alias_weight: float) -> Iterator[MentionRow]:
    for batch in facts:
        if batch.schema.names != ENTITIES.names:
            continue
        columns = (batch.column(name).to_pylist() for name in ("id", "label", "aliases", "count"))
        for id, label, aliases, count in zip(*columns, strict=True):
            yield from _weighed(id, label, aliases or (), count or 0, alias_weight)


def _weighed(
    id: str, label: str | None, aliases: Iterable[str | None], count: int, alias_weight: float
) -> Iterator[MentionRow]:
    for name in dict.fromkeys([label, *aliases]):
        if name and name.strip() and _can_be_stored(name):
            yield name, id, (1.0 + count) * (1.0 if name == label else alias_weight)


def _cells(path: str | Path, separator: str, skipped: Skipped) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table; a cell holds no line break, so that one open quote spoils one line only."""
    for number, line in filled_lines(path, skipped):
        try:
            yield number, split_record(line, separator)
        except InputError as error:
            skipped.add(path, number, str(error), line)


def _count_rows(path: str | Path, rows: Iterator[tuple[int, list[str]]], skipped: Skipped) -> Iterator[MentionRow]:
    """Yield the rows of a table, whose first line may name its columns."""
    places: dict[str, int] | None = None
    for number, cells in rows:
        if places is None:
            places = _places(cells) or {}
            if places:
                continue
        if places:
            if len(cells) <= max(places[name] for name in ("mention", "entity")):
                skipped.add(path, number, f"only {len(cells)} of the columns", "\t".join(cells))
                continue
            values = [cells[places[name]] if places.get(name, len(cells)) < len(cells) else None for name in _COLUMNS]
        elif len(cells) in (2, 3):
            values = [*cells, None][:3]
        else:
            skipped.add(path, number, f"{len(cells)} cells instead of mention, entity, count", "\t".join(cells))
            continue
        if row := checked_row(values, path, number, skipped):
            yield row


def _named_rows(path: str | Path, records: Iterator[Record], skipped: Skipped) -> Iterator[MentionRow]:
    for place, record in records:
        keys = list(record)
        places = _places(keys)
        if places is None:
            skipped.add(path, place.number, "no mention and entity", record, unit=place.unit)
            continue
        values = [record[keys[places[name]]] if name in places else None for name in _COLUMNS]
        if row := checked_row(values, path, place.number, skipped, place.unit):
            yield row


def _places(names: list[str]) -> dict[str, int] | None:
    """Return which column is what, by names; None if mention or entity is not among them."""
    plain = [name.strip().casefold() for name in names]
    places: dict[str, int] = {}
    for column, known in _COLUMNS.items():
        place = next((plain.index(name) for name in known if name in plain), None)
        if place is not None:
            places[column] = place
    return places if {"mention", "entity"} <= set(places) else None


def _parquet_records(path: str | Path) -> Iterator[Record]:
    from infuser.tables.parse import open_parquet

    with open_parquet(path) as file:
        names = file.schema_arrow.names
    wanted = [name for name in names if any(name.casefold() in known for known in _COLUMNS.values())]
    return read_records(Path(path), columns=wanted)


def checked_row(
    values: list[Any], path: str | Path, number: int, skipped: Skipped, unit: str = "line"
) -> MentionRow | None:
    """Return mention, entity and count; None when the count is 0, or when it cannot be read, which `skipped` counts."""
    mention, entity, count = values
    why = ""
    if not isinstance(mention, str) or not mention.strip():
        why = "the mention is empty or no text"
    elif not isinstance(entity, str) or not entity.strip():
        why = "the entity is empty or no text"
    elif not _can_be_stored(mention + entity):
        why = "a null character or half of a character (a lone surrogate)"
    else:
        try:
            amount = 1.0 if count in (None, "") else float(count)
        except (TypeError, ValueError, OverflowError):
            amount = math.nan
        if 0 < amount < math.inf:
            return mention, entity.strip(), amount
        if amount == 0:  # it never meant this: no evidence, and no mistake either
            return None
        why = "the count is no number of 0 or more"
    skipped.add(path, number, why, "\t".join(map(str, values)), unit=unit)
    return None


def _can_be_stored(text: str) -> bool:
    """Return whether this can be written as UTF-8 and kept in a trie, which ends its words at a null character."""
    return is_unicode(text) and "\0" not in text


def _tagged_rows(path: str | Path, skipped: Skipped, no_entity: frozenset[str]) -> Iterator[MentionRow]:
    for line, record in json_lines(path, skipped):
        number, text = line.number, record.get("text")
        spans = record.get("spans", record.get("labels"))
        if not isinstance(text, str) or not isinstance(spans, list):
            skipped.add(path, number, "no text with spans", record)
            continue
        for span in spans:
            if not isinstance(span, Mapping):
                skipped.add(path, number, "a span is no JSON object", span)
                continue
            entity = span.get("id") if "start" in span else span.get("entity_id")
            if entity is None or entity in ("", *no_entity):
                continue
            place: Any = [span.get("start"), span.get("end")] if "start" in span else span.get("span")
            if not is_place(place, len(text)):
                skipped.add(path, number, f"a span is not inside the text of {len(text)} characters", span)
            elif row := checked_row([text[place[0] : place[1]], entity, 1], path, number, skipped):
                yield row
