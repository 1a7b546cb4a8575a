"""Builds a graph from the facts that readers yield: millions of entities and edges, in the memory of a laptop.

Ids and relations are numbered by Arrow in the order in which they are first met, so the same facts in the same order
give the same bytes, whatever the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from infuser.errors import SourceError
from infuser.knowledge.arrays import number_strings
from infuser.knowledge.facts import ENTITIES, OTHER_IDS, TRIPLES
from infuser.knowledge.graph.adjacency import Adjacency, lay_out
from infuser.knowledge.graph.entity_table import in_slices, lay_out_entities, names_to_find, strings_of
from infuser.knowledge.graph.landmarks import choose_landmarks, find_components, measure
from infuser.knowledge.graph.store import GraphStore
from infuser.knowledge.names.gazetteer import Gazetteer
from infuser.progress import Report, no_progress
from infuser.tables.skipped import BATCH


def build_graph(
    facts: Iterable[pa.RecordBatch],
    *,
    fold_case: bool = True,
    fold_accents: bool = False,
    n_landmarks: int = 32,
    progress: Report | None = None,
) -> GraphStore:
    """Return the graph of these triples and entities (batches of the schemas in `facts`), in memory.

    `fold_case` and `fold_accents` say how names are compared with texts. More landmarks answer more questions about
    distances without a search, for one byte per entity each.
    """
    if n_landmarks < 0:
        raise SourceError(f"n_landmarks={n_landmarks} cannot be used; it must be 0 or more.")
    report = progress or no_progress
    read = _read(facts, report)
    report("numbering entities", 0, None)
    ids, codes = _number(read)
    n = len(ids)
    others = _number_others(read.other_ids, ids)
    table, keys, places = number_strings([*ids.to_pylist(), *others])
    entities = np.concatenate([np.arange(n, dtype=np.int32), np.fromiter(others.values(), np.int32, len(others))])
    parts: dict[str, Any] = {"ids": table, "ids.keys": keys[:n], "ids.entities": entities[places]}
    report("laying out edges", 0, None)
    relations, relation_codes = number_columns(read.relations)
    edges = codes["ends"].reshape(-1, 2)
    parts |= lay_out(edges[:, 0], edges[:, 1], relation_codes, _checked_weights(read.weights), n)
    parts |= strings_of(relations).parts("relations")
    parts["relations.counts"] = np.bincount(relation_codes, minlength=len(relations))
    report("merging entities", 0, None)
    parts |= lay_out_entities(pa.Table.from_batches(read.entities, ENTITIES), codes["id"], n)
    about = {"n_entities": n, "n_edges": len(relation_codes), "fold_case": fold_case, "fold_accents": fold_accents}
    del read, codes, edges, relation_codes
    parts |= _measure(Adjacency(parts), n_landmarks, report)
    names, owners = names_to_find(parts, ids)
    gazetteer = Gazetteer.build(_reported(names, report), fold_case=fold_case, fold_accents=fold_accents)
    return GraphStore(parts | gazetteer.parts("names") | {"names.owners": owners}, about | {"n_names": len(owners)})


class _Read(NamedTuple):
    """The columns of what was read, as they came."""

    ids: list[tuple[str, pa.Array]]
    """The columns that hold ids: "ends" with head and tail of each triple in turn, or "id"."""
    relations: list[pa.Array]
    weights: list[NDArray[Any]]
    entities: list[pa.RecordBatch]
    other_ids: list[pa.RecordBatch]


def _read(facts: Iterable[pa.RecordBatch], report: Report) -> _Read:
    read = _Read([], [], [], [], [])
    n_rows = 0
    for batch in facts:
        if set(TRIPLES.names) <= set(batch.schema.names):
            read.ids.append(("ends", _in_turn(batch["head"], batch["tail"])))
            read.relations.append(batch["relation"])
            read.weights.append(batch["weight"].to_numpy())
        elif set(ENTITIES.names) <= set(batch.schema.names):
            read.ids.append(("id", batch["id"]))
            read.entities.append(batch.select(ENTITIES.names).cast(ENTITIES))
        elif set(OTHER_IDS.names) <= set(batch.schema.names):
            read.other_ids.append(batch)
        else:
            raise SourceError(
                f"A batch of facts has the columns {', '.join(batch.schema.names)}. Triples have "
                f"{', '.join(TRIPLES.names)}; entities have {', '.join(ENTITIES.names)}; further ids have "
                f"{', '.join(OTHER_IDS.names)}."
            )
        n_rows += len(batch)
        report("reading", n_rows, None)
    return read


def _in_turn(heads: pa.Array, tails: pa.Array) -> pa.Array:
    """Return head and tail of each row in turn, so that numbers do not depend on how the rows are cut into batches."""
    return pa.concat_arrays([heads, tails]).take(pa.array(np.arange(2 * len(heads)).reshape(2, -1).T.ravel()))


def _number(read: _Read) -> tuple[pa.Array, dict[str, NDArray[np.int32]]]:
    """Return the different ids in the order in which they came, and by role the numbers in place of the ids."""
    ids, codes = number_columns([column for _, column in read.ids])
    if pc.any(pc.equal(pc.utf8_trim_whitespace(ids), "")).as_py():
        raise SourceError("An entity has a blank id. Leave such rows out.")
    pieces = np.split(codes, np.cumsum([len(column) for _, column in read.ids])[:-1])
    of_role: dict[str, list[NDArray[np.int32]]] = {role: [codes[:0]] for role in ("ends", "id")}
    for (role, _), piece in zip(read.ids, pieces, strict=False):
        of_role[role].append(piece)
    read.ids.clear()  # for a large graph these strings are the most there is
    return ids, {role: np.concatenate(pieces) for role, pieces in of_role.items()}


def _number_others(batches: list[pa.RecordBatch], ids: pa.Array) -> dict[str, int]:
    """Return the numbers of entities by their further ids; an id of an entity is its own and no other's."""
    if not batches:
        return {}
    numbers = {id: number for number, id in enumerate(ids.to_pylist())}
    others: dict[str, int] = {}
    for batch in batches:
        for other, id in zip(batch["other_id"].to_pylist(), batch["id"].to_pylist(), strict=True):
            if id not in numbers:
                raise SourceError(f"{other!r} is a further id of {id!r}, but there is no such entity.")
            if other not in numbers:
                others.setdefault(other, numbers[id])
    return others


