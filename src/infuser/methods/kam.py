"""KAM: knowledge-assisted attention maps (Bai et al. 2022, "Enhancing Self-Attention with MapKnowledge-Assisted
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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import InputError
from infuser.hosts import add_reader, anatomy_of, attentions, plug_in, remove_reader, unplug
from infuser.methods.kam_reader import MapKnowledge, MapReader
from infuser.methods.kam_scores import TermAttention, attend
from infuser.registry import METHODS
from infuser.types import Source, Vocabulary


class MapMixer(nn.Module):
    """Mixes the score channels of one layer's heads with the maps; the only new weights of KAM."""

    method = "kam"

    def __init__(self, n_heads: int, n_sources: int, *, layer: int, settings: Kam, shared: bool, last: bool) -> None:
        super().__init__()
        self.layer = layer
        self.shared = shared
        self.fusion = settings.fusion
        self.map_step = settings.map_step
        size = 1 if settings.fusion == "mean" else settings.kernel_size
        self.shape = (n_heads, n_sources, size)
        linked = settings.residual != "off"
        self.takes_link = linked and (shared or layer > settings.first_layer)
        self.gives_link = linked and (shared or not last)

        self.alpha: Tensor | float = settings.alpha
        if settings.learn_alpha:
            self.alpha = nn.Parameter(torch.tensor(settings.alpha, dtype=torch.float64))
        self.gate: Tensor | float = 0.0
        if self.takes_link:
            self.gate = nn.Parameter(torch.zeros(())) if settings.residual == "learned" else float(settings.residual)
        if settings.fusion == "conv":
            self.scores = nn.Parameter(identity_kernel(n_heads, size, torch.zeros(())))
            self.maps = nn.Parameter(torch.zeros(n_heads, n_sources, size, size))
            # a softmax does not see a constant: without a layer above that takes the link, a bias could not learn
            self.bias = nn.Parameter(torch.zeros(n_heads)) if self.gives_link else None
            if settings.start == "random":
                self.start_at_random()

    def start_at_random(self) -> None:
        """Start as the paper does, like any convolution."""
        n_heads, n_sources, size = self.shape
        conv = nn.Conv2d(n_heads + n_sources, n_heads, size)
        with torch.no_grad():
            self.scores.copy_(conv.weight[:, :n_heads])
            self.maps.copy_(conv.weight[:, n_heads:] / self.map_step)

    def add_terms(self, step: float) -> None:
        """Make room for terms: one gate per head, closed at first and held divided by `step`."""
        self.term_step = step
        self.term_gates = nn.Parameter(torch.zeros(self.shape[0]))

    def folded(self, like: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return one kernel (heads, heads + sources, size, size) and bias: alpha and the identity folded in."""
        n_heads, n_sources, size = self.shape
        plain = identity_kernel(n_heads, size, like)
        if self.fusion == "mean":
            share = self.alpha / (1 + n_sources)
            return torch.cat(
                [(1 - self.alpha + share) * plain, share * like.new_ones(n_heads, n_sources, 1, 1)], 1
            ), None
        scores = self.alpha * self.scores + (1 - self.alpha) * plain
        bias = None if self.bias is None else self.alpha * self.bias
        return torch.cat([scores, (self.alpha * self.map_step) * self.maps], dim=1), bias

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
    ) -> tuple[Tensor, Tensor | None]:
        """Attend to (batch, heads, seq, head size); return (batch, seq, heads, head size) and attention if wanted."""
        if not torch.is_grad_enabled():
            knowledge.passed = True
        elif knowledge.passed and (self.takes_link or knowledge.terms):
            raise InputError(
                "Reentrant gradient checkpointing loses what layers share beside their states. Switch it on with "
                "model.gradient_checkpointing_enable({'use_reentrant': False})."
            )
        kernel, bias = self.folded(query)
        terms = None
        if knowledge.terms is not None and knowledge.ties is not None:
            terms = TermAttention(*knowledge.terms[self.layer], knowledge.ties, self.term_step * self.term_gates)
        below = knowledge.fused.get(-1 if self.shared else self.layer - 1) if self.takes_link else None
        out, fused, weights = attend(
            query,
            key,
            value,
            mask,
            knowledge,
            scaling=scaling,
            kernel=kernel,
            bias=bias,
            below=below,
            gate=self.gate,
            terms=terms,
            dropout=dropout if self.training else 0.0,
            want_fused=self.gives_link,
            want_weights=want_weights,
        )
        if fused is not None:
            if not torch.is_grad_enabled():
                knowledge.fused.clear()  # nobody will ask for the layers below again
            knowledge.fused[-1 if self.shared else self.layer] = fused
        return out, weights


def identity_kernel(n_heads: int, size: int, like: Tensor) -> Tensor:
    """Return the kernel (heads, heads, size, size) that leaves every score as it is."""
    kernel = like.new_zeros(n_heads, n_heads, size, size)
    kernel[:, :, size // 2, size // 2] = torch.eye(n_heads, dtype=like.dtype, device=like.device)
    return kernel


@METHODS.register("kam")
@dataclass(frozen=True, slots=True)
class Kam:
    """Settings of the method; every field has a default that works."""

    alpha: float = 0.2
    """Share of the convolved scores in the fused ones; 0 is the plain encoder."""
    learn_alpha: bool = False
    """Whether alpha is learned, one per layer."""
    fusion: Literal["conv", "mean"] = "conv"
    """Mix by convolution, or by the plain average of scores and maps (the paper's "without conv" ablation)."""
    kernel_size: Literal[1, 3, 5] = 3
    """Side of the convolution kernel."""
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
    map_step: float = 400.0
    """Map weights are held divided by this, so that an optimiser step of the host's size moves them this much
    further: maps want large steps, the kernel over pretrained scores wants small ones."""
    term_scope: Literal["mention", "text"] = "mention"
    """Which tokens see a term: those of the mention that it is tied to, or all of the text."""
    term_step: float = 400.0
    """Gates of terms are held divided by this, likewise."""

    def __post_init__(self) -> None:
        if self.fusion not in ("conv", "mean") or self.start not in ("identity", "random"):
            raise InputError(
                f"Kam(fusion={self.fusion!r}, start={self.start!r}): fusion is 'conv' or 'mean', start is 'identity' "
                "or 'random'."
            )
        if self.kernel_size not in (1, 3, 5):
            raise InputError(f"Kam(kernel_size={self.kernel_size!r}) must be 1, 3 or 5.")
        if self.term_scope not in ("mention", "text"):
            raise InputError(f"Kam(term_scope={self.term_scope!r}) must be 'mention' or 'text'.")
        if not (self.map_step > 0 and self.term_step > 0):
            raise InputError(f"Kam(map_step={self.map_step!r}, term_step={self.term_step!r}) must be above 0.")
        if not 0 <= self.alpha <= 1:
            raise InputError(f"Kam(alpha={self.alpha!r}) must lie between 0 and 1; the paper's best is 0.2.")
        if not (self.residual in ("learned", "off") or isinstance(self.residual, int | float)):
            raise InputError(f"Kam(residual={self.residual!r}) must be 'learned', 'off' or a number.")

    def attach(self, host: PreTrainedModel, *, sources: Sequence[Source], vocabulary: Vocabulary) -> None:
        """Put new weights into the host's attention modules and a reader of knowledge before its encoder."""
        n_sources = len(sources)
        anatomy, modules = anatomy_of(host), attentions(host)
        if not 0 <= self.first_layer < len(modules):
            raise InputError(f"Kam(first_layer={self.first_layer}) leaves no layer: this host has {len(modules)}.")
        for layer, module in enumerate(modules[self.first_layer :], start=self.first_layer):
            mixer = MapMixer(
                host.config.num_attention_heads,
                n_sources,
                layer=layer,
                settings=self,
                shared=anatomy.shared,
                last=layer == len(modules) - 1,
            )
            if vocabulary.with_terms:
                mixer.add_terms(self.term_step)
            module.knowledge = mixer.to(host.device, host.dtype).train(module.training)
        reader = MapReader(
            n_sources,
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
