from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser import __version__
from infuser.errors import InputError
from infuser.knowledge.entity_scores import (
    EntityScore,
    ScoredRelation,
    digest_of_texts,
    open_scores,
    read_relation_scores,
    read_scores,
    write_scores,
)

ABOUT = {"checkpoint": "tiny", "measure": "masked-probability", "texts": digest_of_texts(["a", "b"])}
KEYS = st.text(st.characters(), max_size=8)  # lone surrogates too
SCORES = st.lists(
    st.builds(EntityScore, KEYS, st.floats(0, 1), st.integers(0, 9), st.sampled_from(["masked-hits", "type-probe"])),
    max_size=6,
    unique_by=lambda one: one.key,
)
RELATIONS = st.lists(
    st.builds(ScoredRelation, KEYS, st.floats(0, 1), st.integers(0, 9)), max_size=3, unique_by=lambda one: one.relation
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scores")


@settings(max_examples=25)
@given(SCORES, RELATIONS)
def test_what_is_written_is_read_back_sorted_by_key(
    folder: Path, scores: list[EntityScore], relations: list[ScoredRelation]
) -> None:
    path = write_scores(folder / "scores.json", scores, ABOUT, relations)
    found = open_scores(path)
    assert found.scores == sorted(scores, key=lambda one: one.key)
    assert found.relations == sorted(relations, key=lambda one: one.relation)
    assert read_relation_scores(path) == {one.relation: one.score for one in relations}
    assert ("relations" in json.loads(path.read_bytes())) == bool(relations)  # what older files look like stays
    assert {key: found.about[key] for key in ABOUT} == ABOUT
    assert found.about["versions"]["infuser"] == __version__ and "torch" in found.about["versions"]
    assert read_scores(path) == {one.key: one.score for one in scores}


@settings(max_examples=50)
@given(st.data())
def test_a_damaged_file_is_one_clear_error(folder: Path, data: st.DataObject) -> None:
    path = write_scores(folder / "whole.json", [EntityScore("Bern", 0.25, 3, "m"), EntityScore("Q7", 1, 1, "m")], ABOUT)
    whole = path.read_bytes().rstrip()
    damaged = folder / "damaged.json"
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged.write_bytes(whole[:at])
    with pytest.raises(InputError, match=r"damaged\.json"):
        read_scores(damaged)
    damaged.write_bytes(whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + 1 :])
    with suppress(InputError):  # and no other error; another number or letter of a key cannot be seen
        found = read_scores(damaged)
        assert len(found) == 2 and all(0 <= score <= 1 for score in found.values())


ROW = {"key": "a", "score": 0.5, "n_mentions": 1, "how": "m"}
TIE = {"relation": "P36", "score": 0.5, "n_triples": 1}
HEAD = {"kind": "infuser scores", "version": 1, "about": {}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "no file of scores"),
        ({"a": 0.5}, "no file of scores"),
        ({**HEAD, "version": 2, "scores": []}, "version 2"),
        (HEAD, "damaged: 'scores'"),
        ({**HEAD, "about": None, "scores": []}, "measured with"),
        ({**HEAD, "scores": [ROW, ROW]}, "two scores"),
        ({**HEAD, "scores": [{**ROW, "score": float("nan")}]}, "between 0 and 1"),
        ({**HEAD, "scores": [{**ROW, "score": True}]}, "between 0 and 1"),
        ({**HEAD, "scores": [{**ROW, "key": 3}]}, "must be strings"),
        ({**HEAD, "scores": [{**ROW, "n_mentions": -1}]}, "mentions"),
        ({**HEAD, "scores": [3]}, "damaged"),
        ({**HEAD, "scores": [], "relations": [TIE, TIE]}, "a relation has two scores"),
        ({**HEAD, "scores": [], "relations": [{**TIE, "score": 2}]}, "between 0 and 1"),
        ({**HEAD, "scores": [], "relations": [{**TIE, "relation": None}]}, "must be a string"),
        ({**HEAD, "scores": [], "relations": [{**TIE, "n_triples": -1}]}, "triples"),
        ({**HEAD, "scores": [], "relations": None}, "damaged"),
    ],
)
def test_a_file_of_another_form_says_what_is_wrong(tmp_path: Path, content: Any, said: str) -> None:
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read_scores(path)


def test_what_cannot_be_written_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    path = write_scores(tmp_path / "scores.json", [EntityScore("a", 0.5, 1, "m")], ABOUT)
    before = path.read_bytes()
    with pytest.raises(InputError, match="two scores; the first is 'b'"):
        write_scores(path, [EntityScore("b", 0.5, 1, "m")] * 2, ABOUT)
    with pytest.raises(InputError, match="1 relations have two scores; the first is 'P36'"):
        write_scores(path, [], ABOUT, [ScoredRelation("P36", 0.5, 1)] * 2)
    with pytest.raises(InputError, match="cannot be written as JSON"):
        write_scores(path, [], {"model": object()})
    with pytest.raises(InputError, match=r"'a' is 1\.5"):
        EntityScore("a", 1.5, 1, "m")
    assert path.read_bytes() == before
    with pytest.raises(InputError, match="nowhere"):
        read_scores(tmp_path / "nowhere")


def test_texts_have_the_same_digest_in_any_order() -> None:
    assert digest_of_texts(["a", "b", "b"]) == digest_of_texts(["b", "a", "b"])
    assert len({digest_of_texts(texts) for texts in ([], ["a"], ["ab"], ["a", "b"], ["a", "b", "b"])}) == 5


def test_scores_are_read_without_torch() -> None:
    code = "import sys, infuser.knowledge.entity_scores, infuser.sources.known; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
