"""Web pages in one file: nothing fetched, nothing trusted, light on a phone, dark when the reader is.

Also the parts that pages share: tables, sentences in soft ink, and the sections at the end. All is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files

SVG = "http://www.w3.org/2000/svg"
"""Every picture names its format, so that it can be read as XML on its own."""
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that would make a page unreadable for a parser of XML, however they are written."""


@cache
def look_css() -> str:
    """Return the stylesheet that every page has, be it a file or live."""
    return files("infuser.reports").joinpath("look.css").read_text("utf-8")


@cache
def look_js() -> str:
    """Return the script that every page has: it shows values of heat maps and copies pictures."""
    return files("infuser.reports").joinpath("look.js").read_text("utf-8")


def document(title: str, parts: Iterable[str]) -> str:
    """Return a whole page of parts, which must be escaped already; `title` is escaped here and heads the page."""
    style, script = look_css(), look_js()
    # the browser may fetch nothing, use no style and run no script but ours
    policy = (
        f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    body = "\n".join(filter(None, (f"<h1>{escaped(title)}</h1>", *parts)))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escaped(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def visible(text: str) -> str:
    """Return a text in which characters that no page may hold are U+FFFD."""
    return _NOT_IN_XML.sub("\ufffd", text)


def shown(word: str, width: int = 0) -> str:
    """Return a label fit for an axis: blanks and control characters made visible, cut to `width` when given."""
    label = "".join("·" if unicodedata.category(sign) in {"Cc", "Cs", "Zl", "Zp"} else sign for sign in word)
    label = label if label.strip() else "␣" * max(1, min(len(label), 3))
    return label if not width or len(label) <= width else label[: width - 1] + "…"


def escaped(text: str) -> str:
    """Return a text that is safe between tags and in attributes."""
    return escape(visible(text))


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a table of texts that scrolls in its own box when it is wider than the page."""
    return html_table(head, ["".join(html_row(map(escaped, line)) for line in body)])


def html_table(head: Sequence[str], groups: Iterable[str], *, kind: str = "", numbers: Iterable[int] = ()) -> str:
    """Return a table of groups of rows that are HTML already; columns with `numbers` end at the right."""
    kinds = dict.fromkeys(numbers, ' class="number"')
    names = "".join(f"<th{kinds.get(at, '')}>{escaped(name)}</th>" for at, name in enumerate(head))
    bodies = "".join(f"<tbody>{group}</tbody>" for group in groups)
    named = f' class="{kind}"' if kind else ""
    return f'<div class="wide"><table{named}><thead><tr>{names}</tr></thead>{bodies}</table></div>'


def html_row(cells: Iterable[str], numbers: Iterable[int] = ()) -> str:
    """Return a row of cells that are HTML already; cells with `numbers` end at the right."""
    kinds = dict.fromkeys(numbers, ' class="number"')
    return "<tr>" + "".join(f"<td{kinds.get(at, '')}>{cell}</td>" for at, cell in enumerate(cells)) + "</tr>"


def soft(sentence: str) -> str:
    """Return a sentence that explains what is beside it."""
    return f'<p class="soft">{escaped(sentence)}</p>'


def caution(sentence: str) -> str:
    """Return a sentence that warns, in a box of its own."""
    return f'<p class="caution" role="note">{escaped(sentence)}</p>'


def verdict(sentence: str, kind: str) -> str:
    """Return a verdict in a box; "helps", "hurts" and "no evidence" have colours."""
    return f'<p class="verdict {kind.replace(" ", "-")}">{escaped(sentence)}</p>'


def section(title: str, *parts: str) -> str:
    """Return a section with its heading; nothing if it has no parts."""
    return f"<h2>{escaped(title)}</h2>{''.join(parts)}" if any(parts) else ""


def panels(figures: Iterable[str]) -> str:
    """Return figures side by side where there is room."""
    return f'<div class="panels">{"".join(figures)}</div>'


def bullets(sentences: Iterable[str]) -> str:
    """Return a list of sentences; nothing without one."""
    items = "".join(f"<li>{escaped(sentence)}</li>" for sentence in sentences)
    return f"<ul>{items}</ul>" if items else ""


def notes_section(notes: Sequence[str]) -> str:
    """Return what to keep in mind; nothing without notes."""
    return section("What to keep in mind", bullets(notes))


def facts_section(facts: Mapping[str, str], title: str = "How it was found out") -> str:
    """Return facts by name; nothing without facts."""
    items = "".join(f"<dt>{escaped(str(name))}</dt><dd>{escaped(str(fact))}</dd>" for name, fact in facts.items())
    return section(title, f"<dl>{items}</dl>" if items else "")


def folded(title: str, values: Mapping[str, str]) -> str:
    """Return a folded table of names and values, such as versions; nothing without values."""
    return f"<details><summary>{escaped(title)}</summary>{table(['', ''], values.items())}</details>" if values else ""


def _digest(inline: str) -> str:
    """Return the name by which a policy allows this text and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode('utf-8')).digest()).decode('ascii')}'"
