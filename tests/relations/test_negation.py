"""Denials: a table of sentences in which [...] is the head, {...} the tail and <...> the trigger."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infuser.relations.examples import Triple
from infuser.relations.negation import Denials
from infuser.types import Span


def is_negated(text, triple, names=()):
    return Denials(text, names).denies(triple)


DENIED = [
    "[Lyon] is not the <capital of> {France}.",
    "[Lyon] isn't the <capital of> {France}.",
    "[Lyon] isn’t the <capital of> {France}.",
    "[Lyon] was never the <capital of> {France}.",
    "[Bonn] is no longer the <capital of> {Germany}.",
    "[LYON] IS NOT THE <CAPITAL OF> {FRANCE}.",
    "The <capital of> {France} is not [Lyon].",
    "Paris, not [Lyon], is the <capital of> {France}.",
    "Paris (not [Lyon]) is the <capital of> {France}.",
    "Not [Lyon] but Paris is the <capital of> {France}.",
    "Paris is the <capital of> {France}, not [Lyon].",
    "[Paris] is the <capital of> France, but not of {Germany}.",
    "[Paris] is the <capital> not of {Germany} but of France.",
    "[Paris] is not the <capital of> {Germany} but of France.",
    "Neither [Paris] nor Lyon is the <capital of> {Germany}.",
    "Neither Paris nor [Lyon] is the <capital of> {Germany}.",
    "[Bern] is neither <in> {Italy} nor in Spain.",
    "[Bern] is neither in Italy nor <in> {Spain}.",
    "None of the [Beatles] was <born in> {London}.",
    "No Swiss [city] <lies on> the {sea}.",
    "[Bern] has no <border with> {Italy}.",
    "[Bob] left without <marrying> {Ann}.",
    "He denied that [Robert James Smith] had <married> {Ann}.",
    "[Bob] denied <marrying> {Ann}.",
    "It is not true that [Bob] is in the end <married to> {Ann}.",
    "It isn't the case that [Bob] <married> {Ann}.",
    "[Norway] is a non-<member of> the {EU}.",
    "[Norway] is a non-{EU} <member>.",
    "[Bob] <did not marry> {Ann}.",
    "Never <married to> {Ann}, [Bob] lived alone.",
    "[Bob] did not, however, <marry> {Ann}.",
    "[Bob] did not marry Carol or <divorce> {Ann}.",
    "[Bob], her brother, did not, in 1990, <marry> {Ann}.",
    "[Bob] is not and never was <married to> {Ann}.",
    "[Bob] has not and will not <join> {NATO}.",
    "[Bob] never left, never <married> {Ann}.",
    "[Bob] failed to <join> {NATO}.",
    "[Bob] did not <marry> Mrs. {Smith}.",
    "[Bob] did not know J. R. Ewing <married> {Ann}.",
    "[Paris] is big, but it is not the <capital of> {Germany}.",
    "[Paris] is big. It is not the <capital of> {Germany}.",
    "[Bob] moved to Bern instead of <moving to> {Basel}.",
    "[Bob] <moved to> Bern rather than {Basel}.",
    "Rather than [Lyon], Paris became the <capital of> {France}.",
    "[Bob] is not {Ann}.",
    "[Bob], who never <married> {Ann}, died in Bern.",
    "Carl did not like Ann, nor did [Bob] <marry> {Ann}.",
    "In Bern, [Bob] cannot <vote for> {Ann}.",
]

NOT_DENIED = [
    "[Paris] is the <capital of> {France}.",
    "[Paris], not Lyon, is the <capital of> {France}.",
    "In {France}, [Paris], not Lyon, is the <capital>.",
    "[Paris] (not Lyon) is the <capital of> {France}.",
    "[Paris] – not Lyon – is the <capital of> {France}.",
    "[Paris] is the <capital of> {France}, not Lyon.",
    "[Paris] is the <capital of> {France}, but not of Germany.",
    "[Paris] is the <capital> not of Germany but of {France}.",
    "Not Lyon but [Paris] is the <capital of> {France}.",
    "Not Lyon, [Paris] is the <capital of> {France}.",
    "[Paris] is not only big, it is the <capital of> {France}.",
    "[Paris] is not just the <capital of> {France}.",
    "[Paris] is no doubt the <capital of> {France}.",
    "[Paris] is without doubt the <capital of> {France}.",
    "No, [Paris] is the <capital of> {France}.",
    "[Paris], which is not a port, is the <capital of> {France}.",
    "[Paris] is not a port; it is the <capital of> {France}.",
    "[Paris] is not a port. It is the <capital of> {France}.",
    "[Paris] is not a port, but it is the <capital of> {France}.",
    "[Paris] is not a port, although it is the <capital of> {France}.",
    "[Paris] is not a port, however it is the <capital of> {France}.",
    "[Paris] is not a port and is the <capital of> {France}.",
    "[Bob] did not attend school and <married> {Ann}.",
    "[Bob] did not marry Carol and moved to {Bern}.",
    "[Lutsk] is old. Western Ukraine is not a part of the {USSR}.",
    "[Bob] did not stay in Rome, where he <married> {Ann}.",
    "[Bob] (who did not attend school) <married> {Ann}.",
    "[Bob] did not leave without <marrying> {Ann}.",
    "[Bob] never failed to <support> {Ann}.",
    "[Bob] <married> {Ann}. He did not marry Carol.",
    "Carl did not marry Carol. [Bob] <married> {Ann}.",
    "[Bob] <married> Carol. He did not like {Ann}.",
    "[Bob] owns {The No Name Bar}, <located in> Bern.",
    "[The No Name Bar] is <located in> {Bern}.",
    "[Nobody] <stars> {Bob Odenkirk}.",
    "[Never Let Me Go] was <written by> {Kazuo Ishiguro}.",
    "[Sean Connery] starred in Dr. No, <directed by> {Terence Young}.",
    "[Bob] wrote No. 5, <published by> {Ann}.",
    "[Bob] runs a not-for-profit <based in> {Bern}.",
    "[Bob], a non-smoker, <married> {Ann}.",
    "Whether or not he liked it, [Bob] <married> {Ann}.",
    "[Bern], one of the oldest, if not the oldest, is the <capital of> {Switzerland}.",
    "[Versailles] is not far from {Paris}.",
    "Not until 1990 did [Bob] <marry> {Ann}.",
    "[Bob] knotted ties for {Ann}.",
    "[Bob] won in no country except {Italy}.",
    "Neither big nor old, [Bern] is the <capital of> {Switzerland}.",
    "Instead of Lyon, [Paris] became the <capital of> {France}.",
    "",
]


def parsed(marked: str) -> tuple[str, Triple]:
    """Return the text without its marks, and its triple."""
    spans: dict[str, Span] = {}
    text = ""
    for piece in re.split(r"(\[[^]]*\]|\{[^}]*\}|<[^>]*>)", marked):
        if piece[:1] in ("[", "{", "<"):
            spans[piece[0]] = Span(len(text), len(text) + len(piece) - 2)
            piece = piece[1:-1]
        text += piece
    empty = Span(0, 0)
    return text, Triple(spans.get("[", empty), spans.get("{", empty), "P1", spans.get("<"))


@pytest.mark.parametrize("marked", DENIED)
def test_a_denied_triple_is_seen(marked):
    assert is_negated(*parsed(marked))


@pytest.mark.parametrize("marked", NOT_DENIED)
def test_what_is_not_denied_is_left_alone(marked):
    assert not is_negated(*parsed(marked))


def test_equal_strings_are_told_apart_by_their_places():
    text = "Bob was not born in Paris but moved to Paris."
    first, second = text.index("Paris"), text.rindex("Paris")
    head = Span(0, 3)
    denials = Denials(text)
    born = Span(text.index("born in"), text.index("born in") + 7)
    moved = Span(text.index("moved to"), text.index("moved to") + 8)
    assert denials.denies(Triple(head, Span(first, first + 5), "P19", born))
    assert not denials.denies(Triple(head, Span(second, second + 5), "P551", moved))
    assert denials.denies(Triple(head, Span(first, first + 5)))
    assert not denials.denies(Triple(head, Span(second, second + 5)))


def test_a_cue_inside_another_known_name_is_no_cue():
    text, triple = parsed("[bob] with his band no rest <married> {ann}")
    name = Span(text.index("no rest"), text.index("no rest") + 7)
    assert is_negated(text, triple)
    assert not is_negated(text, triple, [name])


WORDS = st.lists(
    st.sampled_from(["Bob", "Ann", "not", "never", "nor", "neither", "no", ",", ".", "but", "and", "wed", "(", ")"]),
    min_size=1,
    max_size=14,
)


@given(words=WORDS, places=st.lists(st.integers(0, 80), min_size=6, max_size=6), with_trigger=st.booleans())
def test_any_spans_in_any_text_get_an_answer_and_a_text_without_cues_denies_nothing(words, places, with_trigger):
    text = " ".join(words)
    ends = [min(place, len(text)) for place in places]
    spans = [Span(*sorted(pair)) for pair in zip(ends[::2], ends[1::2], strict=True)]
    triple = Triple(spans[0], spans[1], "P1", spans[2] if with_trigger else None)
    denied = is_negated(text, triple)
    if not {"not", "never", "nor", "neither", "no"} & set(words):
        assert not denied
    swapped = Triple(triple.tail, triple.head, "P1", triple.trigger)
    assert is_negated(text, swapped) == denied  # which of the two is the subject does not matter
