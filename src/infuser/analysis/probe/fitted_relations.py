"""A fitted relation extractor as a probe report: what it weighs, what it confuses, how often it is right."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from infuser.analysis.probe.relation_fits import answer
from infuser.analysis.probe.relation_rows import RowFeatures, choose_rows
from infuser.analysis.probe.result import ProbeReport
from infuser.relations.classifier import Linear
from infuser.relations.examples import NO_RELATION, RelationText
from infuser.relations.features import write_features
from infuser.relations.model import AttentionRelations
from infuser.versions import installed_versions
from infuser.words import counted

_NEGATIVES = (
    "Triples that are none are drawn here among mentions and random words, as infuser probe does; an extraction meets "
    "harder ones. How right it is on raw text: infuser relations evaluate."
)


def report_fitted(
    model: AttentionRelations, test: Sequence[RelationText], *, name: str, data: str, progress: bool = False
) -> ProbeReport:
    """Return what a fitted model answers about the triples of test texts, and what it weighs."""
    rows = choose_rows(test, relations=model.model_.relations, seed=model.seed)
    with tempfile.TemporaryDirectory(prefix="infuser-relations-", ignore_cleanup_errors=True) as folder:
        features = write_features(model.reader(), rows.texts, Path(folder) / "test.npy", progress=progress)
        seen = RowFeatures.whole(rows, features)
        answers = answer(model.model_.gate, _relations_only(model.model_.which), seen)
        reading = answers.reading(name, model.reader(), model.labels_)
        n_lost = int((~seen.readable).sum())
        facts = {
            "Test triples": f"{len(seen.facts()):,} of {len(reading.relations):,} relations, {data}",
            "Features": f"{' x '.join(map(str, model.reader().shape))} numbers per triple ({model.features_.kind})",
            "Thresholds": f"gate {model.thresholds_.gate:g}, best relation {model.thresholds_.best:g}",
            "Seed": str(model.seed),
        }
        del seen, features  # a mapped file cannot be removed everywhere
    notes = [_NEGATIVES]
    if n_lost:
        notes.append(
            f"{counted(n_lost, 'triple')} of {len(rows.truth):,} could not be read (cut off, blank or without words "
            "that say the relation) and are left out."
        )
    untested = len(model.model_.relations) - len(reading.relations)
    if untested:
        notes.append(f"{counted(untested, 'relation')} of the model have no test triple, so no score.")
    versions = {**installed_versions(), "scikit-learn": version("scikit-learn")}
    return ProbeReport((reading,), model.labels_, tuple(notes), facts, versions)


def _relations_only(which: Linear) -> Linear:
    """Return a classifier without the class "none of them": what it would say if it had to name a relation."""
    kept = [place for place, name in enumerate(which.classes) if name != NO_RELATION]
    if len(kept) == len(which.classes):
        return which
    bias = which.bias if len(which.classes) > 2 else np.concatenate([-which.bias, which.bias]) / 2
    weights, bias = which.centred()[kept], bias[kept]
    if len(kept) < 3:  # one row tells two classes apart, and none is needed for one
        weights, bias = np.diff(weights, axis=0), np.diff(bias)
    return Linear(tuple(which.classes[place] for place in kept), which.mean, which.scale, weights, bias)
