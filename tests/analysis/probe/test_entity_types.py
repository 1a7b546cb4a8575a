from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch
from miniatures import WORDS, tiny_host, tiny_tokenizer
from tiny_infusions import infuse_tiny

from infuser.analysis.probe.entity_types import pool, share_a_name, typed_scores
from infuser.analysis.probe.mentions import find_probed_mentions, name_examples
from infuser.errors import InputError
from infuser.types import Annotations, Span

OTHERS = [word for word in WORDS if len(word) > 2 and word not in ("river", "shop")]
NAMES = {f"{kind}{number}": f"{OTHERS[number]} {kind}" for kind in ("river", "shop") for number in range(24)}
TYPES = {key: key.rstrip("0123456789") for key in NAMES}


def in_texts(names: dict[str, str], types: dict[str, str]) -> list[dict[str, Any]]:
    """Each entity in two texts, its type as the label of its span."""
    examples = []
    for key, name in names.items():
        for before in ("the ", "near a "):
            text = f"{before}{name} runs"
            span = Span(len(before), len(before) + len(name), types[key], key)
            examples.append({"text": text, "annotations": (Annotations(text, (span,)),)})
    return examples


def test_types_that_the_states_tell_apart_are_found_and_shuffled_ones_are_not() -> None:
    model, tokenizer = tiny_host("bert", initializer_range=0.1), tiny_tokenizer("bert")
    model.train()  # dropout must not reach the scores
    examples = in_texts(NAMES, TYPES)
    probed = typed_scores(model, tokenizer, examples, strength=1.0)
    assert probed.types == ("river", "shop") and probed.chance == 0.5 and model.training
    assert probed.accuracy > 0.95 and probed.control < 0.7
    assert probed.selectivity == probed.accuracy - probed.control
    assert [(one.key, one.n_mentions, one.how) for one in probed.scores] == [
        (key, 2, "type-probe") for key in sorted(NAMES)
    ]
    assert np.mean([one.score for one in probed.scores]) > 0.9

    again = typed_scores(model, tokenizer, examples[::-1] + examples[:9], strength=1.0, batch_size=3)
    np.testing.assert_allclose([one.score for one in again.scores], [one.score for one in probed.scores], rtol=1e-6)
    # the same of bare names, with types of one's own
    of_names = typed_scores(model, tokenizer, name_examples(NAMES), types=TYPES, strength=1.0)
    assert of_names.accuracy > 0.95 and {one.n_mentions for one in of_names.scores} == {1}


def test_an_entity_never_stands_on_both_sides_of_a_fold() -> None:
    """The type is a whim of chance: a probe could know it only from another mention of the entity or its namesake."""
    model, tokenizer = tiny_host("bert", hidden_size=64, initializer_range=0.02), tiny_tokenizer("bert")
    chance = np.random.default_rng(0)
    whims = {name: ("river", "shop")[chance.integers(2)] for name in OTHERS[:30]}
    settings: dict[str, Any] = {"strength": 100.0, "folds": 3}
    names = {f"{name}{twin}": name for name in whims for twin in range(2)}
    types = {key: whims[name] for key, name in names.items()}
    one_each = typed_scores(model, tokenizer, in_texts({name: name for name in whims}, whims), types=whims, **settings)
    namesakes = typed_scores(model, tokenizer, name_examples(names), types=types, **settings)
    assert one_each.accuracy < 0.7 and namesakes.accuracy < 0.7
    assert len(one_each.scores) == 30 and len(namesakes.scores) == 60


def test_entities_that_share_a_name_are_in_one_group() -> None:
    groups = share_a_name(np.array([0, 0, 1, 2, 2, 3, 4]), ["bern", "berne", "basel", "berne", "wien", "wien", "rom"])
    assert groups[0] == groups[2] == groups[3]
    assert len({groups[0], groups[1], groups[4]}) == 3 and len(groups) == 5


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_states_of_a_mention_are_averaged_without_knowledge(side: str) -> None:
    infused = infuse_tiny("bert", padding_side=side)
    text = "the old bridge of the old town"
    found = Annotations(text, (Span(0, 14), Span(26, 30)))
    examples = [{"text": "a red house and a blue house and a green house"}, {"text": text}]
    examples[0]["annotations"] = (Annotations(examples[0]["text"], (Span(2, 5),)),)  # type: ignore[assignment]
    examples[1]["annotations"] = (found,)  # type: ignore[assignment]
    mentions = find_probed_mentions(infused.model, infused.tokenizer, examples)
    assert [one.name for one in mentions] == ["red", "the old bridge", "town"]
    vectors = pool(infused.model, infused.tokenizer, mentions)
    with torch.no_grad():
        states = tiny_host("bert")(**infused.tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy()
    np.testing.assert_allclose(vectors[1:], [states[1:4].mean(axis=0), states[7]], rtol=1e-9)


def test_types_that_are_too_rare_are_left_out_and_one_type_alone_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    model, tokenizer = tiny_host("bert"), tiny_tokenizer("bert")
    few = {f"{kind}{number}": NAMES[f"{kind}{number}"] for kind in ("river", "shop") for number in range(6)}
    types = {key: TYPES[key] for key in few} | {"river0": "lake", "river1": "lake", "shop5": ""}
    with caplog.at_level(logging.WARNING):
        probed = typed_scores(model, tokenizer, name_examples(few), types=types, folds=4)
    assert "1 types have fewer than 4 entities" in caplog.text and "lake" in caplog.text
    assert {one.key for one in probed.scores} == set(few) - {"river0", "river1", "shop5"}
    with pytest.raises(InputError, match=r"at least 2 types with 5 entities.*types=\{key: type\}"):
        typed_scores(model, tokenizer, name_examples(few), types=dict.fromkeys(few, "thing"))
    with pytest.raises(InputError, match="of 0 entities"):
        typed_scores(model, tokenizer, [])
    with pytest.raises(InputError, match="folds=1"):
        typed_scores(model, tokenizer, name_examples(few), types=types, folds=1)
