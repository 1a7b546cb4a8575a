r"""PubTator: a title, an abstract, mentions and relations; a blank line ends a document.

    10491763|t|Hepatocyte nuclear factor-6: associations between ...
    10491763|a|The transcription factor ...
    10491763 \t 0 \t 27 \t Hepatocyte nuclear factor-6 \t GeneOrGeneProduct \t 3175
    10491763 \t Association \t D003924 \t 3175 \t No

The text is the title, one space and the abstract; offsets count its characters. A mention of several entities has their
ids with "," or ";" between them; "-", "-1" and nothing are no id. A composite mention ("breast and ovarian cancer") has
a seventh cell with the names of its parts and then ids with "|", which elsewhere is a part of an id ("c|SUB|A|12|G").
Of a relation the type and two ids are read; more cells, such as BioRED's novelty, are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from infuser.tables.documents import MarkedDocument, MarkedSpan, StatedRelation, check_pieces
from infuser.tables.rows import read_lines
from infuser.tables.skipped import BadRow, Place, Skipped
from infuser.words import whole_number

PASSAGE = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
"""The line of a title or an abstract: id, "t" or "a", text."""
_NO_ID = ("", "-", "-1")
_ADVICE = (
    "Write ID|t|TITLE, ID|a|ABSTRACT, then ID, start, end, mention, type, id with tabs; relations ID, type, id, id."
)


@dataclass
class _Open:
    """A document of which more lines may come."""

    place: Place
    name: str
    title: str
    abstract: str | None = None
    spans: list[MarkedSpan] = field(default_factory=list)
    relations: list[StatedRelation] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.title if self.abstract is None else f"{self.title} {self.abstract}"

    def add(self, place: Place, line: str) -> None:
        """Read one line behind the title; raise BadRow if it cannot be read."""
        if passage := PASSAGE.fullmatch(line):
            if (passage[1], passage[2]) != (self.name, "a") or self.abstract is not None or self.spans:
                raise BadRow(place, f"has no abstract of {self.name!r} but {line[:40]!r}", line, advice=_ADVICE)
            self.abstract = passage[3]
            return
        name, *cells = (cell.strip() for cell in line.split("\t"))
        if name != self.name:
            why = f"has the document {name[:40]!r} among the lines of {self.name!r}"
            raise BadRow(place, why, line, advice="Put a blank line between documents.")
        if cells and re.fullmatch(r"-?\d+", cells[0]):
            self.spans.append(_mention(place, self.text, cells, line))
        elif len(cells) >= 3 and all(cells[:3]):
            self.relations.append(StatedRelation(place, cells[1], cells[2], cells[0]))
        else:
            raise BadRow(place, f"has neither a mention nor a relation but {line[:60]!r}", line, advice=_ADVICE)

    def closed(self) -> MarkedDocument:
        return MarkedDocument(self.place, self.name, self.text, tuple(self.spans), tuple(self.relations))


def read_pubtator(path: str | Path, skipped: Skipped | None = None) -> Iterator[MarkedDocument]:
    """Yield the documents of a file; a line that cannot be read is an error, or counted by `skipped`."""
    document: _Open | None = None
    for number, line in read_lines(path, skipped):
        place, passage = Place(Path(path), number), PASSAGE.fullmatch(line)
        if not line.strip() or (passage and passage[2] == "t"):
            if document is not None:
                yield document.closed()
            document = _Open(place, passage[1], passage[3]) if passage else None
            continue
        try:
            if document is None:
                raise BadRow(place, f"begins a document without a title, {line[:40]!r}", line, advice=_ADVICE)
            document.add(place, line)
        except BadRow as error:
            error.settle(skipped)
    if document is not None:
        yield document.closed()


def _mention(place: Place, text: str, cells: list[str], line: str) -> MarkedSpan:
    if len(cells) < 4 or not all(cells[:4]) or not cells[1].isdecimal():
        raise BadRow(place, f"has a mention without end, words or type, {line[:60]!r}", line, advice=_ADVICE)
    start, end = whole_number(cells[0]), whole_number(cells[1])
    words, label, ids, parts = [*cells[2:6], "", ""][:4]
    check_pieces(place, text, [(start, end)], words)
    names = re.split(r"[,;|]" if "|" in parts else r"[,;]", ids)
    known = [name for one in names if (name := one.strip()) not in _NO_ID]
    return MarkedSpan(place, ((start, end),), label, tuple(dict.fromkeys(known)))
