"""`find_mentions`: every mention of a text of any length, at its place, with what it may mean and what was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
import pytest
import torch
from miniatures import N_POSITIONS, tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, infuse_tiny, shake

import infuser
from infuser import Annotations, Candidates, EntityVectors, Kar, KnowledgeBase, Span
from infuser.errors import InputError
from infuser.linking.inference import find_mentions, iter_mentions
from infuser.linking.mentions import Mention
from infuser.linking.windows import moved
from infuser.signals.windows import cut_windows
from infuser.types import Candidate

NAMES = {"bridge": {"Q1": 3.0, "Q2": 1.0}, "old bridge": {"Q3": 1.0}, "river town": {"Q4": 1.0, "Q5": 1.0}}
"""Some overlap, and one has two words."""


def linker(names: dict[str, dict[str, float]], **settings: float) -> infuser.Infused:
    ids = sorted({id for entities in names.values() for id in entities})
    base = KnowledgeBase(Candidates(names), EntityVectors.of(ids, np.random.default_rng(0).normal(size=(len(ids), 8))))
    torch.manual_seed(0)
    infused = infuser.infuse(tiny_host("bert"), Kar(**settings), sources=[base], tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    return infused


def places(mentions: Sequence[Mention]) -> list[tuple[int, int]]:
    return [(mention.start, mention.end) for mention in mentions]


def close(one: Sequence[Mention], other: Sequence[Mention]) -> bool:
    """Tell whether mentions are the same but for the rounding of a batch of another shape."""
    plain = [[replace(mention, score=0.0, candidates=()) for mention in mentions] for mentions in (one, other)]
    scores = [[each.score for mention in mentions for each in mention.candidates] for mentions in (one, other)]
    return plain[0] == plain[1] and np.allclose(*scores, rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def tiny() -> infuser.Infused:
    """A model with two knowledge bases, places and things."""
    return infuse_tiny("bert", method="kar")


def test_mentions_stand_where_they_are_with_all_their_candidates(tiny: infuser.Infused) -> None:
    text = "Bern  lies\non the Aare – the old\tbridge of the city."
    [mentions] = find_mentions(tiny, text)
    found = tiny.sources[0].annotate([text])[0]
    mine = [mention for mention in mentions if mention.base == "places"]
    assert set(places(mine)) == {(span.start, span.end) for span in found.spans}
    assert {mention.text for mention in mine} == {"Bern", "lies", "old\tbridge", "bridge", "city"}
    for mention in mine:
        assert text[mention.start : mention.end] == mention.text
        place = next(i for i, span in enumerate(found.spans) if (span.start, span.end) == (mention.start, mention.end))
        priors = {candidate.id: candidate.prior for candidate in found.candidates[place]}
        assert {one.id: one.prior for one in mention.candidates} == priors
        scores = [one.score for one in mention.candidates]
        assert scores == sorted(scores, reverse=True) and mention.score == max(scores, default=-np.inf)
        counting = [one for one in mention.candidates if one.score >= 0]
        assert sum(one.weight for one in mention.candidates) == pytest.approx(1.0 if counting else 0.0)
        assert mention.id in (None, mention.candidates[0].id if mention.candidates else None)


def test_two_knowledge_bases_answer_one_after_the_other(tiny: infuser.Infused) -> None:
    [mentions] = find_mentions(tiny, [KNOWN_TEXT])
    names = [mention.base for mention in mentions]
    assert set(names) == {"places", "things"} and names == sorted(names)
    one, other = ([m for m in mentions if m.base == name] for name in ("places", "things"))
    assert places(one) == places(other) == sorted(places(one))
    assert [m.score for m in one] != [m.score for m in other]
    left = infuse_tiny("bert", method="kar").without("things")
    assert {mention.base for mention in find_mentions(left, KNOWN_TEXT)[0]} == {"places"}


def test_of_mentions_that_share_words_only_the_best_scored_is_linked() -> None:
    infused = linker(NAMES, threshold=-1000.0)
    [mentions] = find_mentions(infused, "the old bridge of the river town")
    long, short, town = mentions
    assert (long.text, short.text, town.text) == ("old bridge", "bridge", "river town")
    winner, loser = sorted((long, short), key=lambda mention: -mention.score)
    assert winner.id == winner.candidates[0].id and loser.id is None and loser.candidates
    assert town.id == town.candidates[0].id


def test_the_threshold_decides_what_is_linked_and_nothing_else() -> None:
    infused = linker(NAMES)
    text = "the bridge of the river town and the bridge"
    all_linked, none = (next(iter_mentions(infused, [text], threshold=limit)) for limit in (-1000.0, 1000.0))
    assert all(mention.id for mention in all_linked) and not any(mention.id for mention in none)
    assert [replace(mention, id=None) for mention in all_linked] == none
    limit = all_linked[0].score
    [at] = iter_mentions(infused, [text], threshold=limit)
    assert [mention.id is not None for mention in at] == [mention.score >= limit for mention in all_linked]
    own = find_mentions(linker(NAMES, threshold=limit), text)[0]
    assert [mention.id for mention in own] == [mention.id for mention in at]


def test_texts_without_mentions_and_without_words_give_empty_lists(tiny: infuser.Infused) -> None:
    assert find_mentions(tiny, ["", "   ", "…", "cheap medicine", "👍"]) == [[]] * 5
    assert find_mentions(tiny, []) == []


def test_texts_of_a_generator_are_answered_in_their_order(tiny: infuser.Infused) -> None:
    texts = [f"{'the river and ' * (i % 5)}{word}" for i, word in enumerate(["Bern", "the city", "", KNOWN_TEXT] * 3)]
    alone = [find_mentions(tiny, text)[0] for text in texts]
    together = find_mentions(tiny, (text for text in texts), batch_size=2)  # type: ignore[arg-type]
    assert len(together) == len(texts)
    assert all(close(one, other) for one, other in zip(together, alone, strict=True))
    assert alone[0] != alone[3]


def test_texts_are_read_as_they_are_asked_for(tiny: infuser.Infused) -> None:
    asked = 0

    def endless():  # type: ignore[no-untyped-def]
        nonlocal asked
        while True:
            asked += 1
            yield "Bern"

    linked = iter_mentions(tiny, endless(), batch_size=2)
    assert next(linked)[0].text == "Bern" and asked <= 64


def test_a_long_text_is_linked_as_its_windows_are() -> None:
    infused = linker(NAMES)
    text = " ".join(f"The bridge number {i} of the river town is old." for i in range(12))
    windows = cut_windows(text, 24)
    assert len(windows) > 3
    [whole] = iter_mentions(infused, [text], max_words=24)
    parts = [[moved(one, start) for one in find_mentions(infused, text[start:end])[0]] for start, end in windows]
    assert close(whole, [mention for part in parts for mention in part])
    assert len(whole) == 24 and all(text[one.start : one.end] == one.text for one in whole)


@pytest.mark.parametrize("word", ["the", "glipizidewarfarinramipril"])
def test_no_mention_is_lost_in_a_text_that_is_longer_than_the_encoder_reads(word: str) -> None:
    infused = linker(NAMES)
    text = " ".join([f"{word} old bridge {word} river town"] * 30)
    assert len(infused.tokenizer(text)["input_ids"]) > 2 * N_POSITIONS
    [mentions] = find_mentions(infused, text)
    assert places(mentions) == sorted((span.start, span.end) for span in infused.sources[0].annotate([text])[0].spans)
    assert all(np.isfinite(mention.score) for mention in mentions)


def test_a_mention_is_not_cut_where_a_window_ends() -> None:
    infused = linker(NAMES)
    text = "the " * 5 + "river town" + " the" * 5
    assert any(end < text.index("town") + 4 <= end + 5 for _, end in cut_windows(text, 6))  # it would be cut
    [mentions] = iter_mentions(infused, [text], max_words=6)
    assert [mention.text for mention in mentions] == ["river town"]


def test_mentions_that_overlap_from_end_to_end_are_read_as_far_as_possible() -> None:
    words = [f"w{i}" for i in range(80)]
    infused = linker({f"{one} {two}": {"Q1": 1.0} for one, two in pairwise(words)})
    [mentions] = find_mentions(infused, " ".join(words))
    assert 70 <= len(mentions) < 79 and len(set(places(mentions))) == len(mentions)


@dataclass(frozen=True)
class Invisible:
    """Candidates that also find a mention in a character that tokenizers take away."""

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        return [self._annotate(found) for found in Candidates(NAMES).annotate(texts)]

    def _annotate(self, found: Annotations) -> Annotations:
        spans = tuple(Span(place, place + 1) for place, sign in enumerate(found.text) if sign == "\u200b")
        nothing = ((Candidate("Q1", 1.0),),) * len(spans)
        return Annotations(found.text, found.spans + spans, candidates=found.candidates + nothing)

    @classmethod
    def tiny(cls) -> Self:
        return cls()


def test_a_mention_that_no_token_covers_does_not_shorten_what_the_others_read() -> None:
    infused = linker(NAMES)
    infused = infused.with_sources([replace(infused.sources[0], candidates=Invisible())])  # type: ignore[type-var]
    text = "the bridge of the old town"
    assert len(infused.sources[0].annotate([f"{text} \u200b"])[0].spans) == 2
    [mentions] = iter_mentions(infused, [f"{text} \u200b"], max_words=8)
    assert [mention.text for mention in mentions] == ["bridge"]
    assert close(mentions, find_mentions(infused, text)[0])


def test_training_is_on_again_after_linking(tiny: infuser.Infused) -> None:
    tiny.model.train()
    try:
        assert find_mentions(tiny, KNOWN_TEXT) == find_mentions(tiny, KNOWN_TEXT)  # without dropout
        assert tiny.model.training and tiny.model.base_model.training
    finally:
        tiny.model.train(False)


@pytest.mark.parametrize("method", ["kam", "ernie"])
def test_a_model_without_a_linker_says_so(method: str) -> None:
    infused = infuse_tiny("bert", method=method)
    with pytest.raises(InputError, match=rf"no linker: it was infused with {method}\..*infuser linker train"):
        find_mentions(infused, "Bern")
