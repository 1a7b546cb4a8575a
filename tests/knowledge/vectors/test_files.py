from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from infuser.errors import InputError
from infuser.knowledge.vectors.files import build_from_file, read_ids, read_vectors
from infuser.knowledge.vectors.store import EntityVectors

THREE = [("Q70", [0.5, -1.0, 2.0]), ("Aare", [1e-3, 0.0, 7.0]), ("Zürich", [3.0, 4.0, -5.5])]


def text_of(rows: list[tuple[str, list[float]]], between: str = " ") -> str:
    return "".join(f"{between.join([id, *map(repr, vector)])}\n" for id, vector in rows)


def write(path: Path, text: str) -> Path:
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path: Path, **settings: object) -> dict[str, list[float]]:
    batches = list(read_vectors(path, **settings))  # type: ignore[arg-type]
    return {id: row for batch in batches for id, row in zip(batch.ids, batch.vectors.tolist(), strict=True)}


def close(found: dict[str, list[float]]) -> bool:
    return list(found) == [id for id, _ in THREE] and np.allclose(list(found.values()), [row for _, row in THREE])


def error_of(path: Path, **settings: object) -> str:
    with pytest.raises(InputError) as caught:
        build_from_file(path, path.parent / "out", **settings)  # type: ignore[arg-type]
    assert not (path.parent / "out").exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("glove.txt", text_of(THREE)),
        ("glove.txt.gz", text_of(THREE)),
        ("word2vec.txt", "3 3\n" + text_of(THREE)),
        ("with-space-at-the-end.vec", "3 3\n" + text_of(THREE).replace("\n", " \n")),
        ("tabs.tsv", text_of(THREE, "\t")),
        ("tab-then-spaces.txt", text_of(THREE).replace("Q70 ", "Q70\t").replace("Aare ", "Aare\t")),
        ("windows.txt", "\ufeff" + text_of(THREE).replace("\n", "\r\n")),
        ("blank-lines.txt", "\n" + text_of(THREE).replace("\n", "\n\n")),
        ("wide-gaps.txt", text_of(THREE, "   ")),
        ("no-end.txt", text_of(THREE).rstrip("\n")),
    ],
)
def test_text_files_of_all_kinds_give_the_same_vectors(tmp_path: Path, name: str, text: str) -> None:
    assert close(read(write(tmp_path / name, text)))


def test_a_file_becomes_a_folder_that_says_where_it_comes_from(tmp_path: Path) -> None:
    vectors = build_from_file(write(tmp_path / "v.txt.gz", text_of(THREE)), tmp_path / "out", scale=False)
    assert vectors.rows(["Aare", "Q1"]).tolist() == [1, -1] and vectors.take([2]).tolist() == [[3.0, 4.0, -5.5]]
    assert vectors.about | {"way": "file", "file": "v.txt.gz", "dim": 3, "scaled": False} == vectors.about
    assert np.allclose(
        np.linalg.norm(build_from_file(tmp_path / "v.txt.gz", tmp_path / "out").take([0, 1, 2]), axis=1), 3**0.5
    )
    assert EntityVectors.open(tmp_path / "out").about["scaled"] is True


def test_ids_with_spaces_are_told_by_the_dimension(tmp_path: Path) -> None:
    text = "a 1.0 2.0\nNew York 3.0 4.0\n. . . 5.0 6.0\nWindows 95\t7.0 8.0\n1999 9.0 1.0\n"
    found = read(write(tmp_path / "v.txt", text))
    assert list(found) == ["a", "New York", ". . .", "Windows 95", "1999"]
    assert list(found.values()) == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 1]]


_WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=6)
_IDS = st.lists(_WORDS, min_size=1, max_size=3).map(" ".join)
_NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def _looks_like_a_number(id: str) -> bool:
    try:
        float(id.encode().split()[-1])
    except (ValueError, IndexError):
        return False
    return True


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One place for the files of all examples of a test."""
    return tmp_path_factory.mktemp("examples") / "v.txt"


@settings(max_examples=50)
@given(st.data())
def test_whatever_was_written_is_read_back(file: Path, data: st.DataObject) -> None:
    dim = data.draw(st.integers(1, 4))
    clear = _IDS.filter(lambda id: not _looks_like_a_number(id))
    vector = st.lists(_NUMBERS, min_size=dim, max_size=dim)
    rows = data.draw(st.lists(st.tuples(clear, vector), min_size=1, max_size=6, unique_by=lambda row: row[0]))
    header = data.draw(st.booleans())
    text = (f"{len(rows)} {dim}\n" if header else "") + text_of(rows, data.draw(st.sampled_from([" ", "\t", "  "])))
    found = read(write(file, text))
    assert list(found) == [id for id, _ in rows]
    assert np.array_equal(np.array(list(found.values()), np.float32), np.array([row for _, row in rows], np.float32))


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_no_bytes_end_in_anything_but_vectors_or_an_input_error(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    try:
        lengths = {len(row) for row in read(file).values()}
    except InputError as error:
        assert str(file) in str(error)  # noqa: PT017  # either answer is right
    else:
        assert len(lengths) == 1


def test_many_rows_are_read_in_blocks(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(12_000, 50)).astype(np.float32)
    path = write(tmp_path / "v.txt", "".join(f"Q{i} {' '.join(map(str, row))}\n" for i, row in enumerate(rows)))
    batches = list(read_vectors(path))
    assert len(batches) > 1 and np.array_equal(np.concatenate([batch.vectors for batch in batches]), rows)
    path.write_bytes(path.read_bytes() + b"Q7 " + b"1.0 " * 50 + b"\n")
    assert "line 12001: 'Q7' has a vector already" in error_of(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a 1.0 2.0\nb nan 1.0\n", "line 2: the vector of 'b' holds nan"),
        ("a 1.0 2.0\n\nb 1.0 inf\n", "line 3: the vector of 'b' holds inf"),
        ("a 1.0 2.0\nb 1e99 1.0\n", "line 2: the vector of 'b' holds"),
        ("a 1.0 2.0\nb 1.0\n", "line 2: 1 numbers behind 'b', where other rows have 2"),
        ("a 1.0 2.0\nb 1.0 2.0 3.0\n", "line 2: 3 numbers behind 'b', where other rows have 2"),
        ("a 1.0 2.0\nWindows 95 1.0 2.0\n", "put a tab behind the id"),
        ("a\t1.0\t2.0\nb\t1.0\tx\n", "line 2: other things than numbers behind 'b'"),
        ("a 1.0 2.0\nb 1.0 1_0\n", "line 2: 0 numbers"),
        ("2 3\na 1.0 2.0 3.0\nb 1.0 2.0\n", "line 3: 2 numbers behind 'b', where other rows have 3"),
        ("a 1.0\na 2.0\n", "line 2: 'a' has a vector already"),
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("0 5\n", "is empty"),
        ("3 2\na 1.0 2.0\n", "says that it has 3 rows, but it has 1"),
        ("id,v1,v2\n", "line 1: no vector in 'id,v1,v2'"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path / "v.txt", text)
    told = error_of(path)
    assert said in told and str(path) in told


def test_an_id_that_is_not_utf_8_and_a_file_that_is_cut_off_are_named(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(b"a 1.0\nB\xe4r 2.0\n")
    assert "line 2" in error_of(tmp_path / "v.txt") and "UTF-8" in error_of(tmp_path / "v.txt")
    packed = gzip.compress(text_of(THREE).encode())
    (tmp_path / "v.txt.gz").write_bytes(packed[:-9])
    assert "cut off or damaged" in error_of(tmp_path / "v.txt.gz")
    assert "No file at" in error_of(tmp_path / "no.txt")


def test_ernies_files_are_read_by_number(tmp_path: Path) -> None:
    rows = "".join("\t".join(map(repr, row)) + "\t\n" for _, row in THREE)
    path = write(tmp_path / "entity2vec.vec", rows)
    ids = write(tmp_path / "entity2id.txt", "3\nZürich\t2\nQ70\t0\nAare\t1\n")
    assert close(read(path, ids=ids))
    assert close(read(path, ids=write(tmp_path / "plain.txt", "Q70\nAare\nZürich\n")))
    short = write(tmp_path / "short.txt", "Q70\nAare\n")
    assert "holds 3 vectors, but there are 2 ids" in error_of(path, ids=short)
    long = write(tmp_path / "long.txt", "a\nb\nc\nd\n")
    assert "holds 3 vectors, but there are 4 ids" in error_of(path, ids=long)
    assert "no row has the number 1" in error_of(path, ids=write(tmp_path / "gap.txt", "a\t0\nb\t2\nc\t3\n"))


def test_ids_may_be_numbers_or_have_further_columns(tmp_path: Path) -> None:
    assert read_ids(write(tmp_path / "numbers.txt", "2\n7\n9\n")) == ["2", "7", "9"]
    assert read_ids(write(tmp_path / "named.tsv", "Q70\tBern\nQ72\tZürich\n")) == ["Q70", "Q72"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_a_matrix_in_safetensors_is_read_with_ids_of_its_own_or_beside_it(tmp_path: Path, dtype: torch.dtype) -> None:
    matrix = torch.tensor([row for _, row in THREE]).to(dtype)
    with_ids, bare = tmp_path / "with.safetensors", tmp_path / "bare.safetensors"
    save_file({"entities": matrix, "bias": torch.zeros(3)}, with_ids, {"ids": json.dumps([id for id, _ in THREE])})
    save_file({"entities": matrix}, bare)
    expected = dict(zip([id for id, _ in THREE], matrix.float().tolist(), strict=True))
    assert read(with_ids) == expected == read(bare, ids=write(tmp_path / "ids.txt", "Q70\nAare\nZürich"))


def test_a_safetensors_file_that_does_not_tell_enough_says_what_to_add(tmp_path: Path) -> None:
    path = tmp_path / "v.safetensors"
    save_file({"one": torch.zeros(2, 3), "two": torch.ones(2, 4), "whole": torch.zeros(2, 2, dtype=torch.int64)}, path)
    ids = write(tmp_path / "ids.txt", "a\nb\n")
    assert "--tensor" in error_of(path, ids=ids) and "two F32 (2, 4)" in error_of(path, ids=ids)
    assert read(path, ids=ids, tensor="two") == {"a": [1.0] * 4, "b": [1.0] * 4}
    assert "a matrix called 'whole'" in error_of(path, ids=ids, tensor="whole")
    assert "--ids" in error_of(path, tensor="one")
    few = write(tmp_path / "few.txt", "a\n")
    assert "holds 2 vectors, but there are 1 ids" in error_of(path, ids=few, tensor="one")
    save_file({"v": torch.tensor([[1.0], [float("nan")]])}, path)
    assert f"{path}, row 2: the vector of 'b' holds nan" in error_of(path, ids=ids)
    path.write_bytes(b"not a tensor")
    assert "cannot be read as safetensors" in error_of(path, ids=ids)
    assert "is for .safetensors files" in error_of(write(tmp_path / "v.txt", "a 1.0\n"), tensor="one")
