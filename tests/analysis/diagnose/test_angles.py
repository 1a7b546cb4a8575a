from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from miniatures import HOSTS, tiny_host
from tiny_infusions import infuse_tiny

from infuser.analysis.diagnose.directions import corresponding_angles, cosines
from infuser.errors import InputError
from infuser.hosts import anatomy_of, is_new_weight


def turned(angle: float, n: int) -> torch.Tensor:
    """A rotation of n coordinates, two by two."""
    one = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64)
    return torch.block_diag(*[one] * (n // 2))


def random(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_rotation_of_the_left_space_shows_as_its_cosine_at_every_rank() -> None:
    for shape in ((8, 8), (8, 20), (20, 8)):
        matrix = random(*shape)
        # u and Ru meet at the angle of R whatever u is, because R turns all planes alike
        np.testing.assert_allclose(cosines(matrix, turned(0.5, shape[0]) @ matrix), math.cos(0.5), atol=1e-10)
        np.testing.assert_allclose(cosines(matrix, -matrix), 1, atol=1e-12)  # no sign
        np.testing.assert_allclose(cosines(matrix, 3 * matrix @ turned(0.5, shape[1])), 1, atol=1e-10)


def test_only_the_directions_that_changed_are_turned() -> None:
    before = torch.diag(torch.tensor([4.0, 3.0, 2.0, 1.0], dtype=torch.float64))
    after = torch.block_diag(torch.eye(2, dtype=torch.float64), turned(math.pi / 3, 2)) @ before
    np.testing.assert_allclose(cosines(before, after), [1, 1, 0.5, 0.5], atol=1e-12)


def test_random_matrices_have_nothing_in_common() -> None:
    found = cosines(random(200, 200), random(200, 200, seed=1))
    # the mean |cos| of random directions in n dimensions is about sqrt(2 / (pi n)) = 0.056
    assert found.mean() == pytest.approx(math.sqrt(2 / (math.pi * 200)), rel=0.2)


def test_equal_singular_values_are_compared_as_spaces() -> None:
    double = torch.float64
    before = torch.diag(torch.tensor([2.0, 1.0, 1.0, 0.0], dtype=double))
    mixed = torch.block_diag(torch.eye(1, dtype=double), turned(0.7, 2), torch.eye(1, dtype=double))
    # turning the plane of the two equal values is no change of what they span
    np.testing.assert_allclose(cosines(before, mixed @ before), 1, atol=1e-12)
    swapped = before[[0, 3, 2, 1]]  # one of the two directions is given up for the last
    np.testing.assert_allclose(cosines(before, swapped), [1, math.sqrt(0.5), math.sqrt(0.5), 0], atol=1e-12)
    assert cosines(torch.zeros(3, 3), torch.zeros(3, 3)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("host", HOSTS)
def test_layers_of_every_host_are_numbered_and_only_the_changed_one_is_turned(host: str) -> None:
    before = tiny_host(host)
    infused = infuse_tiny(host, "sequence-classification")
    after = infused.model
    after.base_model.load_state_dict(before.state_dict(), strict=False)
    n_layers = len(anatomy_of(after).blocks(after.base_model))
    found = corresponding_angles(before, after)
    assert list(found) == [f"layer {number}" for number in range(n_layers)]
    n = min(min(w.shape) for layer in anatomy_of(before).blocks(before) for w in layer.parameters() if w.ndim == 2)
    assert all(points == [((at + 0.5) / n, 1.0) for at in range(n)] for points in found.values())

    block = anatomy_of(after).blocks(after.base_model)[-1]
    weights = [w for name, w in block.named_parameters() if w.ndim == 2 and not is_new_weight(name)]
    with torch.no_grad():
        for weight in weights:
            weight.copy_(turned(1.0, len(weight)) @ weight)
    [*others, (_, points)] = corresponding_angles(before, after, n_points=4).items()
    assert all(value == 1 for _, of_layer in others for _, value in of_layer)
    assert [place for place, _ in points] == [0.125, 0.375, 0.625, 0.875]
    assert [value for _, value in points] == pytest.approx([math.cos(1.0)] * 4)


def test_models_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(InputError, match="'roberta' encoder of 2 layers against a 'bert' one of 2"):
        corresponding_angles(tiny_host("bert"), tiny_host("roberta"))
    with pytest.raises(InputError, match="1 layers against a 'bert' one of 2"):
        corresponding_angles(tiny_host("bert"), tiny_host("bert", num_hidden_layers=1))
    with pytest.raises(InputError, match="no matrix of the same name and shape"):
        corresponding_angles(tiny_host("bert"), tiny_host("bert", hidden_size=8, intermediate_size=8))
    with pytest.raises(InputError, match="n_points is 0"):
        corresponding_angles(tiny_host("bert"), tiny_host("bert"), n_points=0)
