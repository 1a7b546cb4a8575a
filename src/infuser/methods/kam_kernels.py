"""KAM's new weights and how they are parameterised.

Adam moves a weight by about the learning rate per step, whatever its gradient, so rate times steps is how far it can
drift. With a limit, every effective value is bounded by a tanh and is linear in its weight far below the bound:

    strength of a map    limit * share * tanh(alpha * map_step * weight / limit)     the shares of a kernel sum to 1
    kernel over scores   identity + alpha * tanh(n * weight) / n                     n weights for each head
    link from below      0.2 * tanh(weight / 0.2)
    gate of terms        tanh(max(term_step * weight, 0))

A map, whose cells lie between 0 and 1, thus never moves a score by more than the limit, and a fused score differs from
the plain one by at most the share alpha of the largest score around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from infuser.methods.layers import open_gate

if TYPE_CHECKING:
    from infuser.methods.kam import Kam

_AROUND = 0.25
"""Share of a map's limit that belongs to the kernel's cells around its centre."""
_LINK_LIMIT = 0.2
"""With a limit, the most that a learned link adds of the layer below's scores."""


class Kernels(nn.Module):
    """The new weights of one layer, and the kernels that they stand for."""

    def __init__(self, n_heads: int, n_channels: int, *, layer: int, settings: Kam, shared: bool, last: bool) -> None:
        super().__init__()
        self.layer = layer
        self.shared = shared
        self.fusion = settings.fusion
        self.map_step = settings.map_step
        self.limit = settings.limit
        self.own_rate = None if settings.own_rate == "host" else settings.own_rate
        # an identity kernel and a learned alpha do not start at 0, so decay towards 0 would wear them out
        self.own_decay = 0.0 if self.limit == "off" or settings.learn_alpha else settings.decay
        size = settings.kernel_size if settings.fusion == "conv" else 1
        self.shape = (n_heads, n_channels, size)
        linked = settings.residual != "off" and settings.fusion != "bias"
        self.takes_link = linked and (shared or layer > settings.first_layer)
        self.gives_link = linked and (shared or not last)

        self.alpha: Tensor | float = settings.alpha
        if settings.learn_alpha:
            self.alpha = nn.Parameter(torch.tensor(settings.alpha, dtype=torch.float64))
        self.gate: Tensor | float = 0.0
        if self.takes_link:
            self.gate = nn.Parameter(torch.zeros(())) if settings.residual == "learned" else float(settings.residual)
        if settings.fusion != "mean":
            self.maps = nn.Parameter(torch.zeros(n_heads, n_channels, size, size))
        if settings.fusion == "conv":
            # with a limit, how far the kernel over the scores is from the identity; without one, that kernel
            plain = torch.zeros(n_heads, n_heads, size, size)
            self.scores = nn.Parameter(identity_kernel(n_heads, size, plain) if self.limit == "off" else plain)
            # a softmax does not see a constant: without a layer above that takes the link, a bias could not learn
            self.bias = nn.Parameter(torch.zeros(n_heads)) if self.gives_link else None
            if settings.start == "random":
                self.start_at_random()

    def start_at_random(self) -> None:
        """Start as the paper does, like any convolution."""
        n_heads, n_channels, size = self.shape
        conv = nn.Conv2d(n_heads + n_channels, n_heads, size)
        with torch.no_grad():
            self.scores.copy_(conv.weight[:, :n_heads])
            self.maps.copy_(conv.weight[:, n_heads:] / self.map_step)

    def add_terms(self, gate: Literal["learned"] | float, step: float) -> None:
        """Make room for terms: one gate per head, closed at first and stored divided by `step`, or a fixed one."""
        self.term_step = step
        self.term_gate = gate
        if gate == "learned":
            self.term_gates = nn.Parameter(torch.zeros(self.shape[0]))

    def open_terms(self, like: Tensor) -> Tensor:
        """Return how much of the terms' share each head takes, (heads,): from 0 up to 1."""
        if self.term_gate == "learned":
            return torch.tanh(open_gate(self.term_step * self.term_gates))
        return like.new_full((self.shape[0],), float(self.term_gate))

    def map_kernel(self) -> Tensor:
        """Return what a full cell of each map adds to the fused scores around it, (heads, channels, size, size)."""
        grown = self.alpha * self.map_step * self.maps
        if self.limit == "off":
            return grown
        return float(self.limit) * spread(self.shape[2], grown) * torch.tanh(grown / self.limit)

    def score_kernel(self, like: Tensor) -> Tensor:
        """Return the kernel (heads, heads, size, size) that makes fused scores of plain ones."""
        n_heads, n_channels, size = self.shape
        plain = identity_kernel(n_heads, size, like)
        if self.fusion == "bias":
            return plain
        if self.fusion == "mean":
            return (1 - self.alpha + self.alpha / (1 + n_channels)) * plain
        if self.limit == "off":
            return self.alpha * self.scores + (1 - self.alpha) * plain
        n_cells = n_heads * size**2
        return plain + self.alpha * torch.tanh(self.scores * n_cells) / n_cells

    def folded(self, like: Tensor, channels: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return one kernel (heads, heads + channels, size, size) and bias: alpha and the identity folded in.

        channels: numbers of the maps that a batch has drawn; None for all.
        """
        n_heads, n_channels, _ = self.shape
        if self.fusion == "mean":
            maps = self.alpha / (1 + n_channels) * like.new_ones(n_heads, n_channels, 1, 1)
        else:
            maps = self.map_kernel()
        bias = None if self.fusion != "conv" or self.bias is None else self.alpha * self.bias
        return torch.cat([self.score_kernel(like), chosen(maps, channels)], dim=1), bias

    def link(self) -> Tensor | float:
        """Return the weight of the fused scores of the layer below."""
        if not isinstance(self.gate, Tensor) or self.limit == "off":
            return self.gate
        return _LINK_LIMIT * torch.tanh(self.gate / _LINK_LIMIT)


def identity_kernel(n_heads: int, size: int, like: Tensor) -> Tensor:
    """Return the kernel (heads, heads, size, size) that leaves every score as it is."""
    kernel = like.new_zeros(n_heads, n_heads, size, size)
    kernel[:, :, size // 2, size // 2] = torch.eye(n_heads, dtype=like.dtype, device=like.device)
    return kernel


def spread(size: int, like: Tensor) -> Tensor:
    """Return how a map's limit is shared among the cells of a kernel: most to the centre, a little to the others."""
    if size == 1:
        return like.new_ones(1, 1)
    shares = like.new_full((size, size), _AROUND / (size**2 - 1))
    shares[size // 2, size // 2] = 1 - _AROUND
    return shares


def chosen(kernel: Tensor, channels: Tensor | None) -> Tensor:
    """Return a kernel over maps (heads, channels, ...) for the channels that a batch has drawn."""
    return kernel if channels is None else kernel.index_select(1, channels)
