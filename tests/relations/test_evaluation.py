"""Scores of an extraction under any thresholds, the best thresholds, and what the candidates allow."""

from __future__ import annotations

import pytest
from relations.small_relations import THINGS, small_data, small_encoder

from infuser import Entities
from infuser.errors import InputError
from infuser.relations.classifier import Thresholds
from infuser.relations.evaluation import ExtractionTest, unlearned_relations
from infuser.relations.examples import NO_RELATION, RelationText, Triple
from infuser.relations.extraction import extract
from infuser.relations.model import AttentionRelations
from infuser.relations.saving import load_sources, save_with_sources
from infuser.relations.scores import MATCHES, score_relations
from infuser.types import Span

TRAIN, DEV, TEST = small_data()
NAMES = [Entities(dict.fromkeys(THINGS, "thing"))]
NOWHERE, EVERYWHERE = Thresholds(0.999, 0.999), Thresholds(0.0, 0.0)


@pytest.fixture(scope="module")
def fitted():
    return AttentionRelations(small_encoder(), negatives=2).fit(TRAIN)


def test_the_scores_are_those_of_an_extraction_with_the_same_thresholds(fitted):
    test = ExtractionTest(fitted, TEST, NAMES)
    found = [[one.triple for one in of_text] for of_text in extract(fitted, TEST, NAMES)]
    assert test.triples() == found
    for match in MATCHES:
        assert test.scores(match).to_json() == score_relations(TEST, found, match=match).to_json()
    assert test.scores("strict", NOWHERE).total.found < test.scores().total.found
    assert test.scores("strict", EVERYWHERE).total.found > test.scores().total.found


def test_the_best_thresholds_are_no_worse_than_others(fitted):
    test = ExtractionTest(fitted, DEV, NAMES)
    best = test.best_thresholds()
    assert best is not None
    others = [Thresholds(), EVERYWHERE, Thresholds(0.5, 0.5)]
    assert all(test.scores("strict", best).total.f1 >= test.scores("strict", one).total.f1 for one in others)
    twin = AttentionRelations(fitted.encoder, negatives=2).fit(TRAIN)
    assert twin.tune(DEV, NAMES).total == test.scores("strict", best).total and twin.thresholds_ == best


def test_without_a_right_proposal_there_are_no_best_thresholds(fitted):
    unrelated = [RelationText("the river and a lake", (Triple(Span(4, 9), Span(16, 20), "P9"),))]
    assert ExtractionTest(fitted, unrelated).best_thresholds() is None


def test_the_ceiling_is_the_share_of_gold_pairs_among_the_candidates(fitted):
    whole = ExtractionTest(fitted, TEST, NAMES)
    assert whole.ceiling() == whole.ceiling("lenient") == 1.0
    assert whole.every_pair.total.recall == 1.0 > whole.every_pair.total.precision
    few = ExtractionTest(fitted, TEST, [Entities({"river": "thing", "lake": "thing"})])
    both = sum({"river", "lake"} <= {*text.text.split()[1:2], text.text.split()[-4]} for text in TEST)
    assert few.ceiling() == pytest.approx(both / len(TEST))
    assert few.scores("strict", EVERYWHERE).total.recall <= few.ceiling()


def test_numbers_for_a_file_hold_all_matches(fitted):
    numbers = ExtractionTest(fitted, TEST[:6], NAMES).to_json(["strict", "lenient"])
    assert [*numbers["scores"]] == [*numbers["ceilings"]] == ["strict", "lenient"]
    assert numbers["every_candidate_pair"]["match"] == "lenient"


def test_relations_that_were_not_learned_are_counted(fitted):
    spans = Span(4, 9), Span(16, 20)
    strange = RelationText("the river and a lake", (Triple(*spans, "P9"), Triple(*spans, NO_RELATION)))
    assert unlearned_relations(fitted, [*TEST, strange, strange]) == {"P9": 2}
    with pytest.raises(InputError, match=r"learned none of the relations.*P9.*P1, P2"):
        unlearned_relations(fitted, [strange])


def test_sources_are_saved_beside_a_model_and_loaded_again(fitted, tmp_path):
    assert save_with_sources(fitted, NAMES, tmp_path / "rel") == []
    [names] = load_sources(tmp_path / "rel")
    assert names.annotate(["the river"])[0].spans == NAMES[0].annotate(["the river"])[0].spans
    fitted.save(tmp_path / "bare")
    assert load_sources(tmp_path / "bare") == []
