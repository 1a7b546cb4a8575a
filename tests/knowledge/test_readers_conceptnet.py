"""ConceptNet: assertion dumps by language, with scaled weights, and the English form of the asset."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from infuser.errors import InputError
from infuser.knowledge.facts import ENTITIES, TRIPLES
from infuser.knowledge.readers import read_facts
from infuser.knowledge.readers.conceptnet import find_subset, read_conceptnet, read_conceptnet_subset
from infuser.tables.skipped import Skipped


def assertion(relation: str, start: str, end: str, weight: object = 1.0) -> str:
    about = json.dumps({"dataset": "/d/x", "sources": [{"weight_of": "nothing"}], "weight": weight})
    return f"/a/[{relation}/,{start}/,{end}/]\t{relation}\t{start}\t{end}\t{about}"


LINES = [
    assertion("/r/IsA", "/c/en/dog/n", "/c/en/animal"),
    assertion("/r/IsA", "/c/fr/chien", "/c/en/animal"),
    assertion("/r/PartOf", "/c/en/ice_cream/n/wn/food", "/c/en/meal", 3.464),
    assertion("/r/ExternalURL", "/c/en/meal", "http://example.org/meal"),
    "cut off",
    "",
    assertion("IsA", "/c/en/a", "/c/en/b"),
    assertion("/r/IsA", "/c/en/a", "/c/en/b", "much"),
    assertion("/r/dbpedia/genre", "/c/en/a", "/c/en/b", 0.25),
    assertion("/r/IsA", "/c/en/a", "/c/en/b", 0),
]


@pytest.fixture
def dump(tmp_path) -> Path:
    path = tmp_path / "conceptnet-assertions-5.7.0.csv.gz"
    path.write_bytes(gzip.compress("\n".join(LINES).encode()))
    return path


def rows(batches, schema) -> list[tuple]:
    return [tuple(row.values()) for batch in batches if batch.schema == schema for row in batch.to_pylist()]


def test_assertions_of_one_language_become_weighted_triples_with_labels(dump):
    skipped = Skipped()
    batches = list(read_facts(dump, skipped))
    for batch in batches:
        batch.validate(full=True)
    assert rows(batches, TRIPLES) == [
        ("/c/en/dog", "IsA", "/c/en/animal", 0.5),
        ("/c/en/ice_cream", "PartOf", "/c/en/meal", 1.0),
        ("/c/en/a", "dbpedia/genre", "/c/en/b", 0.125),
    ]
    labels = {row[0]: row[1] for row in rows(batches, ENTITIES)}
    assert labels["/c/en/ice_cream"] == "ice cream" and len(labels) == 6
    assert skipped.n == 4
    numbers = [said.split(", line ")[1].split(":")[0] for said in skipped.first]
    assert numbers == ["5", "7", "8", "10"]


def test_other_languages_or_all_may_be_asked_for(dump):
    assert len(rows(read_conceptnet(dump, Skipped(), language=""), TRIPLES)) == 4
    assert rows(read_conceptnet(dump, Skipped(), language="fr"), TRIPLES) == []


def test_a_line_that_is_not_utf8_is_told(tmp_path):
    path = tmp_path / "a.csv"
    good = assertion("/r/IsA", "/c/en/dog", "/c/en/animal").encode()
    path.write_bytes(good + b"\n" + good.replace(b"dog", b"d\xffg") + b"\n")
    skipped = Skipped()
    assert len(rows(read_conceptnet(path, skipped), TRIPLES)) == 1
    assert skipped.n == 1 and "line 2: is not UTF-8 in column 'start'" in skipped.first[0]


def test_the_form_of_the_asset_is_in_lower_case_again(tmp_path):
    path = tmp_path / "conceptnet-assertions-5.6.0-subset.ndjson"
    path.write_text('{"rel":"AtLocation","start":"10 Downing Street","end":"City of Westminster"}\nbroken\n')
    skipped = Skipped()
    batches = list(read_conceptnet_subset(find_subset(tmp_path), skipped))
    assert rows(batches, TRIPLES) == [("10 downing street", "AtLocation", "city of westminster", 1.0)]
    assert [row[:2] for row in rows(batches, ENTITIES)] == [
        ("10 downing street", "10 downing street"),
        ("city of westminster", "city of westminster"),
    ]
    assert skipped.n == 1 and "line 2" in skipped.first[0]
    path.unlink()
    with pytest.raises(InputError, match="infuser assets fetch conceptnet"):
        find_subset(tmp_path)


def test_a_concept_with_a_null_character_is_told(tmp_path):
    path = tmp_path / "conceptnet-assertions-5.7.0.csv"
    path.write_text("\n".join([assertion("/r/IsA", "/c/en/do\0g", "/c/en/animal"), LINES[0]]))
    skipped = Skipped()
    found = list(read_conceptnet(path, skipped))
    assert sum(batch.num_rows for batch in found if batch.schema == TRIPLES) == 1
    assert skipped.n == 1 and "line 1: the concept holds a null character" in skipped.first[0]
