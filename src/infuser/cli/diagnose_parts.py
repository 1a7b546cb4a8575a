"""The parts of a diagnosis, from trained runs: each model answers the test examples once per question asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from infuser.analysis.diagnose.result import Diagnosis
from infuser.analysis.diagnose.runs import Arms
from infuser.cli.console import loading
from infuser.errors import CheckpointError
from infuser.experiments.arm import PLACEBO, PLAIN
from infuser.experiments.data import shuffle_part
from infuser.experiments.train import TrainedRun
from infuser.stats.comparison import ArmScores, compare
from infuser.stats.metrics import Metric
from infuser.types import Annotations
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.analysis.explanation import Explanation
    from infuser.infused import Infused

_N_EXPLAINED = 2
"""So many of the mended examples are explained, and of the spoilt ones."""


@dataclass(frozen=True)
class Question:
    """What is asked of every model."""

    test: list[dict[str, Any]]
    """Test examples with what the sources found in them."""
    train: list[dict[str, Any]]
    """The training examples of the first run, likewise."""
    labels: list[str]
    metric: Metric
    entities: Sequence[Sequence[Annotations]]
    """What the sources found in the test examples before any selection; entities that were left out count, too."""
    frequencies: Mapping[str, int]
    shares: Sequence[float]
    """Of entities that are taken for others, 0 first."""
    shuffling: int
    """Seed of the placebo's shuffling."""

    @property
    def truth(self) -> NDArray[np.int64]:
        """The number of the right label of each test example."""
        return np.array([example["label"] for example in self.test])

    def score(self, answers: NDArray[np.float64]) -> float:
        """Return how good the answers of one model are."""
        return self.metric(_logits(answers), self.truth)


@dataclass
class Answered:
    """What the models of all seeds answered."""

    answers: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)
    """Arm to the probabilities (examples, classes) of each seed."""
    without: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)
    """Source to the infused arm's answers when this source is silent."""
    curves: list[list[tuple[float, float]]] = field(default_factory=list)
    """For each seed the infused arm's score against the share of wrong entities."""


def _logits(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.maximum(probabilities, 1e-300))


def diagnose(arms: Arms, smaller: Mapping[int, TrainedRun], question: Question, told: Console) -> Diagnosis:
    """Ask every model and put the answers together; without a whole seed of all three arms nothing is compared."""
    import infuser
    from infuser.analysis.diagnose.buckets import buckets, entity_frequency
    from infuser.analysis.diagnose.effects import channel_effects, flips
    from infuser.sources.naming import source_names

    seeds = arms.whole_seeds()
    compared = bool(seeds)
    seeds = seeds or sorted(arms.infused)
    names = (PLAIN, arms.method, PLACEBO) if compared else (arms.method,)
    with loading(told, "the first model"):
        first = infuser.load(arms.first.run.model)
    sources = source_names(first.sources)
    asked = _ask(arms, names, seeds, sources, question, told)

    told.print("Comparing", highlight=False)
    scored = [
        ArmScores(
            name,
            [_logits(one) for one in asked.answers[name]],
            runs[seeds[0]].record["result"]["new_weights"],
            [runs[seed].record["result"]["seconds"] for seed in seeds],
        )
        for name, runs in _runs_of(arms, names)
    ]
    comparison = (
        compare(
            scored,
            question.truth,
            metric=question.metric,
            also=[(arms.method, PLACEBO)],
        )
        if compared
        else None
    )
    frequency = entity_frequency(question.entities, question.frequencies)
    found = Diagnosis(
        title=f"Does the knowledge help? {arms.method}, {Path(arms.first.record['files']['data']['path']).name}",
        comparison=comparison,
        metric=question.metric.name.replace("auc", "AUC"),
        buckets=buckets(scored, question.truth, frequency, metric=question.metric),
        corruption=_corruption(arms.method, asked, question),
        channels=channel_effects(
            sources,
            [_logits(one) for one in asked.answers[arms.method]],
            {name: [_logits(one) for one in of_source] for name, of_source in asked.without.items()},
            question.truth,
            metric=question.metric,
        ),
        flips=flips(question.test, question.truth, asked.answers[PLAIN], asked.answers[arms.method], question.labels)
        if compared
        else (),
    )
    told.print("Looking inside", highlight=False)
    angles, notes = _angles(arms.first, first, told)
    return replace(
        found,
        angles=angles,
        notes=notes,
        spectra=_spectra(arms, smaller, first, seeds[0], question, compared=compared),
        explanations=_explanations(first, found),
    )


def _runs_of(arms: Arms, names: Sequence[str]) -> list[tuple[str, dict[int, TrainedRun]]]:
    return [(name, {PLAIN: arms.plain, PLACEBO: arms.placebo}.get(name, arms.infused)) for name in names]


