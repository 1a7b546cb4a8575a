"""Attention features the literal way: one sentence at a time, each triple by loops over layers, heads and subwords.

It is written from the description of the method, shares no code with `infuser.relations.features`, and is what that is
compared with: in the tests for its numbers, in the benchmarks for its speed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.relations.examples import RelationText, Triple
from infuser.signals import Collator
from infuser.types import Source, Span

PAIRS = (("head", "tail"), ("tail", "head"), ("head", "trigger"), ("trigger", "head"))
PAIRS += (("tail", "trigger"), ("trigger", "tail"))
_UNSPACED = ("CJK", "THAI", "LAO", "MYANMAR", "KHMER", "HIRAGANA", "HENTAIGANA", "KATAKANA", "HALFWIDTH KATAKANA")


def literal_features(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[RelationText],
    *,
    sources: Sequence[Source] = (),
    pooling: str = "sum",
    trigger: bool = True,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the features of all triples (triples, layers, heads, directions), and which of them can be read."""
    values: list[Any] = []
    readable: list[bool] = []
    for text in texts:
        if not text.triples:
            continue
        offsets, maps = attention_maps(model, tokenizer, text.text, sources)
        for triple in text.triples:
            positions = positions_of(triple, text.text, offsets, trigger)
            readable.append(all(positions.values()))
            values.append(features_of_triple(positions, maps, pooling, trigger, can=readable[-1]))
    return np.array(values, np.float64), np.array(readable, bool)


def attention_maps(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, sources: Sequence[Source] = ()
) -> tuple[list[tuple[int, int] | None], list[NDArray[np.float64]]]:
    """Return which characters each token covers (None for special tokens), and one map (heads, seq, keys) per layer."""
    encoding = tokenizer([text], truncation=True, return_offsets_mapping=True, return_tensors="pt")
    sides = encoding.sequence_ids(0)
    offsets = [
        None if side is None else (int(start), int(end))
        for (start, end), side in zip(encoding.pop("offset_mapping")[0].tolist(), sides, strict=True)
    ]
    batch = Collator(tokenizer, sources).encode([text]) if sources else dict(encoding)
    name = model.config._attn_implementation
    model.set_attn_implementation("infuser_eager" if name.startswith("infuser_") else "eager")
    try:
        with torch.no_grad():
            out = model.base_model(**batch, output_attentions=True)
    finally:
        model.set_attn_implementation(name)
    return offsets, [layer[0].double().numpy() for layer in out.attentions]


def features_of_triple(
    positions: dict[str, list[int]], maps: Sequence[NDArray[np.float64]], pooling: str, trigger: bool, *, can: bool
) -> list[list[list[float]]]:
    """Return one number per layer, head and direction; zeros if the triple cannot be read."""
    features = []
    for layer in maps:
        of_layer = []
        for head in range(layer.shape[0]):
            of_head = []
            for origin, target in PAIRS if trigger else PAIRS[:2]:
                total = 0.0
                for i in positions[origin] if can else ():
                    for j in positions[target]:
                        total += float(layer[head, i, j])
                if can and pooling == "mean":
                    total /= len(positions[origin]) * len(positions[target])
                of_head.append(total)
            of_layer.append(of_head)
        features.append(of_layer)
    return features


def positions_of(
    triple: Triple, text: str, offsets: Sequence[tuple[int, int] | None], trigger: bool
) -> dict[str, list[int]]:
    """Return the token positions of each part of a triple; none for a part that is missing or was cut off."""
    parts: dict[str, Span | None] = {"head": triple.head, "tail": triple.tail}
    if trigger:
        parts["trigger"] = triple.trigger
    return {name: [] if span is None else token_positions(span, text, offsets) for name, span in parts.items()}


def token_positions(span: Span, text: str, offsets: Sequence[tuple[int, int] | None]) -> list[int]:
    """Return the tokens from the first to the last one that holds a visible character of the span's words."""
    start, end = span.start, span.end
    if start == end:
        return []
    while _in_one_word(text, start):
        start -= 1
    while _in_one_word(text, end):
        end += 1
    found = []
    for position, place in enumerate(offsets):
        if place is None:
            continue
        visible = [i for i in range(*place) if not text[i].isspace()]
        if visible and visible[0] < end and start <= visible[-1]:
            found.append(position)
    return list(range(found[0], found[-1] + 1)) if found else []


def _in_one_word(text: str, place: int) -> bool:
    """Tell whether the characters before and at a place stand in one word."""
    if not 0 < place < len(text):
        return False
    base = place - 1
    while base > 0 and _kind(text[base]) == "mark":  # marks and joiners belong to the letter before them
        base -= 1
    if _kind(text[place]) == "mark":
        return _kind(text[base]) in ("letter", "unspaced")
    return _kind(text[place]) == _kind(text[base]) == "letter"


def _kind(character: str) -> str:
    if character in "\u200c\u200d" or unicodedata.category(character)[0] == "M":
        return "mark"
    if character.isalnum() and unicodedata.name(character, "").startswith((*_UNSPACED, "IDEOGRAPHIC")):
        return "unspaced"  # each character is a word
    return "letter" if character.isalnum() or character == "_" else "other"
