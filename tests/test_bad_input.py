"""Bad input, end to end: one clear error or a correct answer, for the three kinds of tokenizers."""

from __future__ import annotations

import math
import time
import unicodedata
from typing import Any

import pytest
import torch
from miniatures import N_POSITIONS, tiny_host, tiny_tokenizer
from tiny_infusions import shake

import infuser
from infuser.errors import InfuserError, InputError, SourceError

KINDS = {"wordpiece": "bert", "byte-level BPE": "roberta", "unigram": "xlm-roberta"}
NAMES = {
    "New York": "city",
    "café": "place",
    "नमस्ते": "greeting",
    "👍🏽": "sign",
    "Bern": "city",
    "train station": "place",
}


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def host(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def infuse_names(host: str, names: Any = NAMES, **settings: Any) -> infuser.Infused:
    infused = infuser.infuse(
        tiny_host(host),
        sources=[infuser.Entities(names, **settings), infuser.Correlation({("buy", "shop"): 1.0}, n_terms=1)],
        tokenizer=tiny_tokenizer(host),
    )
    shake(infused.model)
    return infused


def read(infused: infuser.Infused, text: str, pair: str | None = None) -> torch.Tensor:
    """Return the states of one text, after checking that its company neither changes it nor is changed."""
    other = "Bern lies on the river of New York"
    pairs = None if pair is None else [pair, "a town"]
    alone = infused.encode([text], pairs and pairs[:1])[0]
    together = infused.encode([text, other], pairs)
    assert alone.isfinite().all() and together.isfinite().all()
    assert (together[0, : len(alone)] - alone).abs().max() < 1e-9
    beside = infused.encode([other], pairs and pairs[1:])[0]
    assert (together[1, : len(beside)] - beside).abs().max() < 1e-9
    return alone


def mentions(infused: infuser.Infused, text: str, pair: str | None = None) -> list[str]:
    """Return the pieces of text under the entity boxes that reach the model."""
    batch = infused.batch([text], None if pair is None else [pair])
    encoding = infused.tokenizer(
        [text if pair is None else (text, pair)],
        truncation=True,
        max_length=batch["input_ids"].shape[1],
        return_offsets_mapping=True,
    )
    assert encoding["input_ids"] == batch["input_ids"].tolist()
    found = []
    for channel, start, end, left, right in batch["knowledge_boxes"][0].tolist():
        if channel != 0:
            continue
        assert (start, end) == (left, right)
        places = [encoding["offset_mapping"][0][i] for i in range(start, end)]
        side = text if encoding.sequence_ids()[start] == 0 else str(pair)
        found.append(side[places[0][0] : places[-1][1]].strip())
    return found


@pytest.mark.parametrize("text", ["", " ", "   \t \n  ", "\n\n", "\u00a0\u2003", "\x00", "\ufeff"])
def test_empty_text_is_read_and_holds_no_knowledge(host: str, text: str) -> None:
    infused = infuse_names(host)
    read(infused, text)
    read(infused, text, text)
    read(infused, text, "Bern and New York")
    batch = infused.batch([text])
    assert (batch["knowledge_boxes"][..., 0] == -1).all()
    assert not batch["knowledge_weights"].any()


def test_knowledge_beside_an_empty_side_is_kept(host: str) -> None:
    infused = infuse_names(host)
    assert mentions(infused, "", "the old town of New York") == ["New York"]
    assert mentions(infused, "the old town of New York", "") == ["New York"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bern👍🏽 New York 👨‍👩‍👧 🇨🇭", ["Bern", "👍🏽", "New York"]),
        ("cafe\u0301 in Bern", ["cafe\u0301", "Bern"]),
        ("café in New\tYork", ["café", "New\tYork"]),
        ("नमस्ते Bern", ["नमस्ते", "Bern"]),
        ("𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ﷽ İstanbul Bern ﬁn", ["Bern"]),
        ("z̷̢̛a̸l̷g̶o̷ Bern", ["Bern"]),
        ("\u202eBern\u202c", ["Bern"]),
    ],
)
def test_emoji_and_combining_marks_are_tied_where_they_stand(host: str, text: str, expected: list[str]) -> None:
    infused = infuse_names(host)
    read(infused, text)
    if host == "bert" and "Bern👍🏽" in text:  # WordPiece takes the two for one word, unknown to it
        expected = ["Bern👍🏽", "Bern👍🏽", "New York"]
    assert [bare(mention) for mention in mentions(infused, text)] == [bare(name) for name in expected]


