"""One web page in one file: nothing fetched, nothing trusted, light on a phone, dark when the reader is."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from infuser.analysis.explanation import Explanation
from infuser.errors import InputError
from infuser.files import write_whole
from infuser.reports.parts import escaped
from infuser.reports.sections import explanation_section


@cache
def look_css() -> str:
    """Return the stylesheet that every page has, be it a file or live."""
    return files("infuser.reports").joinpath("look.css").read_text("utf-8")


@cache
def look_js() -> str:
    """Return the script that every page has: values of heat maps read out, pictures copied."""
    return files("infuser.reports").joinpath("look.js").read_text("utf-8")


def document(title: str, body: str) -> str:
    """Return a whole page around `body`, which must be escaped already; `title` is escaped here."""
    style, script = look_css(), look_js()
    # the browser itself is told to fetch nothing, and to use no style and run no script but ours
    policy = (
        f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escaped(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _digest(inline: str) -> str:
    """Return the name by which a policy allows this text and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode('utf-8')).digest()).decode('ascii')}'"


def write_explanation(explanations: Explanation | Sequence[Explanation], path: str | Path) -> Path:
    """Write one self-contained page that shows what knowledge did to one text or to several."""
    told = [explanations] if isinstance(explanations, Explanation) else list(explanations)
    if not told:
        raise InputError("Nothing to write: the list of explanations is empty. Explain at least one text.")
    if len(told) == 1:
        title, sections = told[0].title, explanation_section(told[0])
    else:
        title = f"What knowledge changed in {len(told)} texts"
        sections = "\n".join(f"<h2>{escaped(one.title)}</h2>{explanation_section(one)}" for one in told)
    return write_whole(path, document(title, f"<h1>{escaped(title)}</h1>\n{sections}"))
