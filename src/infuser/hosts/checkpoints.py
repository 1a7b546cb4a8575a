"""Checkpoints by name: an asset, a hub id, a folder; and what their config says before they are loaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig

from infuser import assets
from infuser.assets import Progress as Progress
from infuser.errors import CheckpointError
from infuser.sources.storage import CARD as CARD

CLASSIFIER = "ForSequenceClassification"
"""How the class names of text classifiers end."""
TAGGER = "ForTokenClassification"
"""How the class names of models end that give every word a tag."""
QUESTIONS = "ForQuestionAnswering"
"""How the class names of models end that find the answer to a question in a passage."""

CHOICE = "ForMultipleChoice"
"""How the class names of models end that choose between several texts."""

_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def find_checkpoint(name: str, progress: Progress | None = None) -> str:
    """Return what transformers can load: the folder of an asset, which is fetched when missing, or the name itself."""
    if name in assets.ASSETS and not Path(name).exists():
        return str(assets.fetch(name, progress=progress))
    path = Path(name)
    if not (path / "config.json").exists() and (path / "model" / "config.json").exists():
        raise CheckpointError(f"{name!r} is the folder of a run. Its model is {str(path / 'model')!r}.")
    # checked here because a failing request to the hub takes long
    may_be_hub_id = _HUB_ID.fullmatch(name) and not (path.parts[1:] and Path(path.parts[0]).exists())
    if not path.exists() and not may_be_hub_id:
        raise CheckpointError(
            f"There is no model {name!r}: no such folder, and not a hub id either. See what can be fetched with: "
            "infuser assets list"
        )
    return name


def short_name(name: str) -> str:
    """Return a name for reports: that of a folder, with the run's for RUN/model, or the hub id or asset as it is."""
    path = Path(name).resolve()
    if not path.exists():
        return name
    return f"{path.parent.name}/{path.name}" if path.name == "model" else path.name


def is_infused(folder: str | Path) -> bool:
    """Return whether a folder holds a saved infused model."""
    return (Path(folder) / CARD).exists()


def head_of(checkpoint: str) -> str:
    """Return what a checkpoint's config says it was trained for: a classifier, a tagger, or an encoder alone."""
    names = [str(kind) for kind in read_config(checkpoint).get("architectures") or ()]
    for ending, head in ((CLASSIFIER, "sequence-classification"), (TAGGER, "token-classification")):
        if any(name.endswith(ending) for name in names):
            return head
    return "encoder"


def read_config(checkpoint: str) -> dict[str, Any]:
    """Return a checkpoint's config.json."""
    try:
        config: dict[str, Any] = PreTrainedConfig.get_config_dict(checkpoint)[0]
        if not config:
            raise OSError("there is no config.json")
    except Exception as error:  # a damaged config.json raises whatever reads it first
        raise no_config(checkpoint, error) from error
    return config


def no_config(checkpoint: str, error: Exception) -> CheckpointError:
    """Return the error of a checkpoint whose config.json cannot be read."""
    why = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    path = Path(checkpoint) / "config.json"
    if path.exists():
        return CheckpointError(f"Cannot read {str(path)!r}: {why}. If it is damaged, take a good copy.")
    return CheckpointError(
        f"Cannot load the checkpoint {checkpoint!r}: it is neither a directory with a config.json nor a hub id that "
        f"can be reached from here. ({why})"
    )
