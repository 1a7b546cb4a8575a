"""What a reader of a diagnosis must know: what is missing, what flatters, and which runs and data it compares."""

from __future__ import annotations

from pathlib import Path

from infuser.analysis.diagnose.data import DiagnosisData
from infuser.analysis.diagnose.result import Diagnosis
from infuser.analysis.diagnose.runs import Arms
from infuser.experiments.arm import PLACEBO, PLAIN
from infuser.words import counted


def list_notes(
    found: Diagnosis, arms: Arms, data: DiagnosisData, path: Path | None, frequencies: Path | None, *, n_smaller: int
) -> list[str]:
    """Return what is missing and what flatters the scores.

    path, frequencies: the files that were given to `diagnose`.
    """
    notes = list(found.notes)
    seeds = arms.whole_seeds()
    lacking = [name for name, there in ((PLAIN, arms.plain), (PLACEBO, arms.placebo)) if arms.infused.keys() - there]
    if lacking:
        notes.append(
            f"Not every infused run has its {' and its '.join(lacking)} run"
            + (f"; compared are the seeds {', '.join(map(str, seeds))}" if seeds else ", so nothing is compared")
            + ". The same command without --no-training trains what is missing."
        )
    unpaired = sorted({*arms.plain, *arms.placebo, *arms.text} - arms.infused.keys())
    if unpaired:
        notes.append(f"Runs of the seeds {', '.join(map(str, unpaired))} have no infused run beside them; not used.")
    if not n_smaller:
        notes.append("Features are shown for one training-set size only; smaller ones take training.")
    if path is None:
        notes.append(
            "The test examples are the dev examples. The weights of each run were chosen on them, so all scores "
            "flatter; give examples of their own with --data FILE."
        )
    trained_on = {(example["text"], example["pair"]) for example in data.train}
    n_seen = sum((example["text"], example["pair"]) in trained_on for example in data.test)
    if n_seen:
        notes.append(f"{counted(n_seen, 'test example')} of {len(data.test):,} occur among the training examples, too.")
    annotations = [one for example in data.test for one in example["annotations"]]
    linked = any(link.source != link.target for one in annotations for link in one.links)
    if not linked and not any(one.terms or one.candidates for one in annotations):
        notes.append("The sources tie no two entities of the test examples, so links cannot be made wrong.")
    if frequencies is not None and all(bucket.name in ("in no text", "no entity") for bucket in found.buckets):
        notes.append(f"{frequencies} counts none of the entities in the test examples; were its sources the same?")
    return notes


def list_facts(
    found: Diagnosis, arms: Arms, data: DiagnosisData, path: Path | None, frequencies: Path | None
) -> dict[str, str]:
    """Return which runs, data and settings were compared."""
    reached = found.corruption[arms.method][0][1]
    made_with = arms.first.made_with
    return {
        "Runs": ", ".join(str(run.run.folder) for _, run in sorted(arms.infused.items())),
        "Encoder": made_with["checkpoint"],
        "Knowledge": ", ".join(made_with["knowledge"]),
        "Training examples": f"{len(data.train):,}, {arms.first.data_name}",
        "Test examples": f"{len(data.test):,}, {'the dev examples' if path is None else path.name}",
        "How frequent an entity is": (
            "in how many training texts it occurs" if frequencies is None else f"as counted in {frequencies}"
        ),
        "Score": f"{found.metric}, higher is better; {arms.method} reaches {reached:.3f} on average",
        "Spectral penalty": str(made_with.get("spectral") or "none"),
        "Selection": str(made_with.get("select") or "none: all knowledge is injected"),
    }