def _ask(
    arms: Arms, names: Sequence[str], seeds: Sequence[int], sources: Sequence[str], question: Question, told: Console
) -> Answered:
    """Let the models of all arms and seeds answer; the infused ones also without a source and with wrong entities."""
    import infuser
    from infuser.analysis.diagnose.effects import answers, corruption_curve, without_channel

    asked = Answered({name: [] for name in names}, {source: [] for source in sources})
    annotated = [example["annotations"] for example in question.test]
    pool = [example["annotations"] for example in question.train]
    for seed in seeds:
        for name, runs in _runs_of(arms, names):
            told.print(f"Answering {counted(len(question.test), 'test example')}: {name}, seed {seed}", highlight=False)
            if name == PLAIN:
                model, collate = _open_plain(runs[seed])
                asked.answers[name].append(answers(model, question.test, collate))
                continue
            infused = infuser.load(runs[seed].run.model)
            if name == PLACEBO:
                asked.answers[name].append(
                    answers(infused, shuffle_part(question.test, seed=question.shuffling), infused.collator())
                )
                continue
            asked.answers[name].append(answers(infused, question.test, infused.collator()))
            for place, source in enumerate(sources):
                silent = _with(question.test, without_channel(annotated, place))
                asked.without[source].append(answers(infused, silent, infused.collator()))
            curve = corruption_curve(infused, question.test, question.shares, score=question.score, pool=pool)
            asked.curves.append(curve)
    return asked


def _open_plain(run: TrainedRun) -> tuple[Any, Any]:
    from infuser.hosts.loading import load_model, load_tokenizer
    from infuser.opening import plain_collator

    folder = str(run.run.model)
    model = load_model(folder, "sequence-classification")
    return model, plain_collator(model, load_tokenizer(folder))


def _with(examples: Sequence[dict[str, Any]], found: Sequence[tuple[Annotations, ...]]) -> list[dict[str, Any]]:
    return [{**example, "annotations": one} for example, one in zip(examples, found, strict=True)]


def _corruption(method: str, asked: Answered, question: Question) -> dict[str, list[tuple[float, float]]]:
    """Return the mean curve over seeds; arms whose knowledge is not corrupted are level lines."""
    points = [(share, float(np.mean(values))) for share, values in _by_share(asked.curves)]
    levels = {name: np.mean([question.score(one) for one in of_arm]) for name, of_arm in asked.answers.items()}
    return {
        name: points if name == method else [(share, float(level)) for share, _ in points]
        for name, level in levels.items()
    }


def _by_share(curves: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, list[float]]]:
    return [(points[0][0], [value for _, value in points]) for points in zip(*curves, strict=True)]


def _angles(run: TrainedRun, infused: Infused, told: Console) -> tuple[dict[str, list[tuple[float, float]]], list[str]]:
    from infuser.analysis.diagnose.angles import corresponding_angles
    from infuser.hosts.checkpoints import find_checkpoint
    from infuser.hosts.loading import load_model

    try:
        with loading(told, "the pretrained encoder") as progress:
            pretrained = load_model(find_checkpoint(run.record["files"]["checkpoint"], progress), "encoder")
    except CheckpointError as error:
        return {}, [f"What fine-tuning changed in the weights cannot be told: {error}"]
    return corresponding_angles(pretrained, infused.model, progress=told.is_terminal), []


def _spectra(
    arms: Arms, smaller: Mapping[int, TrainedRun], first: Infused, seed: int, question: Question, *, compared: bool
) -> dict[str, list[float]]:
    """Return the singular values of the test features for each number of training examples, few first."""
    import infuser
    from infuser.analysis.diagnose.spectra import feature_matrix, singular_values

    found = {}
    for n_examples, run in sorted(smaller.items()):
        infused = infuser.load(run.run.model)
        features = feature_matrix(infused.model, question.test, infused.collator())
        found[f"{arms.method}, {n_examples:,} examples"] = singular_values(features)
    n_all = f"{len(question.train):,} examples"
    features = feature_matrix(first.model, question.test, first.collator())
    found[f"{arms.method}, {n_all}"] = singular_values(features)
    if compared:
        model, collate = _open_plain(arms.plain[seed])
        found[f"{PLAIN}, {n_all}"] = singular_values(feature_matrix(model, question.test, collate))
    return found


def _explanations(infused: Infused, found: Diagnosis) -> list[Explanation]:
    """Return maps and attention of the clearest examples that were mended, and of those that were spoilt."""
    from infuser.analysis.explain import explain

    told = []
    for mended, what in ((True, "Mended"), (False, "Spoilt")):
        for flip in found.clearest(mended=mended)[:_N_EXPLAINED]:
            explanation = explain(infused, flip.text, flip.pair, layer="strongest")
            told.append(replace(explanation, title=f"{what}: {flip.text[:80]}"))
    return told
