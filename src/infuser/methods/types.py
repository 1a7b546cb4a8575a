"""Types: what the words of a mention are, as vectors on its tokens (a soft gazetteer).

Every mention that a source found has a type, "drug" or "city". For a token t with the mentions c that cover it,

    f_t  = sum_c E[source, type, place in the mention] + sum_r g_r * sum over names of LN(mean of the name's embeddings)
    x'_t = x_t + 2 * sigmoid(w . x_t + v . f_t + b) * f_t

once on the states that enter the first block and once more, with weights of its own, on those that leave the last.
There the first token, which many heads read, gets the mean over all mentions of the text.
E starts at 0 and so do the gates g of relations, which stay between 0 and 1, so a fresh infusion answers as before. The
sigmoid sees the token's own state: the encoder can overrule a wrong entry of a list. Tokens without a mention stay as
they are.

Learned vectors E know the types that training shows. Names are the terms that sources offer (a type's name, a
neighbour in a graph, a gloss), read with the host's own input embeddings: types never seen in training work too, and
new entities need nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import InputError, SourceError
from infuser.hosts import (
    BatchKnowledge,
    add_reader,
    embed_names,
    embeddings_of,
    hook_blocks,
    n_blocks,
    remove_reader,
    unhook_blocks,
)
from infuser.hosts.calls import TERM_INPUTS, GraphInputs
from infuser.methods.layers import open_gate
from infuser.registry import METHODS
from infuser.types import Source, Vocabulary

PLACES = ("begin", "inside", "end", "single", "text")
"""Where in its mention a token stands; the last is the first token of the text, for all its mentions."""


class TypeVectors(nn.Module):
    """What types and names add to the states at one place of the encoder."""

    def __init__(self, hidden: int, vocabulary: Vocabulary, *, settings: Types, with_names: bool) -> None:
        super().__init__()
        n_types = [len(types) for types in vocabulary.types]
        n_relations = [len(relations) for relations in vocabulary.relations]
        self.type_starts = [sum(n_types[:place]) for place in range(len(n_types))]
        self.relation_starts = [sum(n_relations[:place]) for place in range(len(n_relations))]
        self.step, self.name_step = settings.step, settings.name_step
        n_vectors = sum(n_types) * len(PLACES)
        self.vectors = None if settings.vectors == "names" else nn.Parameter(torch.zeros(n_vectors, hidden))
        self.name_gates = nn.Parameter(torch.zeros(sum(n_relations))) if with_names else None
        self.from_state = nn.Linear(hidden, 1)
        self.from_types = nn.Linear(hidden, 1, bias=False)
        for gate in (self.from_state, self.from_types):
            nn.init.zeros_(gate.weight)
        nn.init.zeros_(self.from_state.bias)

    def forward(self, states: Tensor, known: TypeKnowledge) -> Tensor:
        """Return the states (batch, seq, hidden) with what is known about their tokens."""
        added = self.added(states, known)
        return states + self.gate(states, added) * added

    def added(self, states: Tensor, known: TypeKnowledge) -> Tensor:
        """Return the type vectors and gated name vectors of each token, summed, (batch, seq, hidden)."""
        added = states.new_zeros(states.shape)
        if self.vectors is not None:
            rows = torch.as_tensor(self.type_starts, device=states.device)[known.sources] + known.types
            vectors = self.vectors[rows * len(PLACES) + known.places] * (self.step * known.weights[:, None])
            added = added.index_put((known.texts, known.tokens), vectors.to(states.dtype), accumulate=True)
        if self.name_gates is not None and known.names is not None:
            names = known.names
            starts = torch.as_tensor(self.relation_starts, device=states.device)
            gates = torch.tanh(open_gate(self.name_gates * self.name_step))[starts[names.sources] + names.relations]
            said = (names.vectors * gates[..., None]).to(states.dtype)  # (batch, T, hidden)
            added = added + names.weights.to(states.dtype).transpose(1, 2) @ said
        return added

    def gate(self, states: Tensor, added: Tensor) -> Tensor:
        """Return each token's gate, (batch, seq, 1): 1 at the start, between 0 (closed) and 2."""
        return 2 * torch.sigmoid(self.from_state(states) + self.from_types(added))


