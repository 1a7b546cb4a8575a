"""The runs of a diagnosis: read back, sorted into arms, checked to differ in nothing else, and trained where missing.

RUN/diagnose/plain-SEED, RUN/diagnose/placebo-SEED   beside the infused run of that seed
RUN/diagnose/size-SHARE                              beside the first one: the infused arm on fewer examples
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from infuser.errors import InputError
from infuser.experiments.arms import PLACEBO, PLAIN, Data, Files, Plan, read_data, train_arm
from infuser.experiments.run_folder import Run, differences
from infuser.tables.examples import Columns
from infuser.tables.rows import digest_of_file

if TYPE_CHECKING:
    from infuser.infused import Infused

FOLDER = "diagnose"
_NEEDED = ("arm", "columns", "n_examples", "seed", "metric", "labels")
_OF_KNOWLEDGE = ("knowledge", "method", "new_learning_rate", "select")
"""What a plain run has not."""
_OF_SEED = ("seed", "examples", "dev")
"""What may differ between seeds: a tenth that is held out is another one with each."""


@dataclass(frozen=True)
class Trained:
    """A finished run of `infuser train` and its record."""

    run: Run

    @cached_property
    def record(self) -> dict[str, Any]:
        """All of train.json."""
        return self.run.read()

    @property
    def made_with(self) -> dict[str, Any]:
        """What the run was made with."""
        return dict(self.record["made_with"])

    @property
    def arm(self) -> str:
        """Which arm it is."""
        return str(self.made_with["arm"])

    @property
    def seed(self) -> int:
        """The seed that it was trained with."""
        return int(self.made_with["seed"])

    @property
    def files(self) -> Files:
        """Where its examples lie."""
        dev = self.record["files"]["dev"]
        return Files(
            Path(self.record["files"]["data"]["path"]),
            None if dev is None else Path(dev["path"]),
            Columns(**self.made_with["columns"]),
        )

    def read_data(self) -> Data:
        """Read the examples of the run again; a file that has changed since is an error."""
        for told in (self.record["files"]["data"], self.record["files"]["dev"]):
            if told is None:
                continue
            path = Path(told["path"])
            if not path.exists():
                raise InputError(
                    f"{path} is gone, and {self.run.folder} was trained on it. Put it back, or train again and "
                    "diagnose that."
                )
            if digest_of_file(path) != told["sha256"]:
                raise InputError(
                    f"{path} has changed since {self.run.folder} was trained on it. Put the old file back, or train "
                    "again (the same command with --restart) and diagnose that."
                )
        return read_data(self.files, seed=self.seed, n_examples=self.made_with["n_examples"])

    def plan(self, arm: str, infused: Infused | None, n_examples: int | None = None) -> Plan:
        """Return how another arm is trained as this one was; `infused` is this run's model, None for the plain arm."""
        from infuser.training import TrainSettings

        made_with = self.made_with
        names = {field.name for field in fields(TrainSettings)} & made_with.keys()
        return Plan(
            arm=arm,
            checkpoint=made_with["checkpoint"],
            settings=TrainSettings(**{name: made_with[name] for name in names}),
            columns=Columns(**made_with["columns"]),
            method=None if infused is None else infused.method,
            sources=() if infused is None else infused.sources,
            n_examples=made_with["n_examples"] if n_examples is None else n_examples,
            spectral=made_with.get("spectral"),
            select=None if infused is None else made_with.get("select"),
        )


@dataclass
class Arms:
    """The runs of each arm, by seed."""

    method: str
    """Name of the infused arm."""
    infused: dict[int, Trained]
    plain: dict[int, Trained]
    placebo: dict[int, Trained]

    @property
    def first(self) -> Trained:
        """The infused run of the lowest seed."""
        return self.infused[min(self.infused)]

    def whole_seeds(self) -> list[int]:
        """Return the seeds of which all three arms are there."""
        return sorted(self.infused.keys() & self.plain.keys() & self.placebo.keys())


def open_run(folder: Path) -> Trained:
    """Return the finished run in a folder, or say what is wrong with it."""
    run = Run(folder)
    if not run.record.exists():
        above = folder.parent / run.record.name
        hint = f" Give the folder above it, {folder.parent}." if above.exists() else ""
        raise InputError(f"{folder} is no folder that `infuser train` wrote: it has no {run.record.name}.{hint}")
    trained = Trained(run)
    made_with = trained.record.get("made_with", {})
    lacking = [name for name in _NEEDED if name not in made_with]
    if lacking or not isinstance(trained.record.get("files"), dict):
        raise InputError(
            f"{run.record} does not say what a diagnosis needs ({', '.join(lacking) or 'files'}): an older infuser or "
            "another command wrote it. Train again: the same `infuser train` command with --restart."
        )
    if not run.is_finished():
        raise InputError(f"{folder} is not finished. Run its `infuser train` command again; it goes on where it was.")
    return trained