def bare(text: str) -> str:
    """Return a text without its marks: to some tokenizers they are no part of a token."""
    return "".join(char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char)[0] != "M")


@pytest.mark.parametrize(
    "text",
    [
        "the town of New York lies on the river " * 2500,
        "a" * 100_000,
        "Bern " * 20_000,
        "👍🏽" * 50_000,
        "e\u0301" * 50_000,
        " " * 99_990 + "New York",
        "\n\n" * 50_000,
    ],
    ids=["words", "one word", "names", "emoji", "marks", "spaces", "breaks"],
)
def test_a_hundred_thousand_characters_are_read_in_good_time(host: str, text: str) -> None:
    assert 90_000 <= len(text) <= 110_000
    infused = infuse_names(host)
    started = time.perf_counter()
    batch = infused.batch([text, "Bern"], [text, "Bern"])
    with torch.inference_mode():
        states = infused.model(**batch).last_hidden_state
    assert time.perf_counter() - started < 20
    assert states.isfinite().all()
    assert states.shape[1] <= N_POSITIONS + 2
    boxes = batch["knowledge_boxes"][batch["knowledge_boxes"][..., 0] == 0]
    assert (boxes[:, 1:] <= states.shape[1]).all()


@pytest.mark.parametrize("words", ["the old bridge of New York ", "Bern👍🏽", "e\u0301 ", "x", "glipizide" * 30 + " "])
def test_a_long_pair_is_cut_to_the_same_tokens_as_by_the_tokenizer_itself(host: str, words: str) -> None:
    infused = infuse_names(host)
    for n_first, n_second in ((3000, 3000), (3000, 20), (10, 3000), (600, 900)):
        pair = ((words * n_first)[:n_first], (words * n_second)[:n_second])
        expected = infused.tokenizer([pair], truncation=True, max_length=infused.collator().max_length)["input_ids"]
        assert infused.batch(*([side] for side in pair))["input_ids"].tolist() == expected


def test_a_text_longer_than_the_model_is_cut_with_the_knowledge_in_the_cut_part(host: str) -> None:
    infused = infuse_names(host)
    text = "New York " + "the old bridge of the town " * 40 + "Bern"
    batch = infused.batch([text])
    n_tokens = batch["input_ids"].shape[1]
    assert n_tokens <= N_POSITIONS + 2
    assert mentions(infused, text) == ["New York"]
    read(infused, text)
    assert torch.equal(infused.encode([text])[0], infused.encode([text.removesuffix("Bern")])[0])


def test_both_sides_of_a_long_pair_keep_their_beginning(host: str) -> None:
    infused = infuse_names(host)
    long = " the old bridge of the town" * 40
    assert mentions(infused, f"New York{long} Bern", f"Bern{long} New York") == ["New York", "Bern"]


def test_a_mention_that_is_cut_in_two_keeps_the_part_that_is_left(host: str) -> None:
    infused = infuse_names(host)
    for n_words in range(40, 70):
        text = "a " * n_words + "train station"
        batch = infused.batch([text])
        boxes = batch["knowledge_boxes"][0][batch["knowledge_boxes"][0][:, 0] == 0]
        assert (boxes[:, [2, 4]] <= batch["input_ids"].shape[1] - 1).all()  # never the closing special token
        assert infused.encode([text]).isfinite().all()


# The list of entities.


