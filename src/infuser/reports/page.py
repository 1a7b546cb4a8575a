"""One web page in one file: nothing fetched, nothing trusted, light on a phone, dark when the reader is."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from pathlib import Path

from infuser.errors import InputError
from infuser.reports.explanation import Explanation
from infuser.reports.grids import SCRIPT
from infuser.reports.sections import explanation_section
from infuser.writing import write_whole

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #5c6670; --line: #d5dae0; --tint: #f3f5f8;
  --mark: 217 98 14; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ec; --paper: #14171a; --soft: #9aa5b0; --line: #363d45; --tint: #1e2328; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.55rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .3rem; } p, ul, ol, dl { max-width: 46rem; }
small, .soft { color: var(--soft); font-size: .875rem; }
.verdict { border-left: .3rem solid #9aa5b0; background: var(--tint); padding: .7rem 1rem; font-size: 1.1rem; }
.verdict.helps { border-color: #2b8a5b; } .verdict.hurts { border-color: #c2410c; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem .3rem 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 500; font-size: .875rem; }
.panels { display: flex; flex-wrap: wrap; gap: 1rem 1.6rem; } figure { margin: .4rem 0; max-width: 100%; }
figcaption { font-size: .925rem; } svg { display: block; } svg text { fill: var(--ink); dominant-baseline: central; }
svg text.r { text-anchor: end; } svg .term { font-style: italic; } svg image { image-rendering: pixelated; }
svg .frame { fill: none; stroke: var(--line); } svg .line { stroke: var(--ink); }
svg[data-values] { cursor: crosshair; }
svg .box { fill: none; stroke: var(--ink); stroke-width: 1.5; pointer-events: none; }
svg.chart { width: 100%; max-width: 40rem; height: auto; } svg.chart text { dominant-baseline: auto; }
svg .grid { stroke: var(--line); } svg .tick { fill: var(--soft); font-size: 11px; } svg .m { text-anchor: middle; }
svg .e { text-anchor: end; }
.words { line-height: 2; } .words span, .words mark { padding: .1rem .15rem; border-radius: .2rem; color: inherit; }
.words mark { background: rgb(var(--mark) / var(--share)); }
blockquote { margin: .4rem 0; padding-left: .8rem; border-left: .2rem solid var(--line); white-space: pre-wrap;
  max-width: 46rem; }
dt { font-weight: 600; margin-top: .5rem; } dd { margin: 0; } summary { cursor: pointer; margin: 1.5rem 0 .5rem; }
.bar { display: inline-block; height: .6rem; background: #3b82c4; border-radius: .15rem; vertical-align: baseline; }
#tip { position: fixed; z-index: 9; background: var(--ink); color: var(--paper); padding: .15rem .5rem; max-width: 90vw;
  border-radius: .3rem; font-size: .85rem; pointer-events: none; }
"""


def document(title: str, body: str) -> str:
    """Return a whole page around `body`, which must be escaped already; `title` is escaped here."""
    # the browser itself is told to fetch nothing and to run no script but ours
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n"
        f'<div id="tip" hidden></div>\n<script>{SCRIPT}</script>\n</body>\n</html>\n'
    )


def write_explanation(explanations: Explanation | Sequence[Explanation], path: str | Path) -> Path:
    """Write one self-contained page that shows what knowledge did to one text or to several."""
    told = [explanations] if isinstance(explanations, Explanation) else list(explanations)
    if not told:
        raise InputError("Nothing to write: the list of explanations is empty. Explain at least one text.")
    if len(told) == 1:
        title, sections = told[0].title, explanation_section(told[0])
    else:
        title = f"What knowledge changed in {len(told)} texts"
        sections = "\n".join(f"<h2>{escape(one.title)}</h2>{explanation_section(one)}" for one in told)
    return write_whole(path, document(title, f"<h1>{escape(title)}</h1>\n{sections}"))
