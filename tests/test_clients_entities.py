"""Taggers in a transformers pipeline find entities, as each word's best tag says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tasks.small_ner import tiny_tagger
from transformers import pipeline

import infuser
from infuser.errors import InputError
from infuser.methods import Kam, Text, Types
from infuser.types import Method

TAGGED = ["buy glipizide in bern, near basel.", "", "the old warfarin", "a train runs from lugano to sion and the lake"]


def found_by_pipeline(infused: infuser.Infused, texts: list[str], strategy: str, **options: Any) -> list[list[Any]]:
    """Return the entities of each text as `find_entities` does."""
    tokenizer = infused.reading_tokenizer()
    tag = pipeline(
        "token-classification", model=infused.model, tokenizer=tokenizer, aggregation_strategy=strategy, **options
    )
    return [[[one["start"], one["end"], one["entity_group"], float(one["score"])] for one in of] for of in tag(texts)]


def read_word_by_word(infused: infuser.Infused, texts: list[str]) -> list[list[Any]]:
    """Return what the best tag of each word says, as pipelines read tags: an I without its B begins an entity."""
    found: list[list[Any]] = []
    for text in texts:
        batch, [words] = infused.collator().with_words([{"text": text}])
        with torch.inference_mode():
            shares = infused.model(**batch).logits[0].softmax(-1)
        entities: list[list[Any]] = []
        before = "O"
        for word in words:
            share, number = shares[word.token].max(dim=-1)
            tag = infused.model.config.id2label[int(number)]
            if tag[0] == "I" and before[2:] == tag[2:]:
                entities[-1][1], entities[-1][3] = word.end, entities[-1][3] * float(share)
            elif tag != "O":
                entities.append([word.start, word.end, tag[2:], float(share)])
            before = tag
        found.append(entities)
    return found


def places(found: list[list[Any]]) -> list[list[Any]]:
    return [[one[:3] for one in of_text] for of_text in found]


@pytest.mark.parametrize("method", [Types(), Kam(), Text()], ids=["types", "kam", "text"])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_pipeline_finds_the_entities_of_each_words_best_tag(method: Method, batch_size: int) -> None:
    infused = tiny_tagger(method, TAGGED)
    expected = read_word_by_word(infused, TAGGED)
    found = found_by_pipeline(infused, TAGGED, "first", batch_size=batch_size)
    assert places(found) == places(expected)
    assert len({one[2] for of_text in found for one in of_text}) == 2 and found[1] == []
    for text, of_text, same in zip(TAGGED, found, expected, strict=True):
        for (start, end, _, score), (*_, probability) in zip(of_text, same, strict=True):
            if text[start:end].isalpha():  # of one word: no mean, no product
                assert score == pytest.approx(probability, abs=1e-6)
    without = pipeline("token-classification", model=infused.model, tokenizer=infused.tokenizer)
    with_knowledge = pipeline("token-classification", model=infused.model, tokenizer=infused.reading_tokenizer())
    scores = ([float(one["score"]) for one in tag(TAGGED[0], ignore_labels=[])] for tag in (without, with_knowledge))
    assert any(abs(one - other) > 1e-3 for one, other in zip(*scores, strict=True))


def test_words_of_one_piece_are_found_without_joining_pieces() -> None:
    texts = ["the old bridge of the town", "buy cheap medicine near the lake and sell the red book"]
    infused = tiny_tagger(Types(), texts)
    expected = read_word_by_word(infused, texts)
    assert places(found_by_pipeline(infused, texts, "simple", batch_size=2)) == places(expected)
    assert sum(map(len, expected)) > 2


@pytest.mark.parametrize("method", [Types(), Kam(), Text()], ids=["types", "kam", "text"])
def test_a_pipeline_reads_long_texts_in_parts_that_overlap(method: Method) -> None:
    infused, text = tiny_tagger(method, TAGGED), " ".join(TAGGED * 6)
    [found] = found_by_pipeline(infused, [text], "first", stride=8)
    assert len(text) - found[-1][1] < 60 and len(found) > 20
    assert all(text[start:end] == text[start:end].strip() != "" for start, end, *_ in found)
    [cut] = found_by_pipeline(infused, [text], "first")
    assert cut[-1][1] < len(text) / 2


def test_a_pipeline_that_is_given_words_says_what_to_give_instead() -> None:
    infused = tiny_tagger(Types(), TAGGED)
    tag = pipeline("token-classification", model=infused.model, tokenizer=infused.reading_tokenizer())
    with pytest.raises(InputError, match="Give each text as one string"):
        tag([["buy", "glipizide"]], is_split_into_words=True)
