from __future__ import annotations

import pickle  # noqa: TID251  # what worker processes do with a store
from pathlib import Path

import numpy as np
import pytest

from infuser.errors import InputError, SourceError
from infuser.knowledge.vectors.store import EntityVectors, VectorBatch, write_vectors


def numbers(n_entities: int, dim: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n_entities, dim)).astype(np.float32)


def names(n_entities: int) -> list[str]:
    return [f"Q{number * 7}" for number in range(n_entities)]


@pytest.fixture
def stored(tmp_path: Path) -> EntityVectors:
    """A thousand vectors in a folder, over several blocks of a file."""
    return EntityVectors.open(EntityVectors.of(names(1000), numbers(1000, 40), scale=False).save(tmp_path / "v"))


def test_rows_and_ids_lead_to_each_other_and_to_the_vectors(stored: EntityVectors) -> None:
    rows = stored.rows(["Q70", "nobody", "Q0", "", "\ud83d", "Q70"])
    assert rows.tolist() == [10, -1, 0, -1, -1, 10] and rows.dtype == np.int64
    assert stored.id_of(10) == "Q70" and len(stored) == 1000 and stored.dim == 40
    taken = stored.take([10, 999, 10])
    assert taken.dtype == np.float32 and np.array_equal(taken, numbers(1000, 40)[[10, 999, 10]])
    assert stored.take([]).shape == (0, 40) and stored.rows([]).shape == (0,)


def test_a_taken_row_is_a_copy_that_may_be_changed(stored: EntityVectors) -> None:
    stored.take([3])[:] = 0
    assert np.array_equal(stored.take([3])[0], numbers(1000, 40)[3])


@pytest.mark.parametrize("row", [-1, -2, 1000])
def test_a_row_that_is_not_there_is_an_error(stored: EntityVectors, row: int) -> None:
    with pytest.raises(SourceError, match=f"no row {row} among the 1,000"):
        stored.take([0, row])
    with pytest.raises(SourceError, match="no row"):
        stored.id_of(row)


def test_rows_get_the_length_that_layer_norm_gives_and_zeros_stay(tmp_path: Path) -> None:
    given = np.array([[3.0, 4.0, 0.0, 0.0], [0, 0, 0, 0], [1e30, 0, 0, 0], [1e-30, 0, 0, 0]])
    vectors = EntityVectors.of(list("abcd"), given)
    assert np.allclose(vectors.take([0, 1, 2, 3]), [[1.2, 1.6, 0, 0], [0] * 4, [2, 0, 0, 0], [2, 0, 0, 0]])
    assert vectors.about["scaled"] is True
    saved = EntityVectors.open(vectors.save(tmp_path / "v"))
    assert np.array_equal(saved.take([0]), vectors.take([0])) and saved.about["scaled"] is True
    assert EntityVectors.of(["a"], [[3, 4]], scale=False).take([0]).tolist() == [[3, 4]]


def test_a_folder_tells_how_it_was_made_and_has_a_digest_of_its_own(tmp_path: Path) -> None:
    made = EntityVectors.of(names(3), numbers(3), {"way": "triples", "model": "TransE"})
    assert made.digest == ""
    one, same = (EntityVectors.open(made.save(tmp_path / name)) for name in ("one", "same"))
    other = EntityVectors.open(EntityVectors.of(names(3), numbers(3, seed=1)).save(tmp_path / "other"))
    assert one.digest and one.digest == same.digest != other.digest
    assert one.about == {"way": "triples", "model": "TransE", "n_entities": 3, "dim": 3, "scaled": True}


@pytest.mark.parametrize("in_memory", [True, False])
def test_more_entities_stand_behind_the_old_ones(tmp_path: Path, in_memory: bool) -> None:
    old = EntityVectors.of(names(5), numbers(5), scale=False)
    old = old if in_memory else EntityVectors.open(old.save(tmp_path / "old"))
    more = old.with_more(["new", "newer"], numbers(2, seed=1)).with_more(["newest"], [[1, 2, 3]])
    assert len(more) == 8 == more.about["n_entities"] and len(old) == 5 and more.digest == ""
    assert more.rows(["Q7", "new", "newest", "no"]).tolist() == [1, 5, 7, -1]
    assert [more.id_of(row) for row in (0, 4, 6, 7)] == ["Q0", "Q28", "newer", "newest"]
    expected = np.concatenate([numbers(5), numbers(2, seed=1), [[1, 2, 3]]])
    assert np.array_equal(more.take([7, 0, 5, 6, 4]), expected[[7, 0, 5, 6, 4]].astype(np.float32))
    again = EntityVectors.open(more.save(tmp_path / "more"))
    assert np.array_equal(again.take(np.arange(8)), more.take(np.arange(8))) and again.id_of(7) == "newest"


