"""What the reader of a bench's table should know: what is missing, and what was not the same for all cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from infuser.reports.bench_plan import Plan

Result = Mapping[str, Any]


def notes_on(plan: Plan, cells: Sequence[Result], n_cells: int) -> list[str]:
    """Return the notes under a table."""
    notes = []
    if len(cells) < n_cells:
        notes.append(f"Not finished: {n_cells - len(cells)} of {n_cells} cells are missing.")
    for task in plan.tasks:
        own = [cell for cell in cells if cell["cell"]["task"] == task]
        for part in ("train", "score"):
            digests = Counter(cell["data"][part]["digest"] for cell in own if part in cell.get("data", {}))
            if len(digests) > 1:
                notes.append(
                    f"{task}: {len(digests)} different versions of its {part} data were read. Cells are compared "
                    "example by example only with a baseline that was scored on the same examples."
                )
    for name, versions in _all_versions(cells).items():
        if len(versions) > 1:
            told = ", ".join(f"{version} ({n} cells)" for version, n in versions.items())
            notes.append(f"Cells were run with different versions of {name}: {told}.")
    if plan.published.source:
        note = f" ({plan.published.note})" if plan.published.note else ""
        notes.append(f"Published: {plan.published.source}{note}.")
    return notes


def versions_of(cells: Sequence[Result]) -> dict[str, str]:
    """Return the versions of all that had a part in it."""
    return {name: ", ".join(versions) for name, versions in _all_versions(cells).items()}


def _all_versions(cells: Sequence[Result]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for cell in cells:
        for name, version in cell.get("versions", {}).items():
            found.setdefault(name, Counter())[str(version)] += 1
    return found
