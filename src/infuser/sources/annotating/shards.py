"""The texts of an input in pieces, and one piece annotated: the unit of work, of resuming and of checking."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from infuser.errors import InputError, SourceError
from infuser.sources.annotating.cache import content_key, flush_caches
from infuser.sources.annotating.columns import encode
from infuser.sources.annotating.files import Written, write_arrow
from infuser.sources.storage import annotate_checked
from infuser.types import Annotations, Source, join_pair

TEXTS = 2_048
CHARACTERS = 1 << 24
"""A shard holds so many texts, or fewer if they are long: memory depends on neither their number nor their length."""
FOUND = ("texts", "spans", "links", "terms")
"""What is counted of each source: texts with anything, spans, links, terms."""
_BATCH = 256

TextPair = tuple[str, str | None]
"""A text and its pair."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One annotated piece: its file and how much was found, per source."""

    number: int
    n_texts: int
    written: Written
    found: list[dict[str, int]]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self.written), "n_texts": self.n_texts, "found": self.found}

    @classmethod
    def from_json(cls, number: int, values: Mapping[str, Any]) -> Shard:
        """Return it from what `to_json` returned."""
        written = Written(values["file"], values["bytes"], values["sha256"])
        return cls(number, values["n_texts"], written, values["found"])


def text_pairs(examples: Iterable[Any]) -> Iterator[TextPair]:
    """Yield text and pair of examples: texts, or mappings with `text` and perhaps `pair`."""
    for number, example in enumerate(examples):
        text, pair = (example.get("text"), example.get("pair")) if isinstance(example, Mapping) else (example, None)
        for side in (text,) if pair is None else (text, pair):
            if not isinstance(side, str):
                raise InputError(
                    f"Example {number} (counted from 0) has a {type(side).__name__} where a text is wanted: "
                    f"{str(side)[:40]!r}. Give texts, or mappings with 'text' and perhaps 'pair'."
                )
            try:
                side.encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    f"Example {number} (counted from 0) holds half of a character (a lone surrogate) at place "
                    f"{error.start}. Read its file with encoding='utf-8', errors='replace'."
                ) from error
        yield text, pair  # type: ignore[misc]  # checked above


class InputDigest:
    """Number and digest of the texts that were added; another input has another digest."""

    def __init__(self, rows: Iterable[TextPair] = ()) -> None:
        self.n_texts, self._hash = 0, hashlib.sha256()
        for row in rows:
            self.add(row)

    def add(self, row: TextPair) -> TextPair:
        """Add one text, and return it."""
        for side in row:  # with lengths, so that nothing can move from one text to the next
            raw = b"" if side is None else side.encode()
            self._hash.update((b"-" if side is None else b"%d:" % len(raw)) + raw)
        self.n_texts += 1
        return row

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"n_texts": self.n_texts, "sha256": self._hash.hexdigest()}


def cut(rows: Iterable[TextPair]) -> Iterator[list[TextPair]]:
    """Yield the rows of one shard after another."""
    piece: list[TextPair] = []
    n_characters = 0
    for row in rows:
        piece.append(row)
        n_characters += len(row[0]) + len(row[1] or "")
        if len(piece) == TEXTS or n_characters >= CHARACTERS:
            yield piece
            piece, n_characters = [], 0
    if piece:
        yield piece


@dataclass(frozen=True)
class ShardWriter:
    """Annotates the rows of one shard after another and writes each; it is sent to worker processes."""

    folder: Path
    sources: Sequence[Source]

    def __call__(self, task: tuple[int, list[TextPair]], report: Callable[[int], None]) -> Shard:
        """Write the shard with this number and these rows; `report` is called with the number of texts just done."""
        number, rows = task
        return save_shard(self.folder, number, *annotate_rows(rows, self.sources, report))


def annotate_rows(
    rows: Sequence[TextPair], sources: Sequence[Source], report: Callable[[int], None]
) -> tuple[pa.RecordBatch, list[dict[str, int]]]:
    """Return the content of a shard, and how much each source found."""
    joined = [join_pair(*row) for row in rows]
    found: list[list[Annotations]] = [[] for _ in sources]
    for start in range(0, len(joined), _BATCH):
        texts = joined[start : start + _BATCH]
        for of_source, source in zip(found, sources, strict=True):
            of_source += annotate_checked(source, texts)
        report(len(texts))
    columns: dict[str, pa.Array] = {
        "text": pa.array([text for text, _ in rows], pa.large_string()),
        "pair": pa.array([pair for _, pair in rows], pa.large_string()),
        "key": pa.array([content_key(text) for text in joined], pa.binary(16)),
    }
    for place, (of_source, source) in enumerate(zip(found, sources, strict=True)):
        try:
            columns[f"source_{place}"] = encode(of_source)
        except SourceError as error:
            raise SourceError(f"{type(source).__name__}: {error}") from error
    flush_caches(sources)
    return pa.record_batch(columns), [_counts(of_source) for of_source in found]


def save_shard(folder: Path, number: int, content: pa.RecordBatch, found: list[dict[str, int]]) -> Shard:
    """Write the content of a shard."""
    return Shard(number, content.num_rows, write_arrow(folder / f"shard-{number:05d}.arrow", content), found)


def _counts(found: Sequence[Annotations]) -> dict[str, int]:
    n_texts = sum(1 for one in found if one.spans or one.terms)
    return {"texts": n_texts, **{what: sum(len(getattr(one, what)) for one in found) for what in FOUND[1:]}}
