"""SR: spectral regularisation (Zhang et al. 2021, "Drop Redundant, Shrink Irrelevant: Selective Knowledge Injection
for Language Pretraining").

What a batch of texts looks like when it enters the task head is a matrix F with one row per text. Its small singular
values belong to directions that few texts use; with many examples they fade by themselves, with few they stay. This
adds them to the loss:

    penalty = eta * sum of the k smallest squared singular values of F

No SVD is taken. The squares are the eigenvalues of F F^T (or of F^T F, if that is smaller), and with the unit vector u
of such an eigenvalue taken as a constant

    lambda = |F^T u|^2      d lambda / d F = 2 u u^T F      (Hellmann-Feynman)

so value and gradient are finite wherever F is: for equal rows, for rows of zeros, for eigenvalues that coincide.

`Spectral` is no knowledge method: it has no weights and goes with any of them, and with plain checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from infuser.errors import InputError
from infuser.methods.spectral_watch import Watch, watch_of

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
else:
    _Trainer = object  # a mixin needs no Trainer, and importing one is slow


@dataclass(frozen=True, slots=True)
class Spectral:
    """Settings of the penalty; every field has a default that works."""

    eta: float = 0.001
    """How strongly the smallest squared singular values count in the loss; 0 only shows them."""
    k: int = 1
    """How many of them; always fewer than there are, so that the largest one is never punished."""

    def __post_init__(self) -> None:
        if not 0 <= self.eta < math.inf:
            raise InputError(f"Spectral(eta={self.eta!r}) must be a finite number of at least 0; the paper has 0.001.")
        if type(self.k) is not int or self.k < 1:
            raise InputError(f"Spectral(k={self.k!r}) must be a whole number of at least 1; the paper has 1.")

    def penalty(self, features: Tensor) -> Tensor:
        """Return what a matrix (rows, hidden) adds to the loss: a number in float32, or float64 for such features.

        `k` is held below the number of singular values: the largest is never punished. A matrix with one row, or one
        that is not finite, adds exactly 0, with a gradient of 0.
        """
        if features.dim() != 2:
            raise InputError(f"Features have the shape {tuple(features.shape)}; give a matrix (rows, hidden).")
        return self._punish(features, features.detach(), slice(None), 1.0)

    def penalty_of_all(self, features: Tensor, n_texts: int) -> Tensor:
        """Return the penalty of the rows (rows, hidden) that all processes together have; each must call this.

        The value is that of the whole matrix. The gradient is that of this process's rows, times how many texts all
        have for each of its `n_texts`: where losses are averaged over texts, the whole gradient is what comes out.
        """
        return self._punish(features, *_rows_of_all(features.detach(), n_texts))

    def attach(self, model: nn.Module) -> None:
        """Let the loss of a transformers model include the penalty, while it is in training mode.

        `output.loss` is then the sum, and `output.parts` holds both as "task" and "spectral". Without labels, and in
        evaluation, nothing changes.
        """
        Watch(self, adds=True).attach(model)

    def detach(self, model: nn.Module) -> None:
        """Take away what `attach` added."""
        if watch := watch_of(model):
            watch.detach()

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[None]:
        """Attach to a model for as long as a `with` block lasts."""
        self.attach(model)
        try:
            yield
        finally:
            self.detach(model)

    def _punish(self, features: Tensor, whole: Tensor, mine: slice, weight: float) -> Tensor:
        """Return the penalty of `whole` with `weight` times its gradient for the features, its rows `mine`."""
        dtype = torch.promote_types(features.dtype, torch.float32)
        with torch.autocast(features.device.type, enabled=False):
            found = smallest_squares(whole, self.k)
            if found is None:
                return features[:0].sum(dtype=dtype)  # 0, also of rows that are not finite, and part of the graph
            total, slope = found
            follows = (features * slope[mine]).sum()  # a number whose gradient is `slope`
            return (self.eta * (total + weight * (follows - follows.detach()))).to(dtype)


@torch.no_grad()
def smallest_squares(matrix: Tensor, k: int) -> tuple[Tensor, Tensor] | None:
    """Return the sum of the k smallest squared singular values of (rows, hidden), and its gradient (rows, hidden).

    None if there are fewer than two singular values, or no finite ones.
    """
    n_rows, hidden = matrix.shape
    k = min(k, n_rows - 1, hidden - 1)
    if k < 1:
        return None
    on_mps = matrix.device.type == "mps"  # it has neither float64 nor eigenvectors
    exact = matrix.float() if on_mps else matrix.double()
    gram = exact @ exact.T if n_rows <= hidden else exact.T @ exact
    if not gram.isfinite().all():
        return None
    try:
        vectors = torch.linalg.eigh(gram.cpu().double() if on_mps else gram)[1][:, :k].to(exact)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # solvers of GPUs give up on some matrices
        return None
    if n_rows <= hidden:
        along = vectors.T @ exact  # (k, hidden)
        return along.square().sum(), 2 * vectors @ along
    along = exact @ vectors  # (rows, k)
    return along.square().sum(), 2 * along @ vectors.T


def _rows_of_all(rows: Tensor, n_texts: int) -> tuple[Tensor, slice, float]:
    """Return the rows of all processes, which of them are this one's, and texts of all by texts of this one."""
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return rows, slice(None), 1.0
    me, n_mine = dist.get_rank(), len(rows)
    counts = _gather(torch.tensor([n_mine, n_texts], device=rows.device))
    n_rows, n_all_texts = torch.stack(counts).T.tolist()
    padded = torch.zeros(
        max(n_rows), rows.shape[1], device=rows.device, dtype=torch.promote_types(rows.dtype, torch.float32)
    )
    padded[:n_mine] = rows
    whole = torch.cat([part[:n] for part, n in zip(_gather(padded), n_rows, strict=True)])
    start = sum(n_rows[:me])
    return whole, slice(start, start + n_mine), sum(n_all_texts) / n_texts


