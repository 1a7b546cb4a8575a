"""A corpus on disk: its files found, and cut into blocks of whole records.

| format  | files           | a record                                                                        |
|---------|-----------------|---------------------------------------------------------------------------------|
| text    | .txt            | a line: one text, or, of pairs, a text, a tab and the other                     |
| csv     | .csv            | a row; cells may be quoted and hold commas, doubled quotes and line feeds        |
| tsv     | .tsv            | a line with tabs between the cells; a quote is a character like any other        |
| jsonl   | .jsonl .ndjson  | a line with a JSON object                                                       |
| parquet | .parquet        | a row                                                                           |

All but .parquet may be packed as .gz or .zst. The first record of a CSV or TSV file names its columns. Cutting is
cheap and done in one process; the blocks are parsed by many (`counting.texts`).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import pyarrow as pa

from infuser.errors import InputError, did_you_mean
from infuser.tables.blocks import Block, named_blocks, read_blocks, suffix_of
from infuser.tables.parse import open_parquet

Format = Literal["text", "csv", "tsv", "jsonl", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)

_ENDINGS: dict[str, Format] = {
    ".txt": "text",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
_TEXTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "null")
_SHOWN = 20
_MOST_ROWS = 4096
"""Read at once; few enough that a repeated text, which a file stores once, does not grow into gigabytes."""
_READ_AHEAD = 1 << 20


class CorpusFile(NamedTuple):
    """A file of a corpus and how to read it."""

    path: str
    format: Format


class CorpusBlock(NamedTuple):
    """Some whole records of a file, not yet parsed; plain values, so that it can be sent to another process.

    One may be made of any lines: `CorpusBlock(file, 0, Block(1, b"".join(lines)))`, where each line has its end.
    """

    file: CorpusFile
    number: int
    """From 0, over the whole corpus."""
    block: Block
    """The records as they are in the unpacked file; of a .parquet file the wanted columns as an Arrow stream."""


def find_files(paths: Sequence[str | Path], format: Format | None = None) -> list[CorpusFile]:
    """Return the files of a corpus; a folder stands for all files below it whose ending is known, but hidden ones.

    With a `format` endings do not matter: then a folder stands for all its files that are not hidden.
    """
    if format is not None and format not in FORMATS:
        hint = did_you_mean(format, FORMATS)
        raise InputError(f"No format is called {format!r}.{hint} Known: {', '.join(FORMATS)}.")
    if not paths:
        raise InputError(f"No corpus is given. Name files ({_known_endings()}) or folders.")
    found: list[CorpusFile] = []
    seen: dict[Path, str] = {}
    for given in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        for path in _below(given, format) if given.is_dir() else [given]:
            if not path.is_file():
                problem = "is not a file that can be read twice" if path.exists() else "does not exist"
                raise InputError(f"{path} {problem}. Check the name; it starts from {Path.cwd()}.")
            kind = format or format_of(path)
            if kind is None:
                raise InputError(
                    f"Cannot tell the format of {path} from its name. Known endings: {_known_endings()}. Name the "
                    f"format ({', '.join(FORMATS)}) or rename the file."
                )
            same = path.resolve()
            if same in seen:
                raise InputError(
                    f"{path} is given twice (as {seen[same]}), so its texts would count twice. Name it once."
                )
            seen[same] = str(path)
            found.append(CorpusFile(str(path), kind))
    return found


def read_corpus(files: Sequence[CorpusFile], columns: Sequence[str], size: int = 8 << 20) -> Iterator[CorpusBlock]:
    """Yield a corpus in blocks of about `size` bytes of whole records, the same ones every time.

    `columns` are one or two names; lines of format "text" have no names, so there only their number matters. A record
    longer than `blocks.LONGEST_RECORD` is an error.
    """
    if not 1 <= len(set(columns)) == len(columns) <= 2:
        raise InputError(f"The columns {', '.join(columns) or '(none)'} cannot be read: name one, or two that differ.")
    number = 0
    for file in files:
        for block in read_file(file, columns, size):
            yield CorpusBlock(file, number, block)
            number += 1


def read_file(file: CorpusFile, columns: Sequence[str], size: int, source: Any = None) -> Iterator[Block]:
    """Yield one file in blocks, from disk or from a `source` that holds its bytes."""
    if file.format == "parquet":
        yield from _parquet_blocks(file.path, columns, size, source)
    elif file.format in ("text", "jsonl"):
        yield from read_blocks(file.path, size, source=source)
    else:
        for block in named_blocks(file.path, read_blocks(file.path, size, format=file.format, source=source)):
            check_names(file.path, block.names, columns)
            if block.data:
                yield block


def check_names(path: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise InputError unless each wanted column is there, once."""
    for name in wanted:
        if names.count(name) == 1:
            continue
        listed = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
        if name in names:
            raise InputError(f"{path} has {names.count(name)} columns called {name!r} ({listed}). Rename the others.")
        raise InputError(f"{path} has no column {name!r}.{did_you_mean(name, names)} Its columns: {listed}.")


