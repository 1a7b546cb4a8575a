from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from miniatures import N_POSITIONS, tiny_host, tiny_tokenizer
from tiny_infusions import infuse_tiny

from infuser.analysis.probe.masked_prediction import has_masked_head, masked_scores
from infuser.errors import CheckpointError, HostError, InputError
from infuser.sources import Entities
from infuser.types import Annotations, Span

TEXTS = [
    "the old bridge of the town",
    "a pharmacy near the lake",
    "glipizide runs from the river Aare to the bridge and Bern",
    "the bridge on the Aare",
]
SOURCE = Entities(["bridge", "pharmacy", "glipizide", "Aare", "lake"])
EXAMPLES: list[dict[str, Any]] = [{"text": text} for text in TEXTS] + [
    {"text": "buy glipizide", "pair": "a cheap pharmacy near me"}
]


def example(text: str, *names: str, pair: str | None = None) -> dict[str, Any]:
    joined = text if pair is None else f"{text}\n\n{pair}"
    spans = tuple(Span(joined.index(name), joined.index(name) + len(name)) for name in names)
    return {"text": text, "pair": pair, "annotations": (Annotations(joined, spans),)}


@contextmanager
def recorded(model: torch.nn.Module) -> Iterator[list[dict[str, Any]]]:
    """What a model is asked while it is watched."""
    calls: list[dict[str, Any]] = []
    hook = model.register_forward_pre_hook(lambda _, args, asked: calls.append(asked), with_kwargs=True)
    try:
        yield calls
    finally:
        hook.remove()


def as_pairs(scores: Any) -> dict[str, float]:
    return {one.key: one.score for one in scores}


@pytest.mark.parametrize("side", ["right", "left"])
def test_all_pieces_of_the_mention_are_masked_and_nothing_else(side: str) -> None:
    model, tokenizer = tiny_host("bert", "masked-lm"), tiny_tokenizer("bert", padding_side=side)
    text = "the river Aare flows"
    with recorded(model) as calls:
        [aare, medicine] = masked_scores(
            model, tokenizer, [example(text, "Aar"), example("buy", "medicine", pair="cheap medicine")]
        )
    [asked] = calls
    masked = [list(tokenizer.convert_ids_to_tokens(row)) for row in asked["input_ids"]]
    assert [" ".join(row) for row in masked] == [
        "[CLS] the river [MASK] [MASK] [MASK] [MASK] flows [SEP]",
        "[CLS] buy [SEP] cheap [MASK] [SEP] [PAD] [PAD] [PAD]",
    ]
    assert tokenizer.padding_side == side
    assert (aare.key, aare.n_mentions, aare.how) == ("aar", 1, "masked-probability")

    # the first one by hand: the geometric mean of the probabilities of a, ##a, ##r, ##e
    ids = tokenizer(text, return_tensors="pt")
    right = ids["input_ids"][0, 3:7].clone()
    assert tokenizer.convert_ids_to_tokens(right) == ["a", "##a", "##r", "##e"]
    ids["input_ids"][0, 3:7] = tokenizer.mask_token_id
    with torch.no_grad():
        chances = model(**ids).logits[0, 3:7].softmax(dim=-1)[range(4), right]
    assert aare.score == pytest.approx(float(chances.prod() ** 0.25), rel=1e-9)
    assert medicine.key == "medicine" and 0 < medicine.score < 1


def test_a_word_that_the_model_has_learned_has_the_higher_score() -> None:
    model, tokenizer = tiny_host("bert", "masked-lm", initializer_range=0.02), tiny_tokenizer("bert")
    batch = tokenizer(["the old [MASK] of the town"], return_tensors="pt")
    labels = tokenizer(["the old bridge of the town"], return_tensors="pt")["input_ids"]
    steps = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(20):
        model(**batch, labels=labels).loss.backward()
        steps.step()
        steps.zero_grad()
    model.train()  # dropout must not reach the scores
    scores = as_pairs(masked_scores(model, tokenizer, EXAMPLES[:2], [SOURCE]))
    assert scores["bridge"] > 0.8 and scores["pharmacy"] < 0.2
    assert model.training
    hits = as_pairs(masked_scores(model, tokenizer, EXAMPLES[:2], [SOURCE], measure="hits"))
    assert hits["bridge"] == 1.0 and hits["pharmacy"] == 0.0


