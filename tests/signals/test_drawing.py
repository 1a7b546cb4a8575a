"""Maps and ties are the same, whether NumPy draws them or torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.random import Generator

from infuser.errors import InputError
from infuser.methods.kam_reader import _by_kind
from infuser.signals import drawing, maps

TEXTS, TOKENS = 3, 9


def random_boxes(rng: Generator, n: int, n_channels: int) -> tuple[np.ndarray, np.ndarray]:
    starts = rng.integers(0, TOKENS, (TEXTS, n, 2))
    ends = starts + rng.integers(0, 4, (TEXTS, n, 2))
    channel = rng.integers(-1, n_channels, (TEXTS, n))
    weights = rng.choice(np.array([0, 0.25, 0.5, 1], np.float32), (TEXTS, n))
    order = [channel, starts[..., 0], ends[..., 0], starts[..., 1], ends[..., 1]]
    return np.stack(order, axis=-1), weights


@pytest.mark.parametrize("n", [3, 7, 40])
@pytest.mark.parametrize("marked", [False, True])
def test_both_draw_the_same_maps(n: int, marked: bool) -> None:
    rng = np.random.default_rng(n)
    boxes, weights = random_boxes(rng, n, 4)
    valid = np.arange(TOKENS) < rng.integers(TOKENS - 3, TOKENS + 1, TEXTS)[:, None]
    first = rng.integers(0, 2, TEXTS) if marked else None
    drawn = drawing.draw_maps(boxes, weights, n_channels=4, n_tokens=TOKENS, valid=valid, first=first)
    expected = maps.draw_maps(
        torch.from_numpy(boxes),
        torch.from_numpy(weights),
        n_channels=4,
        n_tokens=TOKENS,
        valid=torch.from_numpy(valid),
        first=None if first is None else torch.from_numpy(first),
    )
    assert drawn.max() > 0
    np.testing.assert_array_equal(drawn, expected.numpy())


def test_both_draw_the_same_ties() -> None:
    rng = np.random.default_rng(0)
    boxes, weights = random_boxes(rng, 6, 2)
    ties = np.concatenate([boxes[..., :1], boxes], axis=-1)
    drawn = drawing.draw_ties(ties, weights, n_tokens=TOKENS, n_pieces=7)
    expected = maps.draw_ties(torch.from_numpy(ties), torch.from_numpy(weights), n_tokens=TOKENS, n_pieces=7)
    assert drawn.max() > 0
    np.testing.assert_array_equal(drawn, expected.numpy())


def test_both_find_the_same_channels_of_types_and_relations() -> None:
    rng = np.random.default_rng(1)
    boxes, weights = random_boxes(rng, 5, 2)
    kinds = rng.integers(0, 3, weights.shape)
    drawn, channels = drawing.by_kind(boxes, kinds, weights, (3, 3))
    expected, numbers = _by_kind(*map(torch.from_numpy, (boxes, kinds, weights)), (3, 3))
    np.testing.assert_array_equal(drawn, expected.numpy())
    assert channels.tolist() == numbers.tolist() and len(channels) > 1


def test_where_nothing_was_found_one_empty_channel_is_drawn() -> None:
    drawer = drawing.MapDrawer(n_channels=6, n_kinds=(3, 3), cls_row=True)
    batch = {
        "attention_mask": np.ones((2, 4), np.int64),
        "knowledge_boxes": np.array([[[-1, 0, 0, 0, 0]]] * 2),
        "knowledge_kinds": np.zeros((2, 1), np.int64),
        "knowledge_weights": np.zeros((2, 1), np.float32),
    }
    drawn = drawer.draw(batch)
    assert drawn[drawing.CHANNELS].tolist() == [0] and drawn[drawing.DRAWN].shape == (2, 1, 4, 4)
    assert not drawn[drawing.DRAWN].any()


def test_a_box_of_an_unknown_source_is_an_error() -> None:
    boxes, weights = np.array([[[2, 0, 1, 0, 1]]]), np.ones((1, 1), np.float32)
    with pytest.raises(InputError, match="channel 2, but there are 2"):
        drawing.draw_maps(boxes, weights, n_channels=2, n_tokens=4)
    with pytest.raises(InputError, match="source 2, counted from 0"):
        drawing.by_kind(boxes, np.zeros((1, 1), np.int64), weights, (3, 3))
