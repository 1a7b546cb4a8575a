"""Entities become labels of tokens, and logits of tokens become entities."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from miniatures import TOKENIZERS, tokenizer_of_kind
from transformers import AutoConfig, BertConfig, PreTrainedTokenizerFast

from infuser.errors import InputError
from infuser.signals import Collator
from infuser.signals.tags import Tags, TokenWord
from infuser.sources import Entities

TAGS = Tags(("city", "drug"))
TEXT = "buy glipizide in Bern."
EXAMPLE: dict[str, Any] = {"text": TEXT, "entities": [(4, 13, "drug"), (17, 21, "city")]}


def config_of(names: Sequence[str]) -> BertConfig:
    return BertConfig(id2label=dict(enumerate(names)))


def certain(labels: torch.Tensor, n_tags: int) -> torch.Tensor:
    """Return logits (seq, tags) that say what the labels do; where there is none, the last tag."""
    return 20.0 * torch.eye(n_tags, dtype=torch.float64)[labels.clamp(min=-1)]


def test_tags_are_numbered_by_type() -> None:
    assert TAGS.names == ("O", "B-city", "I-city", "B-drug", "I-drug")
    assert Tags.of_model(config_of(TAGS.names)) == TAGS


@pytest.mark.parametrize("names", [["O", "B-city"], ["B-city", "I-city", "O"], ["LABEL_0", "LABEL_1"]])
def test_the_labels_of_another_head_are_an_error(names: list[str]) -> None:
    with pytest.raises(InputError, match="entities need O, B-TYPE, I-TYPE"):
        Tags.of_model(config_of(names))


def test_the_first_piece_of_a_word_carries_its_tag(wordpiece: PreTrainedTokenizerFast) -> None:
    batch = Collator(wordpiece).with_tags(TAGS)([EXAMPLE])
    tokens = wordpiece.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    labelled = list(zip(tokens, batch["labels"][0].tolist(), strict=True))
    assert labelled[:3] == [("[CLS]", -100), ("buy", 0), ("gli", 3)]
    assert {label for token, label in labelled if token.startswith("##")} == {-100}
    assert [(token, label) for token, label in labelled if label > -100] == [
        ("buy", 0),
        ("gli", 3),
        ("in", 0),
        ("b", 1),
        (".", 0),
    ]


def test_a_second_segment_has_no_labels(wordpiece: PreTrainedTokenizerFast) -> None:
    collator = Collator(wordpiece).with_tags(TAGS)
    alone, with_pair = collator([EXAMPLE]), collator([{**EXAMPLE, "pair": "Bern : city"}])
    n = alone["labels"].shape[1]
    torch.testing.assert_close(with_pair["labels"][:, :n], alone["labels"])
    assert set(with_pair["labels"][0, n:].tolist()) == {-100}


def test_tags_go_with_epochs_padding_and_knowledge(tokenizer: PreTrainedTokenizerFast) -> None:
    tokenizer.padding_side = "left"
    collator = Collator(tokenizer, [Entities(["Bern"])]).with_tags(TAGS).for_epoch(1, seed=3)
    batch = collator([EXAMPLE, {"text": "buy", "entities": []}])
    assert "knowledge_boxes" in batch and batch["labels"].shape == batch["input_ids"].shape
    assert batch["labels"][1].tolist().count(0) == 1 and batch["labels"][1, 0] == -100
    assert sorted(label for label in batch["labels"][0].tolist() if label > 0)[:1] == [1]


def test_examples_without_entities_have_no_labels_and_some_without_are_an_error(
    wordpiece: PreTrainedTokenizerFast,
) -> None:
    collator = Collator(wordpiece).with_tags(TAGS)
    assert "labels" not in collator([{"text": TEXT}])
    with pytest.raises(InputError, match="Example 1 of the batch has no 'entities'"):
        collator([EXAMPLE, {"text": TEXT}])
    with pytest.raises(InputError, match=r"An entity has the type 'river'\. Known: city, drug"):
        collator([{"text": TEXT, "entities": [(0, 3, "river")]}])


@given(st.data())
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_what_is_written_as_labels_is_read_back(kind: str, data: st.DataObject) -> None:
    """Words of CoNLL become the same entities again under every kind of tokenizer, signs and all."""
    spelled = data.draw(st.lists(st.sampled_from(["Bern", "buy", "U.S.", ",", "glipizide-2", "Zürich", "(", "京中"])))
    types = data.draw(st.lists(st.sampled_from([None, "city", "drug"]), min_size=len(spelled), max_size=len(spelled)))
    entities, at = [], 0
    for word, label in zip(spelled, types, strict=True):
        if label is not None:
            entities.append((at, at + len(word), label))
        at += len(word) + 1
    example = {"text": " ".join(spelled), "entities": entities}
    collator = Collator(tokenizer_of_kind(kind, model_max_length=512)).with_tags(TAGS)
    batch, [words] = collator.with_words([example])
    found = TAGS.read(certain(batch["labels"][0], 5), words)
    assert [tuple(one[:3]) for one in found] == entities
    assert all(one[3] > 0.999 for one in found)


def words_of(n: int) -> list[TokenWord]:
    return [TokenWord(at, 2 * at, 2 * at + 1) for at in range(n)]


def test_entities_begin_with_b_and_go_on_with_i() -> None:
    labels = torch.tensor([1, 3, 4, 4, 0, 1, 1])
    found = [one[:3] for one in TAGS.read(certain(labels, 5), words_of(7))]
    assert found == [[0, 1, "city"], [2, 7, "drug"], [10, 11, "city"], [12, 13, "city"]]


def test_an_i_without_its_b_is_impossible() -> None:
    # I-drug is best for the second word, but B-city before it leaves O (.3) as the best possible tag
    shares = torch.tensor([[0.1, 0.9, 0.0, 0.0, 0.0], [0.3, 0.05, 0.05, 0.1, 0.5]], dtype=torch.float64) + 1e-9
    assert [one[:3] for one in TAGS.read(shares.log(), words_of(2))] == [[0, 1, "city"]]
    # alone it is impossible at the start, too; the words' other tags decide
    assert TAGS.read(shares[1:].log(), words_of(1)) == []


@given(seed=st.integers(0, 10_000), n=st.integers(1, 4))
def test_the_path_is_the_best_of_all_paths(seed: int, n: int) -> None:
    random = np.random.default_rng(seed)
    tags = Tags(("city", "drug"), tuple(map(tuple, random.normal(size=(6, 5)).tolist())))
    logits = torch.tensor(random.normal(size=(n, 5)))
    scores = logits.log_softmax(dim=-1).numpy()

    def score(path: tuple[int, ...]) -> float:
        total, before = 0.0, 5
        for place, tag in enumerate(path):
            if tag in (2, 4) and before not in (tag - 1, tag):
                return -np.inf
            total += tags.moves[before][tag] + scores[place, tag]
            before = tag
        return total

    best = max(itertools.product(range(5), repeat=n), key=score)
    assert tags._best_path(scores) == list(best)


def test_moves_are_counted_in_the_training_texts(wordpiece: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    texts = [{"text": "buy glipizide", "entities": [(4, 13, "drug")]}] * 3 + [{"text": "", "entities": []}]
    tags = TAGS.with_moves(texts, wordpiece)
    # counted: start to O and O to B-drug, three times each; smoothing .5 for all 30 moves; O 3 and B-drug 3 of 6
    share_of_drug = (3 + 6 * 0.5) / (6 + 30 * 0.5)
    assert tags.moves[0][3] == pytest.approx(0.5 * np.log(3.5 / 5.5 / share_of_drug), abs=1e-4)
    assert tags.moves[3][0] == pytest.approx(0.5 * np.log(0.2 / share_of_drug), abs=1e-4)
    unsure = torch.tensor([[0.9, 0.0, 0.0, 0.1, 0.0], [0.55, 0.0, 0.0, 0.45, 0.0]], dtype=torch.float64).add(1e-9).log()
    assert TAGS.read(unsure, words_of(2)) == [] and [one[2] for one in tags.read(unsure, words_of(2))] == ["drug"]

    config = config_of(TAGS.names)
    tags.keep(config)
    config.save_pretrained(tmp_path)
    assert Tags.of_model(AutoConfig.from_pretrained(tmp_path)) == tags
    config.id2label = dict(enumerate(("O", "B-river", "I-river")))
    assert Tags.of_model(config) == Tags(("river",)), "scores of an earlier head are not those of this one"


def test_the_probability_is_that_of_all_words() -> None:
    logits = torch.log(torch.tensor([[0.1, 0.0, 0.0, 0.8, 0.1], [0.2, 0.1, 0.1, 0.1, 0.5]], dtype=torch.float64))
    [[start, end, label, probability]] = TAGS.read(logits, [TokenWord(0, 0, 3), TokenWord(1, 4, 9)])
    assert (start, end, label) == (0, 9, "drug")
    assert probability == pytest.approx(0.8 * 0.5)


def test_a_text_that_is_cut_has_fewer_words(wordpiece: PreTrainedTokenizerFast) -> None:
    collator = Collator(wordpiece, max_length=6).with_tags(TAGS)
    batch, [words] = collator.with_words([{"text": "buy the red book in Bern", "entities": [(20, 24, "city")]}])
    assert [word.end for word in words] == [3, 7, 11, 16]
    assert batch["labels"][0].tolist() == [-100, 0, 0, 0, 0, -100]
