"""Gradients of tiny infused models, compared without dropout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tiny_infusions import loss
from torch import Tensor, nn

import infuser


def without_dropout(infused: infuser.Infused) -> infuser.Infused:
    """Put a model into training mode with dropout that drops nothing, so that its gradients can be compared."""
    for module in infused.model.train().modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    for name, value in list(vars(infused.model.config).items()):
        if "dropout" in name and isinstance(value, float):
            setattr(infused.model.config, name, 0.0)
    return infused


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
