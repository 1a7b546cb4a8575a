"""Linked texts cut into windows, with the mentions of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from infuser.linking.examples import LinkedText
from infuser.linking.mentions import Mention
from infuser.signals.windows import MAX_WORDS, cut_windows
from infuser.types import Span

_Placed = TypeVar("_Placed", Span, Mention)


def window_linked(linked: LinkedText, max_words: int = MAX_WORDS) -> list[LinkedText]:
    """Return the windows of a linked text that hold something labelled; no gold mention is cut."""
    keep = [(span.start, span.end) for span in linked.spans]
    first, last = linked.region
    windows: list[LinkedText] = []
    for start, end in cut_windows(linked.text, max_words, keep=keep):
        labelled = max(first, start) - start, min(last, end) - start
        if labelled[0] >= labelled[1]:
            continue
        spans = [moved(span, -start) for span in linked.spans if start <= span.start and span.end <= end]
        part = None if labelled == (0, end - start) else labelled
        windows.append(LinkedText(linked.text[start:end], tuple(spans), part, linked.name))
    return windows


def moved(one: _Placed, by: int) -> _Placed:
    """Return a span or mention of a window as one of the text in which the window begins at `by`."""
    return replace(one, start=one.start + by, end=one.end + by)
