"""Marks around mentions, in signs and words that every tokenizer knows, so that no new token is needed.

    none    Bill was born in Seattle.
    plain   @ Bill @ was born in # Seattle # .
    typed   @ * person * Bill @ was born in # ^ city ^ Seattle # .

Typed marks are the "typed entity marker (punct)" of Zhou and Chen, "An Improved Baseline for Sentence-level Relation
Extraction" (2021): @ * around the subject, # ^ around the object. They show a model without any knowledge which two
mentions are meant and of which kind they are, so a method has to beat this input.

The paper's 74.6 F1 on TACRED (RoBERTa-large) reads the states at the two opening marks. Our tasks use the usual head of
a sequence classifier, on the state of the first token, for plain and infused models alike; expect somewhat less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from infuser.errors import InputError
from infuser.types import Span

Markers = Literal["none", "plain", "typed"]
"""How the mentions of an example are marked in its text."""


class MarkedText(NamedTuple):
    """A text with marks, and where the mentions stand in it."""

    text: str
    mentions: list[tuple[int, int]]
    """Start and end of each mention, heads first, without its own marks and type."""


_HEAD, _TAIL = ("@", "*"), ("#", "^")  # around the mention, around its type


def mark(text: str, head: Span, tail: Span, style: Markers) -> str:
    """Return the text with marks around two mentions; the label of a mention is its type, if it has one.

    Mentions may touch, overlap or lie within each other; marks are words of their own, with white space around them.
    """
    return mark_all(text, [head], [tail], style).text


def mark_all(text: str, heads: Sequence[Span], tails: Sequence[Span], style: Markers) -> MarkedText:
    """Return the text with marks around all mentions of two entities, see `mark`."""
    if style not in ("none", "plain", "typed"):
        raise InputError(f"No markers are called {style!r}. Known: none, plain, typed.")
    if style == "none":
        return MarkedText(text, [(span.start, span.end) for span in (*heads, *tails)])
    mentions = [(span, *signs) for spans, signs in ((heads, _HEAD), (tails, _TAIL)) for span in spans]
    return _marked(text, mentions, typed=style == "typed")


def mark_mention(text: str, mention: Span) -> str:
    """Return the text with plain marks around one mention: "@ Bill @ was born in Seattle."."""
    return _marked(text, [(mention, *_HEAD)], typed=False).text


def _marked(text: str, mentions: list[tuple[Span, str, str]], *, typed: bool) -> MarkedText:
    # (place, opens, order at this place, mark): what ends stands before what begins, and the longer mention is outside
    marks: list[tuple[int, bool, tuple[int, int], str, int]] = []
    for number, (span, around, around_type) in enumerate(mentions):
        if not 0 <= span.start < span.end <= len(text):
            raise InputError(
                f"A mention goes from {span.start} to {span.end} in a text of {len(text)} characters. Give characters "
                "inside the text, at least one."
            )
        kind = " ".join(span.label.lower().replace("_", " ").split()) if typed else ""
        opening = f"{around} {around_type} {kind} {around_type}" if kind else around
        marks.append((span.start, True, (-span.end, number), opening, number))
        marks.append((span.end, False, (-span.start, -number), around, number))
    marked, at = "", 0
    starts, ends = [0] * len(mentions), [0] * len(mentions)
    for place, opens, _, sign, number in sorted(marks):
        marked = _joined(marked, text[at:place])
        if not opens:
            ends[number] = len(marked)
        marked = _joined(marked, sign)
        if opens:
            starts[number] = len(marked)
        at = place
    marked = _joined(marked, text[at:])
    return MarkedText(marked, [_trimmed(marked, *place) for place in zip(starts, ends, strict=True)])


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a place without the white space at its ends."""
    inside = text[start:end]
    return start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())


def _joined(left: str, right: str) -> str:
    """Return two parts, of which one is a mark, with white space between them."""
    apart = not left or not right or left[-1].isspace() or right[0].isspace()
    return left + right if apart else f"{left} {right}"
