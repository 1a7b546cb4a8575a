"""A fitted AttentionRelations as files: relations.json and relations.safetensors. No pickle.

The encoder is not written, only its digest: weights that were learned on one encoder's heads mean nothing on another's.
The same data and seed give the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from infuser.errors import CheckpointError
from infuser.relations.candidates import CandidateRule
from infuser.relations.classifier import Thresholds, TwoStage
from infuser.relations.encoders import mark_of_encoder
from infuser.relations.trigger_words import TriggerWords
from infuser.writing import whole_folder

if TYPE_CHECKING:
    from infuser.relations.model import AttentionRelations

CARD = "relations.json"
_WEIGHTS = "relations.safetensors"
_KIND, _VERSION = "infuser relations", 1
_SETTINGS = (
    *("relations", "kind", "pooling", "trigger", "gate", "best", "strength", "gate_strength", "negatives"),
    *("most_triples", "max_iter", "batch_size", "seed"),
)

_Model = TypeVar("_Model", bound="AttentionRelations")


def save(model: AttentionRelations, folder: Path) -> None:
    """Write a fitted model, whole or not at all."""
    from safetensors.numpy import save_file

    learned = model._fitted()
    encoder = model.opened()
    settings = {name: getattr(model, name) for name in _SETTINGS}
    card = {
        "kind": _KIND,
        "version": _VERSION,
        "encoder": {"name": encoder.base, "digest": mark_of_encoder(encoder)},
        "settings": settings | {"relations": None if model.relations is None else list(model.relations)},
        "rule": asdict(model._rule()),
        "shape": list(model.reader().shape),
        "trigger": model.trigger_,
        "relations": list(learned.which.classes),
        "labels": model.labels_,
        "thresholds": asdict(learned.thresholds),
        "converged": [learned.gate.converged, learned.which.converged],
        "trigger_words": model.triggers_.to_json(),
    }
    with whole_folder(folder) as draft:
        (draft / CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        save_file({name: np.ascontiguousarray(array) for name, array in learned.tensors().items()}, draft / _WEIGHTS)


def load(cls: type[_Model], folder: Path, encoder: Any) -> _Model:
    """Read a model back, and refuse an encoder that it was not fitted on."""
    from safetensors.numpy import load_file

    card = read_card(folder)
    given = card["encoder"]["name"] if encoder is None else encoder
    if given is None:
        raise CheckpointError(f"{folder} was fitted on a live model without a name. Give it: load(..., encoder=model).")
    try:
        tensors = load_file(folder / _WEIGHTS)
        settings = card["settings"]
        rule, thresholds = CandidateRule(**card["rule"]), Thresholds(**card["thresholds"])
        learned = TwoStage.from_tensors(tensors, card["relations"], thresholds)
        model = cls(given, rule=rule, **settings)
        model.trigger_, model.labels_, model.n_unread_ = bool(card["trigger"]), dict(card["labels"]), 0
        model.triggers_ = TriggerWords.from_json(card["trigger_words"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{folder} is damaged: {error}. Fit and save the model again.") from error
    found = mark_of_encoder(model.opened())
    if found != card["encoder"]["digest"]:
        raise CheckpointError(
            f"{folder} was fitted on another encoder ({card['encoder']['name']!r}, digest "
            f"{card['encoder']['digest'][:12]}); {str(given)!r} has the digest {found[:12]}: other weights, another "
            "tokenizer or other knowledge. Give the encoder it was fitted on, or fit again."
        )
    model.model_ = learned
    return model


def read_card(folder: Path) -> dict[str, Any]:
    """Return what a saved model says about itself."""
    try:
        card: dict[str, Any] = json.loads((folder / CARD).read_text(encoding="utf-8"))
        if (card["kind"], card["version"]) != (_KIND, _VERSION):
            raise ValueError(f"it is {card['kind']!r}, version {card['version']!r}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{folder} holds no saved relations ({CARD}: {error}). Fit some: infuser relations fit DATA --out {folder}"
        ) from error
    return card
