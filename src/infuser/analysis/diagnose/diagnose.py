"""Does the knowledge help, where, and what did it change? Compares runs with their baseline, placebo and text arm."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.analysis.diagnose.buckets import buckets, entity_frequency
from infuser.analysis.diagnose.data import Coverage, DiagnosisData, logits_of, read_data
from infuser.analysis.diagnose.directions import corresponding_angles, feature_matrix, singular_values
from infuser.analysis.diagnose.effects import (
    answers,
    channel_effects,
    corruption_curve,
    flips,
    with_annotations,
    without_channel,
)
from infuser.analysis.diagnose.notes import list_facts, list_notes
from infuser.analysis.diagnose.result import Diagnosis
from infuser.analysis.diagnose.runs import Arms, complete, sort_runs
from infuser.analysis.explain import explain
from infuser.analysis.explanation import Explanation
from infuser.errors import CheckpointError, InputError
from infuser.experiments.arm import PLACEBO, PLAIN, TEXT
from infuser.experiments.data import NOTHING_TO_WRITE, can_write, shuffle_part
from infuser.experiments.train import TrainedRun
from infuser.hosts.checkpoints import find_checkpoint
from infuser.hosts.loading import load_model
from infuser.infused import Infused, load
from infuser.opening import open_plain, plain_collator
from infuser.sources.naming import source_names
from infuser.stats.comparison import ArmScores, compare_arms
from infuser.training import StepReport
from infuser.versions import installed_versions
from infuser.words import counted

SIZES = (0.1, 0.3)
"""Shares of the training examples that the infused arm is also trained on."""
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Shares of entities that are taken for others."""
_N_EXPLAINED = 2
"""So many of the mended examples are explained, and of the spoilt ones."""
_NO_TEXT_RUN = (
    "Not every infused run has its text run, the same knowledge written behind the texts, so that arm is left out. The "
    "same command without --no-training trains it."
)
_log = logging.getLogger(__name__)


def diagnose(
    runs: Sequence[str | Path],
    *,
    data: Path | None = None,
    frequencies: Path | None = None,
    sizes: Sequence[float] = SIZES,
    corrupt: Sequence[float] = SHARES,
    text: bool = True,
    training: bool = True,
    cache: Path | None = None,
    report: Callable[[str], None] = _log.info,
    coverage: Coverage | None = None,
    progress: bool | Callable[[StepReport], None] = False,
) -> Diagnosis:
    """Compare infused runs of `infuser train` with the same training without knowledge, as text, and with a placebo.

    runs: folders, infused ones and perhaps plain, text and placebo ones. With `training`, missing ones are trained
        as these were, into RUN/diagnose, and found there again.
    data: test examples with the columns of the training table; None takes the dev examples.
    frequencies: a folder of `infuser annotate`, in which entities were counted; None counts in the training texts.
    sizes: shares of the training examples that the infused arm is also trained on, to compare features.
    corrupt: shares of entities that are taken for others while answering.
    text: compare with the same knowledge written behind the texts; left out where the sources have nothing to write,
        and where that is what the runs themselves do.
    report: called with a line about each step; `coverage` with what the sources found in the test texts.
    """
    shares = sorted({0.0, *corrupt})
    if not 0 <= shares[0] <= shares[-1] <= 1:
        raise InputError(f"--corrupt takes shares between 0 and 1, not {shares[0] or shares[-1]:g}.")
    arms = sort_runs([Path(run) for run in runs])
    tested = read_data(arms, data, frequencies, cache=cache, coverage=coverage)
    text = text and arms.method != TEXT
    writes = text and can_write(tested.train)
    if not writes:
        arms.text.clear()
    smaller = complete(arms, sizes, text=writes, training=training, cache=cache, report=report, progress=progress)
    found = _examine(arms, smaller, tested, shares, report)
    if text and found.comparison is not None and TEXT not in arms.compared():
        found = replace(found, notes=[*found.notes, _NO_TEXT_RUN if writes else NOTHING_TO_WRITE])
    return replace(
        found,
        notes=list_notes(found, arms, tested, data, frequencies, n_smaller=len(smaller)),
        facts=list_facts(found, arms, tested, data, frequencies),
        versions={**installed_versions(), "written": datetime.now(UTC).isoformat(timespec="seconds")},
    )


@dataclass
class _Answers:
    """What the models of all seeds answer: probabilities (examples, classes) for each seed."""

    of_arm: dict[str, list[NDArray[np.float64]]]
    without: dict[str, list[NDArray[np.float64]]]
    """Source to the infused arm's answers when this source finds nothing."""
    curves: dict[str, list[list[tuple[float, float]]]] = field(default_factory=dict)
    """Arms whose knowledge is made wrong, to the score against the share of wrong entities, for each seed."""


