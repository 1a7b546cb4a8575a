"""dEA, the denoising entity autoencoder of ERNIE: guess which entity a mention means, though some of them are wrong.

Of the entities that stand beside the words, 5 % are replaced by another one of the batch, 15 % are dropped and the rest
is kept; from the final state of each mention's first subword the original is to be guessed among all entities of the
batch. `DenoisingObjective` stands around a model with `Ernie` inside while `infuser.train` trains it, and adds the loss
of the model's own head (masked words) if the batch has labels for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from infuser.errors import InputError
from infuser.methods.entity_reader import Bases, BatchMentions
from infuser.methods.ernie import AlignedEntities, EntityStream, align_entities
from infuser.signals.candidates import part_name


@dataclass(frozen=True, slots=True)
class Denoising:
    """How entities are disturbed; the shares are those of the paper."""

    replaced: float = 0.05
    """Share of the entities that another one of the batch takes the place of."""
    dropped: float = 0.15
    """Share of the entities that are left out; the rest is kept."""

    def __post_init__(self) -> None:
        if not all(0 <= share <= 1 for share in (self.replaced, self.dropped, self.replaced + self.dropped)):
            raise InputError(f"{self}: shares lie between 0 and 1, both together too.")


_PAPER = Denoising()


@dataclass
class Denoised(ModelOutput):
    """The loss of a batch, what it is made of, and what was guessed."""

    loss: Tensor | None = None
    parts: dict[str, Tensor] | None = None
    """Losses by name."""
    guesses: dict[str, Tensor] | None = None
    """(mentions, entities of the batch) by knowledge base: the score of each entity."""
    targets: dict[str, Tensor] | None = None
    """(mentions,) by knowledge base: which of them is right."""


def entities_in(batch: Mapping[str, Tensor], name: str, min_prior: float = 0.0) -> AlignedEntities:
    """Return the entities of a knowledge base in a batch, one per mention, as `Ernie` aligns them."""
    if part_name(name, "spans") not in batch:
        raise InputError(
            f"The batch carries nothing of the knowledge base {name!r}, only {sorted(batch)}. Collate with "
            "infused.collator()."
        )
    if batch["input_ids"].dim() != 2:
        raise InputError("Entities are guessed in single texts and pairs, but this batch holds multiple choices.")
    spans, candidates, priors, vectors = (
        batch[part_name(name, part)] for part in ("spans", "candidates", "priors", "vectors")
    )
    aligned = align_entities(
        BatchMentions(spans=spans, candidates=candidates, priors=priors, vectors=vectors), min_prior
    )
    aligned.is_entity &= aligned.vectors.any(dim=-1)  # masked words have an entity of zeros, which is no entity
    return aligned


def corrupt_entities(
    batch: Mapping[str, Tensor],
    names: Sequence[str],
    settings: Denoising = _PAPER,
    generator: torch.Generator | None = None,
    *,
    min_prior: float = 0.0,
) -> dict[str, Tensor]:
    """Return the batch with one sure candidate per mention, of which some are replaced and some dropped.

    A dropped mention stays without any entity: those that lie inside it are taken out as well. Chance comes from a
    generator of the CPU; None is torch's own.
    """
    corrupted = dict(batch)
    for name in names:
        aligned = entities_in(batch, name, min_prior)
        is_entity, vectors = aligned.is_entity, aligned.vectors.clone()
        entities, which = torch.unique(vectors[is_entity], dim=0, return_inverse=True)
        chance = torch.rand(is_entity.shape, generator=generator).to(is_entity.device)
        if len(entities) > 1:
            step = torch.randint(1, len(entities), which.shape, generator=generator).to(which.device)
            others = entities[(which + step) % len(entities)]
            replaced = (chance < settings.replaced)[is_entity]
            vectors[is_entity] = torch.where(replaced[:, None], others, entities[which])
        kept = is_entity & (chance < 1 - settings.dropped)
        place = torch.arange(is_entity.shape[1], device=is_entity.device).expand_as(is_entity)
        spans, priors = batch[part_name(name, "spans")], batch[part_name(name, "priors")]
        corrupted[part_name(name, "spans")] = spans * is_entity[..., None]
        corrupted[part_name(name, "candidates")] = torch.stack([place, place], dim=-1)
        corrupted[part_name(name, "priors")] = kept.to(priors.dtype)
        corrupted[part_name(name, "vectors")] = vectors
        corrupted.pop(part_name(name, "gold"), None)  # it spoke of the candidates that were
    return corrupted


class DenoisingObjective(nn.Module):
    """A model with `Ernie` inside whose loss is that of guessing entities, and that of its own head if it has one.

    The weights that guess are the objective's own: checkpoints of the training hold them, the saved model does not,
    for no task needs them. While training, chance is torch's own; in evaluation it is the same each time.
    """

    def __init__(
        self, model: PreTrainedModel, names: Sequence[str] | None = None, *, settings: Denoising = _PAPER
    ) -> None:
        super().__init__()
        bases: Any = getattr(model.base_model, "knowledge", {})
        streams = dict(bases.items())
        names = tuple(streams) if names is None else tuple(names)
        unknown = [name for name in names if name not in streams or not isinstance(streams[name], EntityStream)]
        if unknown or not names:
            raise InputError(
                f"This model has no entity stream for {', '.join(map(repr, unknown)) or 'any knowledge base'}. Infuse "
                "it with Ernie() and knowledge bases."
            )
        self.model, self.names, self.settings = model, names, settings
        # "knowledge", so that they learn at the rate of the new weights
        self.knowledge = Bases({name: nn.Linear(model.config.hidden_size, streams[name].size) for name in names}).to(
            model.device, model.dtype
        )

    def forward(self, **batch: Any) -> Denoised:
        """Return the loss of a batch: of guessing entities, for each knowledge base, and of the model's own head."""
        streams = dict(self.model.base_model.knowledge.items())  # type: ignore[union-attr, operator]
        generator = None if self.training else torch.Generator().manual_seed(0)
        found, corrupted = {}, batch
        for name in self.names:
            min_prior = streams[name].min_prior
            found[name] = entities_in(batch, name, min_prior)
            corrupted = corrupt_entities(corrupted, [name], self.settings, generator, min_prior=min_prior)
        out = self.model(**corrupted, output_hidden_states=True)
        parts: dict[str, Tensor] = {}
        guesses: dict[str, Tensor] = {}
        targets: dict[str, Tensor] = {}
        for name, aligned in found.items():
            guesses[name], targets[name] = self._guess(name, out.hidden_states[-1], aligned)
            wrong = nn.functional.cross_entropy(guesses[name], targets[name], reduction="sum")
            parts[f"entities of {name}"] = wrong / max(1, len(targets[name]))  # a batch without entities: exactly 0
        if getattr(out, "loss", None) is not None:
            parts["head"] = out.loss
        return Denoised(
            loss=torch.stack(list(parts.values())).sum(),
            parts={name: part.detach() for name, part in parts.items()},
            guesses={name: guess.detach() for name, guess in guesses.items()},
            targets=targets,
        )

    def _guess(self, name: str, states: Tensor, aligned: AlignedEntities) -> tuple[Tensor, Tensor]:
        """Return the score of each entity of the batch for each mention, and which entity is right."""
        text, mention = aligned.is_entity.nonzero(as_tuple=True)
        # the batch tells entities apart by their vectors alone; where those are equal, nothing could be guessed anyway
        entities, right = torch.unique(aligned.vectors[text, mention], dim=0, return_inverse=True)
        guessed = self.knowledge[name](states[text, aligned.starts[text, mention]])
        scores = guessed @ entities.to(guessed.dtype).T / math.sqrt(entities.shape[-1])
        return scores.to(torch.promote_types(scores.dtype, torch.float32)), right