@pytest.mark.parametrize("host", ["roberta", "albert"])
def test_batch_size_order_and_repeats_of_the_data_change_nothing(host: str) -> None:
    model, tokenizer = tiny_host(host, "masked-lm"), tiny_tokenizer(host)
    all_at_once = masked_scores(model, tokenizer, EXAMPLES, [SOURCE], max_mentions=1)
    assert [(one.key, one.n_mentions) for one in all_at_once] == [
        (key, 1) for key in ("Aare", "bridge", "glipizide", "lake", "pharmacy")
    ]
    one_by_one = masked_scores(model, tokenizer, EXAMPLES[::-1] + EXAMPLES[:2], [SOURCE], max_mentions=1, batch_size=1)
    assert as_pairs(one_by_one) == pytest.approx(as_pairs(all_at_once), rel=1e-9)
    # and of all mentions, the mean is taken
    mean = {one.key: one for one in masked_scores(model, tokenizer, EXAMPLES, [SOURCE])}["bridge"]
    each = [as_pairs(masked_scores(model, tokenizer, [EXAMPLES[i]], [SOURCE]))["bridge"] for i in (0, 2, 3)]
    assert mean.n_mentions == 3 and mean.score == pytest.approx(sum(each) / 3, rel=1e-9)
    assert len({round(score, 9) for score in each}) == 3


def test_mentions_that_cannot_be_read_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    model, tokenizer = tiny_host("bert", "masked-lm"), tiny_tokenizer("bert")
    long = "the old town " * N_POSITIONS + "bridge"
    empty = Annotations("buy", (Span(1, 1),))
    across = Annotations("buy\n\nred", (Span(0, 8),))
    unreadable = [
        example(long, "bridge"),
        {"text": "buy", "annotations": (empty,)},
        {"text": "buy", "pair": "red", "annotations": (across,)},
    ]
    with caplog.at_level(logging.WARNING):
        assert masked_scores(model, tokenizer, unreadable) == []
        assert masked_scores(model, tokenizer, []) == []
    assert "nothing to score" in caplog.text
    # a mention that was cut off takes no place from one that can be read
    both = [*unreadable, *(example(f"{word} bridge", "bridge") for word in ("red", "blue"))]
    [bridge] = masked_scores(model, tokenizer, both, max_mentions=2)
    assert bridge.n_mentions == 2


def test_an_infused_model_is_asked_without_its_knowledge() -> None:
    infused = infuse_tiny("bert", "masked-lm")
    plain = tiny_host("bert", "masked-lm")
    with recorded(infused.model) as calls:
        scores = masked_scores(infused.model, infused.tokenizer, EXAMPLES, [SOURCE])
    assert calls and not any(name.startswith("knowledge") for asked in calls for name in asked)
    assert as_pairs(scores) == pytest.approx(as_pairs(masked_scores(plain, infused.tokenizer, EXAMPLES, [SOURCE])))


def test_what_cannot_guess_words_says_what_to_do(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer("bert")
    encoder, masked = tiny_host("bert"), tiny_host("bert", "masked-lm")
    with pytest.raises(HostError, match="no head for masked words"):
        masked_scores(encoder, tokenizer, EXAMPLES, [SOURCE])
    with pytest.raises(InputError, match="has no annotations"):
        masked_scores(masked, tokenizer, EXAMPLES)
    with pytest.raises(InputError, match="measure is 'best'"):
        masked_scores(masked, tokenizer, EXAMPLES, [SOURCE], measure="best")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="max_mentions=0"):
        masked_scores(masked, tokenizer, EXAMPLES, [SOURCE], max_mentions=0)
    with pytest.raises(InputError, match="batch_size=0"):
        masked_scores(masked, tokenizer, EXAMPLES, [SOURCE], batch_size=0)
    for name, model in (("encoder", encoder), ("masked", masked)):
        model.save_pretrained(tmp_path / name)
    assert has_masked_head(tmp_path / "masked") and not has_masked_head(tmp_path / "encoder")
    with pytest.raises(CheckpointError, match="nowhere"):
        has_masked_head(tmp_path / "nowhere")
