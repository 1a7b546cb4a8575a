"""KAR: knowledge attention and recontextualisation (Peters et al. 2019, "Knowledge Enhanced Contextual Word
Representations": KnowBERT).

Behind one block of the encoder stands, for each knowledge base, a linker that weighs the candidates of every mention,
and an attention that lets all words read the entities it found:

    H_p  = H W1 + b1                               words in the size of the entity vectors
    s    = LayerNorm(pooled H_p of each mention)   weighted by a learned attention over its words
    s_e  = TransformerBlock(s)                                mentions look at mentions
    psi  = MLP(prior, s_e . e_k / sqrt(e))         one score per candidate
    s'   = LayerNorm(s_e + sum softmax(psi) e_k)   over candidates with psi >= threshold; if none, a learned NULL
    H'   = H + gate * (MLP(MultiHead(H_p, s', s')) W2 + b2)

A text in which nothing was found is left as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import InputError
from infuser.hosts import anatomy_of, n_blocks
from infuser.methods.entity_reader import AllScored, BatchMentions, EntityMethod, Trace, sizes_of
from infuser.methods.layers import FeedForward, MultiHead, TransformerBlock
from infuser.registry import METHODS
from infuser.types import Source, Vocabulary


class Linker(nn.Module):
    """Scores what each mention may mean; trained first and alone (stage 1)."""

    def __init__(self, size: int, settings: Kar) -> None:
        super().__init__()
        self.pooling = nn.Linear(size, 1, bias=False)  # a softmax does not see a constant
        self.span_norm = nn.LayerNorm(size)
        self.block = TransformerBlock(size, settings.n_heads, settings.inner, settings.dropout)
        # without a bias at the end: the softmax over candidates does not see it, so a task could not teach it
        last = nn.Linear(settings.scorer, 1, bias=False)
        self.scorer = nn.Sequential(nn.Linear(2, settings.scorer), nn.ReLU(), last)
        with torch.no_grad():
            last.weight.abs_()  # all scores start above 0, so that every candidate counts until it learns

    def forward(self, words: Tensor, found: BatchMentions) -> tuple[Tensor, Tensor]:
        """Return mentions (batch, S, e) and the score of each candidate (batch, M)."""
        covered = found.span_tokens(words.shape[1])
        attention = self.pooling(words).transpose(1, 2)  # (batch, 1, seq)
        attention = attention.masked_fill(~covered, torch.finfo(words.dtype).min).softmax(dim=-1)  # (batch, S, seq)
        spans = self.block(self.span_norm(attention @ words), found.is_span)
        alike = found.flat(spans @ found.vectors.to(spans.dtype).transpose(1, 2)) / math.sqrt(spans.shape[-1])
        scores = self.scorer(torch.stack([found.priors.to(alike.dtype), alike], dim=-1)).squeeze(-1)
        return spans, scores


class KarLayer(nn.Module):
    """One knowledge base inside the encoder: its linker, and the attention through which words read what it found."""

    def __init__(self, hidden: int, size: int, *, layer: int, settings: Kar) -> None:
        super().__init__()
        self.layer, self.size, self.threshold = layer, size, settings.threshold
        self.project = nn.Linear(hidden, size)
        self.linker = Linker(size, settings)
        self.null = nn.Parameter(torch.randn(size) * 0.02)
        self.entity_norm = nn.LayerNorm(size)
        self.attention = MultiHead(size, settings.n_heads, settings.dropout)
        self.feed_forward = FeedForward(size, settings.inner, settings.dropout)
        self.back = nn.Linear(size, hidden)
        self.gate = nn.Parameter(torch.tensor(0.0 if settings.start == "inverse" else 1.0))
        with torch.no_grad():
            if settings.start == "zero":
                nn.init.zeros_(self.back.weight)
                nn.init.zeros_(self.back.bias)
            else:
                invert(self.project, self.back)

    def forward(self, states: Tensor, found: BatchMentions, trace: tuple[str, Trace] | None) -> Tensor:
        """Return states (batch, seq, hidden) that have read the entities."""
        words = self.project(states)
        spans, scores = self.linker(words, found)
        counts = found.is_candidate & (scores >= self.threshold)
        lowest = torch.finfo(scores.dtype).min
        dense = found.dense(scores.masked_fill(~counts, lowest), lowest)  # (batch, S, V)
        some = (dense > lowest).any(dim=-1, keepdim=True)
        weights = dense.softmax(dim=-1) * some
        entities = weights @ found.vectors.to(weights.dtype) + self.null * ~some
        spans = self.entity_norm(spans + entities)
        read = self.back(self.feed_forward(self.attention(words, spans, found.is_span)))
        if trace is not None:
            name, to_fill = trace
            to_fill.scores[name] = scores.masked_fill(~found.is_candidate, -math.inf)
            to_fill.weights[name] = found.flat(weights) * found.is_candidate
            to_fill.states[name] = states
        knows = found.is_span.any(dim=1)[:, None, None]
        result: Tensor = states + (read * (self.gate * knows)).to(states.dtype)
        return result


def invert(project: nn.Linear, back: nn.Linear) -> None:
    """Make `back` undo `project`: what was projected, brought back and projected again is the same.

    With fewer entity than hidden dimensions this is the right inverse W1^T (W1 W1^T)^-1 of the paper; with more,
    W1 W1^T has no inverse and the pseudo-inverse is the left one.
    """
    weight = torch.linalg.pinv(project.weight.detach().double())
    back.weight.data.copy_(weight)
    back.bias.data.copy_(-(weight @ project.bias.detach().double()))


@dataclass(slots=True)
class KarCall:
    """The knowledge of one call, on its way through the blocks."""

    base: Any
    found: dict[str, BatchMentions]
    trace: Trace | None
    learns: bool = field(default_factory=torch.is_grad_enabled)
    """Whether the call follows gradients."""

    def after_block(self, layer: int, states: Tensor) -> Tensor:
        """Return the states after every KAR that stands behind this block."""
        for name, kar in self.base.knowledge.items():
            if kar.layer == layer and name in self.found:
                if self.trace is not None and self.learns and not torch.is_grad_enabled():
                    raise InputError(
                        "Reentrant gradient checkpointing hides from a linker's loss where its scores came from. "
                        "Switch it on with model.gradient_checkpointing_enable({'use_reentrant': False})."
                    )
                states = kar(states, self.found[name], None if self.trace is None else (name, self.trace))
        if self.trace is not None and self.trace.stops and len(self.trace.scores) == len(self.found):
            raise AllScored
        return states


EVERY_CANDIDATE = -100.0
"""A threshold that no score is below: nothing holds those of a linker that was never taught above a higher one."""


@METHODS.register("kar")
@dataclass(frozen=True, slots=True)
class Kar(EntityMethod):
    """Settings of the method; every field has a default that works."""

    layers: Mapping[str, int] | None = None
    """Behind which block each knowledge base stands, by name, counted from 0; None puts the last base behind the last
    block but one, and each other one block lower."""
    threshold: float = 0.0
    """Candidates with a lower score do not count."""
    start: Literal["zero", "inverse", "paper"] = "zero"
    """How words come back from the entities' size: from zero; by the inverse of the projection behind a closed gate; or
    by the inverse with an open gate as in the paper, which changes the answer at once."""
    n_heads: int = 4
    """Heads of both attentions; as many as divide the size of the vectors."""
    inner: int = 1024
    """Width of the feed-forward layers."""
    scorer: int = 100
    """Width of the layer that scores candidates."""
    dropout: float = 0.1
    """Share of units that are left out while training."""

    def __post_init__(self) -> None:
        if self.start not in ("zero", "inverse", "paper"):
            raise InputError(f"Kar(start={self.start!r}) must be 'zero', 'inverse' or 'paper'.")
        if min(self.n_heads, self.inner, self.scorer) < 1 or not 0 <= self.dropout < 1:
            raise InputError(
                f"Kar(n_heads={self.n_heads}, inner={self.inner}, scorer={self.scorer}, dropout={self.dropout}): the "
                "first three are whole numbers of at least 1, dropout lies between 0 and 1."
            )
        if math.isnan(self.threshold):
            raise InputError("Kar(threshold=nan) would keep no candidate; the default is 0.")

    def attach(self, host: PreTrainedModel, *, sources: Sequence[Source], vocabulary: Vocabulary) -> None:
        """Put one KAR per knowledge base between the host's blocks and a reader of knowledge before its encoder."""
        anatomy_of(host)
        sizes = sizes_of(sources, "Kar")
        layers = self.places(host, list(sizes))
        hidden = host.config.hidden_size
        kars = {name: KarLayer(hidden, size, layer=layers[name], settings=self) for name, size in sizes.items()}
        self.put_in(host, kars, KarCall, set(layers.values()))

    def linkers(self, host: PreTrainedModel) -> dict[str, KarLayer]:
        """Return the layer that holds each knowledge base's linker by the base's name."""
        return self.bases(host)

    def without(self, host: PreTrainedModel, name: str) -> Self:
        """Take one knowledge base out of a host, leave the others where they are, and return the settings of these."""
        kars = self.linkers(host)
        if name not in kars:
            raise InputError(f"There is no knowledge base {name!r} in this model; it has {', '.join(map(repr, kars))}.")
        if len(kars) == 1:
            raise InputError(f"{name!r} is the only knowledge base of this model. Take Kar out with detach().")
        delattr(host.base_model.knowledge, name)
        return replace(self, layers={other: kar.layer for other, kar in kars.items() if other != name})

    def places(self, host: PreTrainedModel, names: Sequence[str]) -> dict[str, int]:
        """Return behind which block of a host each knowledge base stands."""
        n = n_blocks(host)
        if self.layers is None:
            if len(names) > n:
                raise InputError(
                    f"{len(names)} knowledge bases do not fit behind {n} blocks; say where: Kar(layers=...)."
                )
            return {name: max(place, n - 1 - len(names) + place) for place, name in enumerate(names)}
        if set(self.layers) != set(names):
            raise InputError(f"Kar(layers={dict(self.layers)}) does not name the knowledge bases {sorted(names)}.")
        for name, layer in self.layers.items():
            if layer not in range(n):
                raise InputError(f"Kar(layers={{{name!r}: {layer}}}): this host has {n} blocks, 0 to {n - 1}.")
        return dict(self.layers)
