"""Counting as one would do it by hand, one text after another: what the fast way must agree with."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations, product

from infuser.knowledge.counting import CorpusCounts, Counting
from infuser.words import find_words

_SENTENCE_END = re.compile(r"(?<=[.!?])(?=[ \t\n\v\f\r]|[\"')\]}][ \t\n\v\f\r])|(?<=\n)|(?<=[。！？])")


def sentences(n: int, seed: int = 0) -> list[str]:
    """Return sentences of a few words, the same for the same seed."""
    chance = random.Random(seed)
    words = ["Bern", "lies", "on", "the", "Aare", "Zürich", "river", "🙂", "and", "so", "x-y", "東京"]
    return [" ".join(chance.choices(words, k=chance.randrange(1, 9))) + "." for _ in range(n)]


def words_of(text: str) -> list[str]:
    return [word.folded for word in find_words(text)]


def units_of(text: str, settings: Counting) -> Iterator[list[str]]:
    pieces = _SENTENCE_END.split(text + "\n") if settings.unit == "sentence" else [text]
    return (words for piece in pieces if (words := words_of(piece)))


def counted_by_hand(rows: Iterable[str | tuple[str, str]], settings: Counting) -> dict[str, object]:
    """Return words with their counts, and pairs with theirs, as plain Python."""
    left, right, pairs = Counter(), Counter(), Counter()
    n_units = 0
    for row in rows:
        if settings.unit == "pair":
            one, other = (set(words_of(side)) for side in row)
            if one and other:
                n_units += 1
                left.update(one)
                right.update(other)
                pairs.update(product(one, other))
            continue
        for words in units_of(row, settings):
            if settings.unit == "window":
                n_units += len(words)
                left.update(words)
                for place, word in enumerate(words):
                    for near in words[place + 1 : place + settings.window]:
                        pairs[tuple(sorted((word, near)))] += 1
            else:
                n_units += 1
                left.update(set(words))
                pairs.update(combinations(sorted(set(words)), 2))
    if settings.unit != "pair":
        right = left
    total = left + right if settings.unit == "pair" else left
    ranked = sorted(
        (word for word in total if total[word] >= settings.min_count), key=lambda w: (-total[w], w.encode())
    )
    kept = [word for word in ranked if word not in settings.stop_words][: settings.max_words]
    inside = set(kept)
    return {
        "words": kept,
        "left": [left[word] for word in kept],
        "right": [right[word] for word in kept],
        "n_units": n_units,
        "pairs": {pair: n for pair, n in pairs.items() if inside.issuperset(pair) and n >= settings.min_pairs},
    }


def as_plain(counts: CorpusCounts) -> dict[str, object]:
    """Return counts in the form of `counted_by_hand`."""
    words = counts.words.to_pylist()
    pairs, last = {}, -1
    for key, n in zip(counts.keys[:].tolist(), counts.pair_counts[:].tolist(), strict=True):
        assert key > last, "keys must ascend"
        last = key
        pair = (words[key // len(words)], words[key % len(words)])
        pairs[pair if counts.settings.unit == "pair" else tuple(sorted(pair))] = n
    return {
        "words": words,
        "left": counts.left.tolist(),
        "right": counts.right.tolist(),
        "n_units": counts.n_units,
        "pairs": pairs,
    }
