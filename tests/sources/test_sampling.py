"""The paper's sampling: weights by hand, draws held against the formula."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from infuser.errors import SourceError
from infuser.sources import Candidates, Entities, Graph, KnowledgeBase, Sampling
from infuser.sources.annotating import annotate
from infuser.types import Annotations, Link, Span, Term, keep_spans

TEXT = "a b c d"
FOUR = Annotations(TEXT, tuple(Span(2 * i, 2 * i + 1, id=f"Q{i}") for i in range(4)), odds=(3.5, 1.0, 2.5, 0.5))


def chances_of(odds: tuple[float, ...], share: float, neglected: float) -> dict[tuple[bool, ...], float]:
    """Return how probable each outcome is by the formula, drawing one entity after another."""
    n = len(odds)
    whole, rest = divmod(share * n, 1)
    chances: Counter[tuple[bool, ...]] = Counter()
    for n_drawn, of_size in ((int(whole), 1 - rest), (int(whole) + 1, rest)):
        for order in permutations(range(n), min(n_drawn, n)):
            chance, left = of_size, sum(odds)
            for one in order:
                chance *= odds[one] / left
                left -= odds[one]
            others = [one for one in range(n) if one not in order]
            for kept in product((True, False), repeat=len(others)):
                outcome = [True] * n
                for one, stays in zip(others, kept, strict=True):
                    outcome[one] = stays
                chances[tuple(outcome)] += chance * np.prod([neglected if stays else 1 - neglected for stays in kept])
    return chances


@pytest.mark.parametrize(("share", "n_draws"), [(0.85, 100_000), (0.4, 5_000)])
def test_draws_are_as_frequent_as_the_formula_says(share: float, n_draws: int) -> None:
    sampling = Sampling(share=share)
    seen = Counter(tuple(sampling.draw(FOUR, epoch=epoch)) for epoch in range(n_draws))
    chances = chances_of(FOUR.odds, share, sampling.neglected)
    assert sum(chances.values()) == pytest.approx(1) and seen.keys() <= chances.keys()
    outcomes = [outcome for outcome in chances if chances[outcome] * n_draws >= 5]
    expected = np.array([chances[outcome] for outcome in outcomes]) * n_draws
    observed = np.array([seen[outcome] for outcome in outcomes], float)
    test = chisquare(observed, expected * observed.sum() / expected.sum())
    assert test.pvalue > 1e-4
    if n_draws == 100_000:  # and the test can tell: even chances for all would not pass
        even = chances_of((1.0,) * 4, share, sampling.neglected)
        wrong = np.array([even[outcome] for outcome in outcomes]) * n_draws
        assert chisquare(observed, wrong * observed.sum() / wrong.sum()).pvalue < 1e-12


def test_a_weight_is_rarity_and_half_of_the_near_entities_between_five_and_twenty() -> None:
    hub = [("hub", "knows", f"e{i}") for i in range(30)]
    graph = Graph([*hub, ("far", "knows", "away")], aliases={f"e{i}": [f"word{i}"] for i in range(30)})
    counts = {"e0": 99, "e1": 100, "far": 5000, "hub": 0}
    (few, many) = graph.annotate(["word0 word1 far hub", " ".join(f"word{i}" for i in range(30))])
    sampling = Sampling(frequencies=counts)
    weighed = sampling.select([few, many], graph)
    odds = {span.id: odds for span, odds in zip(weighed[0].spans, weighed[0].odds, strict=True)}
    assert odds == {"e0": 1 + 0.5 * 5, "e1": 0.5 * 5, "far": 0.5 * 5, "hub": 1 + 0.5 * 5}  # 2 near, 2, 0, 2
    assert set(weighed[1].odds) == {1 + 0.5 * 20, 0.5 * 20}  # 29 near, of which 20 count
    assert sampling.statistics(graph).n_near(["e0", "e1", "far", "hub", "nobody"], 6) == [2, 2, 0, 2, 0]
    (once,) = Sampling(frequencies=counts, fewest=0, hops=1).select([few], graph)
    assert once.odds == (1 + 0.5, 0.5, 0.0, 1 + 1.0)


def test_counts_come_from_numbers_from_folders_or_from_the_source_itself(tmp_path: Any) -> None:
    candidates = Candidates({"Bern": {"Q70": 90, "Q1": 2}, "Berne": {"Q70": 30}})
    (found,) = candidates.annotate(["Bern and Bern"])
    assert Sampling().select([found], candidates)[0].odds == (0.5 * 5, 0.5 * 5)  # 120 times meant
    assert Sampling(rare=121).select([found], candidates)[0].odds == (3.5, 3.5)
    candidates.finder.store.save(tmp_path / "meant")
    assert Sampling(tmp_path / "meant").select([found], Entities({"x": "y"}))[0].odds == (2.5, 2.5)

    notes = annotate(["Bern"] * 100 + ["Berne"], [candidates], tmp_path / "notes")
    assert notes.frequencies()["Q70"] == 101
    assert Sampling(tmp_path / "notes").select([found], Entities({"x": "y"}))[0].odds == (2.5, 2.5)
    assert Sampling({"Q70": 3}).select([found], candidates)[0].odds == (3.5, 3.5)
    base = KnowledgeBase.tiny()
    assert Sampling().statistics(base).count("Q60") == 60


def test_a_draw_depends_on_text_epoch_and_both_seeds_alone() -> None:
    sampling = Sampling(share=0.5)
    assert [sampling.draw(FOUR, epoch=e) for e in range(40)] == [
        Sampling(share=0.5).draw(FOUR, epoch=e) for e in range(40)
    ]
    base = [tuple(sampling.draw(FOUR, epoch=e)) for e in range(40)]
    assert len(set(base)) > 5
    moved = replace(FOUR, text=TEXT.upper())
    others = (
        [tuple(sampling.draw(FOUR, epoch=e, seed=1)) for e in range(40)],
        [tuple(Sampling(share=0.5, seed=1).draw(FOUR, epoch=e)) for e in range(40)],
        [tuple(sampling.draw(moved, epoch=e)) for e in range(40)],
    )
    assert all(other != base for other in others)


def test_the_share_holds_on_average_also_for_texts_with_a_single_entity() -> None:
    alone = Annotations("a", (Span(0, 1, id="Q0"),), odds=(2.5,))
    sampling = Sampling(neglected=0.0)
    kept = np.mean([sampling.draw(alone, epoch=epoch)[0] for epoch in range(4000)])
    assert kept == pytest.approx(0.85, abs=0.03)


def test_all_mentions_of_an_entity_share_their_fate() -> None:
    found = Annotations("Bern bern BERN x", (Span(0, 4), Span(5, 9), Span(10, 14), Span(15, 16)))
    draws = [Sampling(share=0.5, neglected=0).draw(found, epoch=epoch) for epoch in range(50)]
    assert all(len(set(draw[:3])) == 1 for draw in draws)
    assert {tuple(draw[2:]) for draw in draws} == {(True, False), (False, True)}


@pytest.mark.parametrize(
    "wrong", [{"share": 1.1}, {"neglected": -0.1}, {"fewest": 6, "most": 5}, {"hops": 0}, {"connection": -1.0}]
)
def test_settings_that_cannot_be_used_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match=next(iter(wrong))):
        Sampling(**wrong)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_stays_hangs_together(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 6))
    place = st.integers(0, n - 1)
    links = data.draw(st.lists(st.builds(Link, place, place, st.just(0.5), st.text(max_size=2)), max_size=6))
    ties = st.lists(st.tuples(place, st.just(0.25)), min_size=1, max_size=3).map(tuple)
    terms = data.draw(st.lists(st.builds(Term, st.text(max_size=3), ties), max_size=3))
    found = Annotations("x" * n, tuple(Span(i, i + 1, id=f"Q{i}") for i in range(n)), tuple(links), tuple(terms))
    kept = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    left = keep_spans(found, kept)
    ids = [f"Q{i}" for i in range(n) if kept[i]]
    assert [span.id for span in left.spans] == ids

    def told(one: Annotations) -> tuple[list[Any], list[Any]]:
        name = [span.id for span in one.spans]
        linked = [(name[link.source], name[link.target], link.relation) for link in one.links]
        return linked, [(term.text, [(name[at], weight) for at, weight in term.ties]) for term in one.terms]

    all_links, all_terms = told(found)
    assert told(left)[0] == [link for link in all_links if link[0] in ids and link[1] in ids]
    tied = [(text, [tie for tie in of if tie[0] in ids]) for text, of in all_terms]
    assert told(left)[1] == [(text, of) for text, of in tied if of]
