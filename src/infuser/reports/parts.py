"""Parts that pages share: a table, a sentence in soft ink, and the sections that stand at the end. All is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that would make a page unreadable for a parser of XML, however they are written."""


def escaped(text: str) -> str:
    """Return a text that is safe between tags and in attributes; characters that no page may hold become U+FFFD."""
    return escape(_NOT_IN_XML.sub("\ufffd", text))


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a table that scrolls in its own box when it is wider than the page."""
    return drawn_table(head, ["".join(drawn_row(map(escaped, line)) for line in body)])


def drawn_table(head: Sequence[str], groups: Iterable[str], *, kind: str = "", numbers: Iterable[int] = ()) -> str:
    """Return a table of groups of rows that are drawn already; columns with `numbers` end at the right."""
    kinds = dict.fromkeys(numbers, ' class="number"')
    names = "".join(f"<th{kinds.get(at, '')}>{escaped(name)}</th>" for at, name in enumerate(head))
    bodies = "".join(f"<tbody>{group}</tbody>" for group in groups)
    called = f' class="{kind}"' if kind else ""
    return f'<div class="wide"><table{called}><thead><tr>{names}</tr></thead>{bodies}</table></div>'


def drawn_row(cells: Iterable[str], numbers: Iterable[int] = ()) -> str:
    """Return a row of cells that are escaped already; cells with `numbers` end at the right."""
    kinds = dict.fromkeys(numbers, ' class="number"')
    return "<tr>" + "".join(f"<td{kinds.get(at, '')}>{cell}</td>" for at, cell in enumerate(cells)) + "</tr>"


def soft(told: str) -> str:
    """Return a sentence that explains what stands below it."""
    return f'<p class="soft">{escaped(told)}</p>'


def notes_section(notes: Sequence[str]) -> str:
    """Return what to keep in mind; nothing without notes."""
    told = "".join(f"<li>{escaped(note)}</li>" for note in notes)
    return f"<h2>What to keep in mind</h2><ul>{told}</ul>" if told else ""


def facts_section(facts: Mapping[str, str]) -> str:
    """Return how it was found out; nothing without facts."""
    items = "".join(f"<dt>{escaped(str(name))}</dt><dd>{escaped(str(fact))}</dd>" for name, fact in facts.items())
    return f"<h2>How it was found out</h2><dl>{items}</dl>" if items else ""


def versions_section(versions: Mapping[str, str]) -> str:
    """Return the versions of all that had a part in it, folded; nothing without them."""
    return f"<details><summary>Versions</summary>{table(['', ''], versions.items())}</details>" if versions else ""
