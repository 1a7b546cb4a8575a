"""One arm of a comparison, trained and kept: the plain encoder, the infused one, or the placebo.

`infuser train` trains the arm that it is asked for; `infuser diagnose` those that are missing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from infuser.cli.console import loading
from infuser.cli.telling import annotate
from infuser.errors import InputError
from infuser.experiments.run_folder import Run
from infuser.files import digest_of
from infuser.tables.examples import Columns, hold_out, list_labels, number_labels, read_all_examples
from infuser.tables.rows import Record, digest_of_file
from infuser.types import Source

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from infuser.infused import Infused
    from infuser.signals import Collator
    from infuser.training import TrainResult, TrainSettings
    from infuser.types import Method

PLAIN, PLACEBO = "plain", "placebo"
DEV_SHUFFLING = 1
"""Seed with which the placebo's knowledge of the dev examples is shuffled."""
_HELD_OUT = 0.1
"""Share of the training examples that is evaluated on where there is no dev file."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where the examples of a run are read from."""

    data: Path
    dev: Path | None
    """None holds out a tenth of the training examples, by the seed."""
    columns: Columns

    def told(self) -> dict[str, Any]:
        """Return paths and digests for the record of a run."""
        named = {"data": self.data, "dev": self.dev}
        return {
            name: None if path is None else {"path": str(path.absolute()), "sha256": digest_of_file(path)}
            for name, path in named.items()
        }


