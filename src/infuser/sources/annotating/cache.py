"""Caches a source's annotations on disk, keyed by text.

One folder per fingerprint of a source. An entry is two files that never change: `A.arrow` with annotations and
`A-K.keys` with the content keys of their texts, where A and K are digests of the two files' bytes. An entry counts once
its keys are there. So any number of processes may add entries at once, and a damaged file is noticed and not used: its
texts are annotated again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from infuser.assets import cache_folder
from infuser.errors import InputError, SourceError
from infuser.files import write_whole
from infuser.progress import progress_bar
from infuser.sources.annotating.columns import SourceColumn, encode
from infuser.sources.annotating.files import Written, digest, serialise
from infuser.sources.annotating.fingerprints import fingerprint
from infuser.sources.selective import Selective, bare
from infuser.sources.storage import annotate_checked, name_of
from infuser.types import Annotations, Source
from infuser.versions import __version__

_log = logging.getLogger(__name__)

_KEY_BYTES = 16
_FOLDER_DIGITS = 32
_MOST_PENDING = 2_048
_MOST_CHARACTERS = 1 << 24
_MOST_UNSORTED = 1 << 16


def default_cache() -> Path:
    """Return the default folder of the cache."""
    return cache_folder() / "annotations"


def content_key(text: str) -> bytes:
    """Return what stands for a text in files and tables."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()


def with_cache(
    sources: Sequence[Source], cache: str | Path | None, marks: Sequence[str | None] | None = None
) -> list[Source]:
    """Return the sources with a cache; without `cache`, or if one cannot be written down, they stay as they are.

    `marks` are the sources' fingerprints, if they are known already.
    """
    if cache is None:
        return list(sources)
    marks = [fingerprint(source) for source in sources] if marks is None else marks
    return [_remembered(source, mark, Path(cache)) for source, mark in zip(sources, marks, strict=True)]


def flush_caches(sources: Sequence[Source]) -> None:
    """Write what these sources annotated last to their caches."""
    for source in sources:
        known = bare(source)
        if isinstance(known, CachedSource):
            known.flush()


def annotate_cached(
    sources: Sequence[Source],
    texts: Sequence[str],
    cache: str | Path | None,
    *,
    batch_size: int = 256,
    progress: bool | None = None,
) -> list[tuple[Annotations, ...]]:
    """Return what each source finds in each text, from the cache (None: without one) as far as it is known."""
    cached = with_cache(sources, cache)
    found: list[tuple[Annotations, ...]] = []
    with progress_bar("annotating", len(texts), unit="texts", shown=progress) as bar:
        for start in range(0, len(texts), batch_size):
            some = texts[start : start + batch_size]
            found += (
                zip(*(annotate_checked(source, some) for source in cached), strict=True)
                if cached
                else ((),) * len(some)
            )
            bar.advance(len(some))
    flush_caches(cached)
    return found


def _remembered(source: Source, mark: str | None, cache: Path) -> Source:
    if isinstance(source, Selective):  # the source inside is cached, whatever is selected
        return replace(source, source=_remembered(source.source, fingerprint(source.source), cache))
    if mark is None:
        _log.warning(
            "The source %s cannot be written down, so its annotations are not cached.",
            name_of(source),
        )
        return source
    return CachedSource(source, cache / mark[:_FOLDER_DIGITS])


class CachedSource:
    """A source whose annotations are cached in a folder, one per fingerprint; see `with_cache`."""

    def __init__(self, source: Source, folder: str | Path) -> None:
        self.source, self.folder = source, Path(folder)
        self.n_known = self.n_asked = 0
        """How many texts were in the cache, and how many the source had to annotate."""
        self._pending: dict[bytes, Annotations] = {}
        self._n_characters = 0
        self._entries: _Entries | None = None

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        """Return cached annotations; the source annotates the other texts, each distinct one once."""
        keys = [content_key(text) for text in texts]
        found: list[Annotations | None] = self._known(keys, texts)
        unknown = {key: text for key, text, one in zip(keys, texts, found, strict=True) if one is None}
        self.n_known += len(texts) - len(unknown)
        self.n_asked += len(unknown)
        answers = dict(zip(unknown, annotate_checked(self.source, list(unknown.values())), strict=True))
        for key, answer in answers.items():
            self._pending[key] = answer
            self._n_characters += len(answer.text)
        if len(self._pending) >= _MOST_PENDING or self._n_characters >= _MOST_CHARACTERS:
            self.flush()
        return [answers[key] if one is None else one for key, one in zip(keys, found, strict=True)]

    def flush(self) -> None:
        """Write new annotations to the cache; a folder that cannot be written to is only warned about."""
        if not self._pending:
            return
        keys, column = b"".join(self._pending), encode(list(self._pending.values()))
        self._pending, self._n_characters = {}, 0
        try:
            self._open().add(keys, pa.record_batch({"source_0": column}), name_of(self.source))
        except (OSError, InputError) as error:
            _log.warning("Annotations of %s are not cached: %s", name_of(self.source), error)

    def _known(self, keys: list[bytes], texts: Sequence[str]) -> list[Annotations | None]:
        pending = [self._pending.get(key) for key in keys]
        if all(pending):
            return list(pending)
        found = self._open().find(keys, texts)
        return [one or other for one, other in zip(pending, found, strict=True)]

    def _open(self) -> _Entries:
        if self._entries is None:
            self._entries = _Entries(self.folder)
        return self._entries

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.folder)  # a worker opens the folder itself

    @classmethod
    def tiny(cls) -> Self:
        """Return a small gazetteer with a cache of its own."""
        from infuser.sources import Entities

        return cls(Entities.tiny(), tempfile.mkdtemp())


