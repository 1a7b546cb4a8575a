"""A probe as one web page: the verdict first, then how sure it is, where in the encoder it sits, what is mixed up."""

from __future__ import annotations

from pathlib import Path

from infuser.analysis.probe.result import ProbeReport
from infuser.files import write_whole
from infuser.reports.page import document, escaped, facts_section, folded, notes_section, verdict
from infuser.reports.probe_sections import (
    confusion_section,
    gain_section,
    importance_section,
    layer_section,
    relation_section,
    score_section,
    tree_section,
)

PAGE, NUMBERS = "probe.html", "probe.json"


def write_probe(report: ProbeReport, folder: str | Path) -> Path:
    """Write the page and the same as JSON beside it; return the page's path."""
    folder, names = Path(folder), report.names
    title = f"What {names[0]} knows about relations" if len(names) == 1 else f"Relations in {names[0]} and {names[1]}"
    named = dict(zip(names, report.readings, strict=True))
    parts = [
        verdict(report.sentence, _colour(report)),
        *(f"<p>{escaped(one)}</p>" for one in report.sentences if one != report.sentence),
        notes_section(report.notes),
        score_section(named),
        layer_section(named),
        gain_section(report),
    ]
    for name, reading in named.items():
        of = name if len(named) > 1 else ""
        parts += [importance_section(reading, of), tree_section(reading, of), confusion_section(reading, of)]
    parts += [relation_section(named), facts_section(report.facts), folded("Versions", report.versions)]
    write_whole(folder / NUMBERS, report.to_json())
    return write_whole(folder / PAGE, document(title, parts))


def _colour(report: ProbeReport) -> str:
    """Return the class of the verdict: green for knowledge found or gained, red for knowledge lost."""
    if report.change is not None:
        return {"more": "helps", "less": "hurts"}.get(report.change, "no evidence")
    return "helps" if report.readings[0].verdict == "knows" else "no evidence"