def number_columns(columns: list[pa.Array]) -> tuple[pa.Array, NDArray[np.int32]]:
    """Return the different strings of some columns in the order in which they came, and for each row its own."""
    encoded = pa.chunked_array(columns, pa.string()).dictionary_encode()
    if encoded.null_count:
        raise SourceError("A fact has no id or no relation (null). Leave such rows out.")
    different = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], pa.string())
    return different, np.concatenate([np.zeros(0, np.int32), *(one.indices.to_numpy() for one in encoded.chunks)])


def _checked_weights(columns: list[NDArray[Any]]) -> NDArray[Any]:
    weights = np.concatenate(columns) if columns else np.zeros(0, np.float32)
    wrong = np.flatnonzero(~((weights > 0) & (weights <= 1)))
    if len(wrong):
        raise SourceError(
            f"{len(wrong)} of {len(weights)} edges have a weight that is not above 0 and at most 1; the first is "
            f"{weights[wrong[0]]}, of edge {wrong[0] + 1}."
        )
    return weights


def _measure(adjacency: Adjacency, n_landmarks: int, report: Report) -> dict[str, Any]:
    report("finding components", 0, None)
    components = find_components(adjacency)
    landmarks = choose_landmarks(np.diff(adjacency.begins), components, n_landmarks)
    near = measure(adjacency, landmarks, lambda step: report("measuring distances to landmarks", step, None))
    return {"components": components, "landmarks": landmarks, "landmarks.near": near}


def _reported(names: pa.ChunkedArray, report: Report) -> Iterator[str]:
    for number, name in enumerate(in_slices(names)):
        if number % BATCH == 0:
            report("preparing names", number, len(names))
        yield name


def facts_of(
    triples: Sequence[tuple[Any, ...]], aliases: Mapping[str, Sequence[str]] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield triples (head, relation, tail and maybe weight) and names by entity id as batches; weights stay exact."""
    named = aliases or {}
    given = {"id": list(named), "aliases": [list(names) for names in named.values()]}
    try:
        columns = [pa.array(given.get(column.name, [None] * len(named)), column.type) for column in ENTITIES]
        yield pa.record_batch(columns, schema=ENTITIES)
        heads, relations, tails = (pa.array([triple[place] for triple in triples], pa.string()) for place in range(3))
    except UnicodeEncodeError as error:
        raise SourceError(
            f"A name holds half of a character (a lone surrogate): {str(error.object)[:60]!r}. Read the file with "
            "encoding='utf-8'."
        ) from error
    weights = pa.array([float(triple[3]) if len(triple) > 3 else 1.0 for triple in triples], pa.float64())
    yield pa.record_batch([heads, relations, tails, weights], names=TRIPLES.names)
