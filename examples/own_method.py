"""A method of your own: each map, times one learned weight per head, is added to the attention scores.

python examples/own_method.py [CHECKPOINT]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import miniature
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

import infuser
from infuser import Graph, TrainSettings
from infuser.hosts import BatchKnowledge, add_reader, attentions, plug_in, remove_reader, unplug
from infuser.registry import METHODS
from infuser.signals import draw_maps
from infuser.types import Vocabulary


class MapBias(nn.Module):
    """Attends like the host, with the weighted maps added to the scores."""

    method = "map-bias"  # it gets what this method's reader returned for the call

    def __init__(self, n_heads: int, n_sources: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(n_heads, n_sources))  # zero: a fresh infusion changes nothing

    def forward(
        self,
        query: Tensor,  # (batch, heads, seq, head size), like key and value
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,  # (batch, 1, seq, seq), True where a token may look
        knowledge: Tensor,  # what DrawsMaps returned: (batch, sources, seq, seq)
        *,
        scaling: float,
        dropout: float,
        want_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        scores = query @ key.transpose(-1, -2) * scaling  # (batch, heads, seq, seq)
        scores = scores + torch.einsum("hs,bsij->bhij", self.weights, knowledge)
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        out = nn.functional.dropout(weights, dropout, self.training) @ value
        return out.transpose(1, 2).contiguous(), weights if want_weights else None


@dataclass(frozen=True)
class DrawsMaps:
    """Turns the compact tensors of a batch into maps, once for all layers."""

    n_sources: int

    def __call__(self, base: PreTrainedModel, batch: BatchKnowledge) -> Tensor | None:
        if "knowledge_boxes" not in batch.tensors:
            return None
        return draw_maps(
            batch.tensors["knowledge_boxes"],
            batch.tensors["knowledge_weights"].to(base.dtype),
            n_channels=self.n_sources,
            n_tokens=batch.rows.shape[1],
            valid=batch.rows,
        )


@METHODS.register("map-bias")
@dataclass(frozen=True, slots=True)
class AddMaps:
    """Settings of the method; every field has a default that works."""

    first_layer: int = 0
    """Blocks below this one stay as they are."""

    def attach(self, host: PreTrainedModel, *, sources: Sequence[infuser.Source], vocabulary: Vocabulary) -> None:
        for layer in attentions(host)[self.first_layer :]:
            layer.knowledge = MapBias(host.config.num_attention_heads, len(sources)).to(host.device, host.dtype)
        add_reader(host, "map-bias", DrawsMaps(len(sources)))
        plug_in(host)

    def detach(self, host: PreTrainedModel) -> None:
        unplug(host)
        remove_reader(host, "map-bias")
        for layer in attentions(host)[self.first_layer :]:
            del layer.knowledge


checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
train_set, known = miniature.query_ads(240, seed=0)
infused = infuser.infuse(checkpoint, AddMaps(), sources=[Graph(known)], task="sequence-classification", num_labels=2)
infused.model.eval()
batch = infused.collator()(train_set[:8])
without = {name: tensor for name, tensor in batch.items() if not name.startswith("knowledge_")}


def change() -> float:
    """How far knowledge moves the logits."""
    with torch.inference_mode():
        return (infused.model(**batch).logits - infused.model(**without).logits).abs().max().item()


print("a fresh infusion answers as before:", change() < 1e-5)
settings = TrainSettings(epochs=2, batch_size=16, learning_rate=3e-3, new_learning_rate=3e-1)
infuser.train(infused.model, train_set, infused.collator(), settings=settings, progress=False)
print("trained, knowledge changes the answer:", change() > 1e-3)

out = miniature.scratch() / "saved"
infused.save(out)
again = infuser.load(out)
print("loaded method:", again.method)
names = {name for name, _ in infused.detach().named_parameters()}
print("detached, new weights:", sum("knowledge" in name for name in names))
