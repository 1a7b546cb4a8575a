"""What KAR and ERNIE read from a batch: the mentions, candidates and vectors of each knowledge base."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import HostError, InputError, SourceError
from infuser.hosts import BatchKnowledge, add_reader, answering, hook_blocks, remove_reader, unhook_blocks
from infuser.hosts.anatomy import NEW
from infuser.hosts.calls import GraphInputs
from infuser.registry import METHODS
from infuser.signals.candidates import PARTS, bases_among, part_name
from infuser.types import Source


@dataclass(slots=True)
class Trace:
    """The scores that a call gave its candidates, by knowledge base; pass one as `knowledge_trace` to fill it."""

    scores: dict[str, Tensor] = field(default_factory=dict)
    """(batch, M) the score of each candidate; minus infinity for padding."""
    weights: dict[str, Tensor] = field(default_factory=dict)
    """(batch, M) its share among the candidates of its span that count."""
    states: dict[str, Tensor] = field(default_factory=dict)
    """(batch, seq, hidden) what its linker read."""
    stops: bool = False
    """Whether the call ends as soon as every linker has scored: see `trace_candidates`."""


class AllScored(Exception):
    """Stops the forward pass of a call whose trace `stops`, once every linker has scored."""


def trace_candidates(encoder: Any, batch: Mapping[str, Tensor]) -> Trace:
    """Run an encoder up to its last linker, without dropout and gradients, and return the candidates' scores."""
    trace = Trace(stops=True)
    with answering(encoder), suppress(AllScored):
        encoder(**{name: tensor.to(encoder.device) for name, tensor in batch.items()}, knowledge_trace=trace)
    return trace


@dataclass(slots=True)
class BatchMentions:
    """What one knowledge base found in a batch, in token positions."""

    spans: Tensor
    """(batch, S, 2) first token and the one after the last."""
    candidates: Tensor
    """(batch, M, 2) place of the span, place of the vector."""
    priors: Tensor
    """(batch, M)"""
    vectors: Tensor
    """(batch, V, e)"""

    @property
    def is_span(self) -> Tensor:
        """(batch, S): False for padding."""
        return self.spans[..., 1] > self.spans[..., 0]

    @property
    def is_candidate(self) -> Tensor:
        """(batch, M): False for padding."""
        return self.priors > 0

    def span_tokens(self, n_tokens: int) -> Tensor:
        """Return which tokens each span covers, (batch, S, seq)."""
        place = torch.arange(n_tokens, device=self.spans.device)
        return (place >= self.spans[..., :1]) & (place < self.spans[..., 1:])

    def dense(self, values: Tensor, filler: float) -> Tensor:
        """Return values of candidates (batch, M) as (batch, S, V), `filler` where there is no candidate."""
        n_spans, n_vectors = self.spans.shape[1], self.vectors.shape[1]
        place = self.candidates[..., 0] * n_vectors + self.candidates[..., 1]
        place = place.masked_fill(~self.is_candidate, n_spans * n_vectors)  # padding has a place of its own
        dense = values.new_full((values.shape[0], n_spans * n_vectors + 1), filler).scatter(1, place, values)
        return dense[:, :-1].view(-1, n_spans, n_vectors)

    def flat(self, dense: Tensor) -> Tensor:
        """Return the values (batch, M) that candidates have in (batch, S, V)."""
        place = self.candidates[..., 0] * self.vectors.shape[1] + self.candidates[..., 1]
        return dense.flatten(1).gather(1, place)


class Bases(nn.Module):
    """The new weights of each knowledge base by its name; `size` of each says how long its vectors are.

    It is no ModuleDict: PEFT does not take one among its `modules_to_save`. PEFT's wrapper passes on `items`, but not
    iteration.
    """

    def __init__(self, layers: Mapping[str, nn.Module]) -> None:
        super().__init__()
        for name, layer in layers.items():
            if hasattr(self, name):
                raise SourceError(f"torch has a use of its own for the name {name!r}; call this base something else.")
            self.add_module(name, layer)

    def items(self) -> list[tuple[str, Any]]:
        """Return names and weights, in the order of the sources."""
        return list(self.named_children())

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __delitem__(self, name: str) -> None:
        del self._modules[name]


StartCall = Callable[[Any, dict[str, BatchMentions], Trace | None], object]
"""Encoder, what each base found, trace -> the method's part of the call."""


