"""The columns of a table: which is what, by the names in its header or by place, and their cells as checked facts.

Rows that cannot be used come with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infuser.errors import InputError
from infuser.knowledge.facts import ENTITIES, TRIPLES
from infuser.words import listed

Kind = Literal["triples", "entities"]
SCHEMAS: dict[Kind, pa.Schema] = {"triples": TRIPLES, "entities": ENTITIES}
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_WHOLE = r"^\s*\d{1,18}\s*$"
IDS = ("id", "head", "tail")
KEYS = (*IDS, "label", "aliases")
"""What is looked up or looked for in texts; relations and descriptions are only shown."""

Faults = dict[int, str]
"""Rows that cannot be used, by their place, and what is wrong with each; the first reason counts."""

_NAMES: dict[Kind, dict[str, tuple[str, ...]]] = {
    "triples": {
        "head": ("head", "subject", "subj", "h", "s", "start", "source", "from", "head_id", "subject_id"),
        "relation": ("relation", "predicate", "rel", "r", "p", "property", "edge", "relation_id", "predicate_id"),
        "tail": ("tail", "object", "obj", "t", "o", "end", "target", "to", "tail_id", "object_id"),
        "weight": ("weight", "score", "confidence", "w"),
    },
    "entities": {
        "id": ("id", "entity", "entity_id", "qid", "mid", "curie"),
        "label": ("label", "name", "title", "text"),
        "aliases": ("aliases", "alias", "alternatives", "synonyms", "alternate_names"),
        "description": ("description", "definition", "gloss", "comment"),
        "types": ("types", "type", "category", "categories"),
        "count": ("count", "frequency", "freq", "n_links"),
    },
}
NEEDED: dict[Kind, tuple[str, ...]] = {"triples": ("head", "relation", "tail"), "entities": ("id",)}
"""What every row must have."""

_LETTERS = {"h": "head", "r": "relation", "t": "tail", "w": "weight", "-": ""}


class Layout(NamedTuple):
    """What the columns of one table hold."""

    kind: Kind
    columns: tuple[str, ...]
    """Our name of each column in turn, "" for columns that are not read."""
    header: bool = False
    """Whether the first line holds names."""
    n_optional: int = 0
    """So many of the last columns may be missing in a row."""


def match_names(names: Sequence[str], kind: Kind | None = None) -> Layout | None:
    """Return the layout of a header's names, or None when they are not names that we know."""
    plain = [name.strip().casefold().replace(" ", "_") for name in names]
    kinds: tuple[Kind, ...] = (kind,) if kind else ("triples", "entities")
    for tried in kinds:
        columns = [""] * len(names)
        for ours, theirs in _NAMES[tried].items():
            found = next((plain.index(name) for name in theirs if name in plain), None)
            if found is not None:
                columns[found] = ours
        enough = 1 if tried == "triples" else 2  # an id alone says nothing, and may be a word of the data
        if all(name in columns for name in NEEDED[tried]) and sum(map(bool, columns)) >= enough:
            return Layout(tried, tuple(columns), header=True)
    return None


def match_keys(keys: Sequence[str], kind: Kind | None = None) -> dict[str, str] | None:
    """Return {our name: key} for the keys of a JSON object or the columns of a Parquet file, or None."""
    layout = match_names(keys, kind)
    return layout and {ours: key for ours, key in zip(layout.columns, keys, strict=True) if ours}


def kind_of(names: Mapping[str, str]) -> Kind:
    """Return what kind of table has these columns, by our names."""
    return "triples" if "head" in names else "entities"


