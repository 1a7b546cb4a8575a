from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from infuser.errors import SourceError
from infuser.knowledge.candidates.store import build_candidates, mentions_of
from infuser.sources.candidates import Candidates
from infuser.sources.storage import load_source, save_source
from infuser.types import Annotations, Candidate, Span

KNOWN = {"Bern": {"Q70": 3, "Q1": 1}, "Aare": {"Q2": 1}, "New York Times": {"Q9684": 1}, "New York": {"Q60": 1}}
TEXT = "Bern lies on the AARE; it does not read the New York Times."


def build(folder: Path, known: dict[str, dict[str, int]]) -> Path:
    return build_candidates(mentions_of(known)).save(folder)


def test_a_mention_is_a_span_with_its_candidates_and_no_links() -> None:
    [found] = Candidates(KNOWN).annotate([TEXT[:21]])
    assert found == Annotations(
        TEXT[:21],
        (Span(0, 4, "mention", "Q70"), Span(17, 21, "mention", "Q2")),
        candidates=((Candidate("Q70", 0.75), Candidate("Q1", 0.25)), (Candidate("Q2", 1.0),)),
    )


def test_every_span_has_candidates_and_the_first_is_its_id() -> None:
    for found in Candidates(KNOWN).annotate([TEXT, "", "nothing"]):
        assert len(found.spans) == len(found.candidates)
        assert [span.id for span in found.spans] == [candidates[0].id for candidates in found.candidates]


def test_the_settings_reach_the_rule() -> None:
    texts = [TEXT]
    assert [len(found.spans) for found in Candidates(KNOWN).annotate(texts)] == [4]
    assert [len(found.spans) for found in Candidates(KNOWN, overlaps="longest").annotate(texts)] == [3]
    assert [len(found.spans) for found in Candidates(KNOWN, fold_case=False).annotate(texts)] == [3]
    assert [len(found.spans) for found in Candidates(KNOWN, max_words=1).annotate(texts)] == [2]
    assert Candidates(KNOWN, n_candidates=1).annotate(texts)[0].candidates[0] == (Candidate("Q70", 1.0),)
    assert [len(found.spans) for found in Candidates(KNOWN, stop_words=["bern"]).annotate(texts)] == [3]


def test_a_folder_answers_like_a_mapping(tmp_path: Path) -> None:
    folder = build(tmp_path / "cands", KNOWN)
    assert Candidates(folder).annotate([TEXT]) == Candidates(KNOWN).annotate([TEXT])
    assert Candidates(str(folder)) == Candidates(folder)


def test_a_saved_source_with_a_folder_keeps_its_settings(tmp_path: Path) -> None:
    source = Candidates(build(tmp_path / "cands", KNOWN), max_words=3, stop_words=("aare",))
    record = json.loads(json.dumps(save_source(source, tmp_path)))
    assert load_source(record, tmp_path) == source


def test_a_folder_that_changed_or_is_gone_is_told_when_the_source_is_loaded(tmp_path: Path) -> None:
    folder = build(tmp_path / "cands", KNOWN)
    record = save_source(Candidates(folder), tmp_path)
    build(folder, {"Bern": {"Q1": 9}})
    with pytest.raises(SourceError, match="holds something else now"):
        load_source(record, tmp_path)
    shutil.rmtree(folder)
    with pytest.raises(SourceError, match="no candidates folder"):
        load_source(record, tmp_path)


def test_a_mention_called_like_a_setting_survives_saving(tmp_path: Path) -> None:
    source = Candidates({"digest": {"Q1": 1}, "mentions": {"Q2": 0.5}})
    record = json.loads(json.dumps(save_source(source, tmp_path)))
    assert load_source(record, tmp_path) == source


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({" ": {"Q1": 1}}, "' '"),
        ({"Bern": {}}, "'Bern'"),
        ({"Bern": "Q70"}, "entity id: count"),
        ({"Bern": {"": 1}}, "''"),
        ({"Bern": {"Q70": 0}}, "above 0"),
        ({"Bern": {"Q70": float("nan")}}, "above 0"),
        ({"Bern": {"Q70": "many"}}, "'many'"),
        (["Bern"], "list"),
    ],
)
def test_mentions_that_cannot_be_are_refused(known: object, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        Candidates(known)  # type: ignore[arg-type]


def test_a_folder_that_is_none_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no candidates folder"):
        Candidates(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="no candidates folder"):
        Candidates(tmp_path / "empty")
