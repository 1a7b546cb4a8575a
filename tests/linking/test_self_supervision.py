"""Names with one meaning teach a linker without labels, hidden among the candidates of names with several."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import InputError, SourceError
from infuser.knowledge.vectors.store import EntityVectors
from infuser.linking.examples import NOTHING
from infuser.linking.self_supervision import SelfSupervision, UnambiguousTexts
from infuser.sources.candidates import Candidates
from infuser.sources.knowledge_base import KnowledgeBase

KNOWN = {
    "Aare": {"Q2": 5},
    "Bern": {"Q70": 3, "Q1": 1},
    "New York": {"Q60": 60, "Q1384": 40},
    "New York Times": {"Q9684": 30},
    "Times": {"Q50008": 1},
    "Zug": {"Q3": 99, "Q4": 1},
}
BASES = {"base": Candidates(KNOWN)}
TEXTS = ["Bern on the Aare, far from Zug.", "The New York Times", "nothing", "Bern"]
PLAIN = SelfSupervision(nothing=0, mask=0)


def spoken(example: dict) -> dict[str, str | None]:
    """What stands at each span, and its gold."""
    [found] = example["annotations"]
    return dict(
        zip((example["text"][span.start : span.end] for span in found.spans), example["gold"]["base"], strict=True)
    )


def self_supervised(texts, bases, settings=None, *, seed, epoch, mask_token=None):
    return UnambiguousTexts(texts, bases, settings).examples(seed=seed, epoch=epoch, mask_token=mask_token)


def test_an_unambiguous_name_is_gold_and_the_others_are_not_known():
    bern, times = self_supervised(TEXTS, BASES, PLAIN, seed=0, epoch=0)
    assert bern["text"] == TEXTS[0]
    assert spoken(bern) == {"Bern": None, "Aare": "Q2", "Zug": None}
    assert spoken(times) == {"New York": None, "New York Times": "Q9684", "Times": None}  # a name inside a longer one


def test_its_entity_takes_the_place_of_one_of_an_ambiguous_names_candidates():
    donors = {0.75: {"Q70", "Q1"}, 0.6: {"Q60", "Q1384"}, 0.99: {"Q3", "Q4"}}
    for epoch in range(20):
        [found] = self_supervised(TEXTS[:2], BASES, PLAIN, seed=0, epoch=epoch)[0]["annotations"]
        candidates = found.candidates[1]
        assert sum(one.prior for one in candidates) == pytest.approx(1)
        others = {one.id for one in candidates} - {"Q2"}
        assert len(others) == 1
        assert others < donors[candidates[0].prior]
        assert found.spans[1].id == candidates[0].id


def test_priors_say_as_much_as_they_do_for_ambiguous_names():
    known = {"Aare": {"Q2": 1}, "Bern": {"Q70": 8, "Q1": 2}}
    texts = UnambiguousTexts(["Aare Bern"] * 2000, {"base": Candidates(known)}, PLAIN)
    examples = texts.examples(seed=0, epoch=0)
    first = np.mean([one["annotations"][0].candidates[0][0].id == "Q2" for one in examples])
    assert first == pytest.approx(0.8, abs=0.03)


def test_some_lists_hold_wrong_candidates_only():
    texts = UnambiguousTexts(["Bern on the Aare"] * 1000, BASES, SelfSupervision(nothing=0.3, mask=0))
    gold = Counter()
    for example in texts.examples(seed=1, epoch=0):
        [meant] = [one for one in example["gold"]["base"] if one is not None]
        offered = {one.id for one in example["annotations"][0].candidates[1]}
        assert ("Q2" in offered) == (meant == "Q2")
        gold[meant] += 1
    assert gold[NOTHING] / 1000 == pytest.approx(0.3, abs=0.05)


def test_an_entity_that_is_among_the_donors_candidates_is_offered_once():
    known = {"Berne": {"Q70": 1}, "Bern": {"Q70": 3, "Q1": 1}}
    texts = UnambiguousTexts(["Berne or Bern"] * 40, {"base": Candidates(known)}, SelfSupervision(nothing=0.5, mask=0))
    seen = set()
    for example in texts.examples(seed=0, epoch=0):
        candidates = example["annotations"][0].candidates[0]
        assert sum(one.prior for one in candidates) == pytest.approx(1)
        seen.add((example["gold"]["base"][0], tuple(one.id for one in candidates)))
    assert seen == {("Q70", ("Q70", "Q1")), ("Q70", ("Q1", "Q70")), (NOTHING, ("Q1",))}


def test_a_masked_name_is_one_mask_and_all_other_spans_move_along():
    settings = SelfSupervision(nothing=0, mask=1)
    bern, times = self_supervised(TEXTS, BASES, settings, seed=0, epoch=0, mask_token="[MASK]")
    assert bern["text"] == "Bern on the [MASK], far from Zug." == bern["annotations"][0].text
    assert spoken(bern) == {"Bern": None, "[MASK]": "Q2", "Zug": None}
    assert times["text"] == "The [MASK]"
    assert spoken(times) == {"[MASK]": "Q9684"}  # the names inside it are gone
    assert self_supervised(TEXTS, BASES, settings, seed=0, epoch=0)[1]["text"] == TEXTS[1]  # no token, no mask


def test_names_are_masked_as_often_as_is_said():
    texts = UnambiguousTexts(["Bern on the Aare"] * 1000, BASES)
    masked = [one["text"].endswith("#") for one in texts.examples(seed=0, epoch=0, mask_token="#")]
    assert np.mean(masked) == pytest.approx(0.5, abs=0.05)


def test_nearly_unambiguous_names_can_be_taken_too_and_ambiguous_ones_left_out():
    settings = SelfSupervision(min_prior=0.9, nothing=0, mask=0, keep_ambiguous=False)
    bern, _ = self_supervised(TEXTS, BASES, settings, seed=0, epoch=0)
    assert spoken(bern) == {"Aare": "Q2", "Zug": "Q3"}


def test_names_without_a_capital_letter_can_be_passed_over():
    texts = ["Bern on the AARE, the aare"]
    for capitals, taken in ((False, ["AARE", "aare"]), (True, ["AARE"])):
        [example] = self_supervised(
            texts, BASES, SelfSupervision(capitals=capitals, nothing=0, mask=0), seed=0, epoch=0
        )
        assert [word for word, gold in spoken(example).items() if gold] == taken


def test_the_same_seed_and_epoch_give_the_same_examples_and_others_do_not():
    texts = UnambiguousTexts(TEXTS * 5, BASES)
    again = self_supervised(TEXTS * 5, BASES, seed=3, epoch=1, mask_token="#")
    assert texts.examples(seed=3, epoch=1, mask_token="#") == again
    assert texts.examples(seed=3, epoch=2, mask_token="#") != again
    assert texts.examples(seed=4, epoch=1, mask_token="#") != again


def test_a_stream_is_read_up_to_the_limit():
    read = []

    def stream():
        for text in TEXTS * 1000:
            read.append(text)
            yield text

    assert len(UnambiguousTexts(stream(), BASES, limit=6)) == 4
    assert len(read) == 6


def test_every_knowledge_base_is_taught_and_masks_of_one_move_the_spans_of_the_other():
    bases = {"all": Candidates(KNOWN), "rivers": Candidates({"the Aare": {"R1": 1}, "Zug": {"R2": 1, "R3": 2}})}
    [example] = self_supervised(
        TEXTS[:1], bases, SelfSupervision(nothing=0, mask=1), seed=0, epoch=0, mask_token="<mask>"
    )
    assert example["text"] == "Bern on <mask>, far from Zug."
    everything, rivers = example["annotations"]
    assert [example["text"][span.start : span.end] for span in everything.spans] == ["Bern", "Zug"]
    assert [example["text"][span.start : span.end] for span in rivers.spans] == ["<mask>", "Zug"]
    assert example["gold"] == {"all": (None, None), "rivers": ("R1", None)}


def test_a_name_whose_other_meanings_have_no_vector_is_not_unambiguous():
    candidates = Candidates({"Aare": {"Q2": 1}, "Bern": {"Q70": 3, "Q1": 1}, "Zug": {"Q2": 1, "Q70": 3}})
    base = KnowledgeBase(candidates, EntityVectors.of(["Q2", "Q70"], np.ones((2, 3), np.float32)), missing="skip")
    [example] = self_supervised(["Bern on the Aare, Zug"], {"base": base}, PLAIN, seed=0, epoch=0)
    assert spoken(example) == {"Bern": None, "Aare": "Q2", "Zug": None}


@pytest.mark.parametrize("texts", [[], ["nothing here"], ["Bern and Zug"]])
def test_a_corpus_without_unambiguous_names_is_one_clear_error(texts):
    with pytest.raises(SourceError, match=f"Nothing to learn from {len(texts)} texts .* base: 0 and "):
        self_supervised(texts, BASES, seed=0, epoch=0)


def test_so_is_one_without_ambiguous_names_and_no_knowledge_base():
    with pytest.raises(SourceError, match="base: 1 and 0"):
        self_supervised(["the Aare"], BASES, seed=0, epoch=0)
    with pytest.raises(SourceError, match="there is none"):
        self_supervised(["the Aare"], {}, seed=0, epoch=0)


@pytest.mark.parametrize("wrong", [{"nothing": 1.5}, {"mask": -0.1}, {"min_prior": 0.5}, {"min_prior": float("nan")}])
def test_settings_out_of_range_are_errors(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        SelfSupervision(**wrong)


@settings(max_examples=60, deadline=None)
@given(words=st.lists(st.sampled_from([*KNOWN, "x", "the"]), max_size=10), seed=st.integers(0, 99), mask=st.booleans())
def test_every_span_stands_where_its_words_are_or_on_a_mask(words, seed, mask):
    text = "Aare, Bern " + " ".join(words)
    [example] = self_supervised([text], BASES, seed=seed, epoch=0, mask_token="<m>" if mask else None)
    [found] = example["annotations"]
    assert len(found.spans) == len(found.candidates) == len(example["gold"]["base"])
    for span, candidates, gold in zip(found.spans, found.candidates, example["gold"]["base"], strict=True):
        there = example["text"][span.start : span.end]
        assert there in KNOWN or (there == "<m>" and gold is not None)
        assert len({one.id for one in candidates}) == len(candidates)
        assert gold in {None, NOTHING} or gold in {one.id for one in candidates}
    if not mask:
        assert example["text"] == text
