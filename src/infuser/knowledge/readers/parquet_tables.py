"""Triples and entities from Parquet files, whose columns have names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from infuser.errors import InputError
from infuser.knowledge.facts import Facts
from infuser.knowledge.readers.cells import make_batch
from infuser.knowledge.readers.columns import Kind, kind_of, match_keys
from infuser.tables.skipped import BATCH, Skipped


def read_parquet(path: str | Path, skipped: Skipped, *, kind: Kind | None = None) -> Facts:
    """Yield the triples or entities of a Parquet file; which column is what is known by its name."""
    import pyarrow.parquet

    if not Path(path).is_file():
        raise InputError(f"No file at {path}. Check the name.")
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            found = match_keys(names, kind)
            if found is None:
                raise InputError(
                    f"{path}: the columns {', '.join(names)} do not say which is what. Call them head, relation, tail "
                    "(and weight) or id, label, aliases, description, types, count."
                )
            done = 0
            for rows in file.iter_batches(batch_size=BATCH, columns=list(found.values())):
                cells = {ours: _plain(rows.column(theirs)) for ours, theirs in found.items()}
                batch, faults = make_batch(cells, kind_of(found))
                for row, why in sorted(faults.items()):
                    skipped.add(path, done + row + 1, why, str(rows.slice(row, 1).to_pylist()[0]), unit="row")
                done += rows.num_rows
                yield batch
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet ({error}). Write it again.") from error


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
