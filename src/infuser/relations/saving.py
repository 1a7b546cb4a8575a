"""Saves and loads a fitted AttentionRelations, with or without the sources that find its spans.

FOLDER/relations.json, relations.safetensors   what was learned; the same data and seed give the same bytes
FOLDER/sources.json, sources/                  the sources, so that they need not be named again

The encoder is not written, only its digest: weights that were learned on one encoder's heads mean nothing on another's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from infuser.errors import CheckpointError, InputError
from infuser.files import json_of, parse_json, whole_folder
from infuser.relations.candidates import CandidateRule
from infuser.relations.classifier import Thresholds, TwoStage
from infuser.relations.encoders import digest_of_encoder
from infuser.relations.features import FeatureSettings
from infuser.relations.trigger_words import TriggerWords
from infuser.seals import check_seal, seal
from infuser.types import Source

if TYPE_CHECKING:
    from infuser.relations.model import AttentionRelations

CARD = "relations.json"
_WEIGHTS = "relations.safetensors"
_SOURCES = "sources.json"
_KIND, _VERSION = "infuser relations", 1
_SETTINGS = (
    *("relations", "kind", "pooling", "trigger", "gate", "best", "strength", "gate_strength", "negatives"),
    *("none_class", "most_triples", "max_iter", "batch_size", "seed"),
)

_Model = TypeVar("_Model", bound="AttentionRelations")


def is_fitted(folder: Path) -> bool:
    """Return whether a folder holds fitted relations."""
    return (folder / CARD).is_file()


def check_folder(folder: Path) -> None:
    """Raise if saving into a folder would lose other files."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file. Name a folder.")
    if folder.exists() and not is_fitted(folder) and any(folder.iterdir()):
        raise InputError(f"{str(folder)!r} holds other files. Name a new or empty folder.")


def save(model: AttentionRelations, folder: Path) -> None:
    """Write a fitted model, whole or not at all."""
    from safetensors.numpy import save_file

    check_folder(folder)
    learned = model.fitted()
    encoder = model.opened()
    settings = {name: getattr(model, name) for name in _SETTINGS}
    card = {
        "kind": _KIND,
        "version": _VERSION,
        "encoder": {"name": encoder.base, "digest": digest_of_encoder(encoder)},
        "settings": settings | {"relations": None if model.relations is None else list(model.relations)},
        "rule": asdict(model.rule_),
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
        (draft / CARD).write_text(json_of(card), encoding="utf-8")
        save_file({name: np.ascontiguousarray(array) for name, array in learned.tensors().items()}, draft / _WEIGHTS)
        seal(draft)


def load(cls: type[_Model], folder: Path, encoder: Any) -> _Model:
    """Read a model back, and refuse an encoder that it was not fitted on."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    card = _read_card(folder)
    check_seal(folder, "Fit and save the model again.")
    try:
        name, mark = card["encoder"]["name"], card["encoder"]["digest"]
        given = name if encoder is None else encoder
        if given is None:
            raise CheckpointError(
                f"{folder} was fitted on a live model without a name. Give it: load(..., encoder=model)."
            )
        tensors = load_file(folder / _WEIGHTS)
        rule, thresholds = CandidateRule(**card["rule"]), Thresholds(**card["thresholds"])
        learned = TwoStage.from_tensors(tensors, card["classes"], thresholds, card["converged"])
        _check_shapes(learned, math.prod(card["shape"]))
        model = cls(given, rule=rule, **card["settings"])
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
    try:
        opened = model.opened()
    except CheckpointError as error:
        if encoder is not None:
            raise
        raise CheckpointError(
            f"{folder} was fitted on the encoder {name!r}, which is not there ({error}) Say where it lies now: "
            "load(..., encoder=FOLDER), on the command line --encoder FOLDER."
        ) from error
    found = digest_of_encoder(opened)
    if found != mark:
        raise CheckpointError(
            f"{folder} was fitted on another encoder ({name or 'a live model'}, digest {str(mark)[:12]}); "
            f"{opened.base or type(opened.model).__name__} has the digest {found[:12]}: other weights, another "
            "tokenizer or other knowledge. Give the encoder it was fitted on, or fit again."
        )
    model.model_ = learned
    return model


def _check_shapes(learned: TwoStage, n_features: int) -> None:
    """Refuse arrays that do not fit together: numbers from broken files must not become answers."""
    for name, part in (("gate", learned.gate), ("which", learned.which)):
        n_rows = {1: 0, 2: 1}.get(len(part.classes), len(part.classes))
        shapes = {"mean": (n_features,), "scale": (n_features,), "weights": (n_rows, n_features), "bias": (n_rows,)}
        for array, shape in shapes.items():
            found = part.arrays()[array]
            if found.shape != shape or found.dtype != np.float64:
                raise ValueError(f"{name}.{array} is {found.dtype} {found.shape}, not float64 {shape}")


def _read_card(folder: Path) -> dict[str, Any]:
    """Return the card of a saved model: settings, classes, labels, thresholds."""
    try:
        card: dict[str, Any] = parse_json(folder / CARD, "it")
        if (card["kind"], card["version"]) != (_KIND, _VERSION):
            raise ValueError(f"it is {card['kind']!r}, version {card['version']!r}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{folder} holds no saved relations ({CARD}: {error}). Fit some: infuser relations fit DATA --out {folder}"
        ) from error
    return card


def save_with_sources(model: AttentionRelations, sources: Sequence[Source], folder: Path) -> list[str]:
    """Write a model and the sources of its spans, all or nothing; return why some sources could not be written."""
    from infuser.sources.storage import save_source

    with whole_folder(folder.resolve()) as draft:
        save(model, draft)
        records = [save_source(source, draft / "sources" / str(place)) for place, source in enumerate(sources)]
        (draft / _SOURCES).write_text(json_of(records), encoding="utf-8")
        seal(draft)
    return [f"{record['name']}: {record['needs']}" for record in records if "needs" in record]


def find_sources(folder: Path, given: Sequence[Source] = (), *, otherwise: str = "") -> list[Source]:
    """Return the given sources, else those saved with a model; `otherwise` is what can be done without any."""
    name_some = "Name some, such as --source spacy-entities --source spacy-phrases, or --entities FILE."
    found = list(given) or load_sources(folder)
    if not found:
        raise InputError(
            f"{folder} was fitted without sources, so nothing finds spans to relate. {name_some}{otherwise}"
        )
    return found


def load_sources(folder: Path) -> list[Source]:
    """Return the sources that were saved with a model; none if there were none."""
    import infuser.sources  # noqa: F401  # registers the classes
    from infuser.sources.storage import load_source

    try:
        records = parse_json(folder / _SOURCES, "it")
        if not isinstance(records, list):
            raise ValueError("it holds no list")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / _SOURCES} is damaged ({error}). Name all sources again.") from error
    for record in records:
        if isinstance(record, dict) and "needs" in record:
            raise InputError(f"The source {record['name']!r} could not be saved with {folder}. Name all sources again.")
    return [load_source(record, folder / "sources" / str(place)) for place, record in enumerate(records)]
