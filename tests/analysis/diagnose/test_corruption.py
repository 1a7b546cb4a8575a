from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from miniatures import tiny_tokenizer
from tiny_infusions import tiny_base

from infuser.analysis.diagnose.corruption import corrupt
from infuser.errors import InputError, SourceError
from infuser.signals import Collator
from infuser.sources import Candidates, Correlation, Graph
from infuser.types import Annotations, Candidate, Link, Span, Term, entity_key

TYPES = {"bern": "city", "basel": "city", "aare": "river", "rhine": "river", "jura": "range"}
TEXTS = st.lists(
    st.lists(st.sampled_from([*TYPES, "glipizide", "drug", "pharmacy"]), min_size=1, max_size=6).map(" ".join),
    min_size=1,
    max_size=8,
)
Annotated = list[tuple[Annotations, ...]]


def words(text: str, *, offers: bool = True) -> Annotations:
    """All words are entities; neighbours of one text are tied, and a word of five letters brings a term."""
    spans, start = [], 0
    for word in text.split():
        spans.append(Span(start, start + len(word), TYPES.get(word, "thing"), word))
        start += len(word) + 1
    links = [Link(i, i + 1, 0.5, f"{spans[i].id}-{spans[i + 1].id}") for i in range(len(spans) - 1)]
    terms = {span.id for span in spans if len(span.id) == 5}
    return Annotations(
        text,
        tuple(spans),
        (*links, Link(0, 0)),
        tuple(
            Term(f"of {id}", tuple((at, 0.25) for at, span in enumerate(spans) if span.id == id))
            for id in sorted(terms)
        ),
        tuple((Candidate(span.id, 0.75), Candidate(f"other {span.id}", 0.25)) for span in spans) if offers else (),
    )


def annotate(texts: Sequence[str]) -> Annotated:
    return [(words(text), words(text, offers=False)) for text in texts]


def wrong_keys(annotated: Annotated, corrupted: Annotated) -> set[str]:
    return {
        before.id
        for one, other in zip(annotated, corrupted, strict=True)
        for before, after in zip(one[0].spans, other[0].spans, strict=True)
        if before.id != after.id
    }


@settings(max_examples=60)
@given(TEXTS, st.integers(0, 9), st.randoms(use_true_random=False))
def test_errors_grow_with_the_share_and_depend_on_nothing_but_seed_and_entities(
    texts: list[str], seed: int, chance: random.Random
) -> None:
    annotated = annotate(texts)
    assert corrupt(annotated, 0, seed=seed) == annotated
    some, more, every = (corrupt(annotated, share, seed=seed) for share in (0.3, 0.6, 1))
    keys = {span.id for example in annotated for span in example[0].spans}
    assert wrong_keys(annotated, some) <= wrong_keys(annotated, more) <= keys
    assert wrong_keys(annotated, every) == keys
    kinds = {span.id: span.label for example in annotated for span in example[0].spans}
    for before, after in zip(annotated, more, strict=True):
        for one, other in zip(before, after, strict=True):
            assert other.text == one.text
            assert [(s.start, s.end) for s in other.spans] == [(s.start, s.end) for s in one.spans]
            assert len(other.candidates) == len(one.candidates)
            for span, new in zip(one.spans, other.spans, strict=True):
                if new.id not in ("", span.id):
                    assert kinds[new.id] == new.label
                    assert new.label != span.label or len(set(kinds.values())) == 1
    order = list(range(len(texts)))
    chance.shuffle(order)
    assert corrupt([annotated[place] for place in order], 0.6, seed=seed) == [more[place] for place in order]


@settings(max_examples=60)
@given(TEXTS, st.sampled_from([0.4, 1.0]))
def test_a_stand_in_brings_its_candidates_its_terms_and_the_ties_it_has_elsewhere(
    texts: list[str], share: float
) -> None:
    annotated = annotate(texts)
    tied = {frozenset(pair) for example in annotated for pair in _tied_ids(example[0])}
    for [before, _], [after, silent] in zip(annotated, corrupt(annotated, share), strict=True):
        assert silent.candidates == () and silent.spans == after.spans and silent.links == after.links
        changed = {at for at, span in enumerate(after.spans) if span.id != before.spans[at].id}
        links = {(min(link.source, link.target), max(link.source, link.target)) for link in after.links}
        assert len(links) == len(after.links)
        assert (0, 0) in links
        for one in range(len(after.spans)):
            for other in range(one + 1, len(after.spans)):
                pair = frozenset((after.spans[one].id, after.spans[other].id))
                told = pair in tied if {one, other} & changed else (one, other) in _places(before)
                assert ((one, other) in links) == told
        for at in changed:
            id = after.spans[at].id
            assert after.candidates[at] == ((Candidate(id, 0.75), Candidate(f"other {id}", 0.25)) if id else ())
        of_span = {at: {term.text for term in after.terms for place, _ in term.ties if place == at} for at in changed}
        assert of_span == {
            at: {f"of {after.spans[at].id}"} if len(after.spans[at].id) == 5 else set() for at in changed
        }


def _tied_ids(found: Annotations) -> list[tuple[str, str]]:
    return [(found.spans[one].id, found.spans[other].id) for one, other in _places(found)]


