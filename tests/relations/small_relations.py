"""A little language whose relations a miniature can learn: two verbs, with things before and behind them."""

from __future__ import annotations

import itertools
from typing import Any

from miniatures import tiny_host, tiny_tokenizer

from infuser.relations.encoders import Encoder
from infuser.relations.examples import RelationText, Triple
from infuser.types import Span

THINGS = ("river", "city", "bridge", "bank", "shop", "town", "lake", "house", "garden", "train")
VERBS = {"lies on": ("P1", "location"), "sell": ("P2", "sells")}


def small_encoder(**changes: Any) -> Encoder:
    """Return a miniature with enough heads to learn from."""
    settings = {"hidden_size": 32, "num_attention_heads": 8, "num_hidden_layers": 3} | changes
    return Encoder(tiny_host("bert", **settings), tiny_tokenizer("bert"))


def sentence(verb: str, head: str, tail: str, *, triggers: bool = True) -> RelationText:
    """Return "the HEAD VERB the TAIL and a ..." with its one triple, and a third thing that is related to nothing."""
    other = next(thing for thing in THINGS if thing not in (head, tail))
    text = f"the {head} {verb} the {tail} and a {other}"
    first, said, second, third = (
        Span(text.index(f" {part}") + 1, text.index(f" {part}") + 1 + len(part)) for part in (head, verb, tail, other)
    )
    relation, label = VERBS[verb]
    return RelationText(text, (Triple(first, second, relation, said if triggers else None, label),), (third,))


def small_data(*, triggers: bool = True) -> tuple[list[RelationText], list[RelationText], list[RelationText]]:
    """Return texts to learn from, to tune with and to test with: other pairs of things in each."""
    parts: tuple[list[RelationText], list[RelationText], list[RelationText]] = ([], [], [])
    for number, (head, tail) in enumerate(itertools.permutations(THINGS, 2)):
        for verb in VERBS:
            parts[(0, 0, 1, 0, 2)[number % 5]].append(sentence(verb, head, tail, triggers=triggers))
    return parts
