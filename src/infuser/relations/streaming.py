"""Features of any number of texts in one file: written as they are read, opened as a memory map.

Memory stays that of a few batches, however many texts there are; the file takes 4 bytes per number (for MiniLM 1.7 KB
per triple). It is an ordinary .npy file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from infuser.files import whole_file
from infuser.relations.examples import RelationText
from infuser.relations.features import Features, SpanReader


def write_features(
    reader: SpanReader, texts: Iterable[RelationText], path: str | Path, *, progress: bool = False
) -> Features:
    """Write the features of all triples of some texts to `path` (.npy), and return them as a memory map.

    Texts may be an iterator without a length. Which triples were readable is kept beside it, in `NAME.readable.npy`.
    """
    path = Path(path)
    n_rows = 0
    readable: list[NDArray[np.bool_]] = []
    with whole_file(path, "wb") as file:
        _write_header(file, (0, *reader.shape))
        body = file.tell()
        for _, of_some in reader.stream(texts, progress=progress):
            file.write(np.ascontiguousarray(of_some.values, "<f4").tobytes())
            readable.append(of_some.readable)
            n_rows += len(of_some.readable)
        file.seek(0)
        _write_header(file, (n_rows, *reader.shape))
        assert file.tell() == body  # NumPy leaves room for the first axis to grow
        with whole_file(_beside(path), "wb") as marks:
            np.save(marks, np.concatenate(readable) if readable else np.zeros(0, bool), allow_pickle=False)
    return open_features(path)


def open_features(path: str | Path) -> Features:
    """Open the features that `write_features` wrote, without reading them into memory."""
    values = np.load(path, mmap_mode="r", allow_pickle=False)
    return Features(values, np.load(_beside(Path(path)), allow_pickle=False))


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}.readable.npy")


def _write_header(file: IO[bytes], shape: tuple[int, ...]) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
