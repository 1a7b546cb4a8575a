"""A method of your own: each map, times one learned weight per head, is added to the attention scores.

python examples/own_method.py [CHECKPOINT]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import miniature
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

import infuser
from infuser import Graph, TrainSettings
from infuser.hosts import attentions, plug_in, remove_hooks, unplug
from infuser.registry import METHODS
from infuser.signals import draw_maps


class MapBias(nn.Module):
    """Attends like the host, with the weighted maps added to the scores."""

    def __init__(self, n_heads: int, n_sources: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(n_heads, n_sources))  # zero: a fresh infusion changes nothing

    def forward(
        self,
        query: Tensor,  # (batch, heads, seq, head size), like key and value
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,  # (batch, 1, seq, seq), True where a token may look
        knowledge: Tensor,  # what MapReader put there: (batch, sources, seq, seq)
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
class MapReader:
    """Stands before the encoder: turns the compact tensors of the batch into maps, once for all layers."""

    n_sources: int

    def __call__(self, base: PreTrainedModel, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        found = {name: kwargs.pop(name) for name in list(kwargs) if name.startswith("knowledge_")}
        if found:
            given = dict(zip(("input_ids", "attention_mask"), args, strict=False)) | kwargs  # heads differ in this
            kwargs["knowledge"] = draw_maps(
                found["knowledge_boxes"],
                found["knowledge_weights"].to(base.dtype),
                n_channels=self.n_sources,
                n_tokens=given["input_ids"].shape[1],
                valid=given["attention_mask"],
            )
        return args, kwargs


@METHODS.register("map-bias")
@dataclass(frozen=True, slots=True)
class AddMaps:
    """Settings of the method; every field has a default that works."""

    first_layer: int = 0
    """Blocks below this one stay as they are."""

    def attach(self, host: PreTrainedModel, *, sources: Sequence[infuser.Source], with_terms: bool = False) -> None:
        for layer in attentions(host)[self.first_layer :]:
            layer.knowledge = MapBias(host.config.num_attention_heads, len(sources)).to(host.device, host.dtype)
        host.base_model.register_forward_pre_hook(MapReader(len(sources)), with_kwargs=True)
        plug_in(host)

    def detach(self, host: PreTrainedModel) -> None:
        unplug(host)
        remove_hooks(host.base_model, MapReader)
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
