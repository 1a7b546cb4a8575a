from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infuser.errors import InfuserError
from infuser.knowledge.entity_scores import EntityScore, ScoredRelation, write_scores
from infuser.sources import Entities
from infuser.sources.known import Known
from infuser.types import Annotations, Candidate, Link, Span, Term

SOURCE = Entities.tiny()
TEXT = "Bern lies on the  Aare near New\tYork"
FOUND = Annotations(
    TEXT,
    (Span(0, 4, id="Q70"), Span(18, 22), Span(28, 36, "city"), Span(18, 22, id="Q2")),
    (Link(0, 0), Link(0, 1, 0.5), Link(2, 3, 0.7, "far from"), Link(2, 2)),
    (Term("river", ((1, 0.4), (3, 0.6))), Term("capital", ((0, 1.0),))),
    ((Candidate("Q70", 1.0),), (), (Candidate("Q60", 1.0),), (Candidate("Q2", 1.0),)),
)


def test_what_the_encoder_knows_is_left_out_with_all_that_hangs_on_it() -> None:
    known = Known({"Q70": 0.83, "aare": 0.5, "new york": 0.49, "Bern": 1.0, "Q2": 0.1})
    [kept] = known.select([FOUND], SOURCE)
    assert kept == Annotations(
        TEXT,
        (Span(28, 36, "city"), Span(18, 22, id="Q2")),
        (Link(0, 1, 0.7, "far from"), Link(0, 0)),
        (Term("river", ((1, 0.6),)),),
        ((Candidate("Q60", 1.0),), (Candidate("Q2", 1.0),)),
    )
    assert known.why("Q70") == "the encoder predicts it: 0.83 >= 0.5"
    assert known.why("aare") == "the encoder predicts it: 0.5 >= 0.5"
    assert known.why("new york") is None and known.why("Q2") is None


def test_a_mention_whose_id_has_no_score_goes_by_its_words() -> None:
    known = Known({"bern": 0.9, "aare": 0.8, "Q2": 0.1, "york": 1.0}, relations={"far from": 0.1, "on": 0.9})
    [kept] = known.select([FOUND], SOURCE)
    assert kept.spans == (Span(28, 36, "city"), Span(18, 22, id="Q2"))  # Q2 has a score of its own
    assert known.why("Q70", "bern") == "the encoder predicts it: 0.9 >= 0.5, by the words 'bern'"
    assert known.why("Q70") is None and known.why("Q2", "aare") is None
    assert known.why("aare", "aare") == "the encoder predicts it: 0.8 >= 0.5"
    assert known.scored([FOUND]) == ({"bern", "aare", "Q2"}, {"far from"}) and known.scored([]) == (set(), set())


@pytest.mark.parametrize(("threshold", "n_kept"), [(0.0, 1), (0.3, 2), (0.9, 3), (1.0, 4)])
def test_the_threshold_decides_and_entities_without_a_score_stay(threshold: float, n_kept: int) -> None:
    scores = {"Q70": 0.0, "aare": 0.95, "Q2": 0.6}
    [kept], [none] = (Known(scores, threshold).select([one], SOURCE) for one in (FOUND, Annotations("")))
    assert len(kept.spans) == n_kept and none == Annotations("")


def test_a_file_of_scores_is_read_once_and_travels_inside_the_saved_strategy(tmp_path: Path) -> None:
    path = write_scores(tmp_path / "scores.json", [EntityScore("Q70", 0.83, 4, "masked-probability")], {})
    known = Known(path, threshold=0.8)
    assert Known(str(path), 0.8) == known == Known({"Q70": 0.83}, 0.8)
    path.unlink()
    again = Known.from_json(json.loads(json.dumps(known.to_json())))
    assert again == known and again.select([FOUND], SOURCE) == known.select([FOUND], SOURCE)
    assert [span.id for span in known.select([FOUND], SOURCE)[0].spans] == ["", "", "Q2"]
    assert repr(known) == "Known(threshold=0.8)"


def test_links_of_known_relations_are_left_out_and_their_entities_stay(tmp_path: Path) -> None:
    links = (Link(0, 1, 0.5, "on"), Link(0, 2, 1.0, "far from"), Link(1, 3), Link(2, 3, 0.7, "far from"))
    found = replace(FOUND, links=links)
    known = Known({"Q2": 0.9}, relations={"far from": 0.6, "on": 0.4, "": 0.4})
    [kept] = known.select([found], SOURCE)
    assert kept.spans == FOUND.spans[:3] and kept.links == (Link(0, 1, 0.5, "on"),)
    assert known.why_relation("far from") == "the encoder tells it from others: 0.6 >= 0.5"
    assert known.why_relation("on") is None and known.why_relation("unheard of") is None
    [untouched] = Known({}, relations={"on": 0.4}).select([found], SOURCE)
    assert untouched is found
    rows = [ScoredRelation("far from", 0.6, 3), ScoredRelation("on", 0.4, 1), ScoredRelation("", 0.4, 1)]
    path = write_scores(tmp_path / "scores.json", [EntityScore("Q2", 0.9, 1, "m")], {}, rows)
    assert Known(path) == known and Known(path, relations={}) == Known({"Q2": 0.9})
    again = Known.from_json(json.loads(json.dumps(known.to_json())))
    assert again == known and "relations" not in Known({"Q2": 0.9}).to_json()  # an older infuser reads it


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"scores": {"a": 1.2}}, r"'a' is 1\.2"),
        ({"scores": {"a": float("nan")}}, "between 0 and 1"),
        ({"scores": {"a": "0.5"}}, "between 0 and 1"),
        ({"scores": [("a", 0.5)]}, "given as list"),
        ({"scores": {}, "threshold": 2}, "threshold is 2"),
        ({"scores": {}, "threshold": float("nan")}, "threshold is nan"),
        ({"scores": "nowhere.json"}, r"nowhere\.json"),
        ({"scores": {}, "relations": {"P36": 1.5}}, r"'P36' is 1\.5"),
        ({"scores": {}, "relations": ["P36"]}, "Scores of relations were given as list"),
    ],
)
def test_scores_that_cannot_be_used_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InfuserError, match=said):
        Known(**settings)
