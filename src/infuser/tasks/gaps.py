"""Gaps in texts: a set writes [MASK], a tokenizer has a mask of its own, and a long answer needs several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from infuser.types import Annotations, Span

MASK = "[MASK]"
"""Stands for what is asked in the texts of a set, whatever the tokenizer's own mask is."""


def with_gap(example: Mapping[str, Any], mask: str, n_pieces: int = 1) -> dict[str, Any]:
    """Return the text with so many of the tokenizer's masks for the first gap; its annotations move along.

    Further gaps, which some sentences have, stay one mask each.
    """
    before, *behind = example["text"].split(MASK)
    sizes = [len(mask) * (1 if number else n_pieces) for number in range(len(behind))]
    text = before + "".join(mask * (size // len(mask)) + part for size, part in zip(sizes, behind, strict=True))
    found = example.get("annotations")
    if found is None:
        return {"text": text}
    borders = []  # of each gap: where it began and ended, where it begins and ends now
    then = now = len(before)
    for size, part in zip(sizes, behind, strict=True):
        borders.append((then, then + len(MASK), now, now + size))
        then, now = then + len(MASK) + len(part), now + size + len(part)
    # annotations of another text stay as they are, and the collator refuses them
    moved = (_moved(one, text, borders) if one.text == example["text"] else one for one in found)
    return {"text": text, "annotations": tuple(moved)}


def _moved(found: Annotations, text: str, borders: Sequence[tuple[int, int, int, int]]) -> Annotations:
    def moved(span: Span) -> Span:
        return replace(span, start=_at(span.start, borders, 2), end=_at(span.end, borders, 3))

    return replace(found, text=text, spans=tuple(map(moved, found.spans)))


def _at(place: int, borders: Sequence[tuple[int, int, int, int]], side: int) -> int:
    """Return where a place of the old text is now; one within a gap goes to a border of it, 2 or 3."""
    shift = 0
    for gap in borders:
        if place <= gap[0]:
            break
        if place < gap[1]:
            return gap[side]
        shift = gap[3] - gap[1]
    return place + shift
