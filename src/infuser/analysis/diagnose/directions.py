"""Directions: which ones of the pretrained weights fine-tuning turned, and how many the features use.

Corresponding angles go layer by layer and rank by rank: the i-th left singular vector of a pretrained matrix is held
against the i-th of the fine-tuned one (equation 1 of "Drop Redundant, Shrink Irrelevant"). A cosine near 1 says that
this direction was kept, near 0 that it is another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from infuser.analysis.predict import map_batches
from infuser.errors import InputError
from infuser.hosts import anatomy_of, is_new_weight
from infuser.methods.spectral_watch import EncoderCall
from infuser.progress import progress_bar
from infuser.training.steps import Collate, Example

_SAME = 1e-7
"""Singular values nearer to each other than this share of the largest are the same in single precision."""


def corresponding_angles(
    pretrained: PreTrainedModel, tuned: PreTrainedModel, *, n_points: int = 32, progress: bool = False
) -> dict[str, list[tuple[float, float]]]:
    """Return for each layer ("layer 0") points of (rank as a share of all, cosine), large singular values first.

    The cosine has no sign, as singular vectors have none; it is the mean over the layer's weight matrices that both
    models have, in `n_points` bins (fewer where a matrix has fewer ranks). Weights that an infusion added are left out.
    Encoders whose layers are all one module (ALBERT) have one layer here. Each matrix that changed costs two singular
    value decompositions, O(rows * columns * the smaller of them): on one core about 10 s for a MiniLM of six layers and
    3 minutes for BERT-base.
    """
    if n_points < 1:
        raise InputError(f"n_points is {n_points}; give at least 1.")
    layers = list(_layers(pretrained, tuned))
    n_matrices = sum(len(matrices) for matrices in layers)
    with progress_bar("angles", n_matrices, unit="matrices", shown=None if progress else False) as bar:
        found = {}
        for number, matrices in enumerate(layers):
            curves = []
            for one, other in matrices:
                curves.append(cosines(one, other))
                bar.advance()
            found[f"layer {number}"] = _binned(curves, n_points)
    return found


def cosines(one: Tensor, other: Tensor) -> NDArray[np.float64]:
    """Return |cos| between the i-th left singular vectors of two matrices of one shape, for each rank i.

    Where singular values are equal, single vectors are an accident of the decomposition and only the space they span
    is defined: all ranks of such a space get the root mean square of the cosines of the principal angles between the
    two spaces, which for a space of one vector is that vector's cosine.
    """
    first, second = one.detach().cpu().double(), other.detach().cpu().double()
    if torch.equal(first, second):  # a frozen layer, and no decomposition
        return np.ones(min(first.shape))
    (u1, s1, _), (u2, s2, _) = (torch.linalg.svd(matrix, full_matrices=False) for matrix in (first, second))
    values = np.empty(len(s1))
    for start, end in _spaces(s1.numpy(), s2.numpy()):
        shared = torch.linalg.norm(u1[:, start:end].T @ u2[:, start:end]).item() / (end - start) ** 0.5
        values[start:end] = min(shared, 1.0)
    return values


def _spaces(one: NDArray[np.float64], other: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Yield first rank and the one after the last of each run in which either matrix repeats a singular value."""
    same = np.zeros(max(len(one) - 1, 0), bool)
    for values in (one, other):
        same |= values[:-1] - values[1:] <= _SAME * values[0]
    borders = [0, *(np.flatnonzero(~same) + 1).tolist(), len(one)]
    yield from pairwise(borders)


def _layers(pretrained: PreTrainedModel, tuned: PreTrainedModel) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Yield for each layer, lower to upper, the pairs of matrices of one name and shape."""
    blocks = [list(anatomy_of(model).blocks(model.base_model)) for model in (pretrained, tuned)]
    if pretrained.config.model_type != tuned.config.model_type or len(blocks[0]) != len(blocks[1]):
        raise InputError(
            f"Cannot hold a {tuned.config.model_type!r} encoder of {len(blocks[1])} layers against a "
            f"{pretrained.config.model_type!r} one of {len(blocks[0])}. Give the checkpoint that training began with."
        )
    for number, (one, other) in enumerate(zip(*blocks, strict=True)):
        before, after = _matrices(one), _matrices(other)
        both = [name for name in before if name in after and before[name].shape == after[name].shape]
        if not both:
            raise InputError(
                f"Layer {number} of the two models has no matrix of the same name and shape: {sorted(before)} and "
                f"{sorted(after)}. Give the checkpoint that training began with."
            )
        yield [(before[name], after[name]) for name in both]


def _matrices(block: Any) -> dict[str, Tensor]:
    return {name: weight for name, weight in block.named_parameters() if weight.ndim == 2 and not is_new_weight(name)}


def _binned(curves: list[NDArray[np.float64]], n_points: int) -> list[tuple[float, float]]:
    """Return the mean of several curves over equal parts of their ranks; each curve weighs the same."""
    n_bins = min(n_points, *(len(curve) for curve in curves))
    means = np.mean([[part.mean() for part in np.array_split(curve, n_bins)] for curve in curves], axis=0)
    return [((number + 0.5) / n_bins, float(value)) for number, value in enumerate(means)]


def feature_matrix(
    model: PreTrainedModel, examples: Sequence[Example], collate: Collate, *, batch_size: int = 64, most: int = 1024
) -> Tensor:
    """Return the vectors (examples, hidden) that enter the task head, without dropout.

    They are those that `Spectral` looks at: the pooler's output where the encoder has one, else the first token's last
    state. Of more than `most` examples so many are taken at equal distances: the same ones for every model.
    """
    if not len(examples) or most < 1:
        raise InputError(f"There are {len(examples)} examples and at most {most} are asked for; both must be above 0.")
    n = min(len(examples), most)
    chosen = [examples[place * len(examples) // n] for place in range(n)]

    def entering(batch: dict[str, Tensor]) -> Tensor:
        # an empty output of its kind says that the head answers once per text
        return EncoderCall(encoder, (), batch, encoder(**batch)).features(SequenceClassifierOutput())

    encoder = model.base_model
    return map_batches(model, chosen, collate, entering, batch_size=batch_size)


def singular_values(features: Tensor) -> list[float]:
    """Return the singular values of a matrix of features, largest first."""
    values: list[float] = torch.linalg.svdvals(features.double()).tolist()
    return values