def check_schema(path: str, schema: pa.Schema, columns: Sequence[str]) -> None:
    """Raise InputError unless the wanted columns are there and hold texts."""
    check_names(path, schema.names, columns)
    for name in columns:
        kind = schema.field(name).type
        if str(kind.value_type if pa.types.is_dictionary(kind) else kind) not in _TEXTS:
            raise InputError(
                f"The column {name!r} of {path} holds {kind}, not texts. Name another, or write it as a string."
            )


def write_rows(rows: Sequence[pa.RecordBatch]) -> bytes:
    """Return record batches of one schema as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows[0].schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
    return sink.getvalue()


def _parquet_blocks(path: str, columns: Sequence[str], size: int, source: Any) -> Iterator[Block]:
    """Yield rows of a Parquet file as Arrow streams of about `size` bytes; never a whole row group at once."""
    first, rows, n_rows, n_bytes = 1, list[pa.RecordBatch](), 0, 0
    with open_parquet(path, source, pre_buffer=False, buffer_size=_READ_AHEAD) as file:
        check_schema(path, file.schema_arrow, columns)
        at_once = _rows_at_once(file.metadata, columns, size // 8)
        for batch in file.iter_batches(at_once, columns=list(columns), use_threads=False):
            for part in _parts(_as_bytes(batch, columns), size):
                if rows and n_bytes + part.nbytes > size:
                    yield Block(first, write_rows(rows))
                    first, rows, n_rows, n_bytes = first + n_rows, [], 0, 0
                rows.append(part)
                n_rows, n_bytes = n_rows + part.num_rows, n_bytes + part.nbytes
    if rows:
        yield Block(first, write_rows(rows))


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


def _rows_at_once(metadata: Any, columns: Sequence[str], size: int) -> int:
    n_rows: int = metadata.num_rows
    n_bytes = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = [group.column(place) for place in range(group.num_columns)]
        n_bytes += sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in columns)
    return max(1, min(_MOST_ROWS, n_rows * size // max(1, n_bytes)))


def _below(folder: Path, format: Format | None) -> list[Path]:
    paths = [path for path in sorted(folder.rglob("*")) if not _hidden(path.relative_to(folder)) and path.is_file()]
    wanted = [path for path in paths if format or format_of(path)]
    if not wanted:
        others = f" ({paths[0].name}, ...)" if paths else ""
        raise InputError(
            f"The folder {folder} holds no file of a corpus, but {len(paths):,} others{others}. Known endings: "
            f"{_known_endings()}. Name the format to read files that end otherwise."
        )
    return wanted


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def format_of(path: Path) -> Format | None:
    """Return the format that a file's name stands for, None if for none."""
    format = _ENDINGS.get(suffix_of(path))
    return None if format == "parquet" and path.suffix.lower() != ".parquet" else format


def _known_endings() -> str:
    return f"{', '.join(_ENDINGS)}, and all but .parquet with .gz or .zst behind"
