"""Entity vectors from descriptions: the host encodes each description, its last states are averaged.

This needs no training and no triples, only a list of entities. What is needed to make more vectors in the same way is
stored beside them: the encoder's name and the settings, how it reads a certain sentence, and, where the vectors were
made shorter by principal components, centre and directions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.errors import InputError
from infuser.hosts import answering
from infuser.hosts.checkpoints import find_checkpoint
from infuser.hosts.loading import load_model, load_tokenizer, longest_input
from infuser.knowledge.artifact import check_place
from infuser.knowledge.vectors.descriptions import Described, Missing, texts_of
from infuser.knowledge.vectors.store import KIND, EntityVectors, Floats, VectorBatch, nameless_file, write_vectors
from infuser.progress import progress_bar

EncoderLike = str | Path | tuple[PreTrainedModel, PreTrainedTokenizerBase]
"""A checkpoint's folder, hub id or asset name; or a model with its tokenizer."""

_PROBE = "A river flows through the old town, and a bridge leads over it."
_AT_ONCE = 16_384
_ANOTHER = 1e-2  # an encoder whose average differs by more, relative to its length, is another one


@dataclass(frozen=True, slots=True)
class DescriptionVectors:
    """Settings of vectors that are encoded from descriptions."""

    dim: int | None = None
    """Keep so many principal components; None keeps all numbers that the encoder gives."""
    with_label: bool = True
    """Read "label: description"; without it, the description alone."""
    missing: Missing = "error"
    """An entity without a description is an error, read by its label alone, or left out."""
    max_tokens: int = 128
    """Read so many tokens of a description, at most."""
    batch_size: int = 64
    """Descriptions per call of the encoder."""
    scale: bool = True
    """Give each vector the length sqrt(dim)."""


def encode_descriptions(
    texts: Sequence[str],
    encoder: EncoderLike,
    *,
    max_tokens: int = 128,
    batch_size: int = 64,
    progress: bool = False,
) -> Floats:
    """Return the average of the encoder's last states over the tokens of each text, (texts, hidden) in float32.

    The encoder is a checkpoint's folder, hub id or asset name, or a model with its tokenizer.
    """
    model, tokenizer = _open_encoder(encoder)
    encoded = np.empty((len(texts), model.config.hidden_size), np.float32)
    _encode(texts, model, tokenizer, encoded, max_tokens, batch_size, progress)
    return encoded


def build_from_descriptions(
    entities: Iterable[Described],
    encoder: EncoderLike,
    out: str | Path,
    settings: DescriptionVectors | None = None,
    *,
    progress: bool = False,
) -> EntityVectors:
    """Encode the descriptions of entities, write their vectors to a folder, and open it."""
    settings = settings or DescriptionVectors()
    check_place(out, KIND)
    chosen = texts_of(entities, with_label=settings.with_label, missing=settings.missing)
    model, tokenizer = _open_encoder(encoder)
    hidden = model.config.hidden_size
    if settings.dim is not None and not 0 < settings.dim <= min(hidden, len(chosen) - 1):
        raise InputError(
            f"dim={settings.dim} cannot be had of {len(chosen):,} entities and an encoder with {hidden} numbers: it "
            "must be above 0, at most as the encoder has, and below the number of entities. Or leave it out."
        )
    n_bytes = 4 * len(chosen) * hidden
    with nameless_file(Path(out), n_bytes) as file:  # a million of them may not fit into memory
        encoded = np.memmap(file, np.float32, "w+", shape=(len(chosen), hidden))
        texts = [text for _, text in chosen]
        _encode(texts, model, tokenizer, encoded, settings.max_tokens, settings.batch_size, progress)
        further = {} if settings.dim is None else _principal(encoded, settings.dim)
        ids = [id for id, _ in chosen]
        rows = (
            VectorBatch(ids[first : first + _AT_ONCE], _projected(encoded[first : first + _AT_ONCE], further))
            for first in range(0, len(ids), _AT_ONCE)
        )
        further["probe"] = encode_descriptions([_PROBE], (model, tokenizer))[0]
        kept = {name: value for name, value in asdict(settings).items() if name not in ("dim", "scale")}
        name = str(model.name_or_path if isinstance(encoder, tuple) else encoder)
        about = {"way": "descriptions", "encoder": name, **kept}
        return write_vectors(rows, out, about, scale=settings.scale, further=further)


