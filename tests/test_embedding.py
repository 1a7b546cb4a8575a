"""`Infused.embed`: one vector per text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from miniatures import HOSTS
from tiny_infusions import KNOWN_TEXT, infuse_tiny

from infuser.errors import InputError

TEXTS = [KNOWN_TEXT, "cheap medicine", "buy glipizide tablets in the old town", "", "a"]


@pytest.mark.parametrize(
    ("host", "side"), [*((host, "right") for host in HOSTS), ("roberta", "left")]
)  # BERT's positions count padding on the left
def test_the_vector_of_a_text_is_the_mean_of_its_own_states(host: str, side: str) -> None:
    infused = infuse_tiny(host, padding_side=side)
    vectors = infused.embed(TEXTS, normalize=False)
    assert vectors.shape == (5, 16) and not vectors.requires_grad
    for text, vector in zip(TEXTS, vectors, strict=True):
        torch.testing.assert_close(vector, infused.encode([text])[0].mean(dim=0), atol=1e-7, rtol=0)
    firsts = infused.embed(TEXTS, normalize=False, pooling="cls")
    for text, vector in zip(TEXTS, firsts, strict=True):
        torch.testing.assert_close(vector, infused.encode([text])[0, 0], atol=1e-7, rtol=0)


def test_vectors_have_the_length_one_in_the_order_of_the_texts_whatever_the_batches() -> None:
    infused = infuse_tiny("bert", "sequence-classification")
    vectors = infused.embed(TEXTS)
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(5, dtype=vectors.dtype))
    for size in (1, 2):
        torch.testing.assert_close(infused.embed(TEXTS, batch_size=size), vectors, atol=1e-7, rtol=0)
    torch.testing.assert_close(infused.embed(TEXTS[::-1]), vectors.flip(0), atol=1e-7, rtol=0)
    assert infused.embed([]).shape == (0, 16)


def test_texts_of_similar_length_are_read_together() -> None:
    infused = infuse_tiny("bert")
    shapes: list[tuple[int, ...]] = []
    infused.model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    infused.embed(["a", KNOWN_TEXT] * 4, batch_size=4)
    assert [n for n, _ in shapes] == [4, 4] and shapes[0][1] == 3 < shapes[1][1]


def test_vectors_are_made_without_dropout_and_the_mode_of_the_model_is_kept() -> None:
    infused = infuse_tiny("bert")
    infused.model.train()
    assert torch.equal(infused.embed(TEXTS), infused.embed(TEXTS))
    assert infused.model.training


@pytest.mark.parametrize(
    ("given", "options", "says"), [("one text", {}, "list of texts"), (["a"], {"pooling": "max"}, "'mean' or 'cls'")]
)
def test_what_cannot_be_used_is_named(given: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        infuse_tiny("bert").embed(given, **options)