def _examine(
    arms: Arms,
    smaller: Mapping[int, TrainedRun],
    data: DiagnosisData,
    shares: Sequence[float],
    report: Callable[[str], None],
) -> Diagnosis:
    """Let all models answer and put the answers together; without a baseline and a placebo nothing is compared."""
    seeds = arms.whole_seeds()
    compared = bool(seeds)
    seeds = seeds or sorted(arms.infused)
    runs = arms.compared() or {arms.method: arms.infused}
    rivals = [(arms.method, name) for name in (TEXT, PLACEBO) if name in runs and name != arms.method]
    first = load(arms.first.run.model)
    names = source_names(first.sources)
    answered = _answer(arms.method, runs, seeds, names, data, shares, report)
    report("Comparing")
    of_method = answered.of_arm[arms.method]
    scored = [
        ArmScores(
            name,
            [logits_of(one) for one in answered.of_arm[name]],
            of_arm[seeds[0]].record["result"]["new_weights"],
            [of_arm[seed].record["result"]["seconds"] for seed in seeds],
        )
        for name, of_arm in runs.items()
    ]
    without = {name: [logits_of(one) for one in of_source] for name, of_source in answered.without.items()}
    metric, truth = data.metric, data.truth
    found = Diagnosis(
        title=f"Does the knowledge help? {arms.method}, {arms.first.data_name}",
        comparison=compare_arms(scored, truth, metric=metric, also=rivals) if compared else None,
        metric=metric.name.replace("auc", "AUC"),
        buckets=buckets(scored, truth, entity_frequency(data.entities, data.frequencies), metric=metric),
        corruption=_corruption(answered, data, shares),
        channels=channel_effects(names, [logits_of(one) for one in of_method], without, truth, metric=metric),
        flips=flips(data.test, truth, answered.of_arm[PLAIN], of_method, data.labels) if compared else (),
    )
    report("Looking inside")
    angles, notes = _angles(arms.first, first)
    plain = arms.plain[seeds[0]] if compared else None
    return replace(
        found,
        angles=angles,
        notes=notes,
        spectra=_spectra(arms.method, first, smaller, plain, data),
        explanations=_explanations(first, found),
    )


def _answer(
    method: str,
    runs: Mapping[str, Mapping[int, TrainedRun]],
    seeds: Sequence[int],
    sources: Sequence[str],
    data: DiagnosisData,
    shares: Sequence[float],
    report: Callable[[str], None],
) -> _Answers:
    """Let the models of all arms and seeds answer; the infused ones also without a source and with wrong entities."""
    answered = _Answers(
        {name: [] for name in runs},
        {source: [] for source in sources},
        {name: [] for name in runs if name in (method, TEXT)},
    )
    annotated = [example["annotations"] for example in data.test]
    pool = [example["annotations"] for example in data.train]
    for seed in seeds:
        for name, of_arm in runs.items():
            report(f"Answering {counted(len(data.test), 'test example')}: {name}, seed {seed}")
            if name == PLAIN:
                answered.of_arm[name].append(answers(*_open_plain(of_arm[seed], data.test)))
                continue
            infused = load(of_arm[seed].run.model)
            collate = infused.collator()
            test = shuffle_part(data.test, seed=data.shuffling) if name == PLACEBO else data.test
            answered.of_arm[name].append(answers(infused, test, collate))
            if name in answered.curves:
                curve = corruption_curve(infused, data.test, shares, score=data.score, pool=pool)
                answered.curves[name].append(curve)
            if name != method:
                continue
            for place, source in enumerate(sources):
                left = with_annotations(data.test, without_channel(annotated, place))
                answered.without[source].append(answers(infused, left, collate))
    return answered


def _open_plain(run: TrainedRun, test: Sequence[dict[str, Any]]) -> tuple[Any, Sequence[dict[str, Any]], Any]:
    """Return a plain model, the test examples and its collator, as `answers` and `feature_matrix` take them."""
    model, tokenizer = open_plain(str(run.run.model))
    return model, test, plain_collator(model, tokenizer)


def _corruption(
    answered: _Answers, data: DiagnosisData, shares: Sequence[float]
) -> dict[str, list[tuple[float, float]]]:
    """Return the mean curve over seeds; arms whose knowledge is not corrupted are level lines."""
    found = {}
    for name, of_arm in answered.of_arm.items():
        level = float(np.mean([data.score(one) for one in of_arm]))
        found[name] = [(share, level) for share in shares]
        if name in answered.curves:
            by_share = zip(*answered.curves[name], strict=True)
            found[name] = [(of_seeds[0][0], float(np.mean([value for _, value in of_seeds]))) for of_seeds in by_share]
    return found


def _angles(run: TrainedRun, infused: Infused) -> tuple[dict[str, list[tuple[float, float]]], list[str]]:
    try:
        pretrained = load_model(find_checkpoint(run.record["files"]["checkpoint"]), "encoder")
    except CheckpointError as error:
        return {}, [f"What fine-tuning changed in the weights is unknown: {error}"]
    return corresponding_angles(pretrained, infused.model, progress=True), []


def _spectra(
    method: str, first: Infused, smaller: Mapping[int, TrainedRun], plain: TrainedRun | None, data: DiagnosisData
) -> dict[str, list[float]]:
    """Return the singular values of the test features for each number of training examples, few first."""

    def values(infused: Infused) -> list[float]:
        return singular_values(feature_matrix(infused.model, data.test, infused.collator()))

    n_all = f"{len(data.train):,} examples"
    found = {f"{method}, {n:,} examples": values(load(run.run.model)) for n, run in sorted(smaller.items())}
    found[f"{method}, {n_all}"] = values(first)
    if plain is not None:
        found[f"{PLAIN}, {n_all}"] = singular_values(feature_matrix(*_open_plain(plain, data.test)))
    return found


def _explanations(infused: Infused, found: Diagnosis) -> list[Explanation]:
    """Return maps and attention of the clearest examples that were mended, and of those that were spoilt."""
    return [
        replace(explain(infused, flip.text, flip.pair, layer="strongest"), title=f"{what}: {flip.text[:80]}")
        for mended, what in ((True, "Mended"), (False, "Spoilt"))
        for flip in found.clearest(mended=mended)[:_N_EXPLAINED]
    ]