def test_new_rows_are_scaled_as_the_old_ones_were(tmp_path: Path) -> None:
    scaled = EntityVectors.of(["a"], [[3, 4]]).with_more(["b"], [[0, 9]])
    assert np.allclose(scaled.take([1]), [[0, np.sqrt(2)]])
    kept = EntityVectors.of(["a"], [[3, 4]], scale=False).with_more(["b"], [[0, 9]])
    assert kept.take([1]).tolist() == [[0, 9]] and kept.about["scaled"] is False


def test_more_vectors_may_replace_the_folder_they_grew_from(tmp_path: Path) -> None:
    EntityVectors.of(names(5), numbers(5)).save(tmp_path / "v")
    EntityVectors.open(tmp_path / "v").with_more(["new"], numbers(1, seed=1)).save(tmp_path / "v")
    assert EntityVectors.open(tmp_path / "v").rows(["Q0", "new"]).tolist() == [0, 5]


def test_new_entities_that_are_known_or_have_another_dimension_are_refused() -> None:
    vectors = EntityVectors.of(names(3), numbers(3))
    with pytest.raises(InputError, match="1 of 2 new entities have a vector already; the first is 'Q7'"):
        vectors.with_more(["new", "Q7"], numbers(2))
    with pytest.raises(InputError, match="5 numbers each, the old ones 3"):
        vectors.with_more(["new"], numbers(1, dim=5))


@pytest.mark.parametrize(
    ("ids", "vectors", "said"),
    [
        (["a", "b", "a"], numbers(3), "Row 3: 'a' has a vector already"),
        (["a", " "], numbers(2), "Row 2: an entity has a blank id"),
        (["a", "b"], [[1, 2], [1, np.nan]], "Row 2: the vector of 'b' holds nan"),
        (["a"], [[1, np.inf]], "holds inf"),
        (["a"], [[1, 1e300]], "holds 1e\\+300, which float32 cannot hold"),
        (["a", "b"], numbers(3), r"2 entities came with float32 vectors of the shape \(3, 3\)"),
        (["a"], [1.0, 2.0], "one row of real numbers per entity"),
        (["a"], [[1j]], "complex128"),
        (["a", "b"], [[1, 2], [1]], "not all of the same length"),
        ([], np.zeros((0, 3)), "not one entity"),
        (["a\0b"], [[1.0]], "null character"),
    ],
)
def test_what_cannot_be_kept_is_refused(ids: list[str], vectors: object, said: str) -> None:
    with pytest.raises((InputError, SourceError), match=said):
        EntityVectors.of(ids, vectors)  # type: ignore[arg-type]


def test_batches_of_different_dimensions_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    batches = [VectorBatch(["a"], numbers(1)), VectorBatch(["b"], numbers(1, dim=4), "v.txt", [9], "line")]
    with pytest.raises(InputError, match=r"v\.txt, line 9: vectors of 4 numbers behind others of 3"):
        write_vectors(batches, tmp_path / "v", {})
    assert not list(tmp_path.iterdir())


def test_a_damaged_folder_is_an_error_that_names_the_file(tmp_path: Path, stored: EntityVectors) -> None:
    path = tmp_path / "v" / "vectors.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    vectors = EntityVectors.open(tmp_path / "v")
    assert np.array_equal(vectors.take([0]), numbers(1000, 40)[:1])  # its block is whole
    with pytest.raises(SourceError, match=r"vectors.npy is damaged"):
        vectors.take([999])
    path.write_bytes(content[:-8])
    with pytest.raises(SourceError, match=r"vectors.npy is damaged"):
        EntityVectors.open(tmp_path / "v")
    with pytest.raises(SourceError, match="no vectors folder"):
        EntityVectors.open(tmp_path / "nothing")


def test_another_process_opens_the_folder_itself(stored: EntityVectors) -> None:
    sent = pickle.dumps(stored)
    more = pickle.dumps(stored.with_more(["new"], numbers(1, dim=40, seed=1)))
    assert len(sent) < 1000 and len(more) < 10_000  # not the 160,000 bytes of the vectors
    assert np.array_equal(pickle.loads(sent).take([5]), stored.take([5]))
    assert pickle.loads(more).rows(["Q7", "new"]).tolist() == [1, 1000]


def test_the_nearest_entities_point_the_same_way() -> None:
    vectors = EntityVectors.of(list("abcd"), [[1, 0], [2, 0.1], [0, 1], [0, 0]], scale=False)
    assert [id for id, _ in vectors.nearest(0)] == ["b", "c", "d"]
    assert vectors.nearest(0, 1)[0][1] == pytest.approx(2 / np.hypot(2, 0.1))