@dataclass(frozen=True, slots=True)
class Data:
    """The examples of a run, with the numbers of their labels."""

    labels: list[str]
    train: list[dict[str, Any]]
    dev: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decides what an arm becomes, apart from its data."""

    arm: str
    """"plain", "placebo", or the name of the method."""
    checkpoint: str
    """As people name it."""
    settings: TrainSettings
    columns: Columns
    method: Method | None = None
    """None trains the plain encoder."""
    sources: Sequence[Source] = ()
    n_examples: int | None = None
    """Train on so many of the examples; None on all."""
    spectral: float | None = None
    """Weight of the spectral penalty."""
    select: str | None = None
    """How the sources were made selective, as people said it."""

    def made_with(self, data: Data) -> dict[str, Any]:
        """Return all that decides the result, as plain values."""
        from infuser.sources.annotating.fingerprints import describe
        from infuser.sources.naming import source_names

        how = asdict(self.settings)
        del how["n_workers"], how["checkpoint_every"]
        knowledge = [
            f"{name} ({digest_of([part for key, part in describe(source).items() if key not in ('code', 'versions')])})"
            for name, source in zip(source_names(self.sources), self.sources, strict=True)
        ]
        return {
            "arm": self.arm,
            "checkpoint": self.checkpoint,
            "labels": data.labels,
            "examples": digest_of(data.train),
            "dev": digest_of(data.dev),
            "columns": asdict(self.columns),
            "n_examples": self.n_examples,
            "knowledge": knowledge,
            "method": None if self.method is None else asdict(self.method),  # type: ignore[call-overload]
            "select": self.select,
            "spectral": self.spectral,
            **how,
        }


@dataclass(frozen=True, slots=True)
class Trained:
    """What came of an arm."""

    result: TrainResult
    infused: Infused | None
    dev: list[dict[str, Any]]
    """The dev examples as the model read them."""


def read_data(files: Files, *, seed: int, n_examples: int | None = None) -> Data:
    """Read the examples of a run; which are held out, and which few are trained on, depends on the seed alone."""
    rows = read_all_examples(files.data, files.columns)
    labels = list_labels(rows)
    if files.dev is None:
        rows, dev = hold_out(rows, share=_HELD_OUT, seed=seed)
    else:
        dev = read_all_examples(files.dev, files.columns)
    if n_examples is not None:
        rows = choose(rows, n_examples, seed=seed)
    return Data(labels, number_labels(rows, labels), number_labels(dev, labels))


def choose(examples: Sequence[Record], n: int, *, seed: int) -> list[Record]:
    """Return n examples at random, labels in proportion and at least one of each; fewer are a part of more."""
    counts = Counter(example["label"] for _, example in examples)
    if not len(counts) <= n <= len(examples):
        raise InputError(
            f"{n} training examples were asked for, but there are {len(examples)} of {len(counts)} labels. Give a "
            f"number from {len(counts)} to {len(examples)}."
        )
    order = list(range(len(examples)))
    random.Random(seed).shuffle(order)
    seen: Counter[str] = Counter()
    share: dict[int, float] = {}  # of the label's examples, how many come before this one
    for place in order:
        label = examples[place][1]["label"]
        share[place] = seen[label] / counts[label]
        seen[label] += 1
    kept = set(sorted(order, key=share.__getitem__)[:n])
    return [example for place, example in enumerate(examples) if place in kept]


def train_arm(
    plan: Plan,
    data: Data,
    run: Run,
    *,
    files: dict[str, Any],
    console: Console,
    cache: Path | None,
    checkpoint: str = "",
    restart: bool = False,
) -> Trained:
    """Train one arm into the folder of a run, or go on where it was stopped, and write down how it went.

    `files` says where the data lie; `checkpoint` says where the encoder lies, if not where the plan says.
    """
    model, collator, infused = _prepare(plan, checkpoint or plan.checkpoint, data.labels)
    run.begin(plan.made_with(data), restart=restart, files=files)
    examples, dev = data.train, data.dev
    if infused is not None:
        examples = annotate(console, collator, examples, "training", cache)
        dev = annotate(console, collator, dev, "dev", cache)
    if plan.arm == PLACEBO:
        examples, dev = shuffled(examples, seed=0), shuffled(dev, seed=DEV_SHUFFLING)
    result = _fit(plan, model, collator, examples, dev, run.checkpoints, resume=not restart)
    if infused is None:
        from infuser.opening import save_plain

        save_plain(model, collator.tokenizer, run.model)
    else:
        infused.save(run.model)
    run.finish(result.to_json() | {"new_weights": 0 if infused is None else infused.n_new_weights()})
    return Trained(result, infused, dev)


def shuffled(examples: Sequence[dict[str, Any]], *, seed: int) -> list[dict[str, Any]]:
    """Return annotated examples as the placebo reads them: each with the knowledge of another."""
    from infuser.experiments.placebo import shuffle

    breaks = [None if example["pair"] is None else len(example["text"]) for example in examples]
    moved = shuffle([example["annotations"] for example in examples], breaks=breaks, seed=seed)
    return [{**example, "annotations": found} for example, found in zip(examples, moved, strict=True)]


def _prepare(plan: Plan, checkpoint: str, labels: list[str]) -> tuple[PreTrainedModel, Collator, Infused | None]:
    told = Console(stderr=True)
    with loading(told, checkpoint) as progress:
        import transformers

        from infuser.hosts.checkpoints import classifier_options, find_checkpoint, is_infused
        from infuser.hosts.loading import load_model, load_tokenizer
        from infuser.infused import infuse
        from infuser.opening import plain_collator

        folder = find_checkpoint(checkpoint, progress)
        if is_infused(folder):
            told.print(f"{checkpoint} is infused already; here its encoder is trained on, with new knowledge weights.")

        transformers.set_seed(plan.settings.seed)  # the new head starts at random
        options = classifier_options(folder, labels)
        if plan.method is not None:
            infused = infuse(folder, plan.method, sources=plan.sources, task="sequence-classification", **options)
            return infused.model, infused.collator(), infused
        model = load_model(folder, "sequence-classification", **options)
        return model, plain_collator(model, load_tokenizer(folder)), None


def _fit(
    plan: Plan,
    model: PreTrainedModel,
    collator: Collator,
    examples: list[dict[str, Any]],
    dev: list[dict[str, Any]],
    checkpoints: Path,
    *,
    resume: bool,
) -> TrainResult:
    from infuser.training import train as fine_tune
    from infuser.training.steps import print_steps

    further: dict[str, Any] = {}
    if plan.spectral is not None:
        from infuser.methods.spectral import Spectral

        further["spectral"] = Spectral(plan.spectral)
    told = Console(stderr=True)
    progress = True if told.is_terminal else print_steps
    try:
        return fine_tune(
            model,
            examples,
            collator,
            dev=dev,
            settings=plan.settings,
            out=checkpoints,
            resume=resume,
            progress=progress,
            **further,
        )
    except KeyboardInterrupt as error:
        told.print("\nStopped. The same command goes on from the last checkpoint.")
        raise typer.Exit(130) from error
