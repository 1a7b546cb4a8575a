"""Folders of experiments: of one training (`RunFolder`), and of many cells and their results (`Results`).

RUN/train.json      what a training was made with and, once finished, its result
RUN/checkpoints/    where a stopped training resumes
RUN/model/          the trained model

RUN/bench.json      the settings of a bench, complete
RUN/trials/*.json   results of trials, by which every method was tuned
RUN/cells/*.json    results of cells: task--host--method--seed--digest.json
RUN/work/           checkpoints of cells under way
RUN/locks/          who works on what; a process that dies releases its cell
RUN/models/         models that were kept

The digest of a cell is of the settings that decide its result and of nothing else. So a cell that was computed once is
found again under any name, such as "kam" as "kam alpha=0.2", and changed settings give new cells beside the old ones.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from infuser.errors import InputError
from infuser.files import parse_json, sha256_of, write_whole
from infuser.processes import is_first_process
from infuser.versions import installed_versions
from infuser.work_folder import WorkFolder, differences, name_differences

if TYPE_CHECKING:
    from infuser.experiments.cell import Cell

FORMAT = 2
RECORD = "train.json"


@dataclass(frozen=True)
class RunFolder:
    """The folder of one training."""

    folder: Path

    @property
    def model(self) -> Path:
        """The trained model."""
        return self.folder / "model"

    @property
    def checkpoints(self) -> Path:
        """Where a stopped training resumes."""
        return self.folder / "checkpoints"

    @property
    def record(self) -> Path:
        """What the training was made with, and its result."""
        return self.folder / RECORD

    @property
    def _work(self) -> WorkFolder:
        return WorkFolder(self.folder, record=RECORD, parts=("model", "checkpoints/*"), shared=True)

    @contextmanager
    def begun(
        self, made_with: Mapping[str, Any], *, restart: bool = False, files: Mapping[str, Any] | None = None
    ) -> Iterator[None]:
        """Lock the folder and record what the training is made with, or raise if another one was begun here.

        `files` says where the data lie, so that they can be read again; they are not compared. Of processes that were
        launched together, the first one does it for all.
        """
        if not is_first_process():
            yield
            return
        with self._work.locked():
            finished, versions = not restart and self.is_finished(), installed_versions()
            self._work.begin(made_with, restart=restart, finished=finished, files=files, versions=versions)
            yield

    def finish(self, result: Mapping[str, Any], **more: Any) -> None:
        """Add the result of training to the record, and more if there is."""
        if is_first_process():
            self._work.update(finished=True, result=dict(result), **more)

    def is_finished(self) -> bool:
        """Return whether a training reached its end here."""
        return self.record.exists() and self.model.exists() and self.read().get("finished") is True

    def differs(self, made_with: Mapping[str, Any]) -> list[str]:
        """Return how the training that was begun here differs from one that is made with this."""
        now = json.loads(json.dumps(made_with))
        return [name_differences([one]) for one in differences(self.read().get("made_with", {}), now)]

    def read(self) -> dict[str, Any]:
        """Return the record."""
        record = self._work.read()
        if record is None:
            raise InputError(f"{self.folder} is not a folder of a training: it has no {RECORD}.")
        return record


@dataclass(frozen=True)
class Results:
    """The folder of a bench or a comparison: one JSON file per finished cell."""

    folder: Path

    def path(self, cell: Cell) -> Path:
        """Return where the result of a cell lies, or will lie."""
        if found := self._find(cell, cell.digest):
            return found
        place = self.folder / ("cells" if cell.trial is None else "trials")
        parts = (cell.task, cell.host, cell.method, str(cell.seed), cell.digest)
        return place / f"{'--'.join(map(_file_name, parts))}.json"

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """Return the result of a cell under the names that it has now; None if it is not finished."""
        found = ((digest, self._find(cell, digest)) for digest in (cell.digest, *cell.earlier))
        digest, path = next(((digest, one) for digest, one in found if one is not None), ("", None))
        if path is None:
            return None
        advice = "Remove it; the cell is then computed again."
        try:
            result: dict[str, Any] = parse_json(path, "it")
            version, of, mark = result["format"], result.get("of"), result.pop("sha256", None)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{path} is damaged ({error!r}). {advice}") from error
        if version == 1 and mark is None:  # from before cells had digests
            of, mark = digest, sha256_of(result)
        elif version != FORMAT:
            raise InputError(
                f"{path} was written by another version of infuser (format {version}). Choose another --out."
            )
        if mark != sha256_of(result):
            raise InputError(f"{path} is damaged: its content has another digest than it had. {advice}")
        if of != digest:
            raise InputError(f"{path} is the result of another cell ({of}). {advice}")
        return {**result, "cell": {name: getattr(cell, name) for name in ("host", "method", "task", "seed", "trial")}}

    def is_finished(self, cell: Cell) -> bool:
        """Return whether a cell has its result, by today's rules, and its model if it is to be kept."""
        kept = not cell.keep_model or self.model(cell).exists()
        return kept and self._find(cell, cell.digest) is not None

    def _find(self, cell: Cell, digest: str) -> Path | None:
        """Return the result with this digest, perhaps computed under another name."""
        place = self.folder / ("cells" if cell.trial is None else "trials")
        return next(place.glob(f"*--{digest}.json"), None)

    def write(self, cell: Cell, result: Mapping[str, Any]) -> Path:
        """Write the result of a cell, whole or not at all, and remove its checkpoints."""
        content = json.loads(json.dumps({"format": FORMAT, "of": cell.digest, **result}, allow_nan=False))
        text = json.dumps({"sha256": sha256_of(content), **content}, ensure_ascii=False, allow_nan=False)
        path = write_whole(self.path(cell), text)
        shutil.rmtree(self.work(cell).folder, ignore_errors=True)
        return path

    def work(self, cell: Cell) -> RunFolder:
        """Return the folder in which a cell is trained."""
        return RunFolder(self.folder / "work" / cell.digest)

    def model(self, cell: Cell) -> Path:
        """Return where the model of a cell is kept."""
        return self.model_folder(cell.method, cell.digest)

    def model_folder(self, method: str, digest: str) -> Path:
        """Return where the model of a cell with this digest is kept."""
        return self.folder / "models" / f"{_file_name(method)}--{digest}"

    @contextmanager
    def claim(self, cell: Cell) -> Iterator[bool]:
        """Try to get a cell for this process alone; the system releases it when the process ends, however it ends."""
        folder = self.folder / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{cell.digest}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.=+-]+", "-", name)


def find_model(name: str | Path) -> str:
    """Return the model in the folder of a training or a comparison; any other name as it is."""
    folder = Path(name)
    if (folder / "config.json").exists():
        return str(name)
    kept = sorted((folder / "models").glob("*/infuser.json"), key=lambda path: -path.stat().st_mtime)
    for place in (folder / "model", *(path.parent for path in kept)):
        if (place / "config.json").exists():
            return str(place)
    return str(name)
