"""A fitted AttentionRelations as files: relations.json and relations.safetensors. No pickle.

The encoder is not written, only its digest: weights that were learned on one encoder's heads mean nothing on another's.
The same data and seed give the same bytes.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from infuser.errors import CheckpointError
from infuser.files import whole_folder
from infuser.relations.candidates import CandidateRule
from infuser.relations.classifier import Thresholds, TwoStage
from infuser.relations.encoders import mark_of_encoder
from infuser.relations.features import FeatureSettings
from infuser.relations.trigger_words import TriggerWords

if TYPE_CHECKING:
    from infuser.relations.model import AttentionRelations

CARD = "relations.json"
_WEIGHTS = "relations.safetensors"
_KIND, _VERSION = "infuser relations", 1
_SETTINGS = (
    *("relations", "kind", "pooling", "trigger", "gate", "best", "strength", "gate_strength", "negatives"),
    *("none_class", "most_triples", "max_iter", "batch_size", "seed"),
)

_Model = TypeVar("_Model", bound="AttentionRelations")


def save(model: AttentionRelations, folder: Path) -> None:
    """Write a fitted model, whole or not at all."""
    from safetensors.numpy import save_file

    if folder.exists() and not (folder / CARD).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CheckpointError(f"{folder} holds other files; save into a new or empty directory.")
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
        "features": asdict(model.features_),
        "classes": list(learned.which.classes),
        "labels": model.labels_,
        "n_unread": model.n_unread_,
        "n_negatives": model.n_negatives_,
        "thresholds": asdict(learned.thresholds),
        "converged": [learned.gate.converged, learned.which.converged],
        "trigger_words": model.triggers_.to_json(),
    }
    with whole_folder(folder) as draft:
        (draft / CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        save_file({name: np.ascontiguousarray(array) for name, array in learned.tensors().items()}, draft / _WEIGHTS)


def load(cls: type[_Model], folder: Path, encoder: Any) -> _Model:
    """Read a model back, and refuse an encoder that it was not fitted on."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    card = read_card(folder)
    try:
        name, mark = card["encoder"]["name"], card["encoder"]["digest"]
        given = name if encoder is None else encoder
        if given is None:
            raise CheckpointError(
                f"{folder} was fitted on a live model without a name. Give it: load(..., encoder=model)."
            )
        tensors = load_file(folder / _WEIGHTS)
        settings = card["settings"]
        rule, thresholds = CandidateRule(**card["rule"]), Thresholds(**card["thresholds"])
        learned = _checked(TwoStage.from_tensors(tensors, card["classes"], thresholds), math.prod(card["shape"]))
        gate_converged, which_converged = card["converged"]
        learned = replace(
            learned,
            gate=replace(learned.gate, converged=bool(gate_converged)),
            which=replace(learned.which, converged=bool(which_converged)),
        )
        model = cls(given, rule=rule, **settings)
        model.features_ = FeatureSettings(**card["features"])
        model.labels_ = dict(card["labels"])
        model.n_unread_, model.n_negatives_ = card["n_unread"], card["n_negatives"]
        model.triggers_ = TriggerWords.from_json(card["trigger_words"])
    except (OSError, AttributeError, KeyError, TypeError, ValueError, SafetensorError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"{folder} is damaged: {type(error).__name__}: {error}. Fit and save the model again."
        ) from error
    opened = model.opened()
    found = mark_of_encoder(opened)
    if found != mark:
        raise CheckpointError(
            f"{folder} was fitted on another encoder ({name or 'a live model'}, digest {str(mark)[:12]}); "
            f"{opened.base or type(opened.model).__name__} has the digest {found[:12]}: other weights, another "
            "tokenizer or other knowledge. Give the encoder it was fitted on, or fit again."
        )
    model.model_ = learned
    return model


def _checked(learned: TwoStage, n_features: int) -> TwoStage:
    """Refuse arrays that do not fit together: numbers from broken files must not become answers."""
    for name, part in (("gate", learned.gate), ("which", learned.which)):
        n_rows = {1: 0, 2: 1}.get(len(part.classes), len(part.classes))
        shapes = {"mean": (n_features,), "scale": (n_features,), "weights": (n_rows, n_features), "bias": (n_rows,)}
        for array, shape in shapes.items():
            found = part.arrays()[array]
            if found.shape != shape or found.dtype != np.float64:
                raise ValueError(f"{name}.{array} is {found.dtype} {found.shape}, not float64 {shape}")
    return learned


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
