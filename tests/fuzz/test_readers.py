"""Every reader makes a result or one of our errors of any file: one line that names it, no other error, no hang.

Here each reader gets a dozen damaged files, and all that once broke it (tests/data/fuzz). Longer runs:
`python tests/fuzz/long_run.py --seconds 600`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fuzz.damage import damaged, fault_of
from fuzz.readers import DATA, READERS, prepare
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CORPUS = sorted(path for path in (DATA / "fuzz").glob("*/*") if path.is_file())


@pytest.mark.parametrize("name", READERS)
def test_the_sample_can_be_read(name: str, tmp_path: Path) -> None:
    path = prepare(READERS[name], tmp_path / "folder")
    path.write_bytes(READERS[name].sample)
    READERS[name].read(path)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_a_damaged_file_is_read_or_named_in_one_line(name: str, seed: int, tmp_path: Path) -> None:
    path = prepare(READERS[name], tmp_path / "folder")
    path.write_bytes(damaged(READERS[name].sample, random.Random(seed)))
    assert fault_of(READERS[name], path) == ""


@pytest.mark.parametrize("broken", CORPUS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_once_broke_a_reader_does_not_again(broken: Path, tmp_path: Path) -> None:
    reader = READERS[broken.parent.name]
    path = prepare(reader, tmp_path / "folder")
    path.write_bytes(broken.read_bytes())
    assert fault_of(reader, path) == ""


def test_every_folder_of_the_corpus_belongs_to_a_reader() -> None:
    assert {path.parent.name for path in CORPUS} <= set(READERS)