def test_duplicates_and_overlaps_in_a_list_of_entities_are_read_once(host: str) -> None:
    names = ["York", "New York", "New York", "new york", " New York ", "New York City", "City of Bern", "Bern"]
    text = "the New York City of Bern"
    infused = infuse_names(host, names)
    assert mentions(infused, text) == ["New York City", "Bern"]
    read(infused, text)
    nested = infuse_names(host, names, overlaps="keep")
    assert set(mentions(nested, text)) == {"York", "New York", "New York City", "City of Bern", "Bern"}
    read(nested, text)
    assert torch.equal(infuse_names(host, [*names, *names]).encode([text]), infused.encode([text]))


@pytest.mark.parametrize(
    "names", [[""], ["Bern", " "], {"": "city"}, ["Bern", None], [3], "Bern", {"Bern": None}, [math.nan]]
)
def test_a_list_with_something_that_is_no_name_is_one_clear_error(names: Any) -> None:
    with pytest.raises(SourceError):
        infuser.Entities(names)


def test_an_empty_list_of_entities_knows_nothing(host: str) -> None:
    infused = infuse_names(host, [])
    assert mentions(infused, "Bern and New York") == []
    read(infused, "Bern and New York")


# What is no text.


@pytest.mark.parametrize("wrong", [None, math.nan, 3, 2.5, b"Bern", {"text": "Bern"}], ids=str)
def test_what_is_no_text_is_one_clear_error(host: str, wrong: Any) -> None:
    infused = infuse_names(host)
    for texts, pairs in (([wrong], None), (["Bern", wrong], None), (["Bern", "a"], ["b", wrong])):
        if pairs is not None and wrong is None:
            continue  # a pair may be missing
        with pytest.raises(InputError, match=type(wrong).__name__):
            infused.batch(texts, pairs)
    with pytest.raises(InfuserError):
        infused.encode([wrong])


def test_a_missing_pair_is_no_pair(host: str) -> None:
    infused = infuse_names(host)
    mixed = infused.encode(["Bern lies", "the town"], [None, "of New York"])
    alone = infused.encode(["Bern lies"])
    assert (mixed[0, : alone.shape[1]] - alone[0]).abs().max() < 1e-9


def test_half_a_character_is_one_clear_error(host: str) -> None:
    with pytest.raises(InputError, match="surrogate"):
        infuse_names(host).batch(["Bern \ud83d"])


def test_no_texts_are_one_clear_error(host: str) -> None:
    infused = infuse_names(host)
    with pytest.raises(InputError, match="empty"):
        infused.batch([])
    with pytest.raises(InputError, match="2 texts but 1 pairs"):
        infused.batch(["a", "b"], ["c"])


class Careless:
    """A source of a user's own with a mistake in it."""

    def __init__(self, *found: Any) -> None:
        self.found = found

    def annotate(self, texts: Any) -> Any:
        return [infuser.Annotations(text, *self.found) for text in texts]


SPAN = infuser.Span(0, 3)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (((infuser.Span(0, 99),), (infuser.Link(0, 0),)), "outside its text"),
        (((infuser.Span(-2, 3),), (infuser.Link(0, 0),)), "outside its text"),
        (((SPAN,), (infuser.Link(0, 1),)), "tied span number 1"),
        (((SPAN,), (infuser.Link(0, 0, 1.5),)), "weight 1.5"),
        (((SPAN,), (infuser.Link(0, 0, math.nan),)), "weight nan"),
        (((SPAN,), (), (infuser.Term("x", ((0, -1.0),)),)), "weight -1.0"),
    ],
)
def test_the_mistake_of_a_source_is_one_clear_error(found: Any, message: str) -> None:
    infused = infuser.infuse(tiny_host("bert"), sources=[Careless(*found)], tokenizer=tiny_tokenizer("bert"))  # type: ignore[list-item]
    with pytest.raises(InputError, match=message):
        infused.encode(["the old town"])


def test_a_batch_of_more_sources_than_the_model_has_is_one_clear_error() -> None:
    infused = infuse_names("bert")
    many = infuser.Collator(infused.tokenizer, [infuser.Entities(["Bern"])] * 3).encode(["Bern"])
    with pytest.raises(InputError, match="more sources"):
        infused.model(**many)
