"""The folder in which a corpus is counted: whatever is finished is a file there, so a run that was killed goes on.

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
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.files import held, whole_file, write_whole
from infuser.knowledge.counting.shapes import Encoded, Run
from infuser.knowledge.counting.words import WORDS, Vocabulary, count_words

_MADE_WITH, _WORDS = "made-with.json", "words.arrow"


@contextmanager
def open_counting_folder(folder: Path, made_with: Mapping[str, Any], *, restart: bool) -> Iterator[CountingFolder]:
    """Hold the folder of a run: a new one, or the one that an earlier run with the same corpus and settings left."""
    made_with = json.loads(json.dumps(made_with))
    with ExitStack() as holding:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            holding.enter_context(held(folder))
        except BlockingIOError as error:
            raise InputError(f"Another process is counting in {str(folder)!r}. Wait for it.") from error
        except OSError as error:
            raise InputError(f"Cannot write {str(folder)!r}: {error}. Choose a place you may write to.") from error
        place = CountingFolder(folder)
        place.begin(made_with, restart=restart)
        yield place


class CountingFolder:
    """What a run has finished so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, made_with: Mapping[str, Any], *, restart: bool) -> None:
        """Keep what an earlier run with the same corpus and settings finished; refuse what others left."""
        path = self.folder / _MADE_WITH
        others = [entry.name for entry in self.folder.iterdir() if entry.suffix != ".part"]
        if others and not path.exists():
            raise InputError(
                f"{str(self.folder)!r} is where the corpus would be counted, but it holds other files "
                f"({', '.join(sorted(others)[:3])}). Choose another --out, or remove it."
            )
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else made_with
        differing = [name for name in made_with if before.get(name) != made_with[name]]
        begun = self.folder / "block-00000.npz"
        if differing and begun.exists() and not restart:  # a run that finished nothing binds nobody
            raise InputError(
                f"{str(self.folder)!r} holds an unfinished build with other {' and other '.join(differing)}. Go on "
                "with the settings it was begun with, or start anew with --restart (restart=True)."
            )
        if differing or restart:
            self.forget("[!m]*")  # all but what it was made with, which is written anew at last
        self.forget(".*.part")  # what a killed process was writing
        write_whole(path, json.dumps(made_with, indent=1))

    def forget(self, pattern: str) -> None:
        """Remove what was finished."""
        for path in list(self.folder.glob(pattern)):
            path.unlink()

    def forget_counts(self) -> None:
        """Remove what was made of the blocks."""
        for pattern in (_WORDS, "pairs-*", "part-*"):
            self.forget(pattern)

    def forget_blocks(self, first: int) -> None:
        """Remove blocks from this number on, and with them what was made of all blocks."""
        late = [path for path in self.folder.glob("block-*.npz") if int(path.stem.partition("-")[2]) >= first]
        if late:
            self.forget_counts()
        for path in late:
            path.unlink()

    def remove(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.folder, ignore_errors=True)

    # blocks

    def save_block(self, number: int, sides: Sequence[Encoded], about: Mapping[str, Any]) -> None:
        """Keep the words of a block."""
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
                about: dict[str, Any] = json.loads(bytes(arrays["about"]))
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
        return self.folder / f"block-{number:05d}.npz"

    # the vocabulary

    def save_words(self, vocabulary: Vocabulary) -> None:
        """Keep the vocabulary."""
        write_whole(self.folder / _WORDS, _packed(pa.table(list(vocabulary), schema=WORDS)).tobytes())

    def read_words(self) -> Vocabulary:
        """Return the vocabulary."""
        table = _unpacked(np.fromfile(self.folder / _WORDS, np.uint8))
        return Vocabulary(table["word"].combine_chunks(), table["left"].to_numpy(), table["right"].to_numpy())

    def has_words(self) -> bool:
        """Tell whether the vocabulary is chosen."""
        return (self.folder / _WORDS).exists()

    # pairs

    def save_run(self, name: str, run: Run) -> None:
        """Keep counted pairs; where the rows begin is written last."""
        for what in reversed(Run._fields):
            with whole_file(self.folder / f"{name}.{what}.npy", "wb") as file:
                np.save(file, getattr(run, what), allow_pickle=False)

    def read_run(self, name: str) -> Run:
        """Return counted pairs, mapped from disk."""
        return Run(*(np.load(self.folder / f"{name}.{what}.npy", mmap_mode="r") for what in Run._fields))

    def has_run(self, name: str) -> bool:
        """Tell whether these pairs are there."""
        return (self.folder / f"{name}.begins.npy").exists()

    def save_n_runs(self, name: str, n_runs: int) -> None:
        """Note that the pairs of some blocks are counted, in so many runs."""
        write_whole(self.folder / f"{name}.json", json.dumps(n_runs))

    def n_runs(self, name: str) -> int | None:
        """Return how many runs the pairs of some blocks are; None if they are not counted yet."""
        path = self.folder / f"{name}.json"
        return int(json.loads(path.read_text())) if path.exists() else None


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
