"""The folder of a training run and its record, train.json: what it was made with, and how it went."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infuser import __version__
from infuser.errors import InputError
from infuser.writing import whole_file

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

    def begin(self, made_with: dict[str, Any], *, restart: bool) -> None:
        """Write down what the run is made with, or see that it is the same as what was begun here before."""
        begun = self.model.exists() or (self.checkpoints.exists() and any(self.checkpoints.iterdir()))
        if begun and not self.record.exists():
            raise InputError(f"{self.folder} holds a model or checkpoints, but no train.json. Choose another --out.")
        if begun and restart:
            for part in (self.model, self.checkpoints):
                shutil.rmtree(part, ignore_errors=True)
        elif begun:
            self._compare(made_with)
            return
        versions = {"infuser": __version__} | {name: importlib.metadata.version(name) for name in _PACKAGES}
        self._write({"finished": False, "made_with": made_with, "versions": versions})

    def finish(self, result: dict[str, Any]) -> None:
        """Add how the run went."""
        self._write({**self._read(), "finished": True, "result": result})

    def _compare(self, made_with: dict[str, Any]) -> None:
        before = self._read().get("made_with", {})
        now = json.loads(json.dumps(made_with))
        differing = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
        if differing:
            told = "; ".join(
                f"{name} was {str(before.get(name))[:80]}, is {str(now.get(name))[:80]}" for name in differing
            )
            raise InputError(
                f"{self.folder} holds a run that was made with something else: {told}. Choose another --out, or start "
                "anew with --restart."
            )

    def _read(self) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(self.record.read_text(encoding="utf-8"))
            record.keys()
        except (ValueError, AttributeError) as error:
            raise InputError(f"{self.record} is damaged ({error}). Choose another --out, or remove it.") from error
        return record

    def _write(self, record: dict[str, Any]) -> None:
        with whole_file(self.record) as file:
            json.dump(record, file, indent=2, ensure_ascii=False)


def digest_of(value: Any) -> str:
    """Return a short digest of plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
