"""ERNIE-style fusion (Zhang et al. 2019, "ERNIE: Enhanced Language Representation with Informative Entities").

Beside the words runs, for each knowledge base, a stream of entities, one per mention. Behind blocks of the upper half
the two meet, each entity on the first subword of its mention:

    e~ = LayerNorm(e + MultiHead(e, e, e))               entities look at entities
    u  = gelu(W_t w + W_e e~ + b)                        words without an entity: the same without W_e e~
    w' = w + gate * (LayerNorm(w + W_to u + b_to) - w)   the gate starts at 0, so a fresh infusion answers as before;
                                                         or w + LayerNorm(w + W_to u + b_to) - LayerNorm(w) with W_to
                                                         and b_to that start at 0
    e' = LayerNorm(e~ + W_eo u + b_eo)                   what the next fusion reads; the last one has none

The entity of a mention is its most probable candidate. A mention that lies inside another has none: the longest wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import InputError
from infuser.hosts import anatomy_of, n_blocks
from infuser.methods.entity_reader import BatchMentions, EntityMethod, Trace, sizes_of
from infuser.methods.layers import MultiHead
from infuser.registry import METHODS
from infuser.types import Source, Vocabulary


@dataclass(slots=True)
class AlignedEntities:
    """The entity of each mention, and the token on which it sits."""

    starts: Tensor
    """(batch, S) first token of the mention."""
    vectors: Tensor
    """(batch, S, e) of its entity."""
    is_entity: Tensor
    """(batch, S) False for mentions without an entity and for padding."""
    chosen: Tensor
    """(batch, S) place of the entity in the flat list of candidates."""


def align_entities(found: BatchMentions, min_prior: float = 0.0) -> AlignedEntities:
    """Return one entity per mention: the first of its candidates, if its prior reaches `min_prior`."""
    n_candidates = found.priors.shape[1]
    place = torch.arange(n_candidates, device=found.priors.device).expand_as(found.priors)
    place = place.masked_fill(~found.is_candidate, n_candidates)
    none = place.new_full(found.spans.shape[:2], n_candidates)
    first = none.scatter_reduce(1, found.candidates[..., 0], place, "amin")  # most probable first
    has_some, first = first < n_candidates, first.clamp(max=n_candidates - 1)
    lowest = torch.tensor(min_prior, dtype=torch.float32, device=place.device)  # as priors are: 0.7 must reach 0.7
    fits = found.is_span & has_some & (found.priors.float().gather(1, first) >= lowest)
    which = found.candidates[..., 1].gather(1, first)
    vectors = found.vectors.gather(1, which[..., None].expand(-1, -1, found.vectors.shape[-1]))
    return AlignedEntities(found.spans[..., 0], vectors, fits & ~_inside_others(found.spans, fits), first)


def _inside_others(spans: Tensor, fits: Tensor) -> Tensor:
    """Return which spans (batch, S) lie inside another one that fits; of two alike, the first counts as the outer."""
    start, end = spans.unbind(-1)
    inside = (start[:, :, None] >= start[:, None, :]) & (end[:, :, None] <= end[:, None, :])  # (batch, inner, outer)
    shorter = (end - start)[:, :, None] < (end - start)[:, None, :]
    later = torch.ones(inside.shape[1:], dtype=torch.bool, device=spans.device).tril(-1)
    return (inside & (shorter | later) & fits[:, None, :]).any(dim=-1)


class Fusion(nn.Module):
    """Lets words and entities meet behind one block."""

    def __init__(self, hidden: int, size: int, *, last: bool, settings: Ernie) -> None:
        super().__init__()
        inner = settings.inner or hidden
        self.attention = MultiHead(size, settings.n_heads, settings.dropout)
        self.attention_norm = nn.LayerNorm(size)
        self.from_words = nn.Linear(hidden, inner)
        self.from_entities = nn.Linear(size, inner, bias=False)  # one bias is enough for a sum
        self.to_words = nn.Linear(inner, hidden)
        self.gate = nn.Parameter(torch.zeros(())) if settings.start == "gate" else None
        self.word_norm = nn.LayerNorm(hidden, bias=self.gate is not None)  # in the difference of two, a bias is lost
        if self.gate is None:
            nn.init.zeros_(self.to_words.weight)
            nn.init.zeros_(self.to_words.bias)
        self.dropout = nn.Dropout(settings.dropout)
        self.last = last
        if not last:  # nobody would read what the last fusion makes of the entities
            self.to_entities = nn.Linear(inner, size)
            self.entity_norm = nn.LayerNorm(size)

    def forward(self, words: Tensor, entities: Tensor, aligned: AlignedEntities) -> tuple[Tensor, Tensor | None]:
        """Return words (batch, seq, hidden) and entities (batch, S, e), each with what they took from the other."""
        looked = self.attention(entities, entities, aligned.is_entity)
        entities = self.attention_norm(entities + self.dropout(looked))
        inner = self.from_words(words)  # (batch, seq, inner)
        place = aligned.starts[..., None].expand(-1, -1, inner.shape[-1])
        added = self.from_entities(entities) * aligned.is_entity[..., None]
        inner = nn.functional.gelu(inner.scatter_add(1, place, added.to(inner.dtype)))
        fused = self.word_norm(words + self.dropout(self.to_words(inner)))
        change = fused - self.word_norm(words) if self.gate is None else self.gate * (fused - words)
        words = words + change.to(words.dtype)
        if self.last:
            return words, None
        taken = self.to_entities(inner.gather(1, place))
        return words, self.entity_norm(entities + self.dropout(taken))


class EntityStream(nn.Module):
    """The entities of one knowledge base on their way beside the words: one fusion behind each block that has one."""

    def __init__(self, hidden: int, size: int, *, layers: range, settings: Ernie) -> None:
        super().__init__()
        self.size, self.layers = size, layers
        self.min_prior, self.bypass_empty = settings.min_prior, settings.bypass_empty
        self.fusions = nn.ModuleList(
            Fusion(hidden, size, last=layer == layers[-1], settings=settings) for layer in layers
        )

    def forward(
        self, layer: int, words: Tensor, entities: Tensor, aligned: AlignedEntities
    ) -> tuple[Tensor, Tensor | None]:
        """Return words and entities as they are behind the fusion of this layer."""
        fused, entities_above = self.fusions[layer - self.layers.start](words, entities, aligned)
        if self.bypass_empty:
            fused = torch.where(aligned.is_entity.any(dim=1)[:, None, None], fused, words)
        return fused, entities_above


@dataclass(slots=True)
class ErnieCall:
    """The knowledge of one call, on its way through the blocks."""

    base: Any
    aligned: dict[str, AlignedEntities]
    learns: bool
    """Whether the call follows gradients."""
    streams: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """The entities of each base behind each layer; kept by layer, so that checkpointing can compute one layer again."""

    def after_block(self, layer: int, states: Tensor) -> Tensor:
        """Return the states after the fusions that stand behind this block."""
        for name, stream in self.base.knowledge.items():
            if name not in self.aligned or layer not in stream.layers:
                continue
            if self.learns and len(stream.layers) > 1 and not torch.is_grad_enabled():
                raise InputError(
                    "Reentrant gradient checkpointing loses what layers share beside their states. Switch it on with "
                    "model.gradient_checkpointing_enable({'use_reentrant': False})."
                )
            aligned = self.aligned[name]
            below = self.streams.get((name, layer - 1), aligned.vectors)
            states, above = stream(layer, states, below, aligned)
            if above is not None:
                self.streams[name, layer] = above
        return states


def _start_call(base: PreTrainedModel, found: dict[str, BatchMentions], trace: Trace | None) -> ErnieCall:
    bases: Any = base.knowledge
    streams = dict(bases.items())
    aligned = {name: align_entities(of_base, streams[name].min_prior) for name, of_base in found.items()}
    if trace is not None:
        for name, entities in aligned.items():
            priors = found[name].priors
            trace.scores[name] = priors.masked_fill(~found[name].is_candidate, -torch.inf)
            weights = entities.is_entity.to(priors.dtype)
            trace.weights[name] = torch.zeros_like(priors).scatter_add(1, entities.chosen, weights)
    return ErnieCall(base, aligned, learns=torch.is_grad_enabled())


@METHODS.register("ernie")
@dataclass(frozen=True, slots=True)
class Ernie(EntityMethod):
    """Settings of the method; every field has a default that works."""

    first_layer: int | None = None
    """Behind which block the first fusion stands, counted from 0; None begins at the upper half. The last one stands
    behind the last block but one: behind the last block, no other word could see an entity any more."""
    start: Literal["gate", "zero"] = "gate"
    """What keeps words as they are at first: a gate per fusion; or a projection of zeros, which learns at full strength
    from the first step."""
    n_heads: int = 4
    """Heads of the attention among entities; as many as divide the size of the vectors."""
    inner: int | None = None
    """Width of the layer in which words and entities meet; None takes the host's hidden size."""
    dropout: float = 0.1
    """Share of units that are left out while training."""
    bypass_empty: bool = False
    """Texts without any entity skip the method and are read exactly as before. Off: the blocks above have learned from
    texts with entities to read fused words, so they get the same formula without an entity."""
    min_prior: float = 0.0
    """A mention gets its most probable candidate only if that candidate's prior reaches this."""

    def __post_init__(self) -> None:
        if self.start not in ("gate", "zero"):
            raise InputError(f"Ernie(start={self.start!r}) must be 'gate' or 'zero'.")
        if self.n_heads < 1 or (self.inner is not None and self.inner < 1) or not 0 <= self.dropout < 1:
            raise InputError(
                f"Ernie(n_heads={self.n_heads}, inner={self.inner}, dropout={self.dropout}): the first two are whole "
                "numbers of at least 1 (inner may be None), dropout lies between 0 and 1."
            )
        if not 0 <= self.min_prior <= 1:
            raise InputError(f"Ernie(min_prior={self.min_prior!r}) must lie between 0 and 1; priors do.")

    def attach(self, host: PreTrainedModel, *, sources: Sequence[Source], vocabulary: Vocabulary) -> None:
        """Put one entity stream per knowledge base beside the host's blocks and a reader before its encoder."""
        anatomy_of(host)
        sizes = sizes_of(sources, "Ernie")
        layers = self.places(host)
        hidden = host.config.hidden_size
        streams = {name: EntityStream(hidden, size, layers=layers, settings=self) for name, size in sizes.items()}
        self.put_in(host, streams, _start_call, set(layers))

    def places(self, host: PreTrainedModel) -> range:
        """Return the blocks of a host behind which fusions stand."""
        end = n_blocks(host) - 1
        first = end // 2 if self.first_layer is None else self.first_layer
        if not 0 <= first < end:
            raise InputError(
                f"Ernie(first_layer={self.first_layer}) leaves no place: fusions stand between blocks, and this host "
                f"has {end + 1}. Choose a first_layer from 0 to {end - 1}."
                if end
                else "Ernie puts entities between two blocks, but this host has only one."
            )
        return range(first, end)