def add_described(
    vectors: EntityVectors,
    entities: Iterable[Described],
    encoder: EncoderLike | None = None,
    *,
    missing: Missing | None = None,
    progress: bool = False,
) -> EntityVectors:
    """Return these vectors and, behind them, those of new entities, encoded as the old ones were.

    `encoder` is where the encoder lies now, if not where it was; `missing` replaces that setting for the new ones.
    """
    if vectors.about.get("way") != "descriptions":
        raise InputError(
            f"These vectors were not made from descriptions (but by way of: {vectors.about.get('way')}), so nothing "
            "tells how a description becomes one of them. Give the new entities' own vectors: build all of them from "
            "a vector file, or use with_more(ids, vectors)."
        )
    made = vectors.about
    chosen = texts_of(entities, with_label=made["with_label"], missing=missing or made["missing"])
    model, tokenizer = _open_encoder(made["encoder"] if encoder is None else encoder)
    further = vectors.further
    probe = encode_descriptions([_PROBE], (model, tokenizer))[0]
    known = further["probe"]
    if probe.shape != known.shape or np.linalg.norm(probe - known) > _ANOTHER * np.linalg.norm(known):
        raise InputError(
            f"This encoder is not the one that made the vectors, {made['encoder']}: it reads the same sentence "
            "otherwise. Name that one (encoder=, --encoder), or build all vectors again with this one."
        )
    settings = {"max_tokens": made["max_tokens"], "batch_size": made["batch_size"], "progress": progress}
    encoded = encode_descriptions([text for _, text in chosen], (model, tokenizer), **settings)
    return vectors.with_more([id for id, _ in chosen], _projected(encoded, further))


def _open_encoder(encoder: EncoderLike) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if isinstance(encoder, tuple):
        return encoder
    folder = find_checkpoint(str(encoder))
    return load_model(folder, "encoder"), load_tokenizer(folder)


def _encode(
    texts: Sequence[str],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    encoded: Floats,
    max_tokens: int,
    batch_size: int,
    progress: bool,
) -> None:
    """Write the average state of each text into its row of `encoded`."""
    if max_tokens < 1 or batch_size < 1:
        raise InputError(f"max_tokens={max_tokens}, batch_size={batch_size}: both must be 1 or more.")
    reading = {"padding": True, "truncation": True, "max_length": min(max_tokens, longest_input(model, tokenizer))}
    order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))  # the longest first: memory is known soon
    with answering(model), progress_bar("encoding", len(texts), unit="texts", shown=None if progress else False) as bar:
        for first in range(0, len(order), batch_size):
            places = order[first : first + batch_size]
            batch = tokenizer([texts[place] for place in places], return_tensors="pt", **reading).to(model.device)
            states = model.base_model(**batch).last_hidden_state.float()  # (batch, seq, hidden)
            read = batch["attention_mask"].unsqueeze(-1).float()
            encoded[places] = ((states * read).sum(1) / read.sum(1).clamp(min=1)).cpu().numpy()
            bar.advance(len(places))


def _principal(encoded: Floats, dim: int) -> dict[str, NDArray[Any]]:
    """Return the average of all rows and the directions in which they differ most, (hidden, dim)."""
    hidden = encoded.shape[1]
    total, products = np.zeros(hidden), np.zeros((hidden, hidden))
    for first in range(0, len(encoded), _AT_ONCE):
        rows = encoded[first : first + _AT_ONCE].astype(np.float64)
        total += rows.sum(axis=0)
        products += rows.T @ rows
    centre = total / len(encoded)
    _, directions = np.linalg.eigh(products / len(encoded) - np.outer(centre, centre))
    best = directions[:, ::-1][:, :dim]
    best = best * np.sign(best[np.abs(best).argmax(axis=0), np.arange(dim)])  # either sign would do: choose one
    return {"centre": centre.astype(np.float32), "projection": best.astype(np.float32)}


def _projected(encoded: Floats, further: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    return (encoded - further["centre"]) @ further["projection"] if "projection" in further else encoded