@dataclass(frozen=True, slots=True)
class EntityReader:
    """Makes a method's part of a call; the encoder holds the new weights as `knowledge`, a `Bases`."""

    start_call: StartCall

    def __call__(self, base: Any, batch: BatchKnowledge) -> object | None:
        """Return what the knowledge bases found, for the method."""
        found = {
            name: found_in(batch.tensors, name, base.dtype, layer.size)
            for name, layer in base.knowledge.items()
            if part_name(name, "spans") in batch.tensors
        }
        if batch.length is not None:
            found = {name: _follow_padding(one, batch.length, batch.rows) for name, one in found.items()}
        return self.start_call(base, found, batch.trace) if found else None

    def graph_inputs(self, base: Any) -> GraphInputs:
        """Return the tensors that are read."""
        inputs: GraphInputs = {}
        for name, layer in base.knowledge.items():
            sizes: GraphInputs = {
                "spans": ("int64", "texts", f"{name}_spans", 2),
                "candidates": ("int64", "texts", f"{name}_candidates", 2),
                "priors": ("float32", "texts", f"{name}_candidates"),
                "vectors": ("float32", "texts", f"{name}_vectors", layer.size),
            }
            inputs |= {part_name(name, part): sizes[part] for part in PARTS}
        return inputs


def found_in(batch: Mapping[str, Tensor], name: str, dtype: torch.dtype, size: int) -> BatchMentions:
    """Return what one knowledge base with vectors of `size` found in a batch."""
    parts = {part: batch[part_name(name, part)] for part in PARTS}
    given_size = parts["vectors"].shape[-1]
    if given_size != size:
        raise InputError(
            f"The vectors of the knowledge base {name!r} have {given_size} numbers each, but this model was infused "
            f"with vectors of {size}. Give it vectors of the same kind, or infuse it again."
        )
    return BatchMentions(parts["spans"], parts["candidates"], parts["priors"], parts["vectors"].to(dtype))


def _follow_padding(found: BatchMentions, length: Tensor, real: Tensor) -> BatchMentions:
    """Return what was found in texts of `length` (batch,) tokens, after a client padded all tensors of these texts.

    One that pads on the left has moved the tokens, and the spans and vectors that candidates name by their places.
    """
    moved = (real.shape[1] - length.to(real.device)) * real[:, -1]  # whoever pads on the left ends with a real token
    spans = found.spans + moved[:, None, None]
    first_span = found.is_span.int().argmax(dim=1)  # the collator leaves no gaps: what stands before it was added
    n_used = (found.candidates[..., 1] * found.is_candidate).amax(dim=1) + 1
    n_vectors = found.vectors.shape[1]
    beyond = torch.arange(n_vectors, device=n_used.device) >= n_used[:, None]  # empty, unless padding stands before
    first_vector = (n_vectors - n_used) * (found.vectors.any(dim=-1) & beyond).any(dim=1)
    candidates = found.candidates + torch.stack([first_span, first_vector], dim=-1)[:, None]
    candidates = candidates * found.is_candidate[..., None]
    return replace(found, spans=spans, candidates=candidates)


def sizes_of(sources: Iterable[Source], method: str) -> dict[str, int]:
    """Return the size of each knowledge base's vectors by its name; raise if there is none among the sources."""
    bases = bases_among(sources)
    if not bases:
        raise SourceError(
            f"{method} puts entities inside an encoder, but none of the sources has entity vectors. Give it knowledge "
            "bases: KnowledgeBase(Candidates(...), vectors=...)."
        )
    return {base.name: base.dim for base in bases.values()}


class EntityMethod:
    """What the settings of both methods can do with a host that they were attached to."""

    __slots__ = ()

    def put_in(
        self, host: PreTrainedModel, layers: Mapping[str, nn.Module], start_call: StartCall, blocks: Collection[int]
    ) -> None:
        """Put each knowledge base's new weights into a host, hooks behind these blocks, and a reader before all."""
        base = host.base_model
        if NEW in base._modules:
            raise HostError("This encoder holds the entities of another method already. Use one of kar and ernie.")
        base.knowledge = Bases(layers).to(host.device, host.dtype).train(base.training)
        add_reader(host, METHODS.name_of(self), EntityReader(start_call))
        hook_blocks(host, METHODS.name_of(self), blocks)

    def detach(self, host: PreTrainedModel) -> None:
        """Take everything out again that `attach` put in."""
        base = host.base_model
        unhook_blocks(host, METHODS.name_of(self))
        del base.knowledge
        remove_reader(host, METHODS.name_of(self))

    def bases(self, host: PreTrainedModel) -> dict[str, Any]:
        """Return the new weights of each knowledge base by its name."""
        knowledge: Any = host.base_model.knowledge
        return dict(knowledge.items())