def choose_layout(
    lines: Sequence[Sequence[str]],
    where: str,
    *,
    kind: Kind | None,
    order: str,
    columns: Sequence[str],
    header: bool | None,
) -> Layout:
    """Return the layout of a table from the cells of its first lines and what the caller says about it."""
    if columns:
        return _named(tuple(columns), where, kind, header=bool(header))
    if header is not False and (found := match_names(lines[0], kind)):
        return found
    if header:
        raise InputError(
            f"{where}: the header {', '.join(lines[0])} does not say which column is what. Call them head, relation, "
            "tail (and weight) or id, label, aliases, description, types, count; or name them in order with columns=."
        )
    widths = Counter(len(cells) for cells in lines if len(cells) > 1)
    if kind is None:
        narrow = bool(widths) and widths.most_common(1)[0][0] == 2
        kind = "entities" if narrow and order == "hrt" else "triples"
    if kind == "triples":
        letters = _letters(order)
        if len(letters) == 3:
            letters.append("weight")
        return Layout("triples", tuple(letters), n_optional=int(len(letters) == 4 and letters[3] == "weight"))
    width = min(widths.most_common(1)[0][0] if widths else 2, len(ENTITIES))
    return Layout("entities", tuple(ENTITIES.names[:width]))


def _letters(order: str) -> list[str]:
    if not set(order) <= set(_LETTERS) or any(order.count(letter) != 1 for letter in "hrt") or order.count("w") > 1:
        raise InputError(
            f"{order!r} is no order of columns. Write h (head), r (relation) and t (tail) once each as they stand in "
            "the file, w for a weight and - for a column that is not read: 'hrt', 'rht', 'hrtw', 'r-ht'."
        )
    return [_LETTERS[letter] for letter in order]


def _named(columns: tuple[str, ...], where: str, kind: Kind | None, *, header: bool) -> Layout:
    named = [name for name in columns if name and name != "-"]
    kinds: tuple[Kind, ...] = (kind,) if kind else ("triples", "entities")
    for tried in kinds:
        if set(NEEDED[tried]) <= set(named) <= set(_NAMES[tried]) and len(set(named)) == len(named):
            return Layout(tried, tuple("" if name == "-" else name for name in columns), header)
    raise InputError(
        f"{where}: columns named {listed(columns)} are neither triples ({', '.join(TRIPLES.names)}) nor entities "
        f"({', '.join(ENTITIES.names)}). Use these names, each once, and - for a column that is not read."
    )


def make_batch(
    cells: Mapping[str, pa.Array], kind: Kind, faults: Faults | None = None
) -> tuple[pa.RecordBatch, Faults]:
    """Return the facts of a table's columns (by our names; binary, string, number or list) and the rows left out.

    `faults` are rows that are known to be bad already.
    """
    n_rows = len(next(iter(cells.values())))
    faults = {} if faults is None else faults
    schema = SCHEMAS[kind]
    columns: list[pa.Array] = []
    for field in schema:
        array = cells.get(field.name)
        if array is None:
            column = (
                pa.repeat(pa.scalar(1.0, pa.float32()), n_rows)
                if field.name == "weight"
                else pa.nulls(n_rows, field.type)
            )
        elif field.name == "weight":
            column = _weights(array, faults)
        elif field.name == "count":
            column = _counts(array, faults)
        elif pa.types.is_list(field.type):
            column = _lists(array, field.name, faults)
        else:
            column = _texts(array, field.name, faults, needed=field.name in NEEDED[kind])
        columns.append(column)
    if faults:
        keep = all_but(faults, n_rows)
        columns = [column.filter(keep) for column in columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema), faults


def all_but(faults: Faults, n_rows: int) -> pa.Array:
    """Return which rows can be used."""
    keep = np.ones(n_rows, dtype=bool)
    keep[list(faults)] = False
    return pa.array(keep)


def note(faults: Faults, mask: Any, why: str) -> None:
    """Enter the rows where `mask` is true."""
    for row in np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False)):
        faults.setdefault(int(row), why)


def decoded(array: pa.Array, name: str, faults: Faults) -> pa.Array:
    """Return a column as strings; cells that are not UTF-8 become null and a fault."""
    try:
        return array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not (pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)):
            raise
    texts: list[str | None] = []
    for row, cell in enumerate(array.to_pylist()):
        try:
            texts.append(None if cell is None else cell.decode())
        except UnicodeDecodeError:
            texts.append(None)
            faults.setdefault(row, f"the {name} is not UTF-8")
    return pa.array(texts, pa.string())


