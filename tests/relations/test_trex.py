"""T-REx gives strings: they are found as whole words, apart from each other, and as near together as they stand."""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.relations.examples import RelationText
from infuser.relations.readers import read_relations
from infuser.relations.readers.common import closeness, nearest_places
from infuser.tables.skipped import Skipped

DATA = Path(__file__).parents[1] / "data" / "relations"
TREX = Path(__file__).parents[3] / "shared" / "data" / "relations" / "trex-95"


def read_one(folder: Path, text: str, target: object, skipped: Skipped | None = None) -> RelationText:
    path = folder / "trex.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "target"), (text, target)])
    [read] = read_relations(path, skipped=skipped or Skipped(strict=True))
    return read


def starts(text: RelationText) -> list[tuple[int, ...]]:
    return [tuple(span.start for span in (one.head, one.tail, one.trigger) if span) for one in text.triples]


def test_strings_become_places_and_every_place_of_an_entity_a_span():
    bern, thun, aare = read_relations(DATA / "trex.csv", skipped=Skipped(strict=True))
    assert starts(bern) == [(23, 0, 12)]
    assert [(span.start, span.id) for span in bern.spans] == [(0, "Bern"), (23, "Switzerland")]
    assert starts(thun) == [(42, 57, 50)]  # the last of three
    assert [span.start for span in thun.spans if span.id == "Thun"] == [5, 20, 42]
    assert starts(aare) == [(45, 72, 55), (88, 103, 93)]  # each triple has its own Rhine
    assert [one.tail.id for one in aare.triples] == ["Rhine", "Rhine"]


def test_whole_words_come_first_and_parts_of_words_only_where_there_are_none(tmp_path: Path):
    assert starts(read_one(tmp_path, "He is here: he, Tom, is king", [("he", "king", "is", "P1")])) == [(12, 24, 21)]
    assert starts(read_one(tmp_path, "The Bernese of Thun", [("Bern", "Thun", "of", "P1")])) == [(4, 15, 12)]


def test_entity_inside_a_longer_one_counts_only_where_it_has_no_place_of_its_own(tmp_path: Path):
    text = "A town of New Mexico borders on Old Mexico, far from Mexico"
    target = [("New Mexico", "town", "of", "P1"), ("Mexico", "town", "borders", "P2")]
    read = read_one(tmp_path, text, target)
    assert starts(read) == [(10, 2, 7), (36, 2, 21)]
    assert [span.start for span in read.spans if span.id == "Mexico"] == [36, 53]
    only = read_one(tmp_path, "The University of Turin opened", [("University of Turin", "Turin", "opened", "P1")])
    assert starts(only) == [(4, 18, 24)]  # overlapping, as it stands


def test_triples_whose_strings_are_not_in_the_text_are_told_and_the_others_kept(tmp_path: Path):
    skipped = Skipped()
    target = [
        ("Bern", "Aare", "on", "P1"),
        ("Bern", "Rhine", "on", "P1"),
        ("Bern", "Aare", "at", "P1"),
        ("Bern", "", "on", "P1"),
        ("Bern", "Aare"),
        ("Bern", "Aare", "", None),
    ]
    read = read_one(tmp_path, "Bern lies on the Aare.", target, skipped)
    assert starts(read) == [(0, 17, 10)]
    assert skipped.n == 5
    assert "trex.csv, line 2: not in the text: ['Rhine']" in "\n".join(skipped.first)
    assert starts(read_one(tmp_path, "Bern lies on the Aare.", [("Bern", "Aare", " ", "P1")])) == [(0, 17)]


@pytest.mark.parametrize("target", ["", "[('a',", "__import__('os')", "{'a': 1}", "[" * 5000, "'a'"])
def test_target_that_is_no_list_is_told_with_its_line(target: str, tmp_path: Path):
    path = tmp_path / "trex.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "target"), ("x", "[]"), ("y", target), ("z", "[]")])
    skipped = Skipped()
    assert [text.text for text in read_relations(path, skipped=skipped)] == ["x", "z"]
    assert skipped.n == 1
    assert f"{path}, line 3: the target is no Python list" in skipped.first[0]


LENGTHS = st.integers(1, 4)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), n_parts=st.integers(2, 3))
def test_nearest_places_are_the_best_of_all_choices(data: st.DataObject, n_parts: int):
    parts = []
    for _ in range(n_parts):
        length = data.draw(LENGTHS)
        begins = data.draw(st.lists(st.integers(0, 25), min_size=1, max_size=6, unique=True))
        parts.append([(start, start + length) for start in sorted(begins)])
    assert nearest_places(parts) == min(product(*parts), key=closeness)


@settings(max_examples=100, deadline=None)
@given(words=st.lists(st.sampled_from(["an", "Anna", "Ann", "an Ann", "is"]), min_size=3, max_size=12))
def test_triples_stand_where_their_strings_stand(words: list[str], tmp_path_factory: pytest.TempPathFactory):
    text = " ".join([*words, "an", "Ann", "is"])
    target = (
        [("an", "Ann", "is", "P1"), ("an Ann", "is", "", "P2")] if "an Ann" in text else [("an", "Ann", "is", "P1")]
    )
    read = read_one(tmp_path_factory.mktemp("trex"), text, target)
    assert len(read.triples) == len(target)
    for triple, (head, tail, *_) in zip(read.triples, target, strict=True):
        assert text[triple.head.start : triple.head.end] == head
        assert text[triple.tail.start : triple.tail.end] == tail
        assert {triple.head, triple.tail} <= set(read.spans)


def test_strings_that_stand_everywhere_cost_little(tmp_path: Path):
    begins = perf_counter()
    read = read_one(tmp_path, "a b c " * 2000, [("a", "b", "c", "P1"), ("a b", "a", "b c", "P2")])
    assert starts(read)[0] == (0, 2, 4)
    assert perf_counter() - begins < 5  # all choices are 8,000,000,000


@pytest.mark.slow
@pytest.mark.shared
def test_the_authors_split_is_read_whole():
    if not TREX.is_dir():
        pytest.skip(f"no data at {TREX}")
    counts = {}
    for name in ("train", "valid", "test"):
        skipped = Skipped()
        texts = read_relations(TREX / f"{name}.csv", skipped=skipped)
        counts[name] = len(texts), sum(len(text.triples) for text in texts), skipped.n
        for text in texts:
            for one in text.triples:
                assert text.text[one.head.start : one.head.end] == one.head.id
                assert text.text[one.tail.start : one.tail.end] == one.tail.id
    assert counts == {"train": (9500, 12447, 0), "valid": (4750, 6347, 0), "test": (4750, 6215, 4)}
