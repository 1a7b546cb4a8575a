"""Candidates as tensors: everything that was found comes out again, at the tokens where it stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from miniatures import WORDS, tokenizer_of_kind
from tiny_infusions import tiny_base
from torch import Tensor

from infuser import Candidates, Entities, EntityVectors, KnowledgeBase
from infuser.errors import InputError, SourceError
from infuser.linking.examples import NOTHING
from infuser.signals import Collator
from infuser.signals.align import align
from infuser.types import Annotations, Candidate, Span

IDS = tuple(f"Q{number}" for number in range(12))
BASE = KnowledgeBase(
    Candidates({"Bern": {"Q0": 1}}),
    EntityVectors.of(IDS, np.random.default_rng(0).normal(size=(len(IDS), 5))),
    name="things",
)


def annotated(text: str, *spans: tuple[int, int, dict[str, float]]) -> Annotations:
    """Return spans with candidates {id: prior}."""
    return Annotations(
        text,
        tuple(Span(start, end) for start, end, _ in spans),
        candidates=tuple(tuple(Candidate(id, prior) for id, prior in means.items()) for _, _, means in spans),
    )


@st.composite
def some_annotations(draw: st.DrawFn) -> Annotations:
    text = " ".join(draw(st.lists(st.sampled_from([*WORDS[:20], "glipizide", "Zürich", "京", "-"]), max_size=12)))
    spans = []
    for _ in range(draw(st.integers(0, 4)) if text else 0):
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start + 1, min(len(text), start + 12)))
        ids = draw(st.lists(st.sampled_from(IDS), unique=True, max_size=4))
        counts = [draw(st.integers(1, 9)) for _ in ids]
        spans.append((start, end, {id: count / sum(counts) for id, count in zip(ids, counts, strict=True)}))
    return annotated(text, *spans)


def decode(batch: dict[str, Tensor], text: int) -> list[tuple[int, tuple[int, int], dict[str, float]]]:
    """Return of each span of a text its place among the annotations, its tokens, and its candidates with priors."""
    parts = {part: batch[f"knowledge_things_{part}"][text].numpy() for part in ("spans", "candidates", "priors")}
    vectors, places = (batch[f"knowledge_things_{part}"][text].numpy() for part in ("vectors", "places"))
    known = BASE.store.take(np.arange(len(IDS)))
    decoded = []
    for number, (start, end) in enumerate(parts["spans"].tolist()):
        if end <= start:
            assert (start, end) == (0, 0)
            continue
        mine = np.flatnonzero((parts["candidates"][:, 0] == number) & (parts["priors"] > 0))
        means = {}
        for place in mine.tolist():
            [row] = np.flatnonzero((known == vectors[parts["candidates"][place, 1]]).all(axis=1))
            means[IDS[row]] = float(parts["priors"][place])
        decoded.append((int(places[number]), (start, end), means))
    return decoded


@given(
    st.lists(some_annotations(), min_size=1, max_size=3),
    st.sampled_from(["wordpiece", "byte-bpe", "unigram"]),
    st.sampled_from(["left", "right"]),
    st.sampled_from([None, 4, 9]),
)
def test_what_was_found_comes_out_again_where_it_stands(
    found: list[Annotations], kind: str, side: str, max_length: int | None
) -> None:
    tokenizer = tokenizer_of_kind(kind, padding_side=side)
    batch = Collator(tokenizer, [BASE], max_length=max_length)([{"text": f.text, "annotations": (f,)} for f in found])
    encoding = tokenizer(
        [one.text for one in found],
        padding="longest",
        truncation=True,
        max_length=max_length,
        return_offsets_mapping=True,
    )
    assert batch["input_ids"].tolist() == encoding["input_ids"]
    for text, one in enumerate(found):
        aligned = align([one], one.text, None, encoding["offset_mapping"][text], encoding.sequence_ids(text))
        expected = [
            (place, tokens, {candidate.id: np.float32(candidate.prior) for candidate in one.candidates[place]})
            for place, tokens in enumerate(aligned.ranges[0])
            if tokens is not None  # the encoding cut all of it off
        ]
        assert decode(batch, text) == expected
        n_entities = len({id for _, _, means in expected for id in means})
        assert not batch["knowledge_things_vectors"][text, n_entities:].any()  # each vector once, then padding
        assert int((batch["knowledge_things_priors"][text] > 0).sum()) == sum(len(means) for _, _, means in expected)


def test_only_spans_that_were_cut_off_are_left_out() -> None:
    text = "the old bridge of the town"
    found = annotated(text, (0, 3, {"Q1": 1.0}), (4, 14, {"Q2": 0.5, "Q3": 0.5}), (22, 26, {"Q4": 1.0}))
    tokenizer = tokenizer_of_kind("wordpiece")
    rows = [{"text": text, "annotations": (found,)}]
    whole, cut = (decode(Collator(tokenizer, [BASE], max_length=n)(rows), 0) for n in (None, 4))
    assert whole == [(0, (1, 2), {"Q1": 1.0}), (1, (2, 4), {"Q2": 0.5, "Q3": 0.5}), (2, (6, 7), {"Q4": 1.0})]
    assert cut == [(0, (1, 2), {"Q1": 1.0}), (1, (2, 3), {"Q2": 0.5, "Q3": 0.5})]  # half of the second is left


def test_texts_in_which_nothing_was_found_have_padding_only() -> None:
    batch = Collator(tokenizer_of_kind("wordpiece"), [BASE]).encode(["the old town", "", "cheap"])
    shapes = {name: tuple(tensor.shape) for name, tensor in batch.items() if name.startswith("knowledge_things")}
    assert shapes == {
        "knowledge_things_spans": (3, 1, 2),
        "knowledge_things_candidates": (3, 1, 2),
        "knowledge_things_priors": (3, 1),
        "knowledge_things_vectors": (3, 1, 5),
        "knowledge_things_places": (3, 1),
    }
    assert not any(batch[name].any() for name in shapes)


def golds(gold: Any, *more: dict[str, Any]) -> Tensor:
    text = "the old bridge"
    found = annotated(text, (0, 3, {"Q1": 0.6, "Q2": 0.4}), (4, 7, {}), (8, 14, {"Q2": 0.5, "Q3": 0.3, "Q1": 0.2}))
    rows = [{"text": text, "annotations": (found,), "gold": gold}, *more]
    return Collator(tokenizer_of_kind("wordpiece"), [BASE])(rows)["knowledge_things_gold"]


def test_gold_says_right_wrong_or_nobody_knows() -> None:
    assert golds({"things": ("Q2", None, "Q1")})[0].tolist() == [0, 1, 0, 0, 1]
    assert golds({"things": (None, None, NOTHING)})[0].tolist() == [-1, -1, 0, 0, 0]
    assert golds({"things": ("Q7", None, "no such id")})[0].tolist() == [0, 0, 0, 0, 0]
    other = {"text": "a town", "annotations": (annotated("a town", (2, 6, {"Q5": 1.0})),)}
    told = golds({"things": ("Q1", None, None)}, other, {**other, "gold": {"things": ("Q5",)}})
    assert told.tolist() == [[1, 0, -1, -1, -1], [-1] * 5, [1, -1, -1, -1, -1]]
    assert golds({"another base": ("Q1",)}).tolist() == [[-1] * 5]
    rows = [{key: value for key, value in other.items() if key != "gold"}]
    assert "knowledge_things_gold" not in Collator(tokenizer_of_kind("wordpiece"), [BASE])(rows)


def test_gold_for_another_number_of_spans_is_refused() -> None:
    with pytest.raises(InputError, match=r"3 spans of 'things' but says of 2"):
        golds({"things": ("Q1", None)})


def test_annotations_without_candidates_are_refused() -> None:
    rows = [{"text": "the town", "annotations": (Annotations("the town", (Span(4, 8),)),)}]
    with pytest.raises(InputError, match="1 spans of 'things' but candidates for 0"):
        Collator(tokenizer_of_kind("wordpiece"), [BASE])(rows)


def test_gold_of_spans_that_were_cut_off_is_left_out() -> None:
    text = "the old bridge of the town"
    found = annotated(text, (22, 26, {"Q4": 1.0}), (0, 3, {"Q1": 0.5, "Q2": 0.5}))
    rows = [{"text": text, "annotations": (found,), "gold": {"things": ("Q4", "Q2")}}]
    batch = Collator(tokenizer_of_kind("wordpiece"), [BASE], max_length=4)(rows)
    assert decode(batch, 0) == [(1, (1, 2), {"Q1": 0.5, "Q2": 0.5})]
    assert batch["knowledge_things_gold"].tolist() == [[0, 1]]


def test_choices_have_a_dimension_of_their_own() -> None:
    collator = Collator(tokenizer_of_kind("wordpiece"), [tiny_base("things")])
    rows = [{"text": ["the old bridge", "cheap"], "pair": ["a river", "a town"]}] * 3
    batch = collator(rows)
    flat = collator.encode(["the old bridge", "cheap"] * 3, ["a river", "a town"] * 3)
    for name in batch:
        assert batch[name].shape[:2] == (3, 2)
        assert torch.equal(batch[name].flatten(0, 1), flat[name])
    assert batch["knowledge_things_vectors"].shape[-1] == 8


def test_two_bases_of_one_name_are_refused() -> None:
    with pytest.raises(SourceError, match="Two knowledge bases are called 'things'"):
        Collator(tokenizer_of_kind("wordpiece"), [BASE, tiny_base("things")])


def test_candidates_without_a_vector_are_an_error_or_left_out() -> None:
    mentions = {"old bridge": {"Q1": 6, "unknown": 2, "Q2": 2}, "town": {"unknown": 1}}
    tokenizer, texts = tokenizer_of_kind("wordpiece"), ["the old bridge of the town", "the town"]
    strict = KnowledgeBase(Candidates(mentions), BASE.store, "things")
    with pytest.raises(SourceError, match=r"'unknown' is not among its 12 vectors.*missing='skip'"):
        Collator(tokenizer, [strict]).encode(texts)
    batch = Collator(tokenizer, [KnowledgeBase(Candidates(mentions), BASE.store, "things", "skip")]).encode(texts)
    assert decode(batch, 0) == [(0, (2, 4), {"Q1": 0.75, "Q2": 0.25})]
    assert decode(batch, 1) == []


def test_a_source_without_candidates_is_no_knowledge_base() -> None:
    base = KnowledgeBase(Entities({"Bern": "city"}), BASE.store)
    with pytest.raises(SourceError, match="Entities found 1 spans but gave candidates for 0"):
        Collator(tokenizer_of_kind("wordpiece"), [base]).encode(["Bern lies on the Aare"])
