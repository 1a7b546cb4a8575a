"""Features in one file: the same as in memory, whole or not at all, with a bounded number of texts held."""

from __future__ import annotations

import numpy as np
import pytest
from miniatures import tiny_host, tiny_tokenizer

from infuser.relations import features
from infuser.relations.examples import RelationText, Triple
from infuser.relations.features import FeatureSettings, SpanReader, open_features, write_features
from infuser.types import Span

SENTENCE = "the old bridge of the town lies on the river and the red house"


def some_texts(n):
    """Yield texts of unequal lengths with 0, 1 or 2 triples; each seventh has one that cannot be read."""
    for number in range(n):
        text = " ".join(SENTENCE.split()[: 4 + number % 9])
        triples = [
            Triple(Span(0, 3), Span(8, 14), "P1", Span(4, 7)),
            Triple(Span(8, 14), Span(0, 3), "P2", None if number % 7 == 0 else Span(4, 7)),
        ]
        yield RelationText(text, tuple(triples[: number % 3]), name=str(number))


@pytest.fixture(scope="module")
def encoder():
    return tiny_host("bert"), tiny_tokenizer("bert")


@pytest.mark.parametrize("kind", ["attention", "embeddings"])
def test_a_file_holds_what_read_returns(encoder, kind, tmp_path):
    reader = SpanReader(*encoder, settings=FeatureSettings(kind), batch_size=2)
    written = write_features(reader, some_texts(40), tmp_path / "folder" / "features.npy")  # a generator: no length
    inside = reader.read(list(some_texts(40)))
    assert not inside.readable.all() and inside.readable.any()
    np.testing.assert_allclose(written.values, inside.values, rtol=2e-7, atol=1e-9)
    np.testing.assert_array_equal(written.readable, inside.readable)
    again = open_features(tmp_path / "folder" / "features.npy")
    np.testing.assert_array_equal(again.values, written.values)
    np.testing.assert_array_equal(again.readable, written.readable)


def test_values_are_a_memory_map_of_an_ordinary_file(encoder, tmp_path):
    path = tmp_path / "features.npy"
    written = write_features(SpanReader(*encoder), some_texts(7), path)
    assert isinstance(written.values, np.memmap)
    assert written.values.dtype == np.dtype("<f4")
    assert written.values.shape == (6, 2, 2, 6)
    header = path.stat().st_size - written.values.nbytes
    assert 0 < header <= 256
    np.testing.assert_array_equal(np.load(path, allow_pickle=False), written.values)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["features.npy", "features.readable.npy"]


@pytest.mark.parametrize("texts", [[], [RelationText(""), RelationText("the river")]])
def test_no_triples_are_a_file_of_none(encoder, texts, tmp_path):
    written = write_features(SpanReader(*encoder), texts, tmp_path / "features.npy")
    assert written.values.shape == (0, 2, 2, 6)
    assert written.readable.shape == (0,)


@pytest.mark.parametrize("before", [False, True])
def test_nothing_is_left_after_an_error_and_what_was_there_stays(encoder, before, tmp_path):
    path = tmp_path / "features.npy"
    reader = SpanReader(*encoder, batch_size=1)
    kept = write_features(reader, some_texts(5), path).values.copy() if before else None

    def breaks():
        yield from some_texts(30)  # the first portion is written by then
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_features(reader, breaks(), path)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == (["features.npy", "features.readable.npy"] if before else [])
    if before:
        np.testing.assert_array_equal(open_features(path).values, kept)


def test_a_million_texts_would_be_held_a_few_batches_at_a_time(encoder, tmp_path, monkeypatch):
    reader = SpanReader(*encoder, batch_size=1)
    taken = 0
    done: list[int] = []
    ahead: list[int] = []

    def counted():
        nonlocal taken
        for text in some_texts(60):
            taken += 1
            ahead.append(taken - sum(done))
            yield text

    read = SpanReader.read
    monkeypatch.setattr(SpanReader, "read", lambda self, some: (done.append(len(some)), read(self, some))[1])
    write_features(reader, counted(), tmp_path / "features.npy")
    assert taken == sum(done) == 60
    assert max(ahead) <= 16  # texts that were taken and not yet read: sixteen batches, however many there are


def test_texts_with_many_triples_are_held_a_few_at_a_time(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(features, "_MOST_TRIPLES", 3)
    reader, texts = SpanReader(*encoder), list(some_texts(20))
    portions = [(len(some), sum(len(text.triples) for text in some)) for some, _ in reader.stream(texts)]
    assert sum(n for n, _ in portions) == 20 and len(portions) > 1
    assert all(n_triples <= 3 or n_texts == 1 for n_texts, n_triples in portions)
    np.testing.assert_allclose(
        write_features(reader, texts, tmp_path / "features.npy").values,
        SpanReader(*encoder).read(texts).values,
        atol=1e-6,
    )


def test_the_header_leaves_room_for_more_rows_than_anybody_has(tmp_path):
    sizes = []
    for n_rows in (0, 10**15):
        with (tmp_path / "header").open("wb") as file:
            features._write_header(file, (n_rows, 12, 12, 6))
            sizes.append(file.tell())
    assert sizes[0] == sizes[1]