def sort_runs(folders: Sequence[Path]) -> Arms:
    """Open the runs and sort them into arms; those of one arm must differ in the seed alone."""
    runs = [open_run(folder) for folder in folders]
    infused = [run for run in runs if run.arm not in (PLAIN, PLACEBO)]
    if not infused:
        raise InputError("No infused run was given, only baselines. Name at least one that has knowledge.")
    first = infused[0]
    arms = Arms(first.arm, {}, {}, {})
    for run in sorted(runs, key=lambda run: run not in infused):  # infused ones first, so that others find theirs
        of_arm = {PLAIN: arms.plain, PLACEBO: arms.placebo}.get(run.arm, arms.infused)
        like = first if run in infused else arms.infused.get(run.seed, first)
        _check_alike(like, run)
        if run.seed in of_arm:
            raise InputError(
                f"{of_arm[run.seed].run.folder} and {run.run.folder} are both {run.arm} runs of seed {run.seed}. Runs "
                "of one arm must differ in the seed: train with --seed, or name one of them."
            )
        of_arm[run.seed] = run
    return arms


def _check_alike(one: Trained, other: Trained) -> None:
    """See that two runs differ in nothing that would be taken for an effect of knowledge or of the seed."""
    free = set(_OF_SEED) if one.seed != other.seed else set()
    if other.arm in (PLAIN, PLACEBO):
        free.add("arm")
    if other.arm == PLAIN:
        free.update(_OF_KNOWLEDGE)
    told = [f"{name} is {a} and {b}" for name, a, b in differences(_kept(one, free), _kept(other, free))]
    if told:
        raise InputError(
            f"{one.run.folder} and {other.run.folder} differ in more than a diagnosis can tell apart: "
            f"{'; '.join(told)}. Train them alike, or diagnose them one by one."
        )


def _kept(run: Trained, free: set[str]) -> dict[str, Any]:
    digests = {
        f"the {name} file": None if told is None else told["sha256"][:12]
        for name, told in run.record["files"].items()
        if name in ("data", "dev")
    }
    return {name: value for name, value in (run.made_with | digests).items() if name not in free}


def complete(arms: Arms, sizes: Sequence[float], *, training: bool, cache: Path | None) -> dict[int, Trained]:
    """Add the plain and placebo runs that are missing, and return infused runs on fewer examples, by their number.

    What was trained for an earlier diagnosis is used again. Without `training` nothing else is added.
    """
    for share in sizes:
        if not 0 < share < 1:
            raise InputError(f"--sizes {share:g} is no share of the training examples. Give a number between 0 and 1.")
    first = arms.first
    data = first.read_data()
    few = [max(len(data.labels), round(share * len(data.train))) for share in sizes]  # at least one of each label
    wanted: list[tuple[str, Trained, Path, int | None]] = [
        (arm, trained, trained.run.folder / FOLDER / f"{arm}-{seed}", None)
        for seed, trained in sorted(arms.infused.items())  # seed by seed, so that a stopped one has whole seeds
        for arm, there in ((PLAIN, arms.plain), (PLACEBO, arms.placebo))
        if seed not in there
    ]
    wanted += [
        (arms.method, first, first.run.folder / FOLDER / f"size-{share:g}", n_examples)
        for share, n_examples in zip(sizes, few, strict=True)
    ]
    smaller: dict[int, Trained] = {}
    for number, (arm, like, folder, n_examples) in enumerate(wanted, start=1):
        what = f"{arm}, seed {like.seed}" + ("" if n_examples is None else f", {n_examples:,} examples")
        what += f" ({number} of {len(wanted)})"
        trained = _trained(like, arm, folder, n_examples, training=training, cache=cache, what=what)
        if trained is None:
            continue
        if n_examples is not None:
            smaller[n_examples] = trained
        else:
            {PLAIN: arms.plain, PLACEBO: arms.placebo}[arm][like.seed] = trained
    return smaller


def _trained(
    like: Trained,
    arm: str,
    folder: Path,
    n_examples: int | None,
    *,
    training: bool,
    cache: Path | None,
    what: str,
) -> Trained | None:
    """Return the run of an arm, trained now unless it is there; None where it is not and may not be trained."""
    import infuser

    told = Console(stderr=True)
    run = Run(folder)
    if not training and not run.is_finished():
        return None
    data = like.read_data() if n_examples is None else read_data(like.files, seed=like.seed, n_examples=n_examples)
    infused = None if arm == PLAIN else infuser.load(like.run.model)
    plan = like.plan(arm, infused, n_examples)
    stale = run.record.exists() and bool(run.differs(plan.made_with(data)))
    if run.is_finished() and not stale:
        told.print(f"{what}: trained before", highlight=False)
        return Trained(run)
    if not training:
        return None
    told.print(f"Training {what}", highlight=False)
    train_arm(
        plan,
        data,
        run,
        files=like.record["files"],
        console=Console(quiet=True),  # what the sources know about these texts was told by the first run
        cache=cache,
        checkpoint=like.record["files"]["checkpoint"],
        restart=stale,
    )
    return Trained(run)
