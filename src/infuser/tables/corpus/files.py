"""A corpus on disk: its files found, and cut into blocks of whole records.

| format  | files           | a record                                                                        |
|---------|-----------------|---------------------------------------------------------------------------------|
| text    | .txt            | a line: one text, or, of pairs, a text, a tab and the other                     |
| csv     | .csv            | a row; cells may be quoted and hold commas, doubled quotes and line feeds        |
| tsv     | .tsv            | a line with tabs between the cells; a quote is a character like any other        |
| jsonl   | .jsonl .ndjson  | a line with a JSON object                                                       |
| parquet | .parquet        | a row                                                                           |

All but .parquet may be packed as .gz or .zst. The first record of a CSV or TSV file names its columns. Cutting is
cheap and done in one process; what the blocks say is found out by many (`counting.texts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, get_args

from infuser.errors import InputError, did_you_mean
from infuser.tables.blocks import open_stream, unpacked_name
from infuser.tables.corpus.cutting import LineEnds, QuotedEnds, cut_records
from infuser.tables.corpus.headers import check_names, cut_header
from infuser.tables.corpus.parquet_blocks import cut_parquet

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


class CorpusFile(NamedTuple):
    """A file of a corpus and how to read it."""

    path: str
    format: Format


class RawBlock(NamedTuple):
    """Some whole records of a file, not yet read; plain values, so that it can be sent to another process.

    One may be made of any lines: `RawBlock(file, 0, 1, b"".join(lines), header)`, where each line has its end.
    """

    file: CorpusFile
    number: int
    """From 0, over the whole corpus."""
    first: int
    """Line (of a .parquet file: row) of its first record, from 1, for messages."""
    data: bytes
    """The records as they are in the unpacked file; of a .parquet file the wanted columns as an Arrow stream."""
    header: tuple[str, ...] = ()
    """Names of all columns of a CSV or TSV file."""


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


def read_blocks(files: Sequence[CorpusFile], columns: Sequence[str], size: int = 8 << 20) -> Iterator[RawBlock]:
    """Yield a corpus in blocks of about `size` bytes of whole records, the same ones every time.

    `columns` are one or two names; lines of format "text" have no names, so there only their number matters. A record
    longer than `cutting.LONGEST_RECORD` is an error.
    """
    if not 1 <= len(set(columns)) == len(columns) <= 2:
        raise InputError(f"The columns {', '.join(columns) or '(none)'} cannot be read: name one, or two that differ.")
    number = 0
    for file in files:
        with open_stream(file.path) as stream:
            for block in read_stream(file, stream, columns, size):
                yield block._replace(number=number)
                number += 1


def read_stream(file: CorpusFile, stream: BinaryIO, columns: Sequence[str], size: int) -> Iterator[RawBlock]:
    """Yield one file in blocks, from a stream of its unpacked bytes."""
    for number, (first, data, header) in enumerate(_cut(file, stream, columns, size)):
        yield RawBlock(file, number, first, data, header)


def _cut(
    file: CorpusFile, stream: BinaryIO, columns: Sequence[str], size: int
) -> Iterator[tuple[int, bytes, tuple[str, ...]]]:
    """Yield (number of the first record, data, header) of each block of a file."""
    if file.format == "parquet":
        for first, data in cut_parquet(file.path, stream, columns, size):
            yield first, data, ()
        return
    header: tuple[str, ...] = ()
    for first, data in cut_records(file.path, stream, size, QuotedEnds() if file.format == "csv" else LineEnds()):
        if file.format in ("csv", "tsv") and not header:
            header, end = cut_header(file.path, data, quoted=file.format == "csv")
            if header:
                check_names(file.path, header, columns)
            first, data = first + data.count(b"\n", 0, end), data[end:]
        if data:
            yield first, data, header


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
    """Return the format that a file's name tells; None if it tells none."""
    format = _ENDINGS.get(Path(unpacked_name(path)).suffix)
    return None if format == "parquet" and path.suffix.lower() != ".parquet" else format


def _known_endings() -> str:
    return f"{', '.join(_ENDINGS)}, and all but .parquet with .gz or .zst behind"