class _Entries:
    """The entries of a folder, and where each key is: some 24 bytes of memory per text."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[Written] = []
        self._columns: dict[int, SourceColumn | None] = {}
        self._keys: NDArray[np.uint64] = np.zeros((0, 2), np.uint64)  # the two halves of each, sorted by the first
        self._places: NDArray[np.int64] = np.zeros(0, np.int64)  # entry << 32 | row
        self._unsorted: dict[bytes, int] = {}  # what was added since: sorting after each entry would add up
        names = sorted(path.name for path in folder.glob("*.keys")) if folder.is_dir() else []
        read = [keys for name in names if (keys := self._read(name)) is not None]
        rows = [np.arange(len(keys) // _KEY_BYTES) | (number << 32) for number, keys in enumerate(read)]
        self._merge(_halves(b"".join(read)), np.concatenate([np.zeros(0, np.int64), *rows]))

    def find(self, keys: list[bytes], texts: Sequence[str]) -> list[Annotations | None]:
        """Return for each key what is known about its text."""
        places = [self._unsorted.get(key, -1) for key in keys]
        if len(self._keys) and keys:
            wanted = _halves(b"".join(keys))
            at = np.minimum(np.searchsorted(self._keys[:, 0], wanted[:, 0]), len(self._keys) - 1)
            hits = (self._keys[at] == wanted).all(axis=1)
            places = np.where(hits, self._places[at], places).tolist()
        return [self._answer(place, text) for place, text in zip(places, texts, strict=True)]

    def add(self, keys: bytes, batch: pa.RecordBatch, name: str) -> None:
        """Write an entry and count it in."""
        content = serialise(batch)
        written = _written(digest(content), content.size)
        write_whole(self._folder / written.file, content.to_pybytes())
        # last: an entry is one when its keys are there
        write_whole(self._folder / f"{written.sha256}-{digest(keys)}.keys", keys)
        about = self._folder / "about.json"
        if not about.exists():
            with suppress(InputError):  # for people only; another thread may be at it
                write_whole(about, json.dumps({"kind": "annotation cache", "source": name, "infuser": __version__}))
        self._files.append(written)
        begin = (len(self._files) - 1) << 32
        self._unsorted.update(
            (keys[at : at + _KEY_BYTES], begin | row) for row, at in enumerate(range(0, len(keys), _KEY_BYTES))
        )
        if len(self._unsorted) > _MOST_UNSORTED:
            self._merge(_halves(b"".join(self._unsorted)), np.fromiter(self._unsorted.values(), np.int64))
            self._unsorted = {}

    def _read(self, name: str) -> bytes | None:
        path = self._folder / name
        of_arrow, _, of_keys = path.stem.partition("-")
        arrow = self._folder / f"{of_arrow}.arrow"
        keys = path.read_bytes()
        if digest(keys) != of_keys or not arrow.is_file():
            self._drop(path)
            return None
        self._files.append(_written(of_arrow, arrow.stat().st_size))
        return keys

    def _merge(self, keys: NDArray[np.uint64], places: NDArray[np.int64]) -> None:
        keys, places = np.concatenate([self._keys, keys]), np.concatenate([self._places, places])
        order = np.argsort(keys[:, 0], kind="stable")
        self._keys, self._places = keys[order], places[order]

    def _answer(self, place: int, text: str) -> Annotations | None:
        column = None if place < 0 else self._column(place >> 32)
        return None if column is None else column.read(place & 0xFFFFFFFF, text)

    def _column(self, number: int) -> SourceColumn | None:
        if number not in self._columns:
            written = self._files[number]
            try:
                self._columns[number] = SourceColumn(written.open(self._folder)["source_0"])
            except SourceError:
                self._columns[number] = None
                self._drop(self._folder / written.file)
        return self._columns[number]

    def _drop(self, path: Path) -> None:
        _log.warning("%s is damaged and was removed; its texts are annotated again.", path)
        path.unlink(missing_ok=True)


def _written(sha256: str, n_bytes: int) -> Written:
    return Written(f"{sha256}.arrow", n_bytes, sha256)


def _halves(keys: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(keys, np.uint64).reshape(-1, 2)
