from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import SourceError
from infuser.experiments.placebo import shuffle
from infuser.sources import Candidates, Correlation, Graph, Phrases
from infuser.types import PAIR_BREAK, Annotations, Link, Span, Term, join_pair
from infuser.words import find_words

SIDES = st.lists(
    st.sampled_from(["glipizide", "pharmacy", "drug", "near me", "🙂", "buy", "x"]), min_size=1, max_size=8
)
PAIRS = st.tuples(SIDES, SIDES).map(lambda sides: join_pair("buy " + " ".join(sides[0]), "shop " + " ".join(sides[1])))
SOURCES_USED = [Graph.tiny(), Correlation.tiny(), Phrases(["🙂", "near me", "buy x"])]


def annotate(texts: list[str]) -> list[tuple[Annotations, ...]]:
    return list(zip(*(source.annotate(texts) for source in SOURCES_USED), strict=True))


def kinds(found: Annotations) -> Counter[object]:
    """What a placebo keeps: links by weight, relation and the sides they lead to, terms by weights."""
    middle = found.text.find(PAIR_BREAK)
    side = [span.start > middle for span in found.spans]
    links = [(link.weight, link.relation, side[link.source], side[link.target]) for link in found.links]
    terms = [(term.text, tuple((weight, side[place]) for place, weight in term.ties)) for term in found.terms]
    return Counter([*links, *terms, *(("span", span.label, span.id) for span in found.spans)])


@settings(max_examples=100, deadline=None)
@given(st.lists(PAIRS, min_size=2, max_size=6), st.integers(0, 5))
def test_number_kind_and_weight_of_links_stay_and_spans_are_words_of_the_new_text(texts: list[str], seed: int) -> None:
    annotated = annotate(texts)
    shuffled = shuffle(annotated, seed=seed)
    assert [found.text for example in shuffled for found in example] == [text for text in texts for _ in SOURCES_USED]
    for channel in range(len(SOURCES_USED)):
        before = Counter(frozenset(kinds(example[channel]).items()) for example in annotated)
        after = Counter(frozenset(kinds(example[channel]).items()) for example in shuffled)
        assert before == after
    for example in shuffled:
        for found in example:
            words = find_words(found.text)
            assert {span.start for span in found.spans} <= {word.start for word in words}
            assert {span.end for span in found.spans} <= {word.end for word in words}
            assert not any(PAIR_BREAK in found.text[span.start : span.end] for span in found.spans)


def test_nobody_keeps_their_own_links_and_the_seed_decides() -> None:
    texts = [f"a{number} b c d" for number in range(20)]
    annotated = [
        (Annotations(text, (Span(0, 2, id=str(number)),), (Link(0, 0),)),) for number, text in enumerate(texts)
    ]
    donors = [[int(example[0].spans[0].id) for example in shuffle(annotated, seed=seed)] for seed in range(50)]
    assert all(sorted(order) == list(range(20)) for order in donors)
    assert all(donor != taker for order in donors for taker, donor in enumerate(order))
    assert len({tuple(order) for order in donors}) > 40
    assert shuffle(annotated, seed=3) == shuffle(annotated, seed=3)


def test_word_number_k_of_a_side_becomes_word_number_k_modulo_its_length() -> None:
    one = "zero one two three" + PAIR_BREAK + "left right"
    other = "a b c" + PAIR_BREAK + "d"
    first = Annotations(
        one,
        (Span(14, 19), Span(9, 19), Span(26, 31, "kind", "id")),
        (Link(0, 2, 0.5, "r"), Link(1, 1)),
        (Term("t", ((2, 0.3),)),),
    )
    _, [moved] = shuffle([(first,), (Annotations(other),)])
    # word 3 of 3 words: word 0; words 2 and 3: as many words, moved left until they fit; word 1 of 1 word: word 0
    assert moved.spans == (Span(0, 1), Span(2, 5), Span(7, 8, "kind", "id"))
    assert (moved.links, moved.terms) == (first.links, first.terms)


def test_links_into_a_side_without_words_are_dropped() -> None:
    one = join_pair("a b", "c")
    first = Annotations(one, (Span(0, 1), Span(2, 3), Span(5, 6)), (Link(0, 2), Link(1, 1)), (Term("t", ((2, 1.0),)),))
    _, [moved] = shuffle([(first,), (Annotations(join_pair("x y", "...")),)])
    assert moved == Annotations(join_pair("x y", "..."), (Span(0, 1), Span(2, 3)), (Link(1, 1),))


def test_a_single_example_keeps_no_links_and_no_examples_give_none() -> None:
    assert shuffle([(Annotations("a", (Span(0, 1),), (Link(0, 0),)),)]) == [(Annotations("a"),)]
    assert shuffle([]) == []


def test_breaks_tell_a_pair_from_a_text_of_paragraphs() -> None:
    text = "a b" + PAIR_BREAK + "c"
    found = (Annotations(text, (Span(5, 6),), (Link(0, 0),)),)
    assert shuffle([found, found])[0][0].spans == (Span(5, 6),)
    plain = (Annotations("x y z"),)
    assert shuffle([plain, found])[0][0].spans == (Span(4, 5),), "not all are pairs, so c is word number 2"
    assert shuffle([plain, found], breaks=[None, 3])[0][0].spans == (), "there is no second side to take it"


def test_examples_that_do_not_fit_together_are_refused() -> None:
    one, two = Annotations("a"), Annotations("b")
    with pytest.raises(SourceError, match="different texts"):
        shuffle([(one, two)])
    with pytest.raises(SourceError, match="different numbers of sources"):
        shuffle([(one,), (two, two)])
    with pytest.raises(SourceError, match="2 examples but 1 breaks"):
        shuffle([(one,), (two,)], breaks=[None])
    with pytest.raises(SourceError, match="No pair break stands at character 0"):
        shuffle([(one,), (two,)], breaks=[0, None])


def test_candidates_go_along_with_their_spans() -> None:
    source = Candidates.tiny()
    texts = ["Bern has a shop in the old town", "New York is far from Bern and its lake", "a shop near me"]
    annotated = [(found,) for found in source.annotate(texts)]
    for [one], [other] in zip(annotated, shuffle(annotated, seed=1), strict=True):
        assert other.text == one.text
        assert len(other.candidates) == len(other.spans)
    kept = [candidates for [found] in shuffle(annotated, seed=1) for candidates in found.candidates]
    assert Counter(kept) == Counter(candidates for [found] in annotated for candidates in found.candidates)
