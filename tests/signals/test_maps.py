from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from infuser.errors import InputError
from infuser.signals.maps import draw_maps, draw_ties


def some_boxes(seed: int, *, n_batch: int, n_boxes: int, n_channels: int, n_tokens: int) -> Tensor:
    """Return random boxes, some of them padding."""
    draw = torch.Generator().manual_seed(seed)

    def number(below: int) -> int:
        return int(torch.randint(below, (), generator=draw))

    rows = []
    for _ in range(n_batch * n_boxes):
        top, left = number(n_tokens), number(n_tokens)
        bottom, right = top + 1 + number(n_tokens - top), left + 1 + number(n_tokens - left)
        rows.append((number(n_channels + 1) - 1, top, bottom, left, right))
    return torch.tensor(rows).view(n_batch, n_boxes, 5)


def slow_maps(boxes, weights, n_channels, n_tokens, valid, first):
    maps = torch.zeros(len(boxes), n_channels, n_tokens, n_tokens, dtype=weights.dtype)
    for b in range(len(boxes)):
        for (channel, top, bottom, left, right), weight in zip(boxes[b].tolist(), weights[b], strict=True):
            if channel < 0:
                continue
            for i in range(top, bottom):
                for j in range(left, right):
                    if valid is not None and not (valid[b, i] and valid[b, j]):
                        continue
                    maps[b, channel, i, j] = max(maps[b, channel, i, j], weight)
                    maps[b, channel, j, i] = max(maps[b, channel, j, i], weight)
        if first is None:
            continue
        for channel in range(n_channels):
            drawn = maps[b, channel].clone()
            for j in range(n_tokens):
                if drawn[:, j].any() or drawn[j].any():
                    maps[b, channel, first[b], j] = maps[b, channel, j, first[b]] = 1
    return maps


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("with_valid", [False, True])
@pytest.mark.parametrize("with_first", [False, True])
def test_maps_agree_with_the_slow_loop(seed, with_valid, with_first):
    boxes = some_boxes(seed, n_batch=3, n_boxes=5, n_channels=2, n_tokens=7)
    torch.manual_seed(seed)
    weights = torch.rand(3, 5, dtype=torch.float64).round(decimals=1)  # zeros and ties among them
    valid = torch.rand(3, 7) < 0.7 if with_valid else None
    first = torch.randint(7, (3,)) if with_first else None
    drawn = draw_maps(boxes, weights, n_channels=2, n_tokens=7, valid=valid, first=first)
    torch.testing.assert_close(drawn, slow_maps(boxes, weights, 2, 7, valid, first), rtol=0, atol=0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("source", [None, 0, 1])
def test_ties_agree_with_the_slow_loop(seed, source):
    places = some_boxes(seed, n_batch=3, n_boxes=5, n_channels=2, n_tokens=7)
    ties = torch.cat([places[..., :1].clamp(min=0), torch.zeros(3, 5, 1).long(), places[..., 1:]], dim=-1)
    torch.manual_seed(seed)
    weights = torch.rand(3, 5, dtype=torch.float64).round(decimals=1)
    expected = torch.zeros(3, 7, 9, dtype=torch.float64)
    for b in range(3):
        for (of_source, _, top, bottom, left, right), weight in zip(ties[b].tolist(), weights[b], strict=True):
            if source in (None, of_source):
                for i, j in itertools.product(range(top, bottom), range(left, right)):
                    expected[b, i, j] = max(expected[b, i, j], weight)
    drawn = draw_ties(ties, weights, n_tokens=7, n_pieces=9, source=source)
    torch.testing.assert_close(drawn, expected, rtol=0, atol=0)


def test_a_cell_takes_the_largest_weight_and_its_mirror_image_too():
    boxes = torch.tensor([[[0, 1, 3, 3, 4], [0, 2, 3, 3, 4], [-1, 0, 4, 0, 4]]])
    maps = draw_maps(boxes, torch.tensor([[0.5, 0.75, 1.0]]), n_channels=1, n_tokens=4)
    expected = torch.zeros(4, 4)
    expected[1, 3] = expected[3, 1] = 0.5
    expected[2, 3] = expected[3, 2] = 0.75
    assert torch.equal(maps[0, 0], expected)


def test_the_first_token_marks_what_its_channel_covers_and_nothing_else():
    boxes = torch.tensor([[[0, 2, 3, 3, 4], [1, 3, 4, 3, 4]]])
    maps = draw_maps(boxes, torch.tensor([[0.5, 0.25]]), n_channels=3, n_tokens=5, first=torch.tensor([0]))
    assert maps[0, 0, 0].tolist() == [0, 0, 1, 1, 0]
    assert maps[0, 0, :, 0].tolist() == [0, 0, 1, 1, 0]
    assert maps[0, 1, 0].tolist() == [0, 0, 0, 1, 0]
    assert maps[0, 1, :, 0].tolist() == [0, 0, 0, 1, 0]
    assert not maps[0, 2].any()
    assert maps[0, 0, 2, 3] == 0.5


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_maps_have_the_dtype_of_the_weights(dtype):
    boxes = torch.tensor([[[0, 0, 1, 1, 2]]])
    maps = draw_maps(boxes, torch.tensor([[0.5]], dtype=dtype), n_channels=1, n_tokens=2, first=torch.tensor([0]))
    assert maps.dtype == dtype
    assert maps[0, 0].tolist() == [[1, 1], [1, 0]]


def test_choices_are_drawn_like_examples():
    shape = {"n_batch": 6, "n_boxes": 4, "n_channels": 2, "n_tokens": 5}
    boxes, weights = some_boxes(3, **shape), torch.rand(6, 4)
    flat = draw_maps(boxes, weights, n_channels=2, n_tokens=5)
    assert torch.equal(draw_maps(boxes.view(2, 3, 4, 5), weights.view(2, 3, 4), n_channels=2, n_tokens=5), flat)


def test_what_lies_behind_the_text_is_not_drawn():
    boxes = torch.tensor([[[0, 1, 2, 4, 6], [0, 1, 2, 2, 3]]])
    maps = draw_maps(boxes, torch.ones(1, 2), n_channels=1, n_tokens=4)
    assert maps.nonzero().tolist() == [[0, 0, 1, 2], [0, 0, 2, 1]]


def test_a_batch_of_nothing_but_padding_draws_empty_maps_and_ties():
    boxes = torch.tensor([[[-1, 0, 0, 0, 0]]] * 2)
    maps = draw_maps(boxes, torch.zeros(2, 1), n_channels=3, n_tokens=4, first=torch.zeros(2).long())
    assert maps.shape == (2, 3, 4, 4)
    assert not maps.any()
    assert not draw_ties(torch.zeros(2, 1, 6).long(), torch.zeros(2, 1), n_tokens=4, n_pieces=3).any()


def test_a_piece_of_a_term_takes_the_largest_weight_of_the_ties_to_its_token():
    ties = torch.tensor([[[0, 0, 1, 3, 0, 2], [1, 0, 2, 3, 1, 3], [0, 0, 0, 0, 0, 0]]])
    drawn = draw_ties(ties, torch.tensor([[0.5, 0.75, 0.0]]), n_tokens=4, n_pieces=3)
    assert drawn[0].tolist() == [[0, 0, 0], [0.5, 0.5, 0], [0.5, 0.75, 0.75], [0, 0, 0]]


def test_a_channel_that_the_model_does_not_have_is_refused():
    with pytest.raises(InputError, match="map channel 2, but there are 2"):
        draw_maps(torch.tensor([[[2, 0, 1, 1, 2]]]), torch.ones(1, 1), n_channels=2, n_tokens=3)


def test_drawing_works_inside_a_compiled_function():
    boxes = torch.tensor([[[0, 1, 3, 3, 4]]])

    @torch.compile(backend="eager")
    def doubled(weights: Tensor) -> Tensor:
        return 2 * draw_maps(boxes, 1 * weights, n_channels=1, n_tokens=4)

    weights = torch.tensor([[0.5]])
    assert torch.equal(doubled(weights), 2 * draw_maps(boxes, weights, n_channels=1, n_tokens=4))
