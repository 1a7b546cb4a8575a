"""One training into a folder of its own, as `infuser train` does it, and reading such a folder back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infuser.errors import InputError
from infuser.experiments.arm import Arm, Host
from infuser.experiments.cell import Cell, Setup, run_cell
from infuser.experiments.data import Annotator, Data
from infuser.experiments.own_data import TableTask
from infuser.experiments.run_folder import RECORD, RunFolder
from infuser.files import digest_of
from infuser.hosts.checkpoints import find_checkpoint, read_config
from infuser.processes import is_first_process
from infuser.sources.naming import source_names
from infuser.tables.examples import Columns
from infuser.tables.rows import digest_of_file
from infuser.tasks.official import DatasetSplit
from infuser.tasks.splitting import DATA_SEED
from infuser.training import StepReport, TrainResult, TrainSettings

if TYPE_CHECKING:
    from infuser.infused import Infused

_NEEDED = ("arm", "columns", "n_examples", "seed", "metric", "labels")


@dataclass(frozen=True)
class TrainJob:
    """What is trained: a checkpoint, an arm and a table of examples."""

    checkpoint: str
    arm: Arm
    table: str | Path
    """The training examples: a file, or `datasets:NAME`, of which dev and test name splits."""
    dev: str | Path | None = None
    """The examples that choose the epochs; None takes the validation split of a name, else a stratified tenth."""
    test: str | Path | None = None
    """The examples that are scored once, at the end; None scores dev."""
    columns: Columns = field(default_factory=lambda: Columns(label="label"))
    n_train: int | None = None
    """Train on so many examples, labels in proportion; None trains on all."""
    settings: TrainSettings = field(default_factory=TrainSettings)
    metric: str | None = None
    """What chooses the epochs; None takes AUC for two labels, accuracy for more."""
    data_seed: int = DATA_SEED
    """Decides which examples are held out and which few are trained on, whatever the seed of training."""
    origin: str = ""
    """Where the checkpoint lies, if not where its name says."""
    task: TableTask = "table"
    """What is learned: labels of texts, or with "ner" entities in them."""

    @cached_property
    def data(self) -> Data:
        """The examples, read when first asked for."""
        return Data.from_table(
            self.table,
            dev=self.dev,
            test=self.test,
            columns=self.columns,
            metric=self.metric,
            n_train=self.n_train,
            seed=self.data_seed,
            task=self.task,
        )

    @property
    def kind(self) -> str:
        """Which arm it is: "plain", "placebo", or the registered name of the method."""
        return self.arm.kind

    def made_with(self) -> dict[str, Any]:
        """Return everything that decides the result, as plain values."""
        settings = asdict(self.settings)
        del settings["n_workers"], settings["checkpoint_every"]
        names = zip(source_names(self.arm.sources), self.arm.digests, strict=True)
        return {
            **settings,
            "arm": self.kind,
            "checkpoint": self.checkpoint,
            "labels": self.data.labels,
            "examples": digest_of(self.data.train),
            "dev": digest_of(self.data.dev),
            "columns": asdict(self.columns),
            "n_examples": self.n_train,
            "knowledge": [f"{name} ({digest})" for name, digest in names],
            "method": self.arm.describe()["method"],
            "select": self.arm.describe()["select"],
            "spectral": self.arm.spectral,
            "metric": self.data.metric,
            "data_seed": self.data_seed,
            **({} if self.task == "table" else {"task": self.task}),  # runs made before there was a choice resume
        }

    def files(self) -> dict[str, Any]:
        """Return paths and digests of the files that are read, or names and splits, and where the checkpoint lies."""
        about: dict[str, Any] = {name: _describe(part) for name, part in self.data.files.items()}
        place = Path(self.origin or self.checkpoint)
        about["checkpoint"] = str(place.absolute()) if place.exists() else str(self.origin or self.checkpoint)
        return about

    def run(
        self,
        folder: RunFolder,
        *,
        restart: bool = False,
        annotator: Annotator | None = None,
        progress: bool | Callable[[StepReport], None] = False,
    ) -> TrainResult:
        """Train into the folder, or resume there, and keep the model and the record."""
        cell = Cell(
            self.checkpoint, self.arm.name, Path(self.table).stem, self.settings.seed, made_with=self.made_with()
        )
        setup = Setup(Host(self.origin or self.checkpoint), self.arm, self.data, self.settings)
        read_config(find_checkpoint(setup.host.checkpoint))  # raises before anything is written
        with folder.begun(cell.made_with, restart=restart, files=self.files()):
            result, solved = run_cell(
                cell,
                setup,
                annotator or Annotator(),
                checkpoints=folder.checkpoints,
                model_folder=folder.model if is_first_process() else None,
                resume=not restart,
                progress=progress,
            )
            if solved.trained is None:
                raise InputError(f"{self.table} holds nothing to learn from.")
            trained = {**solved.trained.to_json(), "new_weights": result["extra_weights"]}
            folder.finish(trained, **result)
        return solved.trained


@dataclass(frozen=True)
class TrainedRun:
    """A finished run of `infuser train`."""

    run: RunFolder

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
        """Which arm it is: "plain", "placebo", or the name of the method."""
        return str(self.made_with["arm"])

    @property
    def seed(self) -> int:
        """The seed that it was trained with."""
        return int(self.made_with["seed"])

    @property
    def data_name(self) -> str:
        """The name of the file of its training examples, or their name in the datasets library."""
        about = self.record["files"]["data"]
        return str(about["dataset"]) if "dataset" in about else Path(about["path"]).name

    @property
    def columns(self) -> Columns:
        """Which columns of its tables it read."""
        return Columns(**self.made_with["columns"])

    def again(self, arm: Arm | None = None, n_train: int | None = None) -> TrainJob:
        """Return the same training with another arm or fewer examples; data that have changed since are an error."""
        made_with = self.made_with
        names = {one.name for one in fields(TrainSettings)} & made_with.keys()
        files = {name: self._part(name) for name in ("data", "dev", "test")}
        assert files["data"] is not None
        job = TrainJob(
            made_with["checkpoint"],
            arm or Arm(),
            files["data"],
            files["dev"],
            files["test"],
            columns=self.columns,
            n_train=made_with["n_examples"] if n_train is None else n_train,
            settings=TrainSettings(**{name: made_with[name] for name in names}),
            metric=made_with["metric"],
            # before there was a data seed, the seed of training decided what was held out
            data_seed=made_with.get("data_seed", self.seed),
            origin=self.record["files"]["checkpoint"],
            task=made_with.get("task", "table"),
        )
        if "dataset" in self.record["files"]["data"]:
            self._check_unchanged(job, whole=n_train is None)
        elif files["dev"] is None and digest_of(job.data.dev) != made_with["dev"]:
            raise InputError(
                f"{self.run.folder} held out other examples than today's rule does, so they cannot be found again. "
                "Train it again: the same `infuser train` command with --restart."
            )
        return job

    def with_knowledge(self, infused: Infused, *, shuffled: bool = False) -> Arm:
        """Return the arm of this run, or its placebo; `infused` is its trained model."""
        return Arm(
            infused.method,
            infused.sources,
            spectral=self.made_with.get("spectral"),
            shuffled=shuffled,
            label=self.made_with.get("select"),
        )

    def _check_unchanged(self, job: TrainJob, *, whole: bool) -> None:
        """Raise if the datasets library reads other examples today; training ones are compared if all are read."""
        now = {"dev": job.data.dev, **({"examples": job.data.train} if whole else {})}
        if any(digest_of(part) != self.made_with[name] for name, part in now.items()):
            raise InputError(
                f"{self.data_name} holds other examples than {self.run.folder} was trained on. Train again: the same "
                "`infuser train` command with --restart."
            )

    def _part(self, name: str) -> str | Path | None:
        """Return the file of a part, a name of the datasets library or, for its dev and test, a split."""
        about: Mapping[str, Any] | None = self.record["files"].get(name)
        if about is None:
            return None
        if "dataset" in about:
            return str(about["dataset" if name == "data" else "split"])
        path = Path(about["path"])
        if not path.exists():
            raise InputError(
                f"{path} is gone, and {self.run.folder} was trained on it. Put it back, or train again and diagnose "
                "that."
            )
        if digest_of_file(path) != about["sha256"]:
            raise InputError(
                f"{path} has changed since {self.run.folder} was trained on it. Put the old file back, or train again "
                "(the same command with --restart) and diagnose that."
            )
        return path


def _describe(part: Path | DatasetSplit | None) -> dict[str, str] | None:
    if isinstance(part, DatasetSplit):
        return asdict(part)
    return None if part is None else {"path": str(part.absolute()), "sha256": digest_of_file(part)}


def open_run(folder: Path) -> TrainedRun:
    """Return the finished run in a folder, or raise an error that says what is wrong with it."""
    run = RunFolder(folder)
    if not run.record.exists():
        hint = f" Give the folder above it, {folder.parent}." if (folder.parent / RECORD).exists() else ""
        raise InputError(f"{folder} is no folder that `infuser train` wrote: it has no {RECORD}.{hint}")
    trained = TrainedRun(run)
    made_with = trained.record.get("made_with", {})
    lacking = [name for name in _NEEDED if name not in made_with]
    if lacking or not isinstance(trained.record.get("files"), dict):
        raise InputError(
            f"{run.record} does not say what a diagnosis needs ({', '.join(lacking) or 'files'}): an older infuser or "
            "another command wrote it. Train again: the same `infuser train` command with --restart."
        )
    if made_with.get("task", "table") != "table":
        raise InputError(
            f"{folder} was trained with --task {made_with['task']}, and diagnose reads runs that label texts. Compare "
            "such runs with `infuser bench` or infuser.compare."
        )
    if not run.is_finished():
        raise InputError(
            f"{folder} is not finished. Run its `infuser train` command again; it resumes from its last checkpoint."
        )
    return trained
