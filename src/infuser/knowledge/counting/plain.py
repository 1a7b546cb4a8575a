"""A corpus in memory, counted in one go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from infuser.errors import InputError
from infuser.knowledge.counting.merging import add_pairs, leave_out_rare
from infuser.knowledge.counting.pairs import count_pairs
from infuser.knowledge.counting.settings import Counting
from infuser.knowledge.counting.shapes import CorpusCounts, Encoded, Texts
from infuser.knowledge.counting.tokens import encode
from infuser.knowledge.counting.words import choose_words, count_units, count_words

_BATCH, _CHARACTERS = 1 << 14, 1 << 24
_ROOM = 1 << 24


def count_texts(texts: Iterable[str | tuple[str, str]], settings: Counting | None = None) -> CorpusCounts:
    """Return how often the words of texts are seen, alone and together; the unit "pair" wants pairs of texts."""
    settings = settings or Counting()
    if isinstance(texts, str):
        raise InputError("count_texts takes a list of texts, not one string.")
    encoded: list[tuple[Encoded, ...]] = []
    batch: list[tuple[str, ...]] = []
    n_texts = n_characters = 0
    for text in texts:
        row = (text,) if isinstance(text, str) else tuple(text)
        if len(row) != settings.n_sides:
            wanted = "two texts" if settings.n_sides == 2 else "one text"
            raise InputError(f"Row {n_texts} has {len(row)} texts; the unit {settings.unit!r} wants {wanted} in a row.")
        n_texts += 1
        batch.append(row)
        n_characters += sum(map(len, row))
        if len(batch) == _BATCH or n_characters > _CHARACTERS:
            encoded.append(_encode(batch, settings))
            batch, n_characters = [], 0
    if batch:
        encoded.append(_encode(batch, settings))
    vocabulary = choose_words(lambda: map(count_words, encoded), settings, _ROOM)
    pairs = add_pairs([count_pairs(sides, vocabulary, settings, _ROOM) for sides in encoded])
    return CorpusCounts(
        settings,
        *vocabulary,
        sum(count_units(sides, settings) for sides in encoded),
        *leave_out_rare(pairs, settings.min_pairs),
        {"n_texts": n_texts, "n_tokens": sum(side.n_words for sides in encoded for side in sides)},
    )


def _encode(batch: Sequence[tuple[str, ...]], settings: Counting) -> tuple[Encoded, ...]:
    return encode([Texts.of([row[side] for row in batch]) for side in range(settings.n_sides)], settings)
