from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from knowledge.small_graphs import entities, swiss
from miniatures import N_POSITIONS, tiny_host, tiny_tokenizer

from infuser.errors import CheckpointError, InputError
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import save_graph
from infuser.knowledge.vectors.descriptions import Described, read_described, texts_of
from infuser.knowledge.vectors.store import EntityVectors
from infuser.linking.description_vectors import (
    DescriptionVectors,
    add_described,
    build_from_descriptions,
    encode_descriptions,
)

SAID = [
    Described("Q70", "Bern", "the city on the Aare"),
    Described("Q72", "Zürich", "a town near the lake, with a bridge and a garden"),
    Described("Q1", "Aare", "river"),
    Described("Q2", "", "a small house"),
    Described("Q3", "book", "the author wrote in the old town"),
]
PLAIN = DescriptionVectors(scale=False)


@pytest.fixture(scope="module")
def encoder() -> tuple[Any, Any]:
    return tiny_host("bert"), tiny_tokenizer("bert")


@pytest.fixture(scope="module")
def checkpoint(encoder: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    for part in encoder:
        part.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("host", ["bert", "roberta", "distilbert"])
def test_a_text_is_the_average_of_its_last_states_whatever_its_company(host: str) -> None:
    model, tokenizer = tiny_host(host, "masked-lm"), tiny_tokenizer(host)
    texts = ["river", "the old bridge of the town on the lake", "a red house"]
    encoded = encode_descriptions(texts, (model, tokenizer), batch_size=2)
    assert encoded.dtype == np.float32
    for text, row in zip(texts, encoded, strict=True):
        states = model.base_model(**tokenizer(text, return_tensors="pt")).last_hidden_state
        assert np.allclose(row, states[0].mean(0).detach().numpy(), atol=1e-5)


def test_reading_leaves_a_model_in_training_as_it_was(encoder: tuple[Any, Any]) -> None:
    model, tokenizer = tiny_host("bert"), tiny_tokenizer("bert")
    model.train()
    encoded = encode_descriptions(["river"], (model, tokenizer))
    assert model.training and all(weight.grad is None for weight in model.parameters())
    assert np.allclose(encoded, encode_descriptions(["river"], encoder), atol=1e-6)  # without dropout


def test_long_texts_are_cut_and_no_texts_give_no_rows(encoder: tuple[Any, Any]) -> None:
    long = "river " * (3 * N_POSITIONS)
    cut, whole = (encode_descriptions([long], encoder, max_tokens=n) for n in (4, 10_000))
    assert np.allclose(cut, encode_descriptions(["river river"], encoder), atol=1e-6)
    assert np.isfinite(whole).all() and not np.allclose(whole, cut)
    assert encode_descriptions([], encoder).shape == (0, 16)
    with pytest.raises(InputError, match="max_tokens=0"):
        encode_descriptions(["river"], encoder, max_tokens=0)


def test_label_and_description_are_read_together_or_the_description_alone() -> None:
    assert texts_of(SAID[:1]) == [("Q70", "Bern: the city on the Aare")]
    assert texts_of(SAID[:1], with_label=False) == [("Q70", "the city on the Aare")]
    assert texts_of(SAID[3:4]) == [("Q2", "a small house")]
    bare = [*SAID[:1], Described("Q9", "Biel"), Described("Lake_Biel")]
    assert texts_of(bare, missing="label")[1:] == [("Q9", "Biel"), ("Lake_Biel", "Lake Biel")]
    assert [id for id, _ in texts_of(bare, missing="skip")] == ["Q70"]


def test_entities_without_a_description_are_counted_and_the_remedy_is_named() -> None:
    some = [*SAID, Described("Q9", "Biel"), Described("Q8")]
    with pytest.raises(InputError, match=r"2 of 7 entities have no description; the first is 'Q9'.*--label-when-miss"):
        texts_of(some)
    for missing in ("error", "skip"):
        with pytest.raises(InputError, match="None of the 2 entities has a description"):
            texts_of(some[-2:], missing=missing)
    with pytest.raises(InputError, match="not one entity"):
        texts_of([])


def test_a_graph_without_descriptions_is_one_clear_error(tmp_path: Path, encoder: tuple[Any, Any]) -> None:
    graph = save_graph(build_graph([entities({"id": "Q1", "label": "Bern"}, {"id": "Q2"})]), tmp_path / "graph")
    with pytest.raises(InputError, match=r"None of the 2 entities has a description.*infuser vectors build --train"):
        build_from_descriptions(read_described(graph), encoder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_graph_and_a_table_say_is_the_same(tmp_path: Path) -> None:
    graph = save_graph(build_graph(swiss()), tmp_path / "graph")
    said = {one.id: one for one in read_described(graph)}
    assert said["Q70"] == ("Q70", "Bern", "seat") and said["Q12"].description == "a village"
    assert said["Q99"].label == "lonely" and said["Aare_river"] == ("Aare_river", "", "")
    table = tmp_path / "e.csv"
    table.write_text("id,label,aliases,description\nQ70,Bern,,\nQ70,Bärn,,seat\nQ99,,lonely,\nAare_river,,,\n")
    assert read_described(table) == [said["Q70"], said["Q99"], said["Aare_river"]]


def test_vectors_of_descriptions_are_what_the_encoder_says_and_know_how_they_were_made(
    tmp_path: Path, checkpoint: Path, encoder: tuple[Any, Any]
) -> None:
    vectors = build_from_descriptions(SAID, checkpoint, tmp_path / "v", PLAIN)
    texts = [text for _, text in texts_of(SAID)]
    assert np.allclose(vectors.take(np.arange(5)), encode_descriptions(texts, encoder), atol=1e-5)
    told = {"way": "descriptions", "encoder": str(checkpoint), "missing": "error", "dim": 16, "scaled": False}
    assert told.items() <= vectors.about.items()
    scaled = build_from_descriptions(SAID, encoder, tmp_path / "v")
    assert np.allclose(np.linalg.norm(scaled.take(np.arange(5)), axis=1), 4.0)


def test_fewer_numbers_keep_what_differs_most(tmp_path: Path, checkpoint: Path, encoder: tuple[Any, Any]) -> None:
    settings = DescriptionVectors(dim=3, scale=False)
    vectors = build_from_descriptions(SAID, checkpoint, tmp_path / "v", settings)
    encoded = encode_descriptions([text for _, text in texts_of(SAID)], encoder).astype(np.float64)
    centred = encoded - encoded.mean(0)
    shortened = vectors.take(np.arange(5)).astype(np.float64)
    kept, singular = np.linalg.norm(shortened) ** 2, np.linalg.svd(centred, compute_uv=False)
    assert shortened.shape == (5, 3) and kept == pytest.approx((singular[:3] ** 2).sum(), rel=1e-4)
    again = build_from_descriptions(SAID, checkpoint, tmp_path / "again", settings)
    assert again.digest == vectors.digest


@pytest.mark.parametrize("dim", [0, 5, 17])
def test_a_dimension_that_cannot_be_had_is_refused(tmp_path: Path, encoder: tuple[Any, Any], dim: int) -> None:
    with pytest.raises(InputError, match=f"dim={dim} cannot be had of 5 entities and an encoder with 16"):
        build_from_descriptions(SAID, encoder, tmp_path / "v", DescriptionVectors(dim=dim))


@pytest.mark.parametrize("dim", [None, 3])
def test_an_entity_added_later_is_encoded_as_the_others_were(tmp_path: Path, checkpoint: Path, dim: int | None) -> None:
    built = build_from_descriptions(SAID, checkpoint, tmp_path / "v", DescriptionVectors(dim=dim))
    new = [Described("new", *SAID[1][1:]), Described("other", "train", "runs from Bern")]
    added = EntityVectors.open(add_described(built, new).save(tmp_path / "more"))
    rows = added.take(added.rows(["Q72", "new", "other"]))
    assert np.allclose(rows[0], rows[1], atol=1e-4) and not np.allclose(rows[0], rows[2], atol=0.1)
    twice = add_described(added, [Described("third", "lake")], missing="label")
    assert twice.rows(["third"]).tolist() == [7]
    with pytest.raises(InputError, match="None of the 1 entities"):
        add_described(built, [Described("bare", "Biel")])


def test_another_encoder_or_other_vectors_cannot_be_added_to(tmp_path: Path, checkpoint: Path) -> None:
    built = build_from_descriptions(SAID, checkpoint, tmp_path / "v")
    new = [Described("new", "train", "runs")]
    with pytest.raises(InputError, match="not the one that made the vectors"):
        add_described(built, new, (tiny_host("bert", seed=1), tiny_tokenizer("bert")))
    wider = tiny_host("bert", hidden_size=32)
    with pytest.raises(InputError, match="not the one that made the vectors"):
        add_described(built, new, (wider, tiny_tokenizer("bert")))
    with pytest.raises(InputError, match=r"were not made from descriptions.*vector file"):
        add_described(EntityVectors.of(["a"], [[1.0]]), new)
    with pytest.raises(CheckpointError, match="nowhere"):
        add_described(built, new, tmp_path / "nowhere")


def test_reading_draws_no_random_numbers(encoder: tuple[Any, Any]) -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    encode_descriptions(["river"], encoder)
    assert torch.equal(torch.rand(1), expected)


def test_a_disk_without_room_is_named_before_anything_is_encoded(
    tmp_path: Path, encoder: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, start: int, n_bytes: int) -> None:
        assert (start, n_bytes) == (0, 4 * 2 * encoder[0].config.hidden_size)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    entities = [Described("a", "Bern", "a city"), Described("b", "Aare", "a river")]
    with pytest.raises(InputError, match=r"Cannot write '.*vectors'.*No space left"):
        build_from_descriptions(entities, encoder, tmp_path / "vectors")
    assert list(tmp_path.iterdir()) == []
