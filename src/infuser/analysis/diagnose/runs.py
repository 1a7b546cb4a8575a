"""The runs of a diagnosis: sorted into arms, checked to differ in nothing else, and trained where missing.

RUN/diagnose/plain-SEED, placebo-SEED, text-SEED   beside the infused run of that seed
RUN/diagnose/size-SHARE                            beside the first one: the infused arm on fewer examples
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.experiments.arm import PLACEBO, PLAIN, TEXT, Arm
from infuser.experiments.data import Annotator
from infuser.experiments.run_folder import RunFolder
from infuser.experiments.train import TrainedRun, open_run
from infuser.infused import load
from infuser.training import StepReport
from infuser.work_folder import differences

FOLDER = "diagnose"
_OF_KNOWLEDGE = ("knowledge", "method", "new_learning_rate", "select")
"""What a plain run does not have."""
_OF_METHOD = ("method", "new_learning_rate")
"""What a run that reads the knowledge as text does not share."""
_OF_SEED = ("seed", "examples", "dev", "data_seed")
"""What may differ between seeds: in earlier versions each held out another tenth."""


@dataclass
class Arms:
    """The runs of each arm, by seed."""

    method: str
    """Name of the infused arm."""
    infused: dict[int, TrainedRun]
    plain: dict[int, TrainedRun]
    placebo: dict[int, TrainedRun]
    text: dict[int, TrainedRun]
    """The same knowledge as text; empty where the infused arm itself is that."""

    @property
    def first(self) -> TrainedRun:
        """The infused run of the lowest seed."""
        return self.infused[min(self.infused)]

    @property
    def beside(self) -> dict[str, dict[int, TrainedRun]]:
        """The runs that the infused ones are compared with, by the name of their arm."""
        return {PLAIN: self.plain, PLACEBO: self.placebo, TEXT: self.text}

    def whole_seeds(self) -> list[int]:
        """Return the seeds of which there is an infused, a plain and a placebo run."""
        return sorted(self.infused.keys() & self.plain.keys() & self.placebo.keys())

    def compared(self) -> dict[str, dict[int, TrainedRun]]:
        """Return the arms of these seeds, the baseline first; text only if it is there for all of them."""
        seeds = self.whole_seeds()
        text = {TEXT: self.text} if seeds and self.text.keys() >= set(seeds) else {}
        return {PLAIN: self.plain, self.method: self.infused, **text, PLACEBO: self.placebo} if seeds else {}

    def same_dev(self) -> bool:
        """Return whether all infused runs chose their epochs on the same examples."""
        return len({run.made_with["dev"] for run in self.infused.values()}) == 1


def sort_runs(folders: Sequence[Path]) -> Arms:
    """Open the runs and sort them into arms; those of one arm must differ in the seed alone."""
    runs = [open_run(folder) for folder in folders]
    knowing = [run for run in runs if run.arm not in (PLAIN, PLACEBO)]
    infused = [run for run in knowing if run.arm != TEXT] or knowing
    if not infused:
        raise InputError("No infused run was given, only baselines. Name at least one that has knowledge.")
    first = infused[0]
    arms = Arms(first.arm, {}, {}, {}, {})
    for run in sorted(runs, key=lambda run: run not in infused):  # infused ones first, so that others find theirs
        of_arm = arms.infused if run in infused else arms.beside[run.arm]
        like = first if run in infused else arms.infused.get(run.seed, first)
        _check_alike(like, run)
        if run.seed in of_arm:
            raise InputError(
                f"{of_arm[run.seed].run.folder} and {run.run.folder} are both {run.arm} runs of seed {run.seed}. Runs "
                "of one arm must differ in the seed: train with --seed, or name one of them."
            )
        of_arm[run.seed] = run
    return arms


def _check_alike(one: TrainedRun, other: TrainedRun) -> None:
    """Raise if two runs differ in anything that would be taken for an effect of knowledge or of the seed."""
    free = set(_OF_SEED) if one.seed != other.seed else set()
    if other.arm in (PLAIN, PLACEBO, TEXT):
        free.add("arm")
    if other.arm == PLAIN:
        free.update(_OF_KNOWLEDGE)
    if other.arm == TEXT != one.arm:
        free.update(_OF_METHOD)
    differing = [f"{name} is {a} and {b}" for name, a, b in differences(_kept(one, free), _kept(other, free))]
    if differing:
        raise InputError(
            f"{one.run.folder} and {other.run.folder} differ in more than a diagnosis can tell apart: "
            f"{'; '.join(differing)}. Train them alike, or diagnose them one by one."
        )


def _kept(run: TrainedRun, free: set[str]) -> dict[str, Any]:
    files = {f"the {name} file": _known_by(run.record["files"].get(name)) for name in ("data", "dev")}
    return {name: value for name, value in (run.made_with | files).items() if name not in free}


def _known_by(part: Mapping[str, str] | None) -> str | None:
    """Return the digest of a file, or the name and split of a data set."""
    if part is None:
        return None
    return f"{part['dataset']} {part['split']}" if "dataset" in part else part["sha256"][:12]


def complete(
    arms: Arms,
    sizes: Sequence[float],
    *,
    text: bool,
    training: bool,
    cache: Path | None,
    report: Callable[[str], None],
    progress: bool | Callable[[StepReport], None] = False,
) -> dict[int, TrainedRun]:
    """Add the plain and placebo runs that are missing, and return infused runs on fewer examples, by their number.

    With `text`, runs that read the same knowledge as text are added, too. Runs of an earlier diagnosis are used again.
    Without `training` nothing else is added. `report` is called with a line about each run.
    """
    for share in sizes:
        if not 0 < share < 1:
            raise InputError(f"--sizes {share:g} is no share of the training examples. Give a number between 0 and 1.")
    first = arms.first
    data = first.again().data
    few = [max(len(data.labels), round(share * len(data.train))) for share in sizes]  # at least one of each label
    wanted: list[tuple[str, TrainedRun, Path, int | None]] = [
        (arm, trained, trained.run.folder / FOLDER / f"{arm}-{seed}", None)
        for seed, trained in sorted(arms.infused.items())  # seed by seed, so that a stopped one has whole seeds
        for arm, there in arms.beside.items()
        if seed not in there and (text or arm != TEXT)
    ]
    wanted += [
        (arms.method, first, first.run.folder / FOLDER / f"size-{share:g}", n_examples)
        for share, n_examples in zip(sizes, few, strict=True)
    ]
    smaller: dict[int, TrainedRun] = {}
    for number, (arm, like, folder, n_examples) in enumerate(wanted, start=1):
        what = f"{arm}, seed {like.seed}" + ("" if n_examples is None else f", {n_examples:,} examples")
        run = RunFolder(folder)
        if not training and not run.is_finished():
            continue
        job = like.again(_arm(like, arm), n_examples)
        stale = run.record.exists() and bool(run.differs(job.made_with()))
        if stale or not run.is_finished():
            if not training:
                continue
            report(f"Training {what} ({number} of {len(wanted)})")
            job.run(run, restart=stale, annotator=Annotator(cache), progress=progress)
        else:
            report(f"{what} ({number} of {len(wanted)}): trained before")
        if n_examples is not None:
            smaller[n_examples] = TrainedRun(run)
        else:
            arms.beside[arm][like.seed] = TrainedRun(run)
    return smaller


def _arm(like: TrainedRun, arm: str) -> Arm:
    if arm == PLAIN:
        return Arm(spectral=like.made_with.get("spectral"))
    knowing = like.with_knowledge(load(like.run.model), shuffled=arm == PLACEBO)
    return knowing.as_text() if arm == TEXT else knowing
