"""How `Spectral` sees what enters a task head, and where its penalty joins the loss: hooks around a model."""

from __future__ import annotations

from dataclasses import make_dataclass
from functools import cache
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from accelerate.utils import extract_model_from_parallel
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers.modeling_outputs import (
    MultipleChoiceModelOutput,
    NextSentencePredictorOutput,
    SequenceClassifierOutput,
)
from transformers.utils.generic import ModelOutput

from infuser.errors import InputError
from infuser.signals.reading import real_tokens

if TYPE_CHECKING:
    from infuser.methods.spectral import Spectral

_PER_TEXT = (SequenceClassifierOutput, MultipleChoiceModelOutput, NextSentencePredictorOutput)
"""Outputs of heads that answer once per text; all others answer per token."""


class EncoderCall(NamedTuple):
    """One call of an encoder, and what it answered."""

    encoder: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    encoded: Any

    def features(self, output: ModelOutput) -> Tensor:
        """Return the vectors that enter the head which gave this output: one per text, or one per real token."""
        states: Tensor = self.encoded.last_hidden_state
        per_text = isinstance(output, _PER_TEXT)
        pooled: Tensor | None = getattr(self.encoded, "pooler_output", None)
        if per_text and pooled is not None:
            return pooled
        if per_text and getattr(self.encoder.config, "classifier_pooling", "cls") in ("cls", "bos"):
            return states[:, 0]
        real = real_tokens(self.args, self.kwargs)
        real = torch.ones_like(states[..., 0], dtype=torch.bool) if real is None else real
        if per_text:  # ModernBERT may take the mean; EuroBERT's "late" takes it behind its head
            return (states * real[..., None]).sum(dim=1) / real.sum(dim=1, keepdim=True)
        return states[real]


class Watch:
    """Stands around a model in training: sees what enters its head, and adds the penalty to its output."""

    def __init__(self, spectral: Spectral, *, adds: bool) -> None:
        self.spectral = spectral
        self.adds = adds
        """Whether the penalty joins the loss; else it is only in `output.parts`, and the caller adds it."""
        self.seen: dict[int, EncoderCall | None] = {}
        """The encoder's call in each forward pass that is under way, by thread."""
        self.handles: list[RemovableHandle] = []

    def attach(self, model: Any) -> None:
        """Hook a model and its encoder; raise if it has no head or is watched already."""
        model = extract_model_from_parallel(model, keep_torch_compile=False)
        head = getattr(model, "get_base_model", lambda: model)()  # PEFT has a wrapper around it
        encoder = getattr(head, "base_model", None)
        if encoder is None or encoder is head:
            raise InputError(
                f"Spectral watches what enters a task head, but {type(head).__name__} is no transformers model that "
                "has one. Load the checkpoint with a head, such as AutoModelForSequenceClassification."
            )
        if other := watch_of(model):
            raise InputError(
                f"{other.spectral} is attached to this model already. Take it off with detach(model) first."
            )
        self.handles = [
            model.register_forward_pre_hook(self.begin),
            encoder.register_forward_hook(self.look, with_kwargs=True),
            model.register_forward_hook(self.end, always_call=True),  # also when the call fails: nothing must stay
        ]

    def detach(self) -> None:
        """Take the hooks away."""
        for handle in self.handles:
            handle.remove()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def begin(self, model: nn.Module, args: tuple[Any, ...]) -> None:
        """Open a place for what the encoder answers in this call."""
        if model.training:
            self.seen[get_ident()] = None

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def look(self, encoder: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], encoded: Any) -> None:
        """Store the encoder's call, if the model made it."""
        if get_ident() in self.seen:
            self.seen[get_ident()] = EncoderCall(encoder, args, kwargs, encoded)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def end(self, model: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        """Return the output with the penalty in it, or None to leave it as it is."""
        seen = self.seen.pop(get_ident(), None)
        if output is None or not model.training or (self.adds and getattr(output, "loss", output) is None):
            return None
        if seen is None or not isinstance(output, ModelOutput):
            raise InputError(
                f"Spectral cannot see what enters the head of {type(model).__name__}: call the model itself, "
                "model(**batch), and leave return_dict at its default."
            )
        penalty = self.spectral.penalty_of_all(seen.features(output), len(seen.encoded.last_hidden_state))
        parts = {"spectral": penalty}
        changed = dict(output)
        if self.adds:
            parts = {"task": changed["loss"].detach(), "spectral": penalty.detach()}
            changed["loss"] = changed["loss"] + penalty
        return _with_parts(type(output))(**changed, parts=parts)


@cache
def _with_parts(kind: type[ModelOutput]) -> Any:
    """Return an output class with one field more: DDP takes outputs apart and rebuilds them from their fields."""
    return make_dataclass(kind.__name__, [("parts", Any, None)], bases=(kind,))


def watch_of(model: nn.Module) -> Watch | None:
    """Return the watch that is attached to a model, if any."""
    model = extract_model_from_parallel(model, keep_torch_compile=False)
    watches = (getattr(hook, "__self__", None) for hook in model._forward_hooks.values())
    return next((watch for watch in watches if isinstance(watch, Watch)), None)
