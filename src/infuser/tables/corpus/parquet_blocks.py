"""Parquet files cut into blocks of rows, of the wanted columns only and never a whole row group at once."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from infuser.errors import InputError
from infuser.tables.corpus.headers import check_names

_MOST_ROWS = 4096
"""Read at once; few enough that a repeated text, which a file stores once, does not grow into gigabytes."""
_READ_AHEAD = 1 << 20


def cut_parquet(path: str, stream: BinaryIO, columns: Sequence[str], size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the number of the first row, from 1, and an Arrow stream of the columns as bytes, about `size` of them."""
    first, rows, n_rows, n_bytes = 1, list[pa.RecordBatch](), 0, 0
    try:
        with pq.ParquetFile(stream, pre_buffer=False, buffer_size=_READ_AHEAD) as file:
            check_schema(path, file.schema_arrow, columns)
            at_once = _rows_at_once(file.metadata, columns, size // 8)
            for batch in file.iter_batches(at_once, columns=list(columns), use_threads=False):
                for part in _parts(_as_bytes(batch, columns), size):
                    if rows and n_bytes + part.nbytes > size:
                        yield first, write_rows(rows)
                        first, rows, n_rows, n_bytes = first + n_rows, [], 0, 0
                    rows.append(part)
                    n_rows, n_bytes = n_rows + part.num_rows, n_bytes + part.nbytes
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet ({str(error).rstrip('.')}). Write it again.") from error
    if rows:
        yield first, write_rows(rows)


def check_schema(path: str, schema: pa.Schema, columns: Sequence[str]) -> None:
    """See that the wanted columns are there and hold texts."""
    check_names(path, schema.names, columns)
    for name in columns:
        _check_type(path, name, schema.field(name).type)


def write_rows(rows: Sequence[pa.RecordBatch]) -> bytes:
    """Return record batches of one schema as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows[0].schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
    return sink.getvalue()


def _as_bytes(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the columns in the wanted order, as bytes: that a file calls them text does not make them UTF-8."""
    cells = [batch.column(name) for name in columns]
    plain = [cell.dictionary_decode() if isinstance(cell, pa.DictionaryArray) else cell for cell in cells]
    return pa.record_batch([cell.cast(pa.large_binary()) for cell in plain], names=list(columns))


def _parts(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices of about `size` bytes."""
    n_rows = max(1, batch.num_rows * size // max(batch.nbytes, size))
    for start in range(0, batch.num_rows, n_rows):
        yield batch.slice(start, n_rows)


def _rows_at_once(metadata: pq.FileMetaData, columns: Sequence[str], size: int) -> int:
    n_rows: int = metadata.num_rows
    n_bytes = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = [group.column(place) for place in range(group.num_columns)]
        n_bytes += sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in columns)
    return max(1, min(_MOST_ROWS, n_rows * size // max(1, n_bytes)))


def _check_type(path: str, name: str, kind: pa.DataType) -> None:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    texts = (
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.null(),
    )
    if value not in texts:
        raise InputError(
            f"The column {name!r} of {path} holds {kind}, not texts. Name another, or write it as a string."
        )
