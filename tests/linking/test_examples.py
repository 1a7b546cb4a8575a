"""What a linker learns from linked texts, and how it settles mentions that overlap."""

from __future__ import annotations

from infuser.linking.examples import NOTHING, LinkedText, gold_of, link_examples
from infuser.linking.mentions import Mention, without_overlaps
from infuser.sources.candidates import Candidates
from infuser.types import Candidate, Span

KNOWN = {"Bern": {"Q70": 3, "Q1": 1}, "Aare": {"Q2": 1}, "New York Times": {"Q9684": 1}, "New York": {"Q60": 1}}
TEXT = "Bern on the Aare reads the New York Times."


def mention(start: int, end: int, id: str | None, score: float) -> Mention:
    return Mention(start, end, "", id, score)


def ids(*mentions: Mention) -> list[str | None]:
    return [one.id for one in without_overlaps(mentions)]


def test_of_mentions_that_share_characters_the_best_scored_keeps_its_entity():
    assert ids(mention(0, 8, "long", 1.0), mention(4, 12, "late", 3.0), mention(10, 12, "short", 2.0)) == [
        None,
        "late",
        None,
    ]


def test_mentions_that_only_touch_are_both_kept_and_one_without_an_entity_takes_nothing():
    assert ids(mention(0, 4, "a", 1.0), mention(4, 8, "b", 2.0)) == ["a", "b"]
    assert ids(mention(0, 8, None, 9.0), mention(4, 8, "b", 2.0)) == [None, "b"]


def test_of_equal_scores_the_longer_mention_wins_then_the_first():
    assert ids(mention(0, 4, "a", 1.0), mention(2, 8, "b", 1.0)) == [None, "b"]
    assert ids(mention(0, 4, "a", 1.0), mention(2, 6, "b", 1.0)) == ["a", None]


def test_gold_says_the_entity_nothing_or_that_nobody_knows():
    [found] = Candidates(KNOWN).annotate([TEXT])
    linked = LinkedText(TEXT, (Span(0, 4, id="Q1"), Span(27, 41, id="Q9684")), labelled=(0, 16))
    words = {TEXT[span.start : span.end]: gold for span, gold in zip(found.spans, gold_of(linked, found), strict=True)}
    assert words == {"Bern": "Q1", "Aare": NOTHING, "New York": None, "New York Times": None}


def test_examples_carry_what_every_knowledge_base_found_and_what_is_right_there():
    linked = LinkedText(TEXT, (Span(0, 4, id="Q1"),))
    bases = {"towns": Candidates({"Bern": KNOWN["Bern"]}), "rivers": Candidates({"Aare": KNOWN["Aare"]})}
    [example] = link_examples([linked], bases)
    towns, rivers = example["annotations"]
    assert example["text"] == TEXT
    assert towns.candidates == ((Candidate("Q70", 0.75), Candidate("Q1", 0.25)),)
    assert rivers.spans == (Span(12, 16, "mention", "Q2"),)
    # these texts speak of no river, so they do not say that the Aare means nothing
    assert example["gold"] == {"towns": ("Q1",), "rivers": (None,)}
