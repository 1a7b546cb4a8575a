"""Gradients of tiny infused models, compared without dropout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tiny_infusions import answer, examples, loss
from torch import Tensor, nn

import infuser
from infuser.hosts import is_new_weight


def without_dropout(infused: infuser.Infused) -> infuser.Infused:
    """Put a model into training mode with dropout that drops nothing, so that its gradients can be compared."""
    drop_nothing(infused.model.train())
    return infused


def drop_nothing(model: Any) -> None:
    """Set all rates of dropout to 0."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("dropout", "attention_dropout"):  # some attention modules hold it as a number
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    for name, value in list(vars(model.config).items()):
        if "dropout" in name and isinstance(value, float):
            setattr(model.config, name, 0.0)


def gradients(model: Any, batch: Mapping[str, Tensor], head: str) -> dict[str, Tensor]:
    """Return the gradients of the head's loss by the names of the weights."""
    model.zero_grad()
    loss(model, batch, head).backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


def assert_compiled_model_learns_alike(infused: infuser.Infused, batch: Mapping[str, Tensor], head: str) -> Any:
    """Compile the model, compare the gradients of its loss with the plain ones, and return it."""
    expected = gradients(infused.model, batch, head)
    torch._dynamo.reset()
    compiled: Any = torch.compile(infused.model, backend="eager")
    infused.model.zero_grad()
    loss(compiled, batch, head).backward()
    found = {name: weight.grad for name, weight in infused.model.named_parameters() if weight.grad is not None}
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-10, rtol=1e-7, msg=name)
    return compiled


def assert_bf16_is_close_and_trains(infused: infuser.Infused) -> None:
    """Compare the answer of a sequence classifier under bf16 with the exact one, and its new weights' gradients."""
    head = "sequence-classification"
    batch = infused.collator()(examples(head))
    infused.model.float()
    with torch.no_grad():
        exact = answer(infused.model, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = answer(infused.model, batch)
        with torch.no_grad():
            assert (answer(infused.model, batch) - found).abs().max() < 0.02
        loss(infused.model, batch, head).backward()
    assert (found.float() - exact).abs().max() < 0.1
    for name, weight in infused.model.named_parameters():
        if is_new_weight(name):
            assert weight.grad is not None and weight.grad.isfinite().all(), name
            assert weight.grad.dtype == torch.float32
