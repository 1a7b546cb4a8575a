"""The folder of a training run and its record, train.json: what it was made with, and how it went."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infuser.errors import InputError
from infuser.files import whole_file
from infuser.versions import __version__

_PACKAGES = ("torch", "transformers", "accelerate", "tokenizers")


@dataclass(frozen=True, slots=True)
class Run:
    """Where the parts of a run lie."""

    folder: Path

    @property
    def model(self) -> Path:
        """The trained model."""
        return self.folder / "model"

    @property
    def checkpoints(self) -> Path:
        """Where a run that was stopped goes on."""
        return self.folder / "checkpoints"

    @property
    def record(self) -> Path:
        """What the run was made with and how it went."""
        return self.folder / "train.json"

    def begin(self, made_with: dict[str, Any], *, restart: bool, files: dict[str, Any] | None = None) -> None:
        """Write down what the run is made with, or see that it is the same as what was begun here before.

        `files` says where the data lie, so that they can be read again; that alone makes no other run.
        """
        begun = self.model.exists() or (self.checkpoints.exists() and any(self.checkpoints.iterdir()))
        if begun and not self.record.exists():
            raise InputError(f"{self.folder} holds a model or checkpoints, but no train.json. Choose another --out.")
        if begun and restart:
            for part in (self.model, self.checkpoints):
                shutil.rmtree(part, ignore_errors=True)
        elif begun:
            self._compare(made_with)
            self._write({**self.read(), "files": files})
            return
        versions = {"infuser": __version__} | {name: importlib.metadata.version(name) for name in _PACKAGES}
        self._write({"finished": False, "made_with": made_with, "files": files, "versions": versions})

    def finish(self, result: dict[str, Any]) -> None:
        """Add how the run went."""
        self._write({**self.read(), "finished": True, "result": result})

    def is_finished(self) -> bool:
        """Tell whether a run was trained here to its end."""
        return self.record.exists() and self.model.exists() and self.read().get("finished") is True

    def differs(self, made_with: dict[str, Any]) -> list[str]:
        """Return what sets the run that was begun here apart from one that is made with this."""
        before, now = self.read().get("made_with", {}), json.loads(json.dumps(made_with))
        return [f"{name} was {one}, is {other}" for name, one, other in differences(before, now)]

    def _compare(self, made_with: dict[str, Any]) -> None:
        differing = self.differs(made_with)
        if differing:
            raise InputError(
                f"{self.folder} holds a run that was made with something else: {'; '.join(differing)}. Choose another "
                "--out, or start anew with --restart."
            )

    def read(self) -> dict[str, Any]:
        """Return the record."""
        try:
            record: dict[str, Any] = json.loads(self.record.read_text(encoding="utf-8"))
            record.keys()
        except (ValueError, AttributeError) as error:
            raise InputError(f"{self.record} is damaged ({error}). Choose another --out, or remove it.") from error
        return record

    def _write(self, record: dict[str, Any]) -> None:
        with whole_file(self.record) as file:
            json.dump(record, file, indent=2, ensure_ascii=False)


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (name, value before, value now), shortened for people, of all values that are not the same."""
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    return [(name, str(before.get(name))[:80], str(now.get(name))[:80]) for name in names]
