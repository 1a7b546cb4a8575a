"""Notes under the table of a bench: which data were used, what is missing, what was not the same everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from infuser.experiments.coverage import coverage_sentences
from infuser.experiments.rules import rule_sentences

if TYPE_CHECKING:
    from infuser.experiments.summary import Plan

Result: TypeAlias = Mapping[str, Any]
"""What one cell wrote."""


def notes_on(plan: Plan, cells: Sequence[Result]) -> list[str]:
    """Return the notes under a table."""
    notes = []
    if len(cells) < plan.n_cells:
        notes.append(f"Not finished: {plan.n_cells - len(cells)} of {plan.n_cells} cells are missing.")
    for task in plan.tasks:
        own = [cell for cell in cells if cell["cell"]["task"] == task]
        notes += [*_used(task, own), *_notes_of_task(plan, task, own), *_rules(plan, task, own), *_mixed(task, own)]
    for name, versions in _all_versions(cells).items():
        if len(versions) > 1:
            listed = ", ".join(f"{version} ({n} cells)" for version, n in versions.items())
            notes.append(f"Cells were run with different versions of {name}: {listed}.")
    if plan.published.source:
        note = f" ({plan.published.note})" if plan.published.note else ""
        others = plan.published.tasks_not_run()
        notes.append(
            f"Published: {plan.published.source}{note}."
            + (f" Of its tasks, not run here: {', '.join(others)}." if others else "")
        )
    return notes


def versions_of(cells: Sequence[Result]) -> dict[str, str]:
    """Return the versions of the libraries that the cells were run with."""
    return {name: ", ".join(versions) for name, versions in _all_versions(cells).items()}


def _used(task: str, cells: Sequence[Result]) -> list[str]:
    """Note how many examples were trained on, held out and scored."""
    used = Counter(_sizes(cell["data"]) for cell in cells)
    listed = [sizes if len(used) == 1 else f"{sizes} ({n} cells)" for sizes, n in used.items()]
    return [f"{task}: {'; '.join(listed)}."] if listed else []


def _sizes(data: Mapping[str, Any]) -> str:
    n_train, n_held_out, scored = data["train"]["n"], data["held_out"]["n"], data["score"]
    held_out = f"{n_held_out:,}" if n_held_out else "none"
    trained = f"trained on {n_train:,} examples, {held_out} held out" if n_train else "nothing trained"
    return f"{trained}, {scored['n']:,} of {scored['split']} scored"


def _notes_of_task(plan: Plan, task: str, cells: Sequence[Result]) -> list[str]:
    """Return the notes of a task beside the scores of the baseline, such as what was left out; of the first seed."""
    notes = []
    for host in plan.bench.hosts:
        own = {
            cell["cell"]["seed"]: cell.get("notes")
            for cell in cells
            if (cell["cell"]["host"], cell["cell"]["method"]) == (host, plan.bench.baseline)
        }
        given = next((own[seed] for seed in plan.bench.seeds if seed in own), None)
        if given:
            who = f"{host}, {plan.bench.baseline}" if len(plan.bench.hosts) > 1 else plan.bench.baseline
            words = "; ".join(_in_words(name, value, plan.published.scale) for name, value in given.items())
            notes.append(f"{task} ({who}): {words}.")
    return notes


def _rules(plan: Plan, task: str, cells: Sequence[Result]) -> list[str]:
    """Note what rules reach without an encoder, alone and joined with the plain one, and scores by coverage."""
    notes = []
    plain = next((name for name, arm in plan.bench.arms.items() if arm.kind is None), None)
    for host in plan.bench.hosts:
        results: dict[str, list[Result]] = {}
        for cell in cells:
            if cell["cell"]["host"] == host:
                results.setdefault(cell["cell"]["method"], []).append(cell)
        metric, scale = plan.metrics[task][0], plan.published.scale
        said = rule_sentences(plan.tasks[task], metric, results, plain, scale=scale)
        said += coverage_sentences(plan.tasks[task], metric, results, scale=scale)
        notes += [f"{task}{f', {host}' if len(plan.bench.hosts) > 1 else ''}: {one}" for one in said]
    return notes


def _in_words(name: str, value: Any, scale: float) -> str:
    if isinstance(value, Mapping):
        return f"{name}: {', '.join(_in_words(one, part, scale) for one, part in value.items()) or 'none'}"
    if isinstance(value, float):  # a share, on the table's scale
        return f"{name} {value * scale:.3g}"
    return f"{value:,} {name}" if isinstance(value, int) else f"{name}: {value}"


def _mixed(task: str, cells: Sequence[Result]) -> list[str]:
    """Note where cells in one column did not read the same data or the same knowledge."""
    notes = []
    for part in ("train", "held_out", "score"):
        n_versions = len({cell["data"][part]["digest"] for cell in cells})
        if n_versions > 1:
            notes.append(
                f"{task}: {n_versions} different versions of its {part.replace('_', '-')} data were read. Cells are "
                "compared example by example only with a baseline that was scored on the same examples."
            )
    marks: dict[str, set[tuple[str, ...]]] = {}
    for cell in cells:
        marks.setdefault(cell["cell"]["method"], set()).add(tuple(cell["settings"]["knowledge"]))
    notes += [
        f"{task}: cells of {method} read {len(own)} different versions of its knowledge. Its mean and intervals mix "
        "them: remove the results of one version and run again."
        for method, own in marks.items()
        if len(own) > 1
    ]
    return notes


def _all_versions(cells: Sequence[Result]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for cell in cells:
        for name, version in cell.get("versions", {}).items():
            found.setdefault(name, Counter())[str(version)] += 1
    return found
