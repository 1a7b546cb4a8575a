"""The folder in which a corpus is counted: each finished part is a file, so a run that was killed can be resumed.

made-with.json                  what the counts are made with
block-00000.npz                 words of a block of the corpus as numbers, with a checksum of the block
words.arrow                     the vocabulary
pairs-00000-0.*.npy             a run: sorted pairs of the blocks from 00000 on
pairs-00000.json                how many runs there are of these blocks, when all are
part-0-999.*.npy                pairs of all blocks, with first words of a range
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from numpy.typing import NDArray

from infuser.files import parse_json, whole_file, write_whole
from infuser.knowledge.counting.shapes import Encoded, PackedPairs
from infuser.knowledge.counting.words import WORDS, Vocabulary, count_words
from infuser.work_folder import WorkFolder

_WORDS = "words.arrow"


@contextmanager
def open_counting_folder(folder: Path, made_with: Mapping[str, Any], *, restart: bool) -> Iterator[CountingFolder]:
    """Lock the folder of a run: a new one, or the one that an earlier run with the same corpus and settings left."""
    opened = CountingFolder(folder)
    with opened.locked():
        opened.begin(made_with, restart=restart)
        yield opened


class CountingFolder(WorkFolder):
    """What a run has counted so far."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, record="made-with.json", parts=("block-*.npz", _WORDS, "pairs-*", "part-*"))

    def remove_counts(self) -> None:
        """Remove what was computed from the blocks."""
        self.remove(*self.parts[1:])

    def remove_blocks(self, first: int) -> None:
        """Remove blocks from this number on, and with them what was computed from all blocks."""
        late = [path.name for path in self.path.glob("block-*.npz") if int(path.stem.partition("-")[2]) >= first]
        if late:
            self.remove_counts()
            self.remove(*late)

    def delete(self) -> None:
        """Delete the folder."""
        with suppress(OSError):
            self.clear()  # the record last: without it the next run would take the rest for somebody else's
            shutil.rmtree(self.path, ignore_errors=True)

    # blocks

    def save_block(self, number: int, sides: Sequence[Encoded], about: Mapping[str, Any]) -> None:
        """Save the words of a block."""
        arrays: dict[str, Any] = {"about": np.frombuffer(json.dumps(about).encode(), np.uint8)}
        arrays["counted"] = _packed(count_words(sides))
        for place, side in enumerate(sides):
            words = pa.table({"word": side.words})
            fields = {"words": _packed(words), "ids": side.ids, "starts": side.starts, "n": np.array(side.n_words)}
            arrays |= {f"{name}_{place}": value for name, value in fields.items()}
        with whole_file(self._block(number), "wb") as file:
            np.savez(file, **arrays)

    def block_about(self, number: int) -> dict[str, Any] | None:
        """Return what is known about a finished block; None if there is none."""
        try:
            with np.load(self._block(number), allow_pickle=False) as arrays:
                about: dict[str, Any] = parse_json(bytes(arrays["about"]))
                return about
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return None

    def read_block(self, number: int) -> tuple[Encoded, ...]:
        """Return the words of a block."""
        with np.load(self._block(number), allow_pickle=False) as arrays:
            return tuple(
                Encoded(
                    _unpacked(arrays[f"words_{place}"])["word"].combine_chunks(),
                    arrays[f"ids_{place}"],
                    arrays[f"starts_{place}"],
                    int(arrays[f"n_{place}"]),
                )
                for place in range(2)
                if f"ids_{place}" in arrays
            )

    def read_block_words(self, number: int) -> pa.Table:
        """Return how often each word is in a block."""
        with np.load(self._block(number), allow_pickle=False) as arrays:
            return _unpacked(arrays["counted"])

    def _block(self, number: int) -> Path:
        return self.path / f"block-{number:05d}.npz"

    # the vocabulary

    def save_words(self, vocabulary: Vocabulary) -> None:
        """Save the vocabulary."""
        write_whole(self.path / _WORDS, _packed(pa.table(list(vocabulary), schema=WORDS)).tobytes())

    def read_words(self) -> Vocabulary:
        """Return the vocabulary."""
        table = _unpacked(np.fromfile(self.path / _WORDS, np.uint8))
        return Vocabulary(table["word"].combine_chunks(), table["left"].to_numpy(), table["right"].to_numpy())

    def has_words(self) -> bool:
        """Return whether the vocabulary is chosen."""
        return (self.path / _WORDS).exists()

    # pairs

    def save_run(self, name: str, run: PackedPairs) -> None:
        """Save counted pairs; where the rows begin is written last."""
        for what in reversed(PackedPairs._fields):
            with self.write_part(f"{name}.{what}.npy", "wb") as file:
                np.save(file, getattr(run, what), allow_pickle=False)

    def read_run(self, name: str) -> PackedPairs:
        """Return counted pairs, mapped from disk."""
        return PackedPairs(
            *(
                np.load(self.path / f"{name}.{what}.npy", mmap_mode="r", allow_pickle=False)
                for what in PackedPairs._fields
            )
        )

    def has_run(self, name: str) -> bool:
        """Return whether these pairs are finished."""
        return (self.path / f"{name}.begins.npy").exists()

    def save_n_runs(self, name: str, n_runs: int) -> None:
        """Record in how many runs the pairs of some blocks are counted."""
        write_whole(self.path / f"{name}.json", json.dumps(n_runs))

    def n_runs(self, name: str) -> int | None:
        """Return how many runs the pairs of some blocks are; None if they are not counted yet."""
        path = self.path / f"{name}.json"
        return int(parse_json(path)) if path.exists() else None


def _packed(table: pa.Table) -> NDArray[np.uint8]:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _unpacked(data: NDArray[np.uint8]) -> pa.Table:
    """Return the table that `_packed` packed."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
        return stream.read_all()
