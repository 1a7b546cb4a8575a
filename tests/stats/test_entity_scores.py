"""Entity scores, worked by hand; the numbers of the first test were checked with seqeval 1.2.2."""

from __future__ import annotations

import numpy as np
import pytest

from infuser.errors import InputError
from infuser.stats.entity_scores import entity_counts, mentions_of, score_entities
from infuser.stats.intervals import bootstrap
from infuser.stats.metrics import get_metric

TEXTS = ["Bern and New York", "aspirin in Basel", "nothing here"]
GOLDS = [
    {"text": TEXTS[0], "entities": [[0, 4, "city"], [9, 17, "city"]], "seen": ["bern"]},
    {"text": TEXTS[1], "entities": [[0, 7, "drug"], [11, 16, "city"]], "seen": ["aspirin"]},
    {"text": TEXTS[2], "entities": [], "seen": []},
]
FOUND = [
    [[0, 4, "city", 0.9], [13, 17, "city", 0.6]],  # one right, one with another beginning
    [[0, 7, "city", 0.5], [11, 16, "city", 0.8]],  # one with another type, one right
    [[8, 12, "drug", 0.4]],
]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("entity-precision", 2 / 5),
        ("entity-recall", 2 / 4),
        ("entity-f1", 2 * 2 / (5 + 4)),
        ("entity-f1-seen", 2 * 1 / (2 + 2)),  # Bern right, aspirin not
        ("entity-f1-unseen", 2 * 1 / (3 + 2)),  # Basel right; York and "here" wrong; New York missed
    ],
)
def test_scores_are_those_worked_by_hand(name: str, value: float) -> None:
    assert get_metric(name)(FOUND, GOLDS) == pytest.approx(value)


def test_scores_of_one_type() -> None:
    assert score_entities(FOUND, GOLDS, label="city") == pytest.approx(2 * 2 / (4 + 3))
    assert score_entities(FOUND, GOLDS, label="drug") == 0.0
    assert score_entities(FOUND, GOLDS, label="city", measure="recall") == pytest.approx(2 / 3)


def test_seen_and_unseen_parts_make_up_the_whole() -> None:
    seen, unseen = (entity_counts(FOUND, GOLDS, part=part) for part in ("seen", "unseen"))
    np.testing.assert_array_equal(seen + unseen, entity_counts(FOUND, GOLDS))


def test_an_entity_found_twice_counts_once_and_nothing_of_nothing_is_0() -> None:
    assert score_entities([[FOUND[0][0], FOUND[0][0]]], GOLDS[:1], measure="precision") == 1.0
    assert score_entities([[]], GOLDS[2:]) == 0.0


@pytest.mark.parametrize(
    "name", ["entity-f1", "entity-precision", "entity-recall", "entity-f1-seen", "entity-f1-unseen"]
)
def test_a_resample_is_the_score_of_what_was_drawn(name: str) -> None:
    metric = get_metric(name)
    weights = np.array([[1, 1, 1], [2, 0, 1], [0, 3, 0], [0, 0, 3]], float)
    drawn = [np.repeat(np.arange(3), row.astype(int)) for row in weights]
    expected = [metric([FOUND[at] for at in one], [GOLDS[at] for at in one]) for one in drawn]
    np.testing.assert_allclose(metric.resample(FOUND, GOLDS, weights), expected)
    assert bootstrap(metric, [FOUND, [[], [], []]], GOLDS, rounds=50).shape == (50, 2)


def test_labels_of_texts_are_not_judged() -> None:
    with pytest.raises(InputError, match="'entity-f1' judges entities in texts, but the labels are such as 1"):
        get_metric("entity-f1")([[0.2, 0.8]], [1])


def test_mentions_are_compared_in_lower_case() -> None:
    examples = [{"text": "BERN, Bern", "entities": [(0, 4, "city"), (6, 10, "city")]}, {"text": "none"}]
    assert mentions_of(examples) == ["bern"]
