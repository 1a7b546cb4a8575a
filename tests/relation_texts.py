"""Small texts whose relations can be read from any encoder: how many words head, tail and trigger have tells them."""

from __future__ import annotations

import numpy as np
from miniatures import WORDS

from infuser.relations.examples import RelationText, Triple
from infuser.types import Span

SHAPES = {"short": (1, 1, 1), "head": (4, 1, 1), "tail": (1, 4, 1), "said": (1, 1, 4)}
"""Words of head, tail and trigger. Attention that is summed over spans grows with them, whatever the weights are."""


def words_at(words: list[str], first: int, n: int) -> Span:
    """Return the place of some words of a text."""
    start = len(" ".join([*words[:first], ""]))
    return Span(start, start + len(" ".join(words[first : first + n])))


def shaped_texts(n: int, seed: int, *, triggers: bool = True) -> list[RelationText]:
    """Return texts of random words with one triple each, of all relations in turn."""
    rng = np.random.default_rng(seed)
    texts = []
    for number in range(n):
        relation = list(SHAPES)[number % len(SHAPES)]
        words = [WORDS[place] for place in rng.integers(len(WORDS), size=14)]
        head, tail, said = (
            words_at(words, first, n_words) for first, n_words in zip((0, 10, 5), SHAPES[relation], strict=True)
        )
        triple = Triple(head, tail, relation, said if triggers else None, f"{relation} one")
        texts.append(RelationText(" ".join(words), (triple,)))
    return texts
