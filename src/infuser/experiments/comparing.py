"""Does knowledge help? The plain encoder, the infused one and a placebo, trained alike on the same seeds.

The placebo has the same new weights and the same links, shuffled between texts: what remains of a gain under it comes
from the weights and not from the knowledge. Every finished run is a JSON file, so a killed comparison goes on where it
stopped.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from infuser.errors import InputError
from infuser.experiments.placebo import shuffle
from infuser.experiments.side_by_side import run_side_by_side
from infuser.files import write_whole
from infuser.hosts.loading import load_model, load_tokenizer, longest_input
from infuser.infused import Infused, infuse
from infuser.registry import METHODS
from infuser.signals import Collator
from infuser.stats.comparison import ArmScores
from infuser.training import TrainSettings, train
from infuser.training.evaluation import evaluate
from infuser.training.steps import Example, StepReport
from infuser.types import Annotations, Method, Source, join_pair
from infuser.versions import __version__

PLAIN, PLACEBO = "plain", "placebo"
Tell = Callable[[str, int, StepReport | None], None]
"""Called with arm, seed and the state of training; None at the end of a run."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is compared: one task, one checkpoint, one method with its sources."""

    checkpoint: str
    method: Method
    sources: Sequence[Source]
    train: Sequence[Example]
    dev: Sequence[Example]
    test: Sequence[Example]
    settings: TrainSettings = field(default_factory=TrainSettings)
    labels: tuple[str, ...] = ("no", "yes")
    """Names of the classes 0, 1, ..."""

    @property
    def arms(self) -> tuple[str, str, str]:
        """Names of the three arms; the baseline first."""
        return PLAIN, METHODS.name_of(self.method), PLACEBO


def run_trial(
    trial: Trial, *, seeds: Sequence[int], out: Path, n_workers: int = 1, tell: Tell = lambda arm, seed, report: None
) -> list[ArmScores]:
    """Train and test every arm with every seed; the first seed's infused model is saved as `out/model`.

    `tell` hears every training step of every run, and None when a run is done or known from before. Small models
    train faster as several runs side by side, one thread each, than as one run on all threads: see `n_workers`.
    """
    if len(trial.labels) != 2:
        raise InputError(f"A trial compares scores of two classes, got the labels {trial.labels}.")
    data = _data_of_arms(trial)
    made_with = (__version__, torch.__version__, trial.checkpoint, trial.method, trial.settings, trial.labels, data)
    digest = hashlib.sha256(repr(made_with).encode()).hexdigest()
    jobs = {}
    for seed in seeds:  # seed by seed, so that a stopped comparison has whole pairs
        for arm in trial.arms:
            path = out / "runs" / f"{arm}-{seed}.json"
            keep = out / "model" if arm == trial.arms[1] and seed == seeds[0] else None
            if _known(path, digest) and (keep is None or keep.exists()):
                tell(arm, seed, None)
                continue
            jobs[arm, seed] = (trial, arm, data[arm], seed, keep, path, digest)
    if n_workers == 1 or len(jobs) < 2:
        for job in jobs.values():
            _run(*job, tell=tell)
    else:
        run_side_by_side(_run, list(jobs.values()), n_workers, tell)

    arms = []
    for arm in trial.arms:
        runs = [json.loads((out / "runs" / f"{arm}-{seed}.json").read_text(encoding="utf-8")) for seed in seeds]
        scores = [np.array(run["scores"]) for run in runs]
        arms.append(ArmScores(arm, scores, runs[0]["extra_weights"], [run["seconds"] for run in runs]))
    return arms


def _run(
    trial: Trial,
    arm: str,
    data: list[list[Example]],
    seed: int,
    keep: Path | None,
    path: Path,
    digest: str,
    *,
    tell: Tell,
) -> None:
    """Train one arm with one seed, score the test set and write down what came out."""
    torch.manual_seed(seed)  # the head is new, and starts the same in every arm
    started = time.perf_counter()
    infused: Infused | None = None
    names = dict(enumerate(trial.labels))
    head: dict[str, Any] = {
        "num_labels": len(names),
        "id2label": names,
        "label2id": {name: place for place, name in names.items()},
    }
    if arm == PLAIN:
        model = load_model(trial.checkpoint, "sequence-classification", **head)
        tokenizer = load_tokenizer(trial.checkpoint)
        collate = Collator(tokenizer, max_length=longest_input(model, tokenizer))
    else:
        infused = infuse(
            trial.checkpoint,
            trial.method,
            sources=trial.sources,
            task="sequence-classification",
            **head,
        )
        model, collate = infused.model, infused.collator()
    settings = replace(trial.settings, seed=seed)
    examples, dev, test = data
    result = train(
        model, examples, collate, dev=dev, settings=settings, progress=lambda report: tell(arm, seed, report)
    )
    scores = evaluate(model, test, collate, metric=settings.metric)
    chances = torch.softmax(torch.from_numpy(scores.logits), dim=-1)[:, -1]
    if keep is not None and infused is not None:
        infused.save(keep)
    run = {
        "digest": digest,
        "arm": arm,
        "seed": seed,
        "scores": chances.tolist(),
        "metrics": scores.metrics,
        "extra_weights": infused.n_new_weights() if infused else 0,
        "seconds": time.perf_counter() - started,
        "history": result.to_json()["history"],
    }
    write_whole(path, json.dumps(run, indent=1))
    tell(arm, seed, None)


def _data_of_arms(trial: Trial) -> dict[str, list[list[Example]]]:
    """Return train, dev and test for each arm, with what the sources found: asked once for all runs and epochs."""
    plain, infused, placebo = trial.arms
    data: dict[str, list[list[Example]]] = {arm: [] for arm in trial.arms}
    for place, part in enumerate((trial.train, trial.dev, trial.test)):
        texts = [join_pair(example["text"], example.get("pair")) for example in part]
        breaks = [len(example["text"]) if example.get("pair") is not None else None for example in part]
        found = list(zip(*(source.annotate(texts) for source in trial.sources), strict=True))
        data[plain].append(list(part))
        data[infused].append(_with(part, found))
        data[placebo].append(_with(part, shuffle(found, breaks=breaks, seed=place)))
    return data


def _with(part: Sequence[Example], found: Sequence[tuple[Annotations, ...]]) -> list[Example]:
    return [{**example, "annotations": one} for example, one in zip(part, found, strict=True)]


def _known(path: Path, digest: str) -> bool:
    """Tell whether a run was finished before, with the same data and settings."""
    return path.exists() and bool(json.loads(path.read_text(encoding="utf-8"))["digest"] == digest)
