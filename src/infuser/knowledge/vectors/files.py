r"""Files that hold vectors of entities, read in batches.

| file                   | holds                                                                                |
|------------------------|--------------------------------------------------------------------------------------|
| GloVe, KnowBERT        | id v1 v2 ... per line                                                                |
| word2vec, fastText     | the same behind a line "n dim"                                                       |
| ERNIE                  | entity2vec.vec: v1 \t v2 ... per line; entity2id.txt: how many, then id \t number    |
| .safetensors           | a matrix; ids in a file of their own, or as a JSON list in the metadata under "ids"  |

Text files may be packed (.gz, .zst). An id may hold spaces: the numbers of a row are its last cells. A vector that
cannot be read is an error, since an entity would silently lose it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.files import parse_json
from infuser.knowledge.vectors.store import EntityVectors, VectorBatch, write_vectors
from infuser.progress import ProgressBar, progress_bar
from infuser.tables.blocks import read_blocks
from infuser.words import whole_number

_REAL = ("F64", "F32", "F16", "BF16")
_AT_ONCE = 16_384


class _Line(NamedTuple):
    number: int
    text: bytes


def build_from_file(
    path: str | Path,
    out: str | Path,
    *,
    ids: str | Path | None = None,
    tensor: str | None = None,
    dim: int | None = None,
    scale: bool = True,
    progress: bool = False,
) -> EntityVectors:
    """Write the vectors of a file as a folder, and open it; the other settings are those of `read_vectors`."""
    batches = read_vectors(path, ids=ids, tensor=tensor, dim=dim)
    with progress_bar("reading vectors", unit="vectors", shown=None if progress else False) as bar:
        counted = _counted(batches, bar)
        return write_vectors(counted, out, {"way": "file", "file": Path(path).name}, scale=scale)


def read_vectors(
    path: str | Path, *, ids: str | Path | None = None, tensor: str | None = None, dim: int | None = None
) -> Iterator[VectorBatch]:
    """Yield the vectors of a file.

    `ids` is a file with the ids of the rows, for files without ids; `tensor` names the matrix in a safetensors file
    that has several; `dim` is how many numbers a row of a text file has, if its first row does not say.
    """
    if not Path(path).is_file():
        raise InputError(f"No file at {path}. Check the name.")
    if Path(path).suffix.lower() == ".safetensors":
        return _read_safetensors(path, ids, tensor)
    if tensor is not None:
        raise InputError(f"tensor={tensor!r} is for .safetensors files; {str(path)!r} is read as text.")
    return _read_text(path, None if ids is None else read_ids(ids), dim)


def _counted(batches: Iterator[VectorBatch], bar: ProgressBar) -> Iterator[VectorBatch]:
    for batch in batches:
        yield batch
        bar.advance(len(batch.ids))


def read_ids(path: str | Path) -> list[str]:
    r"""Return the ids of rows: one per line in their order, or as ERNIE has them: how many, then id \t number."""
    lines = [line.decode("utf-8", "surrogateescape") for block in read_blocks(path) for line in block.lines()]
    cells = [line.split("\t") for line in lines if line.strip()]
    if len(cells) > 1 and cells[0] == [str(len(cells) - 1)] and len(cells[1]) > 1:
        del cells[0]
    if not all(len(row) == 2 and row[1].strip().isdecimal() for row in cells):
        return [row[0].strip() for row in cells]
    numbers = np.array([whole_number(row[1].strip()) for row in cells])
    order = np.argsort(numbers, kind="stable")
    wrong = np.flatnonzero(numbers[order] != np.arange(len(order)))
    if len(wrong):
        raise InputError(
            f"{path}: no row has the number {wrong[0]}, or several have it, though there are {len(cells):,} rows. "
            "Number them from 0 without gaps, or give the ids alone, in the order of their vectors."
        )
    return [cells[place][0].strip() for place in order.tolist()]


def _read_text(path: str | Path, ids: list[str] | None, dim: int | None) -> Iterator[VectorBatch]:
    """Yield the rows of a text file; with `ids` its lines hold numbers only."""
    n_rows, said = 0, None
    for block in read_blocks(path):
        stripped = [_Line(number, line.strip()) for number, line in enumerate(block.lines(), start=block.first)]
        lines = [line for line in stripped if line.text]
        if block.first == 1 and (said := _header(lines)):
            dim, lines = dim or said[1], lines[1:]
        if not lines:
            continue
        if dim is None:
            dim = _count_numbers(path, lines[0], with_id=ids is None)
        first, n_rows = n_rows, n_rows + len(lines)
        if ids is None:
            yield _parse(path, lines, dim, with_id=True)
        elif n_rows <= len(ids):  # a file with too many rows is counted to its end, for the message
            yield _parse(path, lines, dim, with_id=False)._replace(ids=ids[first:n_rows])
    if said and said[0] != n_rows:
        raise InputError(f"{path} says that it has {said[0]:,} rows, but it has {n_rows:,}. Is it cut off?")
    if n_rows == 0:
        raise InputError(f"{path} is empty: it holds no vector. A row is an id and its numbers: Q70 0.12 -0.3 ...")
    _check_length(path, n_rows, ids)


def _header(lines: list[_Line]) -> tuple[int, int] | None:
    """Return what a first line "n dim" says, None if it is no such line: the row below must have so many numbers."""
    cells = lines[0].text.split() if lines else []
    if len(cells) != 2 or not all(cell.isdigit() for cell in cells):
        return None
    n_rows, dim = whole_number(cells[0]), whole_number(cells[1])
    return (n_rows, dim) if len(lines) == 1 or len(lines[1].text.split()) >= dim else None


def _count_numbers(path: str | Path, line: _Line, *, with_id: bool) -> int:
    _, cells = _cells(line.text, with_id)
    n_numbers = _n_last_numbers(cells)
    if not n_numbers:
        shown = line.text[:60].decode("utf-8", "replace")
        raise InputError(f"{path}, line {line.number}: no vector in {shown!r}. A row is an id and its numbers.")
    return min(n_numbers, len(cells) - (with_id and b"\t" not in line.text))


def _parse(path: str | Path, lines: list[_Line], dim: int, *, with_id: bool) -> VectorBatch:
    """Return the vectors of some lines: all at once if they are as usual, else one by one."""
    separator = b"\t" if b"\t" in lines[0].text else b" "
    pairs = [line.text.split(separator, 1) if with_id else [b"", line.text] for line in lines]
    vectors = _parse_at_once([pair[1] for pair in pairs], dim) if all(len(pair) == 2 for pair in pairs) else None
    if vectors is None:
        rows = [_parse_line(path, line, dim, with_id) for line in lines]
        pairs, vectors = [[id] for id, _ in rows], np.array([row for _, row in rows], np.float64)
    ids = [_decode(path, line, pair[0]) for line, pair in zip(lines, pairs, strict=True)]
    return VectorBatch(ids, vectors, str(path), [line.number for line in lines], "line")


def _parse_at_once(rows: list[bytes], dim: int) -> NDArray[Any] | None:
    """Return rows of exactly `dim` numbers with one separator each as an array; None if they are anything else."""
    names = [str(place) for place in range(dim)]
    data = b"\n".join(rows)
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            pyarrow.csv.ReadOptions(column_names=names, block_size=len(data) + 1),
            pyarrow.csv.ParseOptions(
                delimiter="\t" if b"\t" in rows[0] else " ", quote_char=False, ignore_empty_lines=False
            ),
            pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float32()), null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


def _parse_line(path: str | Path, line: _Line, dim: int, with_id: bool) -> tuple[bytes, list[float]]:
    id, cells = _cells(line.text, with_id)
    n_numbers = _n_last_numbers(cells)
    if with_id and not id:  # what stands before the numbers is the id; it may hold spaces
        n_numbers = min(n_numbers, len(cells) - 1)
        id = line.text.rsplit(None, n_numbers)[0] if n_numbers else line.text
    elif n_numbers < len(cells):
        n_numbers = -1
    if n_numbers != dim:
        found = "other things than numbers" if n_numbers < 0 else f"{n_numbers} numbers"
        shown = f" behind {id[:60].decode('utf-8', 'replace')!r}" if id else ""
        raise InputError(
            f"{path}, line {line.number}: {found}{shown}, where other rows have {dim} numbers. Mend this row; if its "
            "id ends in a number, put a tab behind the id."
        )
    return id, [float(cell) for cell in cells[len(cells) - dim :]]


def _cells(text: bytes, with_id: bool) -> tuple[bytes, list[bytes]]:
    """Return the id, if a tab ends it, and the other cells."""
    id, tab, rest = text.partition(b"\t") if with_id else (b"", b"", b"")
    return (id.strip(), rest.split()) if tab else (b"", text.split())


def _n_last_numbers(cells: list[bytes]) -> int:
    return next((place for place, cell in enumerate(reversed(cells)) if not _is_number(cell)), len(cells))


def _is_number(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return b"_" not in cell  # Python reads 1_000 as a number, nobody else does


def _decode(path: str | Path, line: _Line, id: bytes) -> str:
    try:
        return id.strip().decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {line.number}: the id {id!r} is not UTF-8. Write the file again as UTF-8."
        ) from error


def _read_safetensors(path: str | Path, ids: str | Path | None, tensor: str | None) -> Iterator[VectorBatch]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:  # NumPy knows no bfloat16
            name = _matrix(path, file, tensor)
            known = _metadata_ids(path, file.metadata() or {}) if ids is None else read_ids(ids)
            matrix = file.get_slice(name)
            n_rows = matrix.get_shape()[0]
            _check_length(path, n_rows, known)
            for first in range(0, n_rows, _AT_ONCE):
                last = min(first + _AT_ONCE, n_rows)
                rows = matrix[first:last].float().numpy()
                yield VectorBatch(known[first:last], rows, str(path), range(first + 1, last + 1))
    except SafetensorError as error:
        raise InputError(f"{path} cannot be read as safetensors ({error}). Fetch or write it again.") from error


def _matrix(path: str | Path, file: Any, wanted: str | None) -> Any:
    """Return the name of the one matrix of a file, or of the wanted one."""
    slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # it is no dict
    found = [name for name, one in slices.items() if len(one.get_shape()) == 2 and one.get_dtype() in _REAL]
    if wanted is not None:
        found = [name for name in found if name == wanted]
    if len(found) != 1:
        held = ", ".join(f"{name} {one.get_dtype()} {tuple(one.get_shape())}" for name, one in slices.items())
        asked = "one matrix" if wanted is None else f"a matrix called {wanted!r}"
        hint = " Say which: tensor=NAME (--tensor)." if len(found) > 1 else ""
        raise InputError(f"{path} does not hold {asked} of real numbers, but: {held or 'nothing'}.{hint}")
    return found[0]


def _metadata_ids(path: str | Path, metadata: dict[str, str]) -> list[str]:
    try:
        ids = parse_json(metadata.get("ids", ""))
    except ValueError:
        ids = None
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
        raise InputError(
            f"{path} does not say whose vectors it holds. Give a file with one id per line in the order of its rows: "
            'ids=FILE (--ids). Or write them into its metadata as a JSON list under "ids".'
        )
    return ids


def _check_length(path: str | Path, n_rows: int, ids: list[str] | None) -> None:
    if ids is not None and len(ids) != n_rows:
        raise InputError(
            f"{path} holds {n_rows:,} vectors, but there are {len(ids):,} ids. Give one id per vector, in the same "
            "order."
        )
