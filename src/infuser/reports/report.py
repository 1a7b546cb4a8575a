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
from infuser.reports.explanation_page import explanation_section
from infuser.reports.page import document, escaped, facts_section, folded, section, soft, verdict
from infuser.reports.table import comparison_grid, method_note
from infuser.stats.comparison import ArmStatistics
from infuser.versions import installed_versions

Curves = Mapping[str, Sequence[tuple[float, float]]]
"""Line name to (step, value) points."""


def write_report(
    path: str | Path,
    *,
    title: str,
    comparison: ArmStatistics,
    notes: Sequence[str] = (),
    explanations: Sequence[Explanation] = (),
    facts: Mapping[str, str] | None = None,
    next_steps: Sequence[str] = (),
    curves: Curves | None = None,
    settings: Mapping[str, object] | None = None,
) -> Path:
    """Write one self-contained page about a comparison, and the same as JSON beside it; return the page's path.

    `notes` are sentences below the table of results.
    """
    path = Path(path)
    if path.suffix not in {".html", ".htm"}:
        raise InputError(f"A report is a web page, and {path.name!r} does not end in .html. Call it 'report.html'.")
    versions, written = installed_versions(), datetime.now(UTC).isoformat(timespec="seconds")
    made_with = {key: str(value) for key, value in (settings or {}).items()}
    parts = [
        *(verdict(*one) for one in zip(comparison.verdicts, (d.verdict for d in comparison.differences), strict=True)),
        results_section(comparison, *(f"<p>{escaped(note)}</p>" for note in notes)),
        section("During training", line_chart(curves or {}, x_name="step")),
        *(section(one.title, explanation_section(one)) for one in explanations),
        facts_section(facts or {}, "How the task was built"),
        _next_steps(next_steps),
        folded("Versions", versions),
        folded("Settings", made_with),
        soft(f"Written {written}."),
    ]
    content: dict[str, Any] = {
        "title": title,
        "written": written,
        "verdicts": comparison.verdicts,
        "comparison": json.loads(comparison.to_json()),
        "notes": list(notes),
        "facts": dict(facts or {}),
        "next_steps": list(next_steps),
        "curves": {name: [[float(x), float(y)] for x, y in points] for name, points in _finite(curves or {}).items()},
        "settings": made_with,
        "versions": versions,
        "explanations": [explanation.to_dict() for explanation in explanations],
    }
    write_whole(path.with_suffix(".json"), json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))
    return write_whole(path, document(title, parts))


def results_section(comparison: ArmStatistics, *more: str) -> str:
    """Return the table of a comparison with its dot plot; `more` comes between the two."""
    how = "A ring per seed, a dot for the mean, a line for the 95 % interval over seeds."
    table = comparison_grid(comparison).to_html()
    return section("Results", table, soft(method_note(comparison)), *more, dot_plot(comparison), soft(how))


def _finite(curves: Curves) -> dict[str, list[tuple[float, float]]]:
    """Leave out points that JSON cannot hold."""
    return {
        name: [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)] for name, points in curves.items()
    }


def _next_steps(steps: Sequence[str]) -> str:
    if not steps:
        return ""
    # a command and, behind three blanks, what it does
    parts = [(command, effect) for command, _, effect in (step.partition("   ") for step in steps)]
    items = (
        f"<code>{escaped(command)}</code><br/>{escaped(effect)}" if effect else escaped(command)
        for command, effect in parts
    )
    return section("What to try next", f"<ol>{''.join(f'<li>{item}</li>' for item in items)}</ol>")