@contextmanager
def watching_gates(host: PreTrainedModel) -> Iterator[dict[str, list[float | None]]]:
    """Collect how much of its types each token of the first text takes, while a host reads with `Types` inside.

    By place, "bottom" and "top"; None for tokens without types. Stays empty for a host without the method.
    """
    gates: dict[str, list[float | None]] = {}

    def watch(place: str, layer: TypeVectors, given: tuple[Tensor, TypeKnowledge]) -> None:
        states, known = given
        shares = layer.gate(states, layer.added(states, known))[0, :, 0].tolist()
        typed = set(known.tokens[known.texts == 0].tolist())
        gates[place] = [share if token in typed else None for token, share in enumerate(shares)]

    layers: Any = getattr(embeddings_of(host), "knowledge", nn.Module())
    hooks = [
        layer.register_forward_hook(lambda module, given, _, place=place: watch(place, module, given))
        for place, layer in layers.named_children()
    ]
    try:
        yield gates
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(frozen=True, slots=True)
class TiedNames:
    """The names of one call, one entry per tie of a name to a mention."""

    vectors: Tensor
    """(batch, T, hidden)"""
    sources: Tensor
    """(batch, T)"""
    relations: Tensor
    """(batch, T)"""
    weights: Tensor
    """(batch, T, seq) how much of the name each token gets."""


@dataclass(frozen=True, slots=True)
class TypeKnowledge:
    """What one place of the encoder adds to which tokens: one entry per token and mention that covers it."""

    texts: Tensor
    """(n,) which text."""
    tokens: Tensor
    """(n,) which token of it."""
    sources: Tensor
    """(n,)"""
    types: Tensor
    """(n,)"""
    places: Tensor
    """(n,) number in `PLACES`."""
    weights: Tensor
    """(n,)"""
    names: TiedNames | None


@dataclass(frozen=True, slots=True)
class TypeCall:
    """The method's part of one call, on its way through the encoder."""

    layers: Any
    """The new weights: `bottom` and `top`."""
    last: int
    """The last block."""
    bottom: TypeKnowledge
    top: TypeKnowledge
    learns: bool
    """Whether the call follows gradients."""

    def before_blocks(self, states: Tensor) -> Tensor:
        """Return the states that enter the first block."""
        self._check_gradients()
        return self.layers.bottom(states, self.bottom) if hasattr(self.layers, "bottom") else states

    def after_block(self, layer: int, states: Tensor) -> Tensor:
        """Return the states that leave a block; those of the last one get types once more."""
        if layer != self.last or not hasattr(self.layers, "top"):
            return states
        self._check_gradients()
        result: Tensor = self.layers.top(states, self.top)
        return result

    def _check_gradients(self) -> None:
        if self.learns and self.bottom.names is not None and not torch.is_grad_enabled():
            raise InputError(
                "Reentrant gradient checkpointing loses where the vectors of names came from. Switch it on with "
                "model.gradient_checkpointing_enable({'use_reentrant': False})."
            )


@dataclass(frozen=True, slots=True)
class TypeReader:
    """Makes the method's part of a call."""

    last: int
    with_names: bool

    def __call__(self, base: Any, batch: BatchKnowledge) -> TypeCall | None:
        """Return which tokens have which types and names."""
        if "knowledge_spans" not in batch.tensors:
            return None
        spans = batch.tensors["knowledge_spans"]  # (batch, S, 4)
        tokens = _covered(spans[..., 2:], batch.rows)
        names = None
        if self.with_names and "knowledge_terms" in batch.tensors:
            ties = batch.tensors["knowledge_ties"]  # (batch, T, 6)
            vectors = embed_names(base, batch.tensors["knowledge_terms"], ties[..., 4:])
            weights = batch.tensors["knowledge_tie_weights"].to(base.dtype)[..., None] * _covered(
                ties[..., 2:4], batch.rows
            )
            names = TiedNames(vectors, ties[..., 0], ties[..., 1], weights)
        bottom = _typed(spans, tokens, names)
        top = _with_first(bottom, spans, batch.rows, base.dtype)
        return TypeCall(embeddings_of(base).knowledge, self.last, bottom, top, torch.is_grad_enabled())

    def graph_inputs(self, base: Any) -> GraphInputs:
        """Return the tensors that are read."""
        inputs: GraphInputs = {"knowledge_spans": ("int64", "texts", "spans", 4)}
        return inputs | TERM_INPUTS if self.with_names else inputs


def _covered(ranges: Tensor, rows: Tensor) -> Tensor:
    """Return which real tokens each range (batch, S, 2) covers, (batch, S, seq)."""
    token = torch.arange(rows.shape[1], device=rows.device)
    return (token >= ranges[..., :1]) & (token < ranges[..., 1:]) & rows[:, None]


