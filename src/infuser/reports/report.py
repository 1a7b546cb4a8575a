"""The report of a comparison: the verdict first, then the numbers, the pictures, and how it was done."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infuser.analysis.explanation import Explanation
from infuser.errors import InputError
from infuser.files import write_whole
from infuser.reports.charts import dot_plot, line_chart
from infuser.reports.page import document
from infuser.reports.parts import escaped, soft, table
from infuser.reports.sections import explanation_section
from infuser.reports.table import header, method_note, rows
from infuser.stats.comparison import Comparison
from infuser.versions import installed_versions

Curves = Mapping[str, Sequence[tuple[float, float]]]
"""Line name to (step, value) points."""


def write_report(
    path: str | Path,
    *,
    title: str,
    comparison: Comparison,
    explanations: Sequence[Explanation] = (),
    facts: Mapping[str, str] | None = None,
    next_steps: Sequence[str] = (),
    curves: Curves | None = None,
    settings: Mapping[str, object] | None = None,
) -> Path:
    """Write one self-contained page about a comparison, and the same as JSON beside it; return the page's path."""
    path = Path(path)
    if path.suffix not in {".html", ".htm"}:
        raise InputError(f"A report is a web page, and {path.name!r} does not end in .html. Call it 'report.html'.")
    versions, written = installed_versions(), datetime.now(UTC).isoformat(timespec="seconds")
    folded = {"Versions": versions, "Settings": {key: str(value) for key, value in (settings or {}).items()}}
    parts = [
        f"<h1>{escaped(title)}</h1>",
        _verdicts(comparison),
        _results(comparison),
        _curves(curves or {}),
        _explanations(explanations),
        _facts(facts or {}),
        _next_steps(next_steps),
        *(_folded(name, values) for name, values in folded.items() if values),
        soft(f"Written {written}."),
    ]
    content: dict[str, Any] = {
        "title": title,
        "written": written,
        "verdicts": comparison.verdicts,
        "comparison": json.loads(comparison.to_json()),
        "facts": dict(facts or {}),
        "next_steps": list(next_steps),
        "curves": {name: [[float(x), float(y)] for x, y in points] for name, points in _finite(curves or {}).items()},
        "settings": folded["Settings"],
        "versions": versions,
        "explanations": [explanation.to_dict() for explanation in explanations],
    }
    write_whole(path.with_suffix(".json"), json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))
    return write_whole(path, document(title, "\n".join(part for part in parts if part)))


def _verdicts(comparison: Comparison) -> str:
    kinds = [difference.verdict.replace(" ", "-") for difference in comparison.differences]
    return "".join(
        f'<p class="verdict {kind}">{escaped(sentence)}</p>'
        for kind, sentence in zip(kinds, comparison.verdicts, strict=True)
    )


def _results(comparison: Comparison) -> str:
    dots = "A ring per seed, a dot for the mean, a line for the 95 % interval over seeds."
    return (
        f"<h2>Results</h2>{table(header(comparison), rows(comparison))}{soft(method_note(comparison))}"
        f"{dot_plot(comparison)}{soft(dots)}"
    )


def _curves(curves: Curves) -> str:
    chart = line_chart(curves, x_name="step")
    return f"<h2>During training</h2>{chart}" if chart else ""


def _finite(curves: Curves) -> dict[str, list[tuple[float, float]]]:
    """Leave out points that JSON has no word for."""
    return {
        name: [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)] for name, points in curves.items()
    }


def _explanations(explanations: Sequence[Explanation]) -> str:
    return "".join(f"<h2>{escaped(one.title)}</h2>{explanation_section(one)}" for one in explanations)


def _facts(facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    items = "".join(f"<dt>{escaped(str(name))}</dt><dd>{escaped(str(fact))}</dd>" for name, fact in facts.items())
    return f"<h2>How the task was built</h2><dl>{items}</dl>"


def _next_steps(steps: Sequence[str]) -> str:
    if not steps:
        return ""
    # a command and, behind three blanks, what it does
    parts = [(command, told) for command, _, told in (step.partition("   ") for step in steps)]
    items = (
        f"<code>{escaped(command)}</code><br/>{escaped(told)}" if told else escaped(command) for command, told in parts
    )
    return f"<h2>What to try next</h2><ol>{''.join(f'<li>{item}</li>' for item in items)}</ol>"


def _folded(name: str, values: Mapping[str, str]) -> str:
    return f"<details><summary>{escaped(name)}</summary>{table(['', ''], values.items())}</details>"
