"""The rules beside which results on entities are printed, worked by hand."""

from __future__ import annotations

from typing import Any

from infuser.tasks.ner_rules import Dictionary, union
from infuser.types import Annotations, Span

TEXT = "aspirin or iron in the old town of Bern"
TYPES = ("City", "Drug")


def example(*spans: Span, entities: list[tuple[int, int, str]]) -> dict[str, Any]:
    return {"text": TEXT, "entities": entities, "annotations": (Annotations(TEXT, spans),)}


def found(*spans: Span) -> tuple[Annotations, ...]:
    return (Annotations(TEXT, spans),)


def test_a_label_means_the_type_that_its_mentions_mostly_have() -> None:
    train = [
        example(Span(0, 7, "medicine"), Span(11, 15, "metal"), entities=[(0, 7, "Drug"), (11, 15, "Drug")]),
        example(Span(0, 7, "medicine"), Span(11, 15, "metal"), entities=[(0, 7, "Drug")]),
        example(Span(0, 7, "medicine"), Span(11, 15, "metal"), Span(23, 26, "age"), entities=[]),
    ]
    rule = Dictionary.fit(train, TYPES)
    assert rule.meaning == {(0, "medicine"): ("Drug", 2 / 3), (0, "metal"): None, (0, "age"): None}
    assert rule.find(found(Span(11, 15, "metal"), Span(35, 39, "medicine"))) == [[35, 39, "Drug", 2 / 3]]


def test_a_label_called_like_a_type_stays_unless_training_contradicts() -> None:
    often_wrong = [example(Span(0, 7, "city"), Span(11, 15, "city"), Span(35, 39, "city"), entities=[(35, 39, "City")])]
    assert Dictionary.fit(often_wrong, TYPES).meaning == {(0, "city"): ("City", 1 / 3)}
    contradicted = [
        example(Span(0, 7, "city"), Span(11, 15, "city"), Span(35, 39, "city"), entities=[(0, 7, "Drug")]),
    ]
    assert Dictionary.fit(contradicted, TYPES).meaning == {(0, "city"): None}
    never_seen = Dictionary.fit([example(entities=[(35, 39, "City")])], TYPES)
    assert never_seen.find(found(Span(35, 39, "CITY"), Span(0, 7, "metal"))) == [[35, 39, "City", 0.5]]


def test_labels_of_two_sources_are_two() -> None:
    both = (Annotations(TEXT, (Span(0, 7, "x"),)), Annotations(TEXT, (Span(35, 39, "x"),)))
    train = [{"text": TEXT, "entities": [(0, 7, "Drug"), (35, 39, "City")], "annotations": both}]
    assert [one[:3] for one in Dictionary.fit(train, TYPES).find(both)] == [[0, 7, "Drug"], [35, 39, "City"]]


def test_the_longest_of_overlapping_mentions_is_kept() -> None:
    spans = (Span(27, 31, "city"), Span(23, 39, "city"), Span(35, 39, "city"), Span(0, 7, "drug"))
    rule = Dictionary.fit([], TYPES)
    assert [one[:2] for one in rule.find(found(*spans))] == [[0, 7], [23, 39]]


def test_in_a_union_the_model_wins_conflicts() -> None:
    plain = [[11, 15, "Drug", 0.9], [35, 39, "City", 0.8]]
    dictionary = [[0, 7, "Drug", 0.7], [23, 39, "City", 0.7]]
    assert union(plain, dictionary) == [[0, 7, "Drug", 0.7], [11, 15, "Drug", 0.9], [35, 39, "City", 0.8]]