def _typed(spans: Tensor, tokens: Tensor, names: TiedNames | None) -> TypeKnowledge:
    text, span, token = tokens.nonzero(as_tuple=True)
    source, kind, start, end = spans[text, span].unbind(-1)
    begins, ends = token == start, token == end - 1
    place = torch.where(begins, torch.where(ends, 3, 0), torch.where(ends, 2, 1))
    return TypeKnowledge(text, token, source, kind, place, torch.ones_like(place), names)


def _with_first(known: TypeKnowledge, spans: Tensor, rows: Tensor, dtype: torch.dtype) -> TypeKnowledge:
    """Return what is known, and for the first token of each text the mean over its mentions and names."""
    is_span = spans[..., 3] > spans[..., 2]
    first = rows.long().argmax(dim=1)
    text, span = is_span.nonzero(as_tuple=True)
    source, kind = spans[text, span, 0], spans[text, span, 1]
    share = (1 / is_span.sum(dim=1).clamp(min=1).to(dtype))[text]
    names = known.names
    if names is not None:
        said = (names.weights > 0).any(dim=-1)  # (batch, T)
        mean = said / said.sum(dim=1, keepdim=True).clamp(min=1).to(dtype)
        is_first = torch.arange(rows.shape[1], device=rows.device) == first[:, None]
        at_first = is_first[:, None] * mean[..., None]
        names = replace(names, weights=names.weights + at_first.to(names.weights.dtype))
    return TypeKnowledge(
        torch.cat([known.texts, text]),
        torch.cat([known.tokens, first[text]]),
        torch.cat([known.sources, source]),
        torch.cat([known.types, kind]),
        torch.cat([known.places, torch.full_like(text, PLACES.index("text"))]),
        torch.cat([known.weights, share]),
        names,
    )


@METHODS.register("types")
@dataclass(frozen=True, slots=True)
class Types:
    """Settings of the method; every field has a default that works."""

    vectors: Literal["auto", "learned", "names", "both"] = "auto"
    """What says a type: a learned vector, the host's own embeddings of the terms that sources offer, or both; "auto"
    takes both where sources offer terms."""
    where: Literal["bottom", "top", "both"] = "both"
    """Before the first block, behind the last one, or both."""
    step: float = 100.0
    """Learned vectors are stored divided by this, so one optimiser step at the host's rate moves them this many times
    further."""
    name_step: float = 400.0
    """Gates of names, likewise."""

    def __post_init__(self) -> None:
        if self.vectors not in ("auto", "learned", "names", "both") or self.where not in ("bottom", "top", "both"):
            raise InputError(
                f"Types(vectors={self.vectors!r}, where={self.where!r}): vectors are 'auto', 'learned', 'names' or "
                "'both', where is 'bottom', 'top' or 'both'."
            )
        if not (self.step > 0 and self.name_step > 0):
            raise InputError(f"Types(step={self.step!r}, name_step={self.name_step!r}) must be above 0.")

    def attach(self, host: PreTrainedModel, *, sources: Sequence[Source], vocabulary: Vocabulary) -> None:
        """Put the vectors beside the host's embeddings, and hooks before its first and behind its last block."""
        with_names = self.vectors in ("names", "both") or (self.vectors == "auto" and vocabulary.with_terms)
        if with_names and not vocabulary.with_terms:
            raise SourceError(
                f"Types(vectors={self.vectors!r}) reads the terms that sources offer, but none of these does. Let one "
                "offer some: Entities(..., n_terms=1), Graph(..., n_terms=3)."
            )
        last = n_blocks(host) - 1
        layers = nn.Module()
        for place in ("bottom", "top") if self.where == "both" else (self.where,):
            layer = TypeVectors(host.config.hidden_size, vocabulary, settings=self, with_names=with_names)
            layers.add_module(place, layer)
        add_reader(host, "types", TypeReader(last, with_names))  # raises if there are such weights already
        embeddings_of(host).knowledge = layers.to(host.device, host.dtype).train(host.base_model.training)
        hook_blocks(host, "types", {last}, before=True)

    def detach(self, host: PreTrainedModel) -> None:
        """Take everything out again that `attach` put in."""
        remove_reader(host, "types")
        unhook_blocks(host, "types")
        del embeddings_of(host).knowledge
