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

from typing import Literal

from infuser.errors import InputError
from infuser.types import Span

Markers = Literal["none", "plain", "typed"]
"""How the mentions of an example are marked in its text."""

_HEAD, _TAIL = ("@", "*"), ("#", "^")  # around the mention, around its type


def mark(text: str, head: Span, tail: Span, style: Markers) -> str:
    """Return the text with marks around two mentions; the label of a mention is its type, if it has one.

    Mentions may touch, overlap or lie within each other; marks are words of their own, with white space around them.
    """
    if style not in ("none", "plain", "typed"):
        raise InputError(f"No markers are called {style!r}. Known: none, plain, typed.")
    if style == "none":
        return text
    return _marked(text, [(span, *signs) for span, signs in ((head, _HEAD), (tail, _TAIL))], typed=style == "typed")


def mark_mention(text: str, mention: Span) -> str:
    """Return the text with plain marks around one mention: "@ Bill @ was born in Seattle."."""
    return _marked(text, [(mention, *_HEAD)], typed=False)


def _marked(text: str, mentions: list[tuple[Span, str, str]], *, typed: bool) -> str:
    # (place, opens, order at this place, mark): what ends stands before what begins, and the longer mention is outside
    marks: list[tuple[int, bool, tuple[int, int], str]] = []
    for number, (span, around, around_type) in enumerate(mentions):
        if not 0 <= span.start < span.end <= len(text):
            raise InputError(
                f"A mention goes from {span.start} to {span.end} in a text of {len(text)} characters. Give characters "
                "inside the text, at least one."
            )
        kind = " ".join(span.label.lower().replace("_", " ").split()) if typed else ""
        opening = f"{around} {around_type} {kind} {around_type}" if kind else around
        marks.append((span.start, True, (-span.end, number), opening))
        marks.append((span.end, False, (-span.start, -number), around))
    marked, at = "", 0
    for place, _, _, sign in sorted(marks):
        marked = _joined(_joined(marked, text[at:place]), sign)
        at = place
    return _joined(marked, text[at:])


def _joined(left: str, right: str) -> str:
    """Return two parts, of which one is a mark, with white space between them."""
    apart = not left or not right or left[-1].isspace() or right[0].isspace()
    return left + right if apart else f"{left} {right}"