def _gather(tensor: Tensor) -> list[Tensor]:
    gathered = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, tensor)
    return gathered


class SpectralTraining(_Trainer):
    """Mixed into a `transformers.Trainer`, adds the penalty to its loss and its logs.

    It does so where `Spectral.attach` cannot: under gradient accumulation, on several processes, with label smoothing
    and with a loss function of one's own.

        class MyTrainer(SpectralTraining, Trainer): ...

        MyTrainer(model, arguments, spectral=Spectral(), ...)
    """

    def __init__(self, *args: Any, spectral: Spectral | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.spectral = spectral
        self._penalties: list[Tensor] = []
        """Those of all batches since the last log."""

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return Trainer's own loss plus the penalty; in evaluation, its own loss."""
        options = {"num_items_in_batch": num_items_in_batch}
        if self.spectral is None or not model.training:
            return super().compute_loss(model, inputs, return_outputs, **options)
        watch = Watch(self.spectral, adds=False)
        watch.attach(self.model)
        try:
            loss, output = super().compute_loss(model, inputs, return_outputs=True, **options)
        finally:
            watch.detach()
        penalty = output.parts["spectral"]
        self._penalties.append(penalty.detach().mean())
        # several batches make a step; where Trainer leaves its loss as it is, it was divided before
        divided = getattr(self, "loss_is_scaled_for_ga", None)
        if divided is None:
            counted = self.model_accepts_loss_kwargs and num_items_in_batch is not None
            divided = counted or self.compute_loss_func is not None
        loss = loss + (penalty / self.current_gradient_accumulation_steps if divided else penalty)
        return (loss, output) if return_outputs else loss

    def log(self, logs: dict[str, float], *args: Any, **options: Any) -> None:
        """Log the mean penalty beside the loss of training."""
        if "loss" in logs and self._penalties:
            logs["spectral"] = torch.stack(self._penalties).mean().item()
            self._penalties.clear()
        super().log(logs, *args, **options)
