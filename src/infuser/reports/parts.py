"""Parts that pages share: a table, a sentence in soft ink, and the sections that stand at the end. All is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a table that scrolls in its own box when it is wider than the page."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in body)
    return f'<div class="wide"><table><tr>{names}</tr>{lines}</table></div>'


def soft(told: str) -> str:
    """Return a sentence that explains what stands below it."""
    return f'<p class="soft">{escape(told)}</p>'


def notes_section(notes: Sequence[str]) -> str:
    """Return what to keep in mind; nothing without notes."""
    told = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<h2>What to keep in mind</h2><ul>{told}</ul>" if told else ""


def facts_section(facts: Mapping[str, str]) -> str:
    """Return how it was found out; nothing without facts."""
    items = "".join(f"<dt>{escape(str(name))}</dt><dd>{escape(str(fact))}</dd>" for name, fact in facts.items())
    return f"<h2>How it was found out</h2><dl>{items}</dl>" if items else ""


def versions_section(versions: Mapping[str, str]) -> str:
    """Return the versions of all that had a part in it, folded; nothing without them."""
    return f"<details><summary>Versions</summary>{table(['', ''], versions.items())}</details>" if versions else ""
