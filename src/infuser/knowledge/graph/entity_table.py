"""Labels, aliases, types and descriptions of entities, merged from many batches and laid out as parts of a graph.

called.begins                 (entities + 1) where the names of each entity begin
called.offsets, called.bytes  these names; the first is the label if `labelled` says so, the others are aliases
descriptions.*, types.*       the same for descriptions (one each, maybe empty) and types (numbers into a table)
counts                        how often each entity was met, over all rows
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from infuser.knowledge.arrays import Strings, begins_of
from infuser.tables.skipped import BATCH

Numbers = NDArray[np.int64]


def lay_out_entities(table: pa.Table, numbers: NDArray[Any], n_entities: int) -> dict[str, Any]:
    """Return the parts that hold what these rows (of the schema ENTITIES) say; `numbers` has each row's entity."""
    labelled, labels = _first_of_each(table["label"], numbers)
    described, descriptions = _first_of_each(table["description"], numbers)
    names_of, names = _flat(table["aliases"], numbers)
    called_begins, called = _grouped(
        np.concatenate([labelled, names_of]),
        pa.chunked_array([*labels.chunks, *names.chunks], pa.large_string()),
        n_entities,
    )
    types_begins, types = _grouped(*_flat(table["types"], numbers), n_entities)
    types = types.dictionary_encode().combine_chunks()
    counts = np.zeros(n_entities, np.int64)
    np.add.at(counts, numbers, pc.fill_null(table["count"], 0).to_numpy())
    has_label = np.zeros(n_entities, bool)
    has_label[labelled] = True
    places = np.full(n_entities, -1)
    places[described] = np.arange(len(described))
    all_descriptions = pc.fill_null(descriptions.take(pa.array(places, mask=places < 0)), "")
    return {
        "labelled": has_label,
        "called.begins": called_begins,
        **strings_of(called).parts("called"),
        **strings_of(all_descriptions).parts("descriptions"),
        "types.begins": types_begins,
        "types.codes": types.indices.to_numpy().astype(np.int32),
        **strings_of(types.dictionary).parts("types"),
        "counts": counts,
    }


def names_to_find(parts: dict[str, Any], ids: pa.Array) -> tuple[pa.ChunkedArray, NDArray[np.int32]]:
    """Return by which names the entities are looked for in texts, and the entity of each; by entity.

    An entity without any name is looked for by its id, underscores read as spaces.
    """
    begins = parts["called.begins"]
    n_names = np.diff(begins)
    nameless = np.flatnonzero(n_names == 0)
    from_ids = pc.replace_substring(ids.take(pa.array(nameless)).cast(pa.large_string()), "_", " ")
    owners = np.concatenate([np.repeat(np.arange(len(n_names)), n_names), nameless])
    called = arrow_of(Strings.open(parts, "called"))
    names = _trimmed(pa.chunked_array([called, from_ids], pa.large_string()))
    filled = np.flatnonzero(pc.not_equal(names, "").to_numpy())
    order = filled[np.argsort(owners[filled], kind="stable")]
    return names.take(pa.array(order)), owners[order].astype(np.int32)


def in_slices(strings: pa.ChunkedArray) -> Iterator[str]:
    """Yield strings as Python's, without ever holding all of them."""
    for first in range(0, len(strings), BATCH):
        yield from strings.slice(first, BATCH).to_pylist()


def strings_of(array: pa.Array | pa.ChunkedArray) -> Strings:
    """Return the strings of an Arrow array, none of them null."""
    array = array.cast(pa.large_string())
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) and array.chunks else array
    if not len(array):
        return Strings.of([])
    if array.offset:
        array = pa.concat_arrays([array, array[:0]])
    _, offsets, data = array.buffers()
    begins = np.frombuffer(offsets, np.int64)[: len(array) + 1]
    return Strings(begins, np.frombuffer(data or b"", np.uint8)[: begins[-1]])


def arrow_of(strings: Strings) -> pa.Array:
    """Return strings that lie in memory as an Arrow array."""
    parts = strings.parts("")
    offsets, data = parts[".offsets"], parts[".bytes"]
    return pa.Array.from_buffers(
        pa.large_string(), len(strings), [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    )


def _first_of_each(column: pa.ChunkedArray, numbers: NDArray[Any]) -> tuple[Numbers, pa.ChunkedArray]:
    """Return the entities that have a value which is not blank, ascending, and the first value of each."""
    column = _trimmed(column)
    rows = np.flatnonzero(pc.fill_null(pc.not_equal(column, ""), False).to_numpy())
    owners, first = np.unique(numbers[rows], return_index=True)
    return owners, column.take(pa.array(rows[first]))


def _flat(column: pa.ChunkedArray, numbers: NDArray[Any]) -> tuple[Numbers, pa.ChunkedArray]:
    """Return the values of a column of lists that are not blank, and the entity of each."""
    rows, values, first = [np.zeros(0, np.int64)], [], 0
    for chunk in column.chunks:
        rows.append(pc.list_parent_indices(chunk).to_numpy() + first)
        values.append(pc.list_flatten(chunk))
        first += len(chunk)
    strings = _trimmed(pa.chunked_array(values, pa.string()))
    filled = np.flatnonzero(pc.fill_null(pc.not_equal(strings, ""), False).to_numpy())
    return numbers[np.concatenate(rows)[filled]], strings.take(pa.array(filled))


def _grouped(owners: NDArray[Any], strings: pa.ChunkedArray, n_entities: int) -> tuple[Numbers, pa.ChunkedArray]:
    """Return where the strings of each entity begin, and these: each once, in the order in which they were given."""
    codes = np.concatenate(
        [np.zeros(0, np.int64), *(one.indices.to_numpy() for one in strings.dictionary_encode().chunks)]
    )
    keys = owners.astype(np.int64) * max(len(strings), 1) + codes
    once = np.sort(np.unique(keys, return_index=True)[1])
    order = once[np.argsort(owners[once], kind="stable")]
    begins = begins_of(np.bincount(owners[once].astype(np.int64), minlength=n_entities))
    return begins, strings.take(pa.array(order))


def _trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_trim_whitespace(column.cast(pa.large_string()))
