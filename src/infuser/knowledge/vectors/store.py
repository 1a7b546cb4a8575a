"""Entity vectors: a folder mapped from disk, of which only the wanted rows are read.

ids, ids.keys, ids.rows   id <-> row; a row is an entity's place in the order in which they came
vectors                   (entities, dim) float32
further parts             what is needed to make more of them in the same way, see `linking.description_vectors`
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from infuser.errors import InputError, SourceError
from infuser.files import naming_full_disks
from infuser.knowledge.arrays import key_in, number_strings
from infuser.knowledge.artifact import Folder, Parts, check_place, whole, write_folder

KIND = "vectors"
Floats = NDArray[np.float32]

_BATCH = 16_384
_OWN = ("ids", "ids.keys", "ids.rows", "vectors")


class VectorBatch(NamedTuple):
    """Some entities with their vectors, as readers yield them."""

    ids: Sequence[str]
    vectors: NDArray[Any]  # (entities, dim)
    origin: str = ""
    """The file they come from, for messages."""
    numbers: Sequence[int] = ()
    """The line or row of each in it."""
    unit: str = "row"


class EntityVectors:
    """Vectors of entities, in memory or mapped from a folder; a folder may be followed by rows in memory."""

    def __init__(self, pieces: Sequence[Parts | Path], about: Mapping[str, Any], digest: str = "") -> None:
        self._pieces: list[Parts] = [Folder(piece, KIND) if isinstance(piece, Path) else piece for piece in pieces]
        self._begins = np.cumsum([0, *(len(piece["vectors"]) for piece in self._pieces)])
        self.about = dict(about)
        """How they were made, `n_entities`, `dim`, and whether they were `scaled`."""
        self.digest = digest
        """Of the folder they were opened from; empty for vectors in memory."""
        self.dim: int = self.about["dim"]

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open a folder that `save` or `write_vectors` wrote; its rows are read from disk when they are used."""
        opened = Folder(folder, KIND)
        return cls([opened], opened.about, opened.digest)

    @classmethod
    def of(
        cls, ids: Sequence[str], vectors: ArrayLike, about: Mapping[str, Any] | None = None, *, scale: bool = True
    ) -> Self:
        """Hold these vectors, (entities, dim), in memory; `scale` gives each the length sqrt(dim), zeros stay zero."""
        batches = list(_checked(_cut(ids, vectors), scale))
        rows = np.concatenate([batch.vectors for batch in batches])
        return cls([_parts(ids, rows)], _about(about or {"way": "memory"}, rows, scale))

    def save(self, folder: str | Path) -> Path:
        """Write everything into a folder, in place of older vectors that lie there."""
        write_vectors(self._batches(), folder, self.about, scale=False, further=self.further)
        return Path(folder)

    def __len__(self) -> int:
        return int(self._begins[-1])

    @property
    def further(self) -> dict[str, NDArray[Any]]:
        """The parts that are needed to make more of them."""
        first = self._pieces[0]
        return {name: whole(first[name]) for name in first if name not in _OWN}

    def id_of(self, row: int) -> str:
        """Return the entity of a row."""
        self._check_rows(np.array([row]))
        place = int(np.searchsorted(self._begins, row, side="right")) - 1
        piece = self._pieces[place]
        id: str = piece["ids"].restore_key(int(piece["ids.keys"][row - self._begins[place]]))
        return id

    def rows(self, ids: Iterable[str]) -> NDArray[np.int64]:
        """Return the rows of entities, -1 for those that have no vector."""
        ids = list(ids)
        rows = np.full(len(ids), -1, np.int64)
        for piece, begin in zip(self._pieces, self._begins[:-1].tolist(), strict=True):
            keys = np.array([key_in(piece["ids"], id) for id in ids], np.int64)
            known = keys >= 0
            rows[known] = piece["ids.rows"][keys[known]] + begin
        return rows

    def take(self, rows: ArrayLike) -> Floats:
        """Return the vectors of these rows, (rows, dim); nothing else is read from disk."""
        asked = np.asarray(rows, np.int64).reshape(-1)
        self._check_rows(asked)
        if len(self._pieces) == 1:
            only: Floats = self._pieces[0]["vectors"][asked]
            return only
        taken = np.empty((len(asked), self.dim), np.float32)
        places = np.searchsorted(self._begins, asked, side="right") - 1
        for number, piece in enumerate(self._pieces):
            here = places == number
            taken[here] = piece["vectors"][asked[here] - self._begins[number]]
        return taken

    def fingerprint(self) -> str:
        """Return the folder's digest, or one over a spread sample of vectors in memory."""
        if self.digest:
            return self.digest
        rows = np.unique(np.linspace(0, max(len(self) - 1, 0), min(len(self), 1000)).astype(np.int64))
        told = hashlib.sha256(repr((len(self), self.dim, [self.id_of(row) for row in rows.tolist()])).encode())
        told.update(self.take(rows).tobytes())
        return told.hexdigest()

    def with_more(self, ids: Sequence[str], vectors: ArrayLike) -> EntityVectors:
        """Return these vectors and further ones behind them; the new ones are scaled if the old ones were."""
        known = np.flatnonzero(self.rows(ids) >= 0)
        if len(known):
            raise InputError(
                f"{len(known):,} of {len(ids):,} new entities have a vector already; the first is {ids[known[0]]!r}. "
                "Leave them out, or give the new ones ids of their own."
            )
        new = EntityVectors.of(ids, vectors, scale=self.about["scaled"])
        if new.dim != self.dim:
            raise InputError(
                f"The new vectors have {new.dim} numbers each, the old ones {self.dim}. Make them in the same way, "
                "with the same model and settings."
            )
        rows, all_ids, kept = new.take(np.arange(len(new))), list(ids), self._pieces
        if not isinstance(kept[-1], Folder):  # rows in memory stay one piece
            begin, kept = int(self._begins[-2]), kept[:-1]
            rows = np.concatenate([self.take(np.arange(begin, len(self))), rows])
            all_ids = [*(self.id_of(row) for row in range(begin, len(self))), *all_ids]
        last = _parts(all_ids, rows, {} if kept else self.further)
        return EntityVectors([*kept, last], {**self.about, "n_entities": len(self) + len(new)})

    def nearest(self, row: int, n: int = 10) -> list[tuple[str, float]]:
        """Return the entities whose vectors point most nearly where this one does, with their cosines."""
        [wanted] = self.take([row])
        cosines = np.concatenate([_cosines(self.take(np.arange(*ends)), wanted) for ends in _ranges(len(self))])
        cosines[row] = -np.inf
        best = np.argsort(-cosines, kind="stable")[: min(n, len(self) - 1)]
        return [(self.id_of(place), float(cosines[place])) for place in best.tolist()]

    def _batches(self) -> Iterator[VectorBatch]:
        for first, last in _ranges(len(self)):
            yield VectorBatch([self.id_of(row) for row in range(first, last)], self.take(np.arange(first, last)))

    def _check_rows(self, rows: NDArray[np.int64]) -> None:
        wrong = rows[(rows < 0) | (rows >= len(self))]
        if len(wrong):
            hint = " An entity without a vector has the row -1; leave it out." if wrong[0] == -1 else ""
            raise SourceError(f"There is no row {wrong[0]} among the {len(self):,} of these vectors.{hint}")

    def __reduce__(self) -> tuple[Any, ...]:  # another process opens the folder itself
        pieces = [piece.path if isinstance(piece, Folder) else piece for piece in self._pieces]
        return type(self), (pieces, self.about, self.digest)


