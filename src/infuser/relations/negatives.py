"""Triples that are no relation, to train the gate: pairs of one text that the data do not relate.

They are drawn from the candidates of an extraction or, where there are none, the known
mentions of the text and random stretches of its words, as long as the spans of its own triples are. A pair that
touches a known one in both its spans is never drawn: "commune" and "a commune" are no different answers. What a text
draws depends on its content and the seed alone, not on its neighbours.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from infuser.errors import InputError
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.types import Span
from infuser.words import word_borders

_log = logging.getLogger(__name__)
_TRIES = 8
"""Random pairs drawn for each one that is wanted; a short text may have too few."""


def sample_negatives(
    texts: Sequence[RelationText],
    *,
    candidates: Sequence[Sequence[Triple]] | None = None,
    per_triple: float = 1.0,
    seed: int = 0,
) -> list[RelationText]:
    """Return the texts with triples that are no relations, `per_triple` for each that is one, as far as there are any.

    Triples that the data itself calls no relation come first. `candidates` are those of an extraction from
    each text; without them spans are drawn from mentions and random words, with a trigger if its triples have some.
    """
    if per_triple <= 0:
        raise InputError(f"per_triple={per_triple}: the gate needs at least some triples that are no relation.")
    negatives = []
    for place, text in enumerate(texts):
        rng = _generator(text, seed)
        known = [triple for triple in text.triples if triple.relation == NO_RELATION]
        exact = per_triple * sum(triple.is_fact for triple in text.triples)
        wanted = int(exact + rng.random()) - len(known)  # a share of a triple is one by chance
        drawn: list[Triple] = []
        if wanted > 0:
            offered = _random_triples(text, wanted * _TRIES, rng) if candidates is None else candidates[place]
            drawn = _drawn(text, offered, wanted, rng)
        negatives.append(replace(text, triples=(*known, *drawn)))
    return negatives


def draw_texts(texts: Sequence[RelationText], most_triples: float, *, seed: int = 0) -> list[RelationText]:
    """Return the texts, or as many of them, drawn by the seed, as hold at most so many triples."""
    if sum(len(text.triples) for text in texts) <= most_triples:
        return list(texts)
    order = np.random.default_rng(seed).permutation(len(texts))
    counts = np.cumsum([len(texts[place].triples) for place in order])
    kept = sorted(order[: max(1, int(np.searchsorted(counts, most_triples, side="right")))].tolist())
    _log.warning("%d of %d texts are used, so that the fit takes no more than some GB.", len(kept), len(texts))
    return [texts[place] for place in kept]


def _drawn(text: RelationText, offered: Sequence[Triple], wanted: int, rng: np.random.Generator) -> list[Triple]:
    known = _known_pairs(text)
    places: dict[tuple[tuple[int, int], ...], Triple] = {}  # a known mention and random words may be the same place
    for triple in offered:
        if not any(_meet(triple.head, heads) and _meet(triple.tail, tails) for heads, tails in known):
            places.setdefault(tuple((part.start, part.end) for part in _parts(triple)), triple)
    free = list(places.values())
    chosen = sorted(rng.choice(len(free), size=min(wanted, len(free)), replace=False).tolist()) if free else []
    return [replace(free[place], relation=NO_RELATION, label="") for place in chosen]


def _known_pairs(text: RelationText) -> list[tuple[list[Span], list[Span]]]:
    """Return every mention of the head and of the tail of each triple of a text."""
    of_id: dict[str, list[Span]] = {}
    for span in text.mentions():
        if span.id:
            of_id.setdefault(span.id, []).append(span)
    return [
        (of_id.get(triple.head.id, [triple.head]), of_id.get(triple.tail.id, [triple.tail])) for triple in text.triples
    ]


def _meet(span: Span, others: Sequence[Span]) -> bool:
    return any(span.start < other.end and other.start < span.end for other in others)


def _random_triples(text: RelationText, n: int, rng: np.random.Generator) -> list[Triple]:
    """Return up to `n` triples of different, separate spans: known mentions and random words alike."""
    known, words = list(text.mentions()), list(word_borders(text.text))
    triggers = [triple.trigger for triple in text.triples if triple.trigger is not None]
    if len(words) < (3 if triggers else 2):
        return []
    span_lengths = [_n_words(text.text, span) for one in text.triples for span in (one.head, one.tail)]
    trigger_lengths = [_n_words(text.text, span) for span in triggers]
    triples = []
    for _ in range(n):
        head, tail = (_random_span(words, known, span_lengths, rng) for _ in range(2))
        trigger = _random_span(words, triggers, trigger_lengths, rng) if triggers else None
        parts = _parts(Triple(head, tail, NO_RELATION, trigger))
        if not any(_meet(one, parts[:place]) for place, one in enumerate(parts)):
            triples.append(Triple(head, tail, NO_RELATION, trigger))
    return triples


def _random_span(
    words: Sequence[tuple[int, int]], known: Sequence[Span], lengths: Sequence[int], rng: np.random.Generator
) -> Span:
    """Return a known span or a random stretch of words, with the same chance."""
    if known and rng.random() < 0.5:
        return known[int(rng.integers(len(known)))]
    n_words = min(lengths[int(rng.integers(len(lengths)))], len(words))
    first = int(rng.integers(len(words) - n_words + 1))
    return Span(words[first][0], words[first + n_words - 1][1])


def _parts(triple: Triple) -> list[Span]:
    return [part for part in (triple.head, triple.tail, triple.trigger) if part is not None]


def _n_words(text: str, span: Span) -> int:
    return max(1, sum(1 for _ in word_borders(text[span.start : span.end])))


def _generator(text: RelationText, seed: int) -> np.random.Generator:
    """Return the random numbers of one text: the same for the same words and triples, wherever it stands."""
    content = f"{seed}\n{text.text}\n{[(t.head.start, t.tail.start, t.relation) for t in text.triples]}"
    digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))