def _places(found: Annotations) -> set[tuple[int, int]]:
    return {(link.source, link.target) for link in found.links if link.source != link.target}


def test_an_error_is_the_same_in_every_text_and_carries_weight_and_relation() -> None:
    annotated = annotate(["bern aare", "rhine aare", "aare bern", "aare rhine"])
    types = {"bern": "a", "rhine": "b", "aare": "b"}  # bern becomes one of two, rhine and aare can only become bern
    told = {}
    for seed in range(100):
        corrupted = corrupt(annotated, 0.5, seed=seed, types=types)
        if wrong_keys(annotated, corrupted) == {"bern"}:
            told[corrupted[0][0].spans[0].id] = [found for found, _ in corrupted]
    assert told.keys() == {"rhine", "aare"}
    for stand_in, (_, second, third, fourth) in told.items():
        assert third.spans[1].id == stand_in
        assert (second, fourth) == (words("rhine aare"), words("aare rhine"))
    first, _, third, _ = told["rhine"]
    assert first.links == (Link(0, 0), Link(0, 1, 0.5, "rhine-aare")), "of two ties alike the last by the alphabet"
    assert third.links == first.links
    assert told["aare"][0].links == (Link(0, 0),), "nothing ties aare to aare"


def test_types_given_rule_over_labels_and_what_has_none_is_no_stand_in() -> None:
    annotated = [(Annotations("a b c", (Span(0, 1, "x"), Span(2, 3, "x"), Span(4, 5, "y"))),)]
    for seed in range(20):
        [[found]] = corrupt(annotated, 1, seed=seed, types={"a": "1", "b": "2"})
        assert [span.id for span in found.spans[:2]] == ["b", "a"], "the words are the keys where there are no ids"
        assert found.spans[2].id in ("a", "b"), "c may be anything else"
        assert [span.label for span in found.spans[:2]] == ["x", "x"]


def test_only_the_entities_that_are_named_are_corrupted() -> None:
    annotated = annotate(["bern aare jura", "rhine bern"])
    corrupted = corrupt(annotated, 1, only={"bern", "nowhere"})
    assert wrong_keys(annotated, corrupted) == {"bern"}
    everything = corrupt(annotated, 1)
    assert corrupted[0][0].spans[0] == everything[0][0].spans[0], "by the same stand-in as among all"


def test_an_entity_alone_loses_what_was_known_of_it_and_keeps_its_words_tied() -> None:
    found = Annotations(
        "a a",
        (Span(0, 1, "x", "Q1"), Span(2, 3, "x", "Q1")),
        (Link(0, 0), Link(0, 1)),
        (Term("t", ((0, 1.0),)),),
        ((Candidate("Q1", 1.0),), (Candidate("Q1", 1.0),)),
        (2.0, 3.0),
    )
    [[left]] = corrupt([(found,)], 1)
    assert left == Annotations("a a", (Span(0, 1, "x"), Span(2, 3, "x")), (Link(0, 0),), (), ((), ()), (2.0, 3.0))


def test_the_right_entity_is_not_offered_in_second_place() -> None:
    offers = Candidates({"bern": {"Q1": 3, "Q2": 1}, "berne": {"Q2": 6, "Q1": 2, "Q3": 2}})
    [[first], [second]] = corrupt([(found,) for found in offers.annotate(["bern", "berne"])], 1)
    assert first.spans[0].id == "Q2" and second.spans[0].id == "Q1"
    assert [(one.id, pytest.approx(one.prior)) for one in first.candidates[0]] == [("Q2", 0.75), ("Q3", 0.25)]
    assert second.candidates == ((Candidate("Q1", 1.0),),)


def test_maps_and_candidates_in_a_batch_change_and_registered_sources_go_through() -> None:
    sources = [Graph.tiny(), Correlation.tiny(), tiny_base()]
    texts = [
        "buy glipizide near a pharmacy",
        "the drug store of Fred Meyer",
        "the old bridge of the old town",
        "buy shop",
    ]
    collator = Collator(tiny_tokenizer("bert"), sources)
    annotated = collator.annotate(texts)
    told = [
        collator([{"text": text, "annotations": found} for text, found in zip(texts, given, strict=True)])
        for given in (annotated, corrupt(annotated, 1))
    ]
    for name in ("knowledge_boxes", "knowledge_base_candidates", "knowledge_base_vectors"):
        assert told[0][name].shape != told[1][name].shape or not told[0][name].equal(told[1][name]), name
    assert told[0]["knowledge_base_spans"].equal(told[1]["knowledge_base_spans"])
    for before, after in zip(annotated, corrupt(annotated, 1), strict=True):
        for one, other in zip(before, after, strict=True):
            pairs = zip(one.spans, other.spans, strict=True)
            assert all(entity_key(one.text, old) != entity_key(other.text, new) for old, new in pairs)


def test_what_cannot_be_corrupted_is_refused() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        corrupt([], 1.1)
    with pytest.raises(SourceError, match="different numbers of sources"):
        corrupt([(Annotations("a"),), ()], 0.5)
    assert corrupt([], 0.5) == [] and corrupt([(), ()], 0.5) == [(), ()]