def note_nulls(texts: pa.Array, name: str, faults: Faults, owners: Any = None) -> None:
    """Enter the rows whose text holds a null character, which no table of names can keep.

    `owners` has the row of each text, where a row has several.
    """
    data = texts.buffers()[2]
    if data is None or np.frombuffer(data, np.uint8).all():
        return
    found = pc.match_substring(texts, "\0").fill_null(False).to_numpy(zero_copy_only=False)
    for place in np.flatnonzero(found):
        faults.setdefault(int(place if owners is None else owners[place]), f"the {name} holds a null character")


def _texts(array: pa.Array, name: str, faults: Faults, *, needed: bool) -> pa.Array:
    texts = decoded(array, name, faults)
    if name in KEYS:
        note_nulls(texts, name, faults)
    if name in IDS:
        note(faults, pc.utf8_is_space(texts), f"the {name} is blank")
    if pc.min(pc.binary_length(texts)).as_py() and not texts.null_count:
        return texts
    empty = pc.or_(pc.is_null(texts), pc.equal(texts, "").fill_null(True))
    if needed:
        note(faults, empty, f"the {name} is empty")
        return texts
    return pc.if_else(empty, pa.scalar(None, pa.string()), texts)


def _numbers(array: pa.Array, name: str, kind: pa.DataType, pattern: str, faults: Faults) -> pa.Array:
    """Return a column as numbers; empty cells are null, cells that are no number are null and a fault."""
    if not (pa.types.is_binary(array.type) or pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        if pa.types.is_integer(kind) and pa.types.is_floating(array.type):  # what pandas makes of counts with gaps
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        return array.cast(kind, safe=False)
    texts = decoded(array, name, faults)
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        wrong = pc.invert(pc.match_substring_regex(texts, pattern))
        note(faults, wrong, f"the {name} is not a number")
        return pc.utf8_trim_whitespace(pc.if_else(wrong, pa.scalar(None, pa.string()), texts)).cast(kind)


def _weights(array: pa.Array, faults: Faults) -> pa.Array:
    weights = _numbers(array, "weight", pa.float32(), _NUMBER, faults).fill_null(1.0)
    inside = pc.and_(pc.greater(weights, 0.0), pc.less_equal(weights, 1.0))  # false for not-a-number as well
    if not pc.all(inside).as_py():
        note(faults, pc.invert(inside), "the weight is not above 0 and up to 1")
    return weights


def _counts(array: pa.Array, faults: Faults) -> pa.Array:
    counts = _numbers(array, "count", pa.int64(), _WHOLE, faults)
    note(faults, pc.less(counts, 0), "the count is below 0")
    return counts


def _lists(array: pa.Array, name: str, faults: Faults) -> pa.Array:
    """Return lists of names from lists, or from texts in which "|" stands between names; empty names are left out."""
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.list_(pa.string()))
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        lists = array.cast(pa.list_(pa.string()))
    else:
        lists = pc.split_pattern(decoded(array, name, faults), "|")
    items = pc.utf8_trim_whitespace(pc.list_flatten(lists))
    full = pc.greater(pc.binary_length(items), 0).fill_null(False)
    owners = pc.list_parent_indices(lists).filter(full).to_numpy(zero_copy_only=False)
    items = items.filter(full)
    if name in KEYS:
        note_nulls(items, name, faults, owners)
    return gather(owners, items, len(array))


def gather(owners: Any, items: pa.Array, n_rows: int) -> pa.Array:
    """Return one list per row from items and their rows (ascending); rows without any are null."""
    sizes = np.bincount(owners, minlength=n_rows) if len(owners) else np.zeros(n_rows, dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=pa.array(sizes == 0))
