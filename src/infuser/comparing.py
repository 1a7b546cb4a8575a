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

from infuser.evaluation import evaluate
from infuser.infused import Infused, Method, infuse, load_model, load_tokenizer, longest_input
from infuser.registry import METHODS
from infuser.reports.comparison import Arm
from infuser.reports.files import write_whole
from infuser.signals import Collator
from infuser.sources.placebo import shuffle
from infuser.steps import Example, StepReport
from infuser.training import TrainSettings, train
from infuser.types import Annotations, Source, join_pair

PLAIN, PLACEBO = "plain", "placebo"


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
    trial: Trial,
    *,
    seeds: Sequence[int],
    out: Path,
    on_start: Callable[[str, int, bool], None] = lambda arm, seed, known: None,
    on_step: Callable[[StepReport], None] | None = None,
) -> list[Arm]:
    """Train and test every arm with every seed; the first seed's infused model is saved as `out/model`.

    `on_start` hears which run begins and whether it is known from before; `on_step` hears every training step.
    """
    data = _data_of_arms(trial)
    digest = hashlib.sha256(
        repr((trial.checkpoint, trial.method, trial.settings, trial.labels, data)).encode()
    ).hexdigest()
    runs: dict[str, list[dict[str, Any]]] = {arm: [] for arm in trial.arms}
    for seed in seeds:  # seed by seed, so that a stopped comparison has whole pairs
        for arm in trial.arms:
            path = out / "runs" / f"{arm}-{seed}.json"
            run = _known(path, digest)
            on_start(arm, seed, run is not None)
            if run is None:
                keep = out / "model" if arm == trial.arms[1] and seed == seeds[0] else None
                run = {"digest": digest, **_run(trial, arm, data[arm], seed, keep, on_step)}
                write_whole(path, json.dumps(run, indent=1))
            runs[arm].append(run)
    return [
        Arm(
            name=arm,
            scores_per_seed=[np.array(run["scores"]) for run in done],
            extra_weights=done[0]["extra_weights"],
            seconds=[run["seconds"] for run in done],
        )
        for arm, done in runs.items()
    ]


def _run(
    trial: Trial,
    arm: str,
    data: list[list[Example]],
    seed: int,
    keep: Path | None,
    on_step: Callable[[StepReport], None] | None,
) -> dict[str, Any]:
    """Train one arm with one seed and score the test set."""
    torch.manual_seed(seed)  # the head is new, and starts the same in every arm
    started = time.perf_counter()
    infused: Infused | None = None
    names = dict(enumerate(trial.labels))
    head = {"num_labels": len(names), "id2label": names, "label2id": {name: place for place, name in names.items()}}
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
    result = train(model, examples, collate, dev=dev, settings=settings, progress=on_step or False)
    scores = evaluate(model, test, collate, metric=settings.metric)
    chances = torch.softmax(torch.from_numpy(scores.logits), dim=-1)[:, -1]
    if keep is not None and infused is not None:
        infused.save(keep)
    return {
        "arm": arm,
        "seed": seed,
        "scores": chances.tolist(),
        "metrics": scores.metrics,
        "extra_weights": infused.n_new_weights() if infused else 0,
        "seconds": time.perf_counter() - started,
        "history": result.to_json()["history"],
    }


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


def _known(path: Path, digest: str) -> dict[str, Any] | None:
    if not path.exists():
        return None
    run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return run if run.get("digest") == digest else None
