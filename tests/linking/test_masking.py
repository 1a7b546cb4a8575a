"""Masked words and the entities around them: nothing gives a masked word away, and a seed decides everything."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, tiny_base

import infuser
from infuser.errors import InputError
from infuser.linking.masking import Masking, MaskingCollator, sentence_pairs

DOCUMENT = [KNOWN_TEXT, "the river flows in the city", "a bridge of the old town", "the pharmacy lies near Bern"]


@pytest.fixture
def infused() -> infuser.Infused:
    host = tiny_host("bert", "masked-lm")
    return infuser.infuse(host, infuser.Kar(), sources=[tiny_base()], tokenizer=tiny_tokenizer("bert"))


def collate(infused: infuser.Infused, examples: list[dict[str, Any]], **masking: float) -> dict[str, Any]:
    return MaskingCollator(infused.collator(), Masking(**masking))(examples)


def some(n: int) -> list[dict[str, Any]]:
    return [{"text": DOCUMENT[i % len(DOCUMENT)], "seed": i} for i in range(n)]


def test_words_are_masked_replaced_and_kept_in_their_shares(infused: infuser.Infused) -> None:
    batch, plain = collate(infused, some(1200)), infused.collator()(some(1200))
    chosen = batch["labels"] != -100
    assert torch.equal(batch["labels"][chosen], plain["input_ids"][chosen])
    assert torch.equal(batch["input_ids"][~chosen], plain["input_ids"][~chosen])
    n_words = int((plain["attention_mask"].sum(dim=1) - 2).sum())
    assert chosen.sum().item() / n_words == pytest.approx(0.15, abs=0.03)
    masked = batch["input_ids"][chosen] == infused.tokenizer.mask_token_id
    same = batch["input_ids"][chosen] == plain["input_ids"][chosen]
    assert masked.float().mean().item() == pytest.approx(0.8, abs=0.03)
    assert same.float().mean().item() == pytest.approx(0.1, abs=0.03)


def entities_of(batch: dict[str, Any], row: int, span: int) -> list[tuple[float, list[float]]]:
    """Return priors and vectors of the candidates that a span has."""
    mine = (batch["knowledge_base_candidates"][row, :, 0] == span) & (batch["knowledge_base_priors"][row] > 0)
    places = batch["knowledge_base_candidates"][row, mine, 1].tolist()
    vectors = [batch["knowledge_base_vectors"][row, place].tolist() for place in places]
    return list(zip(batch["knowledge_base_priors"][row, mine].tolist(), vectors, strict=True))


def test_mentions_around_masked_words_do_not_give_them_away(infused: infuser.Infused) -> None:
    batch, plain = collate(infused, some(1500)), infused.collator()(some(1500))
    fates: Counter[str] = Counter()
    n_changed_elsewhere = 0
    for row in range(1500):
        for span, (start, end) in enumerate(plain["knowledge_base_spans"][row].tolist()):
            before, after = entities_of(plain, row, span), entities_of(batch, row, span)
            if not before:
                continue
            if not (batch["labels"][row, start:end] != -100).any():
                n_changed_elsewhere += before != after
            elif after == before:
                fates["kept"] += 1
            elif len(after) == 1 and after[0][0] == 1 and not any(after[0][1]):
                fates["masked"] += 1
            else:
                assert [prior for prior, _ in after] == [prior for prior, _ in before]
                fates["replaced"] += 1
    assert n_changed_elsewhere == 0
    total = sum(fates.values())
    assert total > 500
    for fate, share in (("masked", 0.8), ("replaced", 0.1), ("kept", 0.1)):
        assert fates[fate] / total == pytest.approx(share, abs=0.04), fates


def test_random_entities_are_vectors_of_the_store(infused: infuser.Infused) -> None:
    batch = collate(infused, some(40), masked=0.0, replaced=1.0, words=1.0)
    store = infused.sources[0].store  # type: ignore[attr-defined]
    known = {tuple(row) for row in store.take(np.arange(len(store))).tolist()}
    drawn = [tuple(v) for row in range(40) for span in range(3) for _, v in entities_of(batch, row, span)]
    assert len(set(drawn)) > 5
    assert set(drawn) <= known


def test_nobody_says_any_more_what_a_masked_mention_means(infused: infuser.Infused) -> None:
    found = infused.sources[0].annotate([KNOWN_TEXT])[0]
    example = {
        "text": KNOWN_TEXT,
        "seed": 3,
        "annotations": (found,),
        "gold": {"base": tuple("Q7" if span.id == "Q7" else "" for span in found.spans)},
    }
    before = infused.collator()([example])["knowledge_base_gold"]
    after = collate(infused, [example], words=1.0, masked=1.0, replaced=0.0)["knowledge_base_gold"]
    assert (before == 1).any()
    assert (after == -1).all()


def test_the_seed_of_an_example_decides_what_is_masked(infused: infuser.Infused) -> None:
    one, again = collate(infused, some(4)), collate(infused, some(4))
    assert all(torch.equal(one[name], again[name]) for name in one)
    alone = collate(infused, some(4)[2:3])
    width = int(alone["attention_mask"].sum())
    assert torch.equal(alone["labels"][0, :width], one["labels"][2, :width])
    other = collate(infused, [{**example, "seed": 77} for example in some(4)])
    assert not torch.equal(one["labels"], other["labels"])


def test_pairs_say_whether_the_second_sentence_follows() -> None:
    documents = [[f"{name} sentence {i}" for i in range(60)] for name in ("one", "two", "three")]
    pairs = sentence_pairs(documents, seed=1, copies=2)
    assert len(pairs) == 2 * 3 * 59
    follows = {(first, second) for document in documents for first, second in itertools.pairwise(document)}
    right = [(pair["text"], pair["pair"]) in follows for pair in pairs]
    assert all(is_right or pair["next_sentence"] for is_right, pair in zip(right, pairs, strict=True))
    assert sum(pair["next_sentence"] for pair in pairs) / len(pairs) == pytest.approx(0.5, abs=0.1)
    assert pairs == sentence_pairs(documents, seed=1, copies=2)
    assert len({pair["seed"] for pair in pairs}) > 300  # copies are masked differently


@pytest.mark.parametrize("documents", [[], [["alone"]], [["one"], ["two"], ["three"]]])
def test_too_few_sentences_are_refused(documents: list[list[str]]) -> None:
    with pytest.raises(InputError, match="sentences"):
        sentence_pairs(documents)


def test_shares_above_one_are_refused() -> None:
    with pytest.raises(InputError, match=r"masked=0\.9"):
        Masking(masked=0.9, replaced=0.2)
