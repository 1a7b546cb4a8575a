"""KAM: knowledge-assisted attention maps (Bai et al. 2022, "Enhancing Self-Attention with Knowledge-Assisted
Attention Maps").

Each source draws a map over the words of the text. At every layer the maps are laid beside the attention scores of
the heads, and one small 2D convolution mixes them:

    S     = Q K^T / sqrt(d) + gate * fused of the layer below       (batch, heads, seq, seq)
    fused = alpha * conv([S ; M_1..M_k]) + (1 - alpha) * S
    A     = softmax(fused + mask);  output = A V

Terms, words that are not in the text, are attended to apart. With p the share of attention that the terms which a
token may see would take beside the text,

    output = output of the text + gate * p * (output of the terms - output of the text)

with one gate per head that starts at 0: exact at the start, and the gate has a gradient from the first step. A gate
of 1 is plain attention over text and terms, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor
from transformers import PreTrainedModel

from infuser.errors import InputError
from infuser.hosts import add_reader, anatomy_of, attentions, plug_in, remove_reader, unplug
from infuser.methods.kam_kernels import Kernels, chosen
from infuser.methods.kam_reader import MapKnowledge, MapReader
from infuser.methods.kam_scores import TermAttention, attend, attend_with_bias
from infuser.registry import METHODS
from infuser.types import Source, Vocabulary


class MapMixer(Kernels):
    """Mixes the score channels of one layer's heads with the maps; the only new weights of KAM."""

    method = "kam"

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        knowledge: MapKnowledge,
        *,
        scaling: float,
        dropout: float,
        want_weights: bool,
        position_bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend to (batch, heads, seq, head size); return (batch, seq, heads, head size) and attention if wanted.

        position_bias: (batch, heads, seq, seq) what the host adds to its scores; None if it adds nothing.
        """
        if not torch.is_grad_enabled():
            knowledge.passed = True
        elif knowledge.passed and (self.takes_link or knowledge.terms):
            raise InputError(
                "Reentrant gradient checkpointing loses what layers share beside their states. Switch it on with "
                "model.gradient_checkpointing_enable({'use_reentrant': False})."
            )
        dropout = dropout if self.training else 0.0
        terms = None
        if knowledge.terms is not None and knowledge.ties is not None:
            terms = TermAttention(*knowledge.terms[self.layer], knowledge.ties, self.open_terms(query))
        elif self.fusion == "bias" and not want_weights:
            strengths = chosen(self.map_kernel().flatten(1), knowledge.channels)
            return attend_with_bias(
                query,
                key,
                value,
                mask,
                knowledge.maps,
                strengths,
                scaling=scaling,
                position_bias=position_bias,
                dropout=dropout,
            ), None
        kernel, bias = self.folded(query, knowledge.channels)
        below = knowledge.fused.get(-1 if self.shared else self.layer - 1) if self.takes_link else None
        out, fused, weights = attend(
            query,
            key,
            value,
            mask,
            knowledge,
            scaling=scaling,
            position_bias=position_bias,
            kernel=kernel,
            bias=bias,
            below=below,
            gate=self.link(),
            terms=terms,
            dropout=dropout,
            want_fused=self.gives_link,
            want_weights=want_weights,
        )
        if fused is not None:
            if not torch.is_grad_enabled():
                knowledge.fused.clear()  # the layers below are not needed again
            knowledge.fused[-1 if self.shared else self.layer] = fused
        return out, weights


_CHOICES: dict[str, tuple[Any, ...]] = {
    "fusion": ("conv", "bias", "mean"),
    "channels": ("sources", "types"),
    "kernel_size": (1, 3, 5),
    "start": ("identity", "random"),
    "term_scope": ("mention", "text"),
}


@METHODS.register("kam")
@dataclass(frozen=True, slots=True)
class Kam:
    """Settings of the method; every field has a default that works."""

    alpha: float = 0.2
    """Share of the convolved scores in the fused ones; 0 is the plain encoder."""
    learn_alpha: bool = False
    """Whether alpha is learned, one per layer."""
    fusion: Literal["conv", "bias", "mean"] = "conv"
    """Mix by convolution; add to each head's scores a bias per map, on plain SDPA; or take the plain average of
    scores and maps (the paper's "without conv" ablation)."""
    channels: Literal["sources", "types"] = "sources"
    """One map per source, or one per type of span and per relation of every source."""
    kernel_size: Literal[1, 3, 5] = 3
    """Side of the convolution kernel."""
    limit: float | Literal["off"] = 3.0
    """The most that a map may add to a score or take from it, in logits; "off" bounds nothing, as the paper."""
    start: Literal["identity", "random"] = "identity"
    """Start where nothing changes, or at random as the paper does."""
    first_layer: int = 0
    """Blocks below this one stay as they are."""
    residual: Literal["learned", "off"] | float = "learned"
    """Weight of the link from the layer below: one learned gate per layer starting at 0, a fixed weight, or off."""
    cls_row: bool = True
    """Give [CLS] a row and a column that mark every token covered by a map, and let it see every term; else a [CLS]
    head hardly sees the last layer's maps and terms."""
    bypass_empty: bool = False
    """Texts in which nothing was found skip the method and are read exactly as before."""
    own_rate: float | Literal["host"] = 1e-4
    """Peak learning rate of the new weights in our loop, whatever the host's is; "host" takes the host's."""
    decay: float = 0.002
    """Share of a new weight that a step at the peak rate takes away in our loop, so that unused ones stay small; none
    with `learn_alpha` or without a limit, where weights start elsewhere than at 0."""
    map_step: float = 4000.0
    """Map weights are stored divided by this, so one optimiser step at the host's rate moves them this many times
    further: maps want large steps, the kernel over pretrained scores wants small ones."""
    term_scope: Literal["mention", "text"] = "mention"
    """Which tokens see a term: those of the mention that it is tied to, or all of the text."""
    term_gate: Literal["learned"] | float = "learned"
    """How much of the terms' share of attention a head takes: learned, starting at 0, or fixed; 1 is plain attention
    over text and terms."""
    term_step: float = 400.0
    """Gates of terms are stored divided by this, likewise."""

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Return the paper's own form: an unbounded convolution that starts at random, and terms seen by all words."""
        literal: dict[str, Any] = {"limit": "off", "own_rate": "host", "decay": 0.0, "map_step": 1.0, "start": "random"}
        literal |= {"residual": 1.0, "cls_row": False, "term_scope": "text", "term_gate": 1.0}
        return cls(**(literal | changes))

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                listed = ", ".join(map(repr, allowed[:-1])) + f" or {allowed[-1]!r}"
                raise InputError(f"Kam({name}={getattr(self, name)!r}) must be {listed}.")
        if not (self.map_step > 0 and self.term_step > 0):
            raise InputError(f"Kam(map_step={self.map_step!r}, term_step={self.term_step!r}) must be above 0.")
        if not 0 <= self.alpha <= 1:
            raise InputError(f"Kam(alpha={self.alpha!r}) must lie between 0 and 1; the paper's best is 0.2.")
        if not (self.residual in ("learned", "off") or isinstance(self.residual, int | float)):
            raise InputError(f"Kam(residual={self.residual!r}) must be 'learned', 'off' or a number.")
        if not (self.limit == "off" or (isinstance(self.limit, int | float) and 0 < self.limit < math.inf)):
            raise InputError(f"Kam(limit={self.limit!r}) must be a number of logits above 0, or 'off'.")
        if self.limit != "off" and self.start == "random":
            raise InputError(
                "Kam(start='random') has kernels that no limit bounds. Add limit='off', or use Kam.paper()."
            )
        if not (self.term_gate == "learned" or (isinstance(self.term_gate, int | float) and 0 <= self.term_gate <= 1)):
            raise InputError(f"Kam(term_gate={self.term_gate!r}) must be 'learned' or a number between 0 and 1.")
        if not (self.own_rate == "host" or (isinstance(self.own_rate, int | float) and self.own_rate > 0)):
            raise InputError(f"Kam(own_rate={self.own_rate!r}) must be a number above 0, or 'host'.")
        if not 0 <= self.decay < 1:
            raise InputError(f"Kam(decay={self.decay!r}) must be a share from 0 to below 1.")

    def attach(self, host: PreTrainedModel, *, sources: Sequence[Source], vocabulary: Vocabulary) -> None:
        """Put new weights into the host's attention modules and a reader of knowledge before its encoder."""
        anatomy, modules = anatomy_of(host), attentions(host)
        if not 0 <= self.first_layer < len(modules):
            raise InputError(f"Kam(first_layer={self.first_layer}) leaves no layer: this host has {len(modules)}.")
        n_kinds = [len(types) + len(rest) for types, rest in zip(vocabulary.types, vocabulary.relations, strict=True)]
        n_channels = sum(n_kinds) if self.channels == "types" else len(sources)
        for layer, module in enumerate(modules[self.first_layer :], start=self.first_layer):
            mixer = MapMixer(
                host.config.num_attention_heads,
                n_channels,
                layer=layer,
                settings=self,
                shared=anatomy.shared,
                last=layer == len(modules) - 1,
            )
            if vocabulary.with_terms:
                mixer.add_terms(self.term_gate, self.term_step)
            module.knowledge = mixer.to(host.device, host.dtype).train(module.training)
        reader = MapReader(
            n_channels,
            n_kinds=tuple(n_kinds) if self.channels == "types" else None,
            cls_row=self.cls_row,
            bypass_empty=self.bypass_empty,
            with_terms=vocabulary.with_terms,
            term_scope=self.term_scope,
        )
        add_reader(host, "kam", reader)
        plug_in(host)

    def detach(self, host: PreTrainedModel) -> None:
        """Take everything out again that `attach` put in."""
        unplug(host)
        remove_reader(host, "kam")
        for module in attentions(host):
            if hasattr(module, "knowledge"):
                del module.knowledge