def write_vectors(
    batches: Iterable[VectorBatch],
    folder: str | Path,
    about: Mapping[str, Any],
    *,
    scale: bool = True,
    further: Mapping[str, Any] | None = None,
) -> EntityVectors:
    """Write vectors as a folder, batch by batch, and open it; only their ids are held in memory.

    `scale` gives each the length sqrt(dim), zeros stay zero. `about` records how they were made,
    `further` holds parts that their maker wants to keep beside them.
    """
    folder = Path(folder)
    check_place(folder, KIND)
    ids: list[str] = []
    dim = 0
    with naming_full_disks(folder), nameless_file(folder) as file:
        for batch in _checked(batches, scale):
            ids += batch.ids
            dim = batch.vectors.shape[1]
            file.write(batch.vectors.data)
        file.flush()
        vectors = np.memmap(file, np.float32, "r", shape=(len(ids), dim))
        write_folder(folder, KIND, _parts(ids, vectors, further), **_about(about, vectors, scale))
    return EntityVectors.open(folder)


def nameless_file(folder: Path, n_bytes: int = 0) -> IO[bytes]:
    """Return a file on the disk of a folder that is gone when it is closed, or when the process ends.

    With `n_bytes` its space is taken at once: a mapped file that runs out of it later would kill the process.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        file = tempfile.TemporaryFile(dir=folder.parent)  # noqa: SIM115  # the caller closes it
        if n_bytes and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        return file
    except OSError as error:
        raise InputError(f"Cannot write {str(folder)!r}: {error}. Choose a place you may write to.") from error


def _checked(batches: Iterable[VectorBatch], scale: bool) -> Iterator[VectorBatch]:
    """Yield batches of float32 that can be kept: of one dimension, finite, every entity once, at least one."""
    seen: set[str] = set()
    dim = 0
    for batch in batches:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, an error below
            vectors = np.ascontiguousarray(batch.vectors, np.float32)
        dim = dim or vectors.shape[1]
        if vectors.shape[1] != dim:
            raise InputError(f"{_place(batch, 0)}: vectors of {vectors.shape[1]} numbers behind others of {dim}.")
        _check_finite(batch, vectors)
        for row, id in enumerate(batch.ids):
            if id in seen or not id.strip():
                why = f"{id!r} has a vector already" if id in seen else "an entity has a blank id"
                raise InputError(f"{_place(batch, row)}: {why}. Every entity has one id and one vector; leave one out.")
            seen.add(id)
        yield batch._replace(vectors=_scaled(vectors) if scale else vectors)
    if not seen:
        raise InputError("There is not one entity with a vector. Check that this is the right file or list.")


def _check_finite(batch: VectorBatch, vectors: Floats) -> None:
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        row = int(wrong[0])
        value = batch.vectors[row][~np.isfinite(vectors[row])][0]
        raise InputError(
            f"{_place(batch, row)}: the vector of {batch.ids[row]!r} holds {value}, which float32 cannot hold as a "
            "finite number. Leave such entities out, or make their vectors again."
        )


def _place(batch: VectorBatch, row: int) -> str:
    place = f"{batch.unit} {batch.numbers[row] if len(batch.numbers) else row + 1}"
    return f"{batch.origin}, {place}" if batch.origin else place.capitalize()


def _scaled(vectors: Floats) -> Floats:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))  # large ones fit float64 only
    factors = np.sqrt(vectors.shape[1]) / np.where(lengths > 0, lengths, np.inf)
    scaled: Floats = (vectors * factors[:, None]).astype(np.float32)
    return scaled


def _cosines(vectors: Floats, wanted: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(wanted)
    return (vectors @ wanted / np.where(lengths > 0, lengths, np.inf)).astype(np.float32)


def _cut(ids: Sequence[str], vectors: ArrayLike) -> Iterator[VectorBatch]:
    try:
        rows = np.asarray(vectors)
    except ValueError as error:
        raise InputError(f"The vectors are not all of the same length ({error}).") from error
    if rows.ndim != 2 or len(rows) != len(ids) or rows.shape[1] == 0 or rows.dtype.kind not in "fiu":
        raise InputError(
            f"{len(ids):,} entities came with {rows.dtype} vectors of the shape {rows.shape}. Give one row of real "
            "numbers per entity: (entities, dim)."
        )
    for first, last in _ranges(len(ids)):
        yield VectorBatch(ids[first:last], rows[first:last], numbers=range(first + 1, last + 1))


def _ranges(n_rows: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + _BATCH, n_rows)) for first in range(0, n_rows, _BATCH))


def _parts(ids: Sequence[str], vectors: Floats, further: Mapping[str, Any] | None = None) -> dict[str, Any]:
    table, keys, rows = number_strings(ids)
    return {**(further or {}), "ids": table, "ids.keys": keys, "ids.rows": rows, "vectors": vectors}


def _about(about: Mapping[str, Any], vectors: Floats, scale: bool) -> dict[str, Any]:
    n_entities, dim = vectors.shape
    return {**about, "n_entities": n_entities, "dim": dim, "scaled": scale or bool(about.get("scaled"))}
