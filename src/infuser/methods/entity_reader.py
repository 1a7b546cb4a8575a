"""What KAR and ERNIE read from a batch: the mentions, candidates and vectors of each knowledge base."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import InputError, SourceError
from infuser.signals.candidates import PARTS, bases_among, part_name
from infuser.types import Source


@dataclass(slots=True)
class Trace:
    """What a call thought of its candidates, by knowledge base; give one along as `knowledge_trace` to read it."""

    scores: dict[str, Tensor] = field(default_factory=dict)
    """(batch, M) the score of each candidate; minus infinity for padding."""
    weights: dict[str, Tensor] = field(default_factory=dict)
    """(batch, M) its share among the candidates of its span that count."""
    states: dict[str, Tensor] = field(default_factory=dict)
    """What else a method wants to tell, by a name of its own."""


@dataclass(slots=True)
class Found:
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
        dense = values.new_full((len(values), n_spans * n_vectors + 1), filler).scatter(1, place, values)
        return dense[:, :-1].view(len(values), n_spans, n_vectors)

    def flat(self, dense: Tensor) -> Tensor:
        """Return the values (batch, M) that candidates have in (batch, S, V)."""
        place = self.candidates[..., 0] * self.vectors.shape[1] + self.candidates[..., 1]
        return dense.flatten(1).gather(1, place)


@dataclass(frozen=True, slots=True)
class EntityReader:
    """Stands before the encoder: takes all knowledge_* tensors of a call, which `travel` makes its knowledge."""

    travel: Callable[[PreTrainedModel, dict[str, Found], Tensor, Trace | None], object]
    """Encoder, what each base found, (batch, seq) True for real tokens, trace -> the `knowledge` of the call."""

    def __call__(
        self, base: PreTrainedModel, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Replace the tensors of the batch by one `knowledge` keyword, which the host passes down to its blocks."""
        given = {name: kwargs.pop(name) for name in list(kwargs) if name.startswith("knowledge_")}
        named = dict(zip(("input_ids", "attention_mask"), args, strict=False)) | kwargs
        tokens, mask = named.get("input_ids"), named.get("attention_mask")
        tokens = named.get("inputs_embeds") if tokens is None else tokens
        if tokens is None:
            return args, kwargs  # the host itself says what it needs
        if mask is not None and mask.dim() != 2:
            raise InputError(
                f"Knowledge needs an attention_mask of shape (batch, seq) to tell words from padding, got "
                f"{tuple(mask.shape)}. Pass the tokenizer's own mask."
            )
        real = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device) if mask is None else mask.bool()
        names: Any = base.knowledge
        found = {name: _found(name, given, real, base.dtype) for name in names if part_name(name, "spans") in given}
        if found:
            kwargs["knowledge"] = self.travel(base, found, real, given.get("knowledge_trace"))
        return args, kwargs


def _found(name: str, given: dict[str, Any], real: Tensor, dtype: torch.dtype) -> Found:
    parts: dict[str, Tensor] = {part: given[part_name(name, part)] for part in PARTS}
    if parts["spans"].dim() == 4:  # multiple choice: the head flattens (batch, choices) for its own tensors only
        parts = {part: tensor.flatten(0, 1) for part, tensor in parts.items()}
    length = given.get("knowledge_length")
    if length is not None:  # padding was added since, on the left if the last token is a real one
        added = real.shape[1] - length.to(real.device)
        parts["spans"] = parts["spans"] + (added * real[:, -1])[:, None, None]
    return Found(parts["spans"], parts["candidates"], parts["priors"].to(dtype), parts["vectors"].to(dtype))


def sizes_of(sources: Iterable[Source], method: str) -> dict[str, int]:
    """Return the knowledge bases among sources by name with the size of their vectors, or say that there are none."""
    sources = list(sources)
    sizes = {base.name: base.dim for base in bases_among(sources).values()}
    if len(sizes) < len(sources):
        other = next(source for source in sources if not hasattr(source, "look_up"))
        raise SourceError(
            f"{method} puts entities inside an encoder, but {type(other).__name__} has no entity vectors. Give it "
            "knowledge bases: KnowledgeBase(Candidates(...), vectors=...)."
        )
    return sizes


def remove_reader(base: nn.Module) -> None:
    """Take the reader away that stands before an encoder."""
    hooks = base._forward_pre_hooks
    for key in [key for key, hook in hooks.items() if isinstance(hook, EntityReader)]:
        hooks.pop(key)
        base._forward_pre_hooks_with_kwargs.pop(key, None)
