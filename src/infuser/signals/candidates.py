"""Candidates become arrays: where mentions stand, what they may mean, and the vectors of these entities.

For each knowledge base a batch carries, under names that begin with knowledge_{base}_

    spans       (batch, S, 2) first token and the one after the last; padding is empty
    candidates  (batch, M, 2) place of the span, place of the vector; one flat list over all spans of a text
    priors      (batch, M)    above 0; padding is 0
    vectors     (batch, V, e) of the entities that the text's candidates are, each once; padding is 0
    places      (batch, S)    which span of the annotations it is
    gold        (batch, M)    1 right, 0 wrong, -1 unknown; only if the examples have gold entities

Only these vectors are read and moved, whatever the number of entities. Padding is zero (but for gold), so that clients
which lay single texts side by side and fill up with zeros do no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError, SourceError
from infuser.signals.align import Range
from infuser.types import Annotations, HasEntityVectors, Source, innermost

PARTS = ("spans", "candidates", "priors", "vectors")
"""What methods read."""


def bases_among(sources: Iterable[Source]) -> dict[int, HasEntityVectors]:
    """Return the knowledge bases among sources, by their place; two of one name are an error."""
    inside = enumerate(map(innermost, sources))
    bases: dict[int, HasEntityVectors] = {
        place: source for place, source in inside if isinstance(source, HasEntityVectors)
    }
    names = [base.name for base in bases.values()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SourceError(
            f"Two knowledge bases are called {twice[0]!r}. Give each a name: KnowledgeBase(..., name=...)."
        )
    return bases


def check_replaceable(own: Sequence[Source], given: Sequence[Source]) -> None:
    """Raise unless sources can take the place of a model's own: same kinds and, of knowledge bases, names and sizes."""
    if _shapes(own) != _shapes(given):
        raise SourceError(
            f"This model was infused with {_shapes(own)}; {_shapes(given)} cannot take their place (kind, name, size)."
        )


def _shapes(sources: Sequence[Source]) -> list[tuple[type[Source], str, int]]:
    """Return kind of each source and, of knowledge bases, name and size of vectors: what a model's weights fit to."""
    bases = bases_among(sources)
    named = {place: (base.name, base.dim) for place, base in bases.items()}
    return [(type(source), *named.get(place, ("", 0))) for place, source in enumerate(sources)]


def part_name(base: str, part: str) -> str:
    """Return under which name a batch carries a part of a knowledge base."""
    return f"knowledge_{base}_{part}"


def candidate_arrays(
    base: HasEntityVectors,
    found: Sequence[Annotations],
    ranges: Sequence[Sequence[Range]],
    gold: Sequence[Sequence[str | None] | None] | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the arrays of one knowledge base for a batch of texts."""
    texts = [
        _TextCandidates(base, annotations, of_text, gold[i] if gold is not None else None)
        for i, (annotations, of_text) in enumerate(zip(found, ranges, strict=True))
    ]
    rows = np.concatenate([text.rows for text in texts])
    read = np.asarray(base.store.take(rows), np.float32)  # one look at the disk for the whole batch
    parts = {
        "spans": [text.spans for text in texts],
        "candidates": [text.candidates for text in texts],
        "priors": [text.priors for text in texts],
        "vectors": np.split(read, np.cumsum([len(text.rows) for text in texts])[:-1]),
        "places": [text.places for text in texts],
    }
    if gold is not None:
        parts["gold"] = [text.gold for text in texts]
    return {part_name(base.name, part): _padded(rows, -1 if part == "gold" else 0) for part, rows in parts.items()}


def _padded(rows: Sequence[NDArray[Any]], filler: int) -> NDArray[Any]:
    """Return arrays (n, ...) of one text each as one array (batch, longest n, ...)."""
    padded = np.full((len(rows), max(1, *map(len, rows)), *rows[0].shape[1:]), filler, rows[0].dtype)
    for of_text, row in zip(padded, rows, strict=True):
        of_text[: len(row)] = row
    return padded


class _TextCandidates:
    """The spans of one text that the encoder reads, and the flat list of what they may mean."""

    def __init__(
        self, base: HasEntityVectors, found: Annotations, ranges: Sequence[Range], gold: Sequence[str | None] | None
    ) -> None:
        if len(found.candidates) != len(found.spans):
            raise InputError(
                f"{found.text[:40]!r} comes with {len(found.spans)} spans of {base.name!r} but candidates for "
                f"{len(found.candidates)}. Make annotations with Collator.annotate of the same sources."
            )
        if gold is not None and len(gold) != len(found.spans):
            raise InputError(
                f"{found.text[:40]!r} has {len(found.spans)} spans of {base.name!r} but says of {len(gold)} what they "
                "mean. Make examples with linking.link_examples."
            )
        kept = [place for place, tokens in enumerate(ranges) if tokens is not None]  # others were cut off
        rows, priors, right = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)], [np.zeros(0, np.int64)]
        for place in kept:
            of_span, prior = base.look_up(found.candidates[place])
            rows.append(of_span)
            priors.append(prior)
            right.append(_right(base, None if gold is None else gold[place], of_span))
        self.spans = np.array([ranges[place] for place in kept], np.int64).reshape(-1, 2)
        self.places = np.array(kept, np.int64)
        self.priors, self.gold = np.concatenate(priors), np.concatenate(right)
        self.rows, vectors = np.unique(np.concatenate(rows), return_inverse=True)
        owners = np.repeat(np.arange(len(kept)), [len(of_span) for of_span in rows[1:]])
        self.candidates = np.stack([owners, vectors], axis=1)


def _right(base: HasEntityVectors, gold: str | None, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    if gold is None:
        return np.full(len(rows), -1, np.int64)
    if not gold:
        return np.zeros(len(rows), np.int64)
    return np.asarray(rows == base.store.rows([gold])[0], np.int64)


def read_golds(examples: Sequence[Mapping[str, Any]], base: str) -> list[Sequence[str | None] | None] | None:
    """Return the gold entities of one base's spans for each example; None if no example has any."""
    golds = [example.get("gold") for example in examples]
    if all(gold is None for gold in golds):
        return None
    return [None if gold is None else gold.get(base) for gold in golds]
