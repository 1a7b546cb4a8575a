"""What an exported folder says about itself: export.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from infuser.errors import CheckpointError
from infuser.files import from_plain, parse_json

CARD = "export.json"
GRAPH = "model.onnx"
OUTPUT = "output"
"""The name of the graph's one output."""

Head = Literal["sequence-classification", "token-classification", "multiple-choice", "question-answering", "encoder"]


@dataclass(frozen=True, slots=True)
class ExportCard:
    """Everything but weights, tokens and knowledge."""

    head: Head
    host: str
    """The kind of encoder: "bert"."""
    method: dict[str, Any] | None
    """Kind and settings of the method; None without knowledge."""
    inputs: dict[str, list[str | int]]
    """Name of each input: dtype and sizes; a size that varies has a name."""
    tokenizer: dict[str, Any]
    """See `runtime.tokenizer`."""
    batches: dict[str, Any]
    """How batches are made: max_length, max_term_tokens, tensors, and the share of a writer or None."""
    vocabulary: dict[str, Any]
    sources: list[dict[str, Any]]
    """See `sources.storage`."""
    labels: list[str]
    """Names of labels in the order of the logits; "score" for a number."""
    several_labels: bool
    """Whether a text may have several labels at once."""
    tag_moves: list[list[float]] | None
    """Scores of moves between tags; None if the labels are not tags of entities."""
    drawer: dict[str, Any] | None
    """Settings of `signals.drawing.MapDrawer`; None where no maps are read."""
    int8: bool
    versions: dict[str, str]

    def write(self, folder: Path) -> None:
        """Write the card into a folder."""
        (folder / CARD).write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def is_export(folder: str | Path) -> bool:
    """Return whether a folder holds an exported model."""
    return (Path(folder) / CARD).is_file()


def read_card(folder: Path) -> ExportCard:
    """Return the card of an exported folder."""
    path = folder / CARD
    if not path.is_file():
        raise CheckpointError(f"{folder} is not an exported model: it has no {CARD}. Make one with `infuser export`.")
    try:
        return from_plain(ExportCard, parse_json(path, "it"))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged ({error}). Export the model again.") from error
