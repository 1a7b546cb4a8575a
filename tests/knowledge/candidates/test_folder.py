from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from infuser.errors import InputError, SourceError
from infuser.knowledge.candidates.mention_rule import MentionRule
from infuser.knowledge.candidates.store import CandidateStore, MentionFinder, build_candidates, mentions_of
from infuser.knowledge.facts import pack_mentions

CITIES: dict[str, dict[str, float]] = {
    "Bern": {"Q70": 90, "Q1029394": 10},
    "bern": {"Q9": 5},
    "New York": {"Q60": 60, "Q1384": 40},
    "New York Times": {"Q9684": 30},
    "Zürich": {"Q72": 7},
}


def test_a_folder_answers_like_the_store_it_was_saved_from(tmp_path: Path) -> None:
    text = "bern Bern BERN New York Times zurich"
    store = build_candidates(mentions_of(CITIES))
    opened = CandidateStore.open(store.save(tmp_path / "cands"))
    assert MentionFinder(opened, MentionRule()).find([text]) == MentionFinder(store, MentionRule()).find([text])
    assert (len(opened), len(opened.ids), opened.n_rows) == (5, 7, 7)
    assert opened.digest and not store.digest


def test_the_same_rows_in_any_order_make_the_same_folder(tmp_path: Path) -> None:
    rows = [(mention, entity, count) for mention, of in CITIES.items() for entity, count in of.items()]
    one = build_candidates(pack_mentions(rows)).save(tmp_path / "one")
    two = build_candidates([*pack_mentions(rows[4:]), *pack_mentions(rows[:4])]).save(tmp_path / "two")
    assert CandidateStore.open(one).digest == CandidateStore.open(two).digest
    for file in one.iterdir():
        assert file.read_bytes() == (two / file.name).read_bytes()


def test_nothing_known_finds_nothing(tmp_path: Path) -> None:
    store = CandidateStore.open(build_candidates([]).save(tmp_path / "none"))
    assert MentionFinder(store, MentionRule()).find(["Bern"]) == [[]]


@pytest.mark.parametrize("count", [0.0, -1.0, float("nan"), float("inf")])
def test_a_count_that_is_none_is_refused_with_its_row(count: float) -> None:
    with pytest.raises(InputError, match="'mention': 'Bern', 'entity': 'Q2'"):
        build_candidates(pack_mentions([("Aare", "Q1", 1), ("Bern", "Q2", count)]))


@pytest.mark.parametrize("row", [(" ", "Q1", 1), ("Bern", "", 1), ("B\0rn", "Q1", 1)])
def test_an_empty_name_is_refused(row: tuple[str, str, float]) -> None:
    with pytest.raises(InputError, match="empty or holds a null"):
        build_candidates(pack_mentions([row]))


def test_whole_numbers_are_counts_too() -> None:
    batch = pa.RecordBatch.from_pydict({"mention": ["Bern"], "entity": ["Q70"], "count": pa.array([3], pa.int64())})
    assert build_candidates([batch]).n_rows == 1


def test_a_flipped_bit_is_an_error_that_names_the_file_never_a_wrong_answer(tmp_path: Path) -> None:
    chance = random.Random(0)
    known = {
        f"name {number}": {f"Q{number % 70}": 1.0 + number % 5, f"Q{number % 11 + 70}": 2.0} for number in range(300)
    }
    folder = build_candidates(mentions_of(known)).save(tmp_path / "cands")
    texts = [" and ".join(known), "name 7 of name 299"]
    right = MentionFinder(CandidateStore.open(folder), MentionRule()).find(texts)
    said: list[bool] = []
    for number in range(60):
        broken = shutil.copytree(folder, tmp_path / f"broken{number}")
        file = chance.choice(sorted(broken.iterdir()))
        content = bytearray(file.read_bytes())
        place = chance.randrange(len(content))
        content[place] ^= 1 << chance.randrange(8)
        file.write_bytes(content)
        try:
            answer = MentionFinder(CandidateStore.open(broken), MentionRule()).find(texts)
            assert answer == right
        except SourceError as error:
            said.append(str(broken) in str(error))
        shutil.rmtree(broken)
    assert len(said) > 50 and all(said)


def test_a_cut_or_missing_file_is_named(tmp_path: Path) -> None:
    folder = build_candidates(mentions_of(CITIES)).save(tmp_path / "cands")
    (folder / "counts.npy").write_bytes((folder / "counts.npy").read_bytes()[:-1])
    with pytest.raises(SourceError, match=r"counts\.npy"):
        CandidateStore.open(folder)
    (folder / "counts.npy").unlink()
    with pytest.raises(SourceError, match=r"counts\.npy"):
        CandidateStore.open(folder)
