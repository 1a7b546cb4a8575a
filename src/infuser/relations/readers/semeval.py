r"""SemEval-2010 task 8: sentences with two marked nominals, three lines each.

    1\t"The <e1>storm</e1> broke the <e2>window</e2>."
    Cause-Effect(e1,e2)
    Comment: ...

The first name in the brackets is the head, so that "Cause-Effect(e2,e1)" has e2 as its head. "Other" is no relation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from infuser.relations.examples import RelationText, Triple
from infuser.relations.readers.common import Unreadable
from infuser.tables.rows import filled_lines
from infuser.tables.skipped import Skipped
from infuser.tables.values import is_text
from infuser.types import Span

SENTENCE = re.compile(r"\s*(\d+)\t\s*(.*?)\s*$")
"""What the line of a sentence looks like: its number, a tab, the sentence."""
_TAG = re.compile(r"(</?e[12]>)")
_RELATION = re.compile(r"([^()\s]+)\s*\(\s*(e1)\s*,\s*(e2)\s*\)|([^()\s]+)\s*\(\s*(e2)\s*,\s*(e1)\s*\)")
_OTHER = "other"


def read_semeval(path: str | Path, skipped: Skipped) -> Iterator[RelationText]:
    """Yield the sentences; one whose marks or whose relation cannot be read is added to `skipped`."""
    waiting: tuple[int, re.Match[str], str] | None = None
    for number, line in filled_lines(path, skipped):
        begins = SENTENCE.match(line)
        if waiting and begins:
            skipped.add(path, waiting[0], "no relation under the sentence", waiting[2])
        if begins:
            waiting = number, begins, line
        elif waiting:
            try:
                yield marked_sentence(waiting[1][2], line.strip(), name=waiting[1][1])
            except Unreadable as error:
                skipped.add(path, waiting[0], str(error), waiting[2])
            waiting = None
        elif not line.lstrip().startswith("Comment"):
            skipped.add(path, number, "neither a sentence nor its relation nor a comment", line)
    if waiting:
        skipped.add(path, waiting[0], "no relation under the sentence", waiting[2])


def marked_sentence(marked: str, value: str, name: str) -> RelationText:
    """Return the text of a sentence with its two marked nominals and their relation."""
    if len(marked) > 1 and marked[0] == marked[-1] == '"':
        marked = marked[1:-1]
    places: dict[str, int] = {}
    text = ""
    for piece in _TAG.split(marked):
        if not _TAG.fullmatch(piece):
            text += piece
        elif piece in places:
            raise Unreadable(f"{piece} stands twice")
        else:
            places[piece] = len(text)
    spans = {entity: _span(entity, text, places) for entity in ("e1", "e2")}
    mentions = tuple(sorted(spans.values(), key=lambda span: (span.start, span.end)))
    if value.lower() == _OTHER:
        triple = Triple(spans["e1"], spans["e2"])
    elif direction := _RELATION.fullmatch(value):
        relation, head, tail = (part for part in direction.groups() if part)
        triple = Triple(spans[head], spans[tail], relation)
    else:
        raise Unreadable(f"the relation is neither Name(e1,e2) nor Name(e2,e1) nor Other: {value[:60]!r}")
    return RelationText(text, (triple,), mentions, name)


def _span(entity: str, text: str, places: dict[str, int]) -> Span:
    """Return where a nominal stands, without white space at its ends."""
    start, end = places.get(f"<{entity}>", -1), places.get(f"</{entity}>", -1)
    inside = text[max(start, 0) : max(end, 0)]
    if start < 0 or not is_text(inside):
        raise Unreadable(f"no <{entity}>words</{entity}>")
    start += len(inside) - len(inside.lstrip())
    return Span(start, start + len(inside.strip()), id=entity)
